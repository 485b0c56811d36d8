//! The list of settings that `doctor` and `advise` check.

use std::collections::BTreeMap;

use tardy_machine::checks::{CHECKS, Check, Profile};

use super::{Entry, Listing};
use crate::cli::choice::Choice;

pub(super) fn listing() -> Listing {
    Listing {
        entries: CHECKS.iter().map(|check| entry(check)).collect(),
        note: None,
    }
}

fn entry(check: &Check) -> Entry {
    let reads: Vec<String> = check
        .reads
        .iter()
        .map(|paths| format!("/{}", paths.replace('|', " or /")))
        .collect();
    let full = format!(
        "{} ({})\n    because  {}\n    reads    {}\n    source   {}\n",
        check.name,
        weights(check),
        check.why,
        reads.join(", "),
        check.source
    );
    let severities: BTreeMap<_, _> = Profile::ALL
        .into_iter()
        .map(|profile| (profile.name(), check.weight.importance(profile)))
        .collect();
    let json = serde_json::json!({
        "name": check.name, "severity": severities, "why": check.why, "reads": check.reads, "source": check.source,
    });
    let line = format!(
        "{:<6}  {}",
        check.weight.importance(Profile::default()).name(),
        check.why
    );
    Entry {
        name: check.name.to_owned(),
        line,
        full,
        json,
        group: None,
    }
}

/// Returns the severity for the default profile, and the severity for each profile in which it
/// differs.
fn weights(check: &Check) -> String {
    let usual = check.weight.importance(Profile::default());
    let others = Profile::ALL
        .into_iter()
        .map(|profile| (profile, check.weight.importance(profile)));
    let others: Vec<String> = others
        .filter(|(_, weight)| *weight != usual)
        .map(|(profile, weight)| format!("{} for {}", weight.name(), profile.name()))
        .collect();
    if others.is_empty() {
        usual.name().to_owned()
    } else {
        format!("{}; {}", usual.name(), others.join(", "))
    }
}
