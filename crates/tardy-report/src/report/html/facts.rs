//! Facts about the machines, with a column per run. Rows in which runs differ are marked.

use maud::{Markup, html};
use serde_json::Value;
use tardy_machine::checks::{StoredFinding, StoredState};
use tardy_results::cost::run::CostRun;
use tardy_run::record::RunRecord;

use crate::report::doctor_text::word;
use tardy_chart::data::RunData;

/// The part of a report about a run's machine.
pub(super) struct MachineDescription<'a> {
    name: &'a str,
    machine: &'a [String],
    /// Facts by name. Facts that could not be read are missing.
    facts: Vec<(String, String)>,
    /// Findings of `tardy doctor`, by the name of the check.
    settings: Vec<(String, String)>,
}

pub(super) fn section(runs: &[MachineDescription<'_>]) -> Markup {
    let differs = if runs.len() > 1 {
        " (≠ marks what differs)"
    } else {
        ""
    };
    let facts: Vec<&[(String, String)]> = runs.iter().map(|run| run.facts.as_slice()).collect();
    let settings: Vec<&[(String, String)]> =
        runs.iter().map(|run| run.settings.as_slice()).collect();
    html! {
        section {
            h2 id="machine" { "Machine" }
            div class="columns" {
                @for run in runs {
                    div {
                        @if runs.len() > 1 { p class="run-name" { (run.name) } }
                        @for line in run.machine.iter().filter(|line| !line.is_empty()) { p { (line) } }
                    }
                }
            }
            @if settings.iter().any(|of| !of.is_empty()) {
                details {
                    summary { "Settings, as tardy doctor found them at the start of the run" (differs) }
                    (table("Settings", "setting", runs, &settings))
                }
            }
            details {
                summary { "All facts, read at the start of the run" (differs) }
                (table("Facts", "fact", runs, &facts))
            }
        }
    }
}

/// Returns a table with a row per name and a column per run.
fn table(
    label: &str,
    head: &str,
    runs: &[MachineDescription<'_>],
    values: &[&[(String, String)]],
) -> Markup {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in values.iter().copied().flatten() {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let value = |of: &[(String, String)], name: &str| {
        of.iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.clone())
    };
    let rows: Vec<(&str, Vec<Option<String>>)> = names
        .into_iter()
        .map(|name| (name, values.iter().map(|of| value(of, name)).collect()))
        .collect();
    html! {
        div class="scroll" tabindex="0" role="region" aria-label=(label) {
            table class="facts" {
                thead { tr { th scope="col" { (head) } @for run in runs { th scope="col" { (run.name) } } } }
                tbody {
                    @for (name, values) in &rows {
                        tr class=[values.windows(2).any(|two| two[0] != two[1]).then_some("differs")] {
                            td { (name) }
                            @for value in values { td { (value.as_deref().unwrap_or("–")) } }
                        }
                    }
                }
            }
        }
    }
}

/// Describes the machine of a run of latencies, with its interrupts and the tool's overhead.
pub(super) fn of_latencies(run: &RunData) -> MachineDescription<'_> {
    let mut facts = of_record(&run.record);
    for line in &run.summary.interrupts {
        facts.push((
            format!(
                "interrupts on the measured CPUs: {} {}",
                line.label, line.description
            )
            .trim()
            .to_owned(),
            line.count.to_string(),
        ));
    }
    if let Some(overhead) = &run.summary.overhead {
        facts.push((
            "tool: clock read, ns".to_owned(),
            overhead.clock_read_ns.get().to_string(),
        ));
        facts.push((
            "tool: CPU time of the process, s".to_owned(),
            format!("{:.3}", overhead.process_cpu_time_ns.as_secs_f64()),
        ));
        facts.push((
            "tool: memory, MiB".to_owned(),
            format!(
                "{:.1}",
                overhead.resident_bytes_max as f64 / f64::from(1 << 20)
            ),
        ));
    }
    MachineDescription {
        name: &run.name,
        machine: &run.summary.machine,
        facts,
        settings: settings_of(&run.record),
    }
}

pub(super) fn of_costs(run: &CostRun) -> MachineDescription<'_> {
    MachineDescription {
        name: &run.name,
        machine: &run.summary.machine,
        facts: of_record(&run.record),
        settings: settings_of(&run.record),
    }
}

/// Returns the findings, with possible improvements first, the most important one at the top.
fn settings_of(record: &RunRecord) -> Vec<(String, String)> {
    let rank =
        |finding: &&StoredFinding| (finding.state != StoredState::Improvable, finding.importance);
    let mut findings: Vec<&StoredFinding> = record.doctor.iter().collect();
    findings.sort_by_key(rank);
    let words = |finding: &StoredFinding| match finding.state {
        StoredState::Improvable => format!(
            "{}: {}",
            word(finding.importance).to_uppercase(),
            finding.current
        ),
        StoredState::Good => format!("good: {}", finding.current),
        StoredState::Noted => format!("noted: {}", finding.current),
        StoredState::Unknown => format!("unknown: {}", finding.current),
    };
    findings
        .into_iter()
        .map(|finding| (finding.check.clone(), words(finding)))
        .collect()
}

/// Returns every fact about the machine in `run.json`, with its name.
fn of_record(record: &RunRecord) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    facts.push((
        "clock".to_owned(),
        text(&serde_json::to_value(record.clock).unwrap_or(Value::Null)),
    ));
    if let Ok(machine) = serde_json::to_value(&record.machine) {
        flatten("", &machine, &mut facts);
    }
    facts
}

fn flatten(prefix: &str, value: &Value, facts: &mut Vec<(String, String)>) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                let key = key.replace('_', " ");
                flatten(
                    &if prefix.is_empty() {
                        key
                    } else {
                        format!("{prefix}: {key}")
                    },
                    value,
                    facts,
                );
            }
        }
        Value::Null => {}
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            for (index, item) in items.iter().enumerate() {
                flatten(&format!("{prefix} {}", index + 1), item, facts);
            }
        }
        Value::Array(items) if items.is_empty() => {}
        Value::Array(items) => facts.push((
            prefix.to_owned(),
            items.iter().map(text).collect::<Vec<_>>().join(", "),
        )),
        value => facts.push((prefix.to_owned(), text(value))),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(is) => if *is { "yes" } else { "no" }.to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn facts_are_flat_and_what_is_unknown_is_absent() {
        let mut facts = Vec::new();
        flatten(
            "",
            &json!({"a_b": {"c": 1, "d": null, "e": []}, "f": ["x", "y"], "g": [{"h": true}]}),
            &mut facts,
        );
        let expected = [("a b: c", "1"), ("f", "x, y"), ("g 1: h", "yes")]
            .map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(facts, expected);
    }
}
