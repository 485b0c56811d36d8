//! `cargo xtask sections`: the tables of docs/sections.md, from a census of Debian's kernels.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tardy_core::units::Nanos;
use tardy_outside::bound::Interrupts;

use crate::failure::{Failure, Result, While};
use crate::{program, workspace};

/// What a kernel's part of the page begins with; all before the first is written by hand.
const PART: &str = "\n## ";
/// Rows of a kernel's table.
const ROWS: usize = 10;
/// The census: kernels with their models, and every load of the scenario `lab`.
const CENSUS: &[&str] = &[
    "--kernel",
    "debian:5.10",
    "--kernel",
    "debian:5.10-rt",
    "--kernel",
    "debian:6.1",
    "--preempt",
    "full",
    "--kernel",
    "debian:6.1-rt",
    "--kernel",
    "debian:6.12",
    "--preempt",
    "full",
    "--kernel",
    "debian:6.12-rt",
    "--kernel",
    "debian:7.3",
    "--kernel",
    "debian:7.3-rt",
    "--load",
    "all",
];

/// `cargo xtask sections`.
#[derive(Debug, clap::Args)]
pub(crate) struct SectionsArguments {
    /// Use this folder of `tardy lab sections` instead of a new census (half an hour)
    #[arg(long, value_name = "FOLDER")]
    census: Option<PathBuf>,
    /// Use this binary instead of a new release build
    #[arg(long, value_name = "FILE")]
    tardy: Option<PathBuf>,
}

/// Makes the census, and the tables of it.
pub(crate) fn run(arguments: &SectionsArguments) -> Result<()> {
    let tardy = match &arguments.tardy {
        Some(binary) => binary
            .canonicalize()
            .while_doing(|| format!("looking for {}", binary.display()))?,
        None => workspace::build_tardy()?,
    };
    let census = match &arguments.census {
        Some(folder) => folder.clone(),
        None => make(&tardy)?,
    };
    let shown = program::output(Command::new(&tardy).arg("show").arg(&census).arg("--json"))?;
    let shown: Value = serde_json::from_slice(&shown.stdout)
        .while_doing(|| format!("reading the census in {}", census.display()))?;
    let page = workspace::root().join("docs/sections.md");
    let old =
        std::fs::read_to_string(&page).while_doing(|| format!("reading {}", page.display()))?;
    let (by_hand, _) = old
        .split_once(PART)
        .ok_or_else(|| Failure::new(format!("{} has no kernel's part", page.display())))?;
    std::fs::write(&page, format!("{by_hand}\n{}", tables(&shown)?))
        .while_doing(|| format!("writing {}", page.display()))
}

fn make(tardy: &Path) -> Result<PathBuf> {
    let folder = workspace::target_folder()?.join("sections");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)
            .while_doing(|| format!("removing {}", folder.display()))?;
    }
    // Code 4: a guest's own trouble, which the census names; its sections are there.
    let ended = program::output(
        Command::new(tardy)
            .args(["lab", "sections"])
            .args(CENSUS)
            .arg("--out")
            .arg(&folder),
    )?;
    if !matches!(ended.status.code(), Some(0 | 4)) {
        return Err(Failure::new(format!(
            "the census failed ({}): {}",
            ended.status,
            String::from_utf8_lossy(&ended.stderr).trim()
        )));
    }
    Ok(folder)
}

/// What one kernel did under all its loads.
#[derive(Debug, Default)]
struct Kernel {
    sections: u64,
    is_preemptible: bool,
    /// By kind and functions: the longest with its load and task.
    places: BTreeMap<(String, String, String), (Nanos, String, String)>,
    /// By what it is: the longest of all loads, with its load.
    longest: BTreeMap<String, (Nanos, String)>,
    /// By load: the latency seen, and the bound with each characterisation of interrupts.
    bounds: Vec<LoadBounds>,
}

/// The latency seen under a load, and its bounds.
#[derive(Debug)]
struct LoadBounds {
    load: String,
    seen: Nanos,
    /// By what is assumed of interrupts, with the ratio to what was seen; `None` where the bound
    /// does not converge.
    bounds: Vec<(String, Option<(Nanos, f64)>)>,
}

fn tables(census: &Value) -> Result<String> {
    let mut kernels: Vec<(String, Kernel)> = Vec::new();
    for group in list(&census["groups"]) {
        let (name, load) = (text(&group["variant"]), text(&group["load"]));
        if kernels.last().is_none_or(|(last, _)| *last != name) {
            kernels.push((name, Kernel::default()));
        }
        if let Some((_, kernel)) = kernels.last_mut() {
            kernel.add(group, &load);
        }
    }
    if kernels.is_empty() {
        return Err(Failure::new("the census has no sections"));
    }
    let mut out = String::new();
    for (name, kernel) in &kernels {
        kernel.write(name, &mut out);
    }
    Ok(out.trim_end().to_owned() + "\n")
}

