//! The lane `outcomes` of `cargo xtask prove`: two builds of this source give every claim of the
//! papers the same outcome.
//!
//! Guests count instructions, so the numbers of two builds differ. A claim whose outcome differs
//! too is too close to its limit.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use crate::failure::{Failure, Result, While};
use crate::{program, workspace};

/// The builds, by their cargo profiles: that of the README, and that of released binaries.
const PROFILES: [&str; 2] = ["release", "dist"];

pub(crate) fn run() -> Result<()> {
    let [release, dist] = PROFILES.map(outcomes);
    let differences = differences(&release?, &dist?);
    if differences.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "two builds of one source give different outcomes:\n{}",
        differences.join("\n")
    )))
}

/// Reproduces the papers with one build, and returns the outcome of each claim.
fn outcomes(profile: &str) -> Result<BTreeMap<String, String>> {
    let tardy = workspace::build(&["--profile", profile, "--package", "tardy"])?;
    let out = workspace::target_folder()?.join("outcomes").join(profile);
    if out.exists() {
        std::fs::remove_dir_all(&out).while_doing(|| format!("removing {}", out.display()))?;
    }
    let mut command = Command::new(tardy);
    command.args(["reproduce", "all", "--on", "lab", "--quick", "--quiet"]);
    let text = program::capture(command.args(["--json", "--out"]).arg(out))?;
    let found = serde_json::from_str(&text).while_doing(|| "reading the outcomes".to_owned())?;
    read(&found).ok_or_else(|| Failure::new("a reproduction without outcomes"))
}

/// Returns the outcome of each claim; `None` if the document has no claims.
fn read(found: &Value) -> Option<BTreeMap<String, String>> {
    let papers = found["papers"].as_array()?;
    let claims = papers.iter().filter_map(|paper| paper["claims"].as_array());
    let outcome = |claim: &Value| {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Some((text(&claim["id"])?, text(&claim["outcome"])?))
    };
    let all: BTreeMap<String, String> = claims.flatten().filter_map(outcome).collect();
    (!all.is_empty()).then_some(all)
}

/// Returns a line for each claim whose outcomes differ.
fn differences(release: &BTreeMap<String, String>, dist: &BTreeMap<String, String>) -> Vec<String> {
    let names = release.keys().chain(dist.keys());
    let names: std::collections::BTreeSet<&String> = names.collect();
    let none = "no claim".to_owned();
    let outcome = |of: &BTreeMap<String, String>, name| of.get(name).unwrap_or(&none).clone();
    names
        .into_iter()
        .map(|name| (name, outcome(release, name), outcome(dist, name)))
        .filter(|(_, one, other)| one != other)
        .map(|(name, one, other)| format!("{name}: {one} with release, {other} with dist"))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_with_two_outcomes_is_named() {
        let of = |outcome: &str| {
            let claim = |id: &str, outcome: &str| json!({"id": id, "outcome": outcome});
            let claims = [claim("a", outcome), claim("b", "holds")];
            read(&json!({"papers": [{"claims": claims}]})).unwrap()
        };
        assert_eq!(differences(&of("holds"), &of("holds")), [""; 0]);
        assert_eq!(
            differences(&of("holds"), &of("does-not-hold")),
            ["a: holds with release, does-not-hold with dist"]
        );
        assert_eq!(read(&json!({"papers": []})), None);
    }
}
