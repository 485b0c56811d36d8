//! The list of loads, and of named groups of loads.

use std::fmt::Write as _;

use tardy_loads::load::composite::{COMPOSITES, Composite};
use tardy_loads::load::{LOADS, LoadInfo};

use super::{Entry, Listing};

pub(super) fn listing() -> Listing {
    let entries = LOADS
        .iter()
        .map(|info| of_load(info))
        .chain(COMPOSITES.iter().map(of_composite))
        .collect();
    Listing {
        entries,
        note: None,
    }
}

fn of_load(info: &LoadInfo) -> Entry {
    let marks = if info.can_do_harm {
        ", runs only by name"
    } else {
        ""
    };
    let mut full = format!(
        "{} ({}{marks})\n  {}\n  effect: {}\n",
        info.name, info.source, info.does, info.effect
    );
    for parameter in info.parameters {
        let unset = if parameter.needed { "needed" } else { "unset" };
        let default = parameter
            .default
            .map_or_else(|| unset.to_owned(), |default| format!("default {default}"));
        let _ = writeln!(
            full,
            "    {:<12} {} ({}, {default})",
            parameter.name, parameter.means, parameter.kind
        );
    }
    let _ = writeln!(full, "  rights: {}", info.rights);
    let json = serde_json::json!({
        "name": info.name, "user": info.rights.user(), "rights": info.rights.names(), "does": info.does, "hurts": info.effect, "source": info.source, "by_name_only": info.can_do_harm,
        "parameters": info.parameters.iter().map(|parameter| parameter.name).collect::<Vec<_>>(),
    });
    Entry {
        name: info.name.to_owned(),
        line: info.does.to_owned(),
        full,
        json,
        group: None,
    }
}

fn of_composite(composite: &Composite) -> Entry {
    let requests: Vec<_> = composite.requests().collect();
    let full = format!(
        "{} ({})\n  {}: {}\n",
        composite.name,
        composite.source,
        composite.does,
        requests.join(", ")
    );
    let names: Vec<_> = composite.loads().collect();
    let json = serde_json::json!({ "name": composite.name, "does": composite.does, "source": composite.source, "loads": names });
    Entry {
        name: composite.name.to_owned(),
        line: composite.does.to_owned(),
        full,
        json,
        group: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_is_told_with_its_parameters_and_their_limits() {
        let text: String = listing()
            .entries
            .into_iter()
            .map(|entry| entry.full)
            .collect();
        for info in LOADS {
            for parameter in info.parameters {
                assert!(
                    text.contains(parameter.means),
                    "{}: {}",
                    info.name,
                    parameter.name
                );
            }
        }
        assert!(text.contains("64KiB to 1024GiB, default 64MiB"), "{text}");
    }
}
