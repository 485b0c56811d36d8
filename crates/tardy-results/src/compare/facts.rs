//! Finds the facts in which two runs differ: machine, kernel and plan, key by key.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tardy_machine::checks::{StoredFinding, StoredState};
use tardy_run::record::RunRecord;

/// Facts that differ between any two runs and are therefore ignored.
const LEFT_OUT: [&str; 3] = [
    "machine.boot_id",
    "machine.memory.available_bytes",
    "machine.memory.swap_free_bytes",
];
/// Maximum length of a value that is shown completely, in characters.
const SHOWN: usize = 120;

/// A fact in which the two sides differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactDifference {
    /// Path of the fact in `run.json`.
    pub fact: String,
    /// Value in the baseline; absent if unknown.
    pub base: Option<String>,
    /// Value in the candidate; absent if unknown.
    pub candidate: Option<String>,
}

/// Returns all facts in which two runs differ, those of the kernel first.
#[must_use]
pub fn differences(base: &RunRecord, candidate: &RunRecord) -> Vec<FactDifference> {
    let settings = settings(&base.doctor, &candidate.doctor);
    let (base, candidate) = (facts(base), facts(candidate));
    let keys: BTreeSet<&String> = base.keys().chain(candidate.keys()).collect();
    let mut differences: Vec<FactDifference> = keys
        .into_iter()
        .filter(|key| base.get(*key) != candidate.get(*key))
        .map(|key| {
            let (base, candidate) = (base.get(key).cloned(), candidate.get(key).cloned());
            let (base, candidate) = if key == "machine.kernel.command_line" {
                words(base, candidate)
            } else {
                (base, candidate)
            };
            FactDifference {
                fact: key.clone(),
                base,
                candidate,
            }
        })
        .chain(settings)
        .collect();
    differences.sort_by_key(|difference| rank(&difference.fact));
    differences
}

/// Returns the values of a run's facts at these paths of `run.json`. An unknown fact is `None`.
#[must_use]
pub fn of_names<const COUNT: usize>(
    record: &RunRecord,
    names: [&str; COUNT],
) -> [Option<String>; COUNT] {
    let mut facts = facts(record);
    names.map(|name| facts.remove(name))
}

/// Returns the checks of `tardy doctor` that are good on one side only. Only the states of the
/// checks are compared, because the counts in their texts vary between runs.
fn settings<'a>(
    base: &'a [StoredFinding],
    candidate: &'a [StoredFinding],
) -> impl Iterator<Item = FactDifference> + 'a {
    let is_judged = |finding: &StoredFinding| {
        matches!(finding.state, StoredState::Good | StoredState::Improvable)
    };
    let pairs = base.iter().filter_map(|one| {
        Some((
            one,
            candidate.iter().find(|other| other.check == one.check)?,
        ))
    });
    let differ = pairs
        .filter(move |(one, other)| one.state != other.state && is_judged(one) && is_judged(other));
    differ.map(|(one, other)| FactDifference {
        fact: format!("doctor.{}", one.check),
        base: Some(one.current.clone()),
        candidate: Some(other.current.clone()),
    })
}

/// Returns the rank of a fact. Facts that are more likely to explain a difference come first.
fn rank(fact: &str) -> u8 {
    match fact {
        "machine.kernel.release" => 0,
        "machine.kernel.command_line" => 2,
        fact if fact.starts_with("machine.kernel.") => 1,
        fact if fact.starts_with("plan.") => 3,
        fact if fact.starts_with("doctor.") => 4,
        fact if fact.starts_with("machine.") => 5,
        _ => 6,
    }
}

/// Returns the words that only one of the two command lines contains.
fn words(base: Option<String>, candidate: Option<String>) -> (Option<String>, Option<String>) {
    let (Some(base), Some(candidate)) = (&base, &candidate) else {
        return (base, candidate);
    };
    let only = |one: &str, other: &str| {
        let other: Vec<&str> = other.split_whitespace().collect();
        let words: Vec<&str> = one
            .split_whitespace()
            .filter(|word| !other.contains(word))
            .collect();
        if words.is_empty() {
            "(nothing more)".to_owned()
        } else {
            words.join(" ")
        }
    };
    (Some(only(base, candidate)), Some(only(candidate, base)))
}

/// Returns the facts of a run by their keys, without unknown facts.
fn facts(record: &RunRecord) -> BTreeMap<String, String> {
    let plan = &record.plan;
    let facts = json!({
        "machine": record.machine,
        "plan": {
            "scenario": plan.scenario,
            "probes": plan.probes.iter().map(|probe| (probe.name.clone(), json!(probe))).collect::<serde_json::Map<_, _>>(),
            "phases": phases(record),
            "measured_cpus": record.measured_cpus.to_string(),
            "cpu_dma_latency_us": plan.cpu_dma_latency_us,
            "aligned": plan.aligned,
        },
        "tool": { "name": record.tool.name, "version": record.tool.version },
        "kind": record.kind,
        "clock": record.clock,
    });
    let mut flat = BTreeMap::new();
    flatten(String::new(), &facts, &mut flat);
    LEFT_OUT.iter().for_each(|key| {
        flat.remove(*key);
    });
    flat
}

fn phases(record: &RunRecord) -> String {
    let mut names: Vec<&str> = record
        .phases
        .iter()
        .map(|phase| phase.name.as_str())
        .collect();
    names.dedup();
    names.join(", ")
}

fn flatten(key: String, value: &Value, flat: &mut BTreeMap<String, String>) {
    match value {
        Value::Null => {}
        Value::Object(members) => {
            for (name, member) in members {
                flatten(
                    if key.is_empty() {
                        name.clone()
                    } else {
                        format!("{key}.{name}")
                    },
                    member,
                    flat,
                );
            }
        }
        Value::String(text) => {
            flat.insert(key, text.clone());
        }
        other => {
            flat.insert(key, other.to_string());
        }
    }
}

impl std::fmt::Display for FactDifference {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = |value: &Option<String>| {
            let text = value.as_deref().unwrap_or("(unknown)");
            if text.chars().count() > SHOWN {
                text.chars().take(SHOWN).chain("...".chars()).collect()
            } else {
                text.to_owned()
            }
        };
        write!(
            formatter,
            "{}: {} -> {}",
            self.fact,
            value(&self.base),
            value(&self.candidate)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_command_lines_only_the_words_that_differ_are_shown() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            words(text("quiet ro"), text("ro isolcpus=1 quiet")),
            (text("(nothing more)"), text("isolcpus=1"))
        );
        assert_eq!(words(None, text("ro")), (None, text("ro")));
    }

    #[test]
    fn keys_name_the_place_in_the_record() {
        let mut flat = BTreeMap::new();
        flatten(
            String::new(),
            &json!({"a": {"b": 1, "c": null}, "d": ["x"]}),
            &mut flat,
        );
        assert_eq!(
            flat.into_iter().collect::<Vec<_>>(),
            [
                ("a.b".to_owned(), "1".to_owned()),
                ("d".to_owned(), "[\"x\"]".to_owned())
            ]
        );
    }
}