impl Kernel {
    fn add(&mut self, group: &Value, load: &str) {
        self.is_preemptible = group["is_preemptible"] == Value::Bool(true);
        // The last kind is what the others come to together.
        for kind in list(&group["kinds"])
            .iter()
            .filter(|kind| kind["kind"] != "blocked")
        {
            self.sections += kind["count"].as_u64().unwrap_or(0);
            if kind["kind"] == "interrupt" {
                continue;
            }
            for place in list(&kind["places"]) {
                let length = nanos(&place["longest_ns"]);
                let entry = self.places.entry((
                    text(&kind["kind"]).replace('-', " "),
                    text(&place["begin"]),
                    text(&place["end"]),
                ));
                let longest = entry.or_default();
                if length > longest.0 {
                    *longest = (length, load.to_owned(), text(&place["task"]));
                }
            }
        }
        for longest in list(&group["longest"]) {
            let length = nanos(&longest["length_ns"]);
            let known = self.longest.entry(text(&longest["what"])).or_default();
            if length > known.0 {
                *known = (length, load.to_owned());
            }
        }
        if !group["bound"].is_null() {
            let bounds = list(&group["bound"]["bounds"]).iter();
            let bounds = bounds.map(|bound| {
                (
                    text(&bound["interrupts"]),
                    bound["ratio"]
                        .as_f64()
                        .map(|ratio| (nanos(&bound["bound_ns"]), ratio)),
                )
            });
            let seen = nanos(&group["bound"]["observed_ns"]);
            self.bounds.push(LoadBounds {
                load: load.to_owned(),
                seen,
                bounds: bounds.collect(),
            });
        }
    }

    fn write(&self, name: &str, out: &mut String) {
        let blocked = self
            .longest
            .get("blocked")
            .map_or(Nanos(0), |longest| longest.0);
        let _ = writeln!(
            out,
            "## {name}\n\n{} sections. Longest time in which no other task could run: {}.\n",
            thousands(self.sections),
            blocked
        );
        out.push_str(
            "| longest | kind | load | task | begins in | ends in |\n|---:|---|---|---|---|---|\n",
        );
        let mut places: Vec<_> = self.places.iter().collect();
        places.sort_by_key(|(_, (length, ..))| std::cmp::Reverse(*length));
        for ((kind, begin, end), (length, load, task)) in places.into_iter().take(ROWS) {
            let _ = writeln!(
                out,
                "| {} | {kind} | {load} | {task} | `{begin}` | `{end}` |",
                length
            );
        }
        out.push('\n');
        if !self.is_preemptible {
            if let Some((length, load)) = self.longest.get("no-chance") {
                let _ = writeln!(
                    out,
                    "Longest time that a task stayed in the kernel without a chance to switch: {} \
                     ({load}).\n",
                    length
                );
            }
            return;
        }
        let Some(first) = self.bounds.first() else {
            return;
        };
        let heads = first
            .bounds
            .iter()
            .map(|(interrupts, _)| title(interrupts))
            .collect::<Vec<_>>();
        let _ = writeln!(
            out,
            "| bound by | seen | {} |\n|---|---:{}|",
            heads.join(" | "),
            "|---:".repeat(heads.len())
        );
        for LoadBounds { load, seen, bounds } in &self.bounds {
            let cells: Vec<String> = bounds.iter().map(|(_, bound)| bound_word(*bound)).collect();
            let _ = writeln!(out, "| {load} | {} | {} |", seen, cells.join(" | "));
        }
        out.push('\n');
    }
}

/// An assumption of interrupts as `tardy show` calls it.
fn title(interrupts: &str) -> String {
    let known = serde_json::from_value::<Interrupts>(interrupts.into());
    known.map_or_else(|_| interrupts.to_owned(), |known| known.title().to_owned())
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn nanos(value: &Value) -> Nanos {
    Nanos(value.as_i64().unwrap_or(0))
}

fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap_or_default())
        .collect();
    groups.join(",")
}

fn bound_word(bound: Option<(Nanos, f64)>) -> String {
    bound.map_or_else(
        || "none".to_owned(),
        |(bound, ratio)| format!("{bound} ({ratio:.2} x)"),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_longest_of_each_place_stands_once_with_its_load() {
        let place = |length: i64| json!({"begin": "a", "end": "b", "count": 2, "longest_ns": length, "task": "t"});
        let group = |load: &str, length: i64| {
            json!({"variant": "6.12-none", "load": load, "is_preemptible": false, "bound": null,
                "kinds": [{"kind": "interrupts-off", "count": 1234, "places": [place(length)]}, {"kind": "blocked", "count": 9, "places": [place(9)]}],
                "longest": [{"what": "blocked", "length_ns": length}, {"what": "no-chance", "length_ns": 2 * length}]})
        };
        let page = tables(
            &json!({"groups": [group("idle", 1500), group("io", 2_500_000), group("fork", 7)]}),
        )
        .unwrap();
        assert!(
            page.contains(
                "3,702 sections. Longest time in which no other task could run: 2.50 ms."
            ),
            "{page}"
        );
        assert!(
            page.contains("| 2.50 ms | interrupts off | io | t | `a` | `b` |")
                && page.matches("`a`").count() == 1,
            "{page}"
        );
        assert!(
            page.contains("without a chance to switch: 5.00 ms (io)"),
            "{page}"
        );
    }

    #[test]
    fn a_preemptible_kernel_has_its_bounds() {
        let bound = json!({"observed_ns": 1000, "bounds": [{"interrupts": "one-of-each", "bound_ns": 2500, "ratio": 2.5},
            {"interrupts": "sporadic", "bound_ns": null, "ratio": null}]});
        let group = json!({"variant": "rt", "load": "io", "is_preemptible": true, "kinds": [], "longest": [], "bound": bound});
        let page = tables(&json!({"groups": [group]})).unwrap();
        assert!(
            page.contains("| bound by | seen | the longest of each, once | sporadic |")
                && page.contains("| io | 1.00 us | 2.50 us (2.50 x) | none |"),
            "{page}"
        );
    }

    #[test]
    fn a_census_of_nothing_is_an_error() {
        assert!(tables(&json!({"groups": []})).is_err());
    }
}
