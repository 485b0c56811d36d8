//! A comparison of the lab's variants as text, with a row per variant and a column per phase.

use std::fmt::Write;
use std::path::Path;

use tardy_lab::boot::{STDERR_NAME, STDOUT_NAME};
use tardy_lab::comparison::{Comparison, PhaseResult, RunResult};
use tardy_lab::experiment::Outcome;

use super::atlas_text::sampling_gap;
use super::table::Table;

/// The note on watched guests, which replaces the note on the probe's sampling gap.
const WATCHED: &str = "Every executed instruction was checked for sections, so the listed \
                       sections are the longest of these runs. `tardy show` of the folder names \
                       the functions of the listed sections.";

/// Files below the run's folder that contain the output of programs in the guest.
const WRITTEN: [&str; 2] = [STDOUT_NAME, STDERR_NAME];
/// Maximum number of lines shown of each file; the last lines are shown.
const LINES_SAID: usize = 20;

/// The note on columns whose phase has no load.
const IDLE: &str = "In columns without a load, latencies include delays by tardy's own threads on \
                    the guest's CPU.";

/// Returns the comparison as text, at most `width` columns wide; the text also lists the kernels
/// that could not be measured.
#[must_use]
pub fn text(comparison: &Comparison, width: usize) -> String {
    let mut columns: Vec<(String, String)> = Vec::new();
    for phase in comparison
        .variants
        .iter()
        .flat_map(|variant| &variant.phases)
    {
        let column = (phase.label(), phase.probe.clone());
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    let mut text = String::new();
    let mut phases = comparison
        .variants
        .iter()
        .flat_map(|variant| &variant.phases)
        .peekable();
    let is_watched =
        phases.peek().is_some() && phases.all(|phase| !phase.longest_section_of_runs_ns.is_empty());
    if !columns.is_empty() {
        let (runs, each) = match comparison.replicas {
            1 => ("one run each".to_owned(), ""),
            several => (format!("{several} runs each"), ", median of all runs"),
        };
        let mut add = |title: &str, value: &dyn Fn(&PhaseResult) -> String| {
            block(&mut text, comparison, &columns, title, value, width)
        };
        add(&format!("largest latency, {runs}"), &|phase| {
            phase.max_ns.to_string()
        });
        if is_watched {
            let of = |phase: &PhaseResult| {
                phase
                    .longest_section_ns()
                    .map_or("-".to_owned(), |section| section.to_string())
            };
            add(&format!("longest non-preemptible section, {runs}"), &of);
        }
        if comparison.replicas > 1 {
            add("largest latency, median of all runs", &|phase| {
                phase.max_median_ns.to_string()
            });
        }
        add(&format!("99.9 %{each}"), &|phase| phase.p999_ns.to_string());
        add(&format!("99 %{each}"), &|phase| phase.p99_ns.to_string());
        add("median", &|phase| phase.median_ns.to_string());
        add("samples", &|phase| phase.samples.to_string());
    }
    for variant in &comparison.variants {
        remarks(&mut text, &variant.variant.name, &variant.runs);
        for largest in &variant.in_no_phase {
            writeln!(
                text,
                "! {}: the columns leave out the largest latency of {}, {}: it occurred {}",
                variant.variant.name, largest.probe, largest.max_ns, largest.place
            )
            .expect("writing to a string cannot fail");
        }
        if !variant.without_samples.is_empty() {
            let loads = distinct(&variant.without_samples).join(", ");
            writeln!(
                text,
                "! {} has no sample under {loads}",
                variant.variant.name
            )
            .expect("writing to a string cannot fail");
        }
    }
    let mut without_samples = comparison
        .variants
        .iter()
        .flat_map(|variant| &variant.without_samples);
    if without_samples.next().is_some() {
        let words = "A load without a sample was not active in its phase: measure longer.";
        writeln!(text, "{words}").expect("writing to a string cannot fail");
    }
    let restored = comparison
        .variants
        .iter()
        .flat_map(|variant| &variant.runs)
        .filter_map(|run| run.restore_ms);
    if let (Some(least), Some(most)) = (restored.clone().min(), restored.max()) {
        let words = "the runs started from snapshots: compare them only with runs from the same \
                     snapshots; restoring a snapshot took";
        writeln!(text, "{words} {least} to {most} ms of the host's time")
            .expect("writing to a string cannot fail");
    }
    if is_watched {
        writeln!(text, "{WATCHED}").expect("writing to a string cannot fail");
    } else if let Some(period) = comparison.period_ns {
        writeln!(text, "{}", sampling_gap(period)).expect("writing to a string cannot fail");
    }
    if comparison
        .variants
        .iter()
        .flat_map(|variant| &variant.phases)
        .any(|phase| phase.loads.is_empty())
    {
        writeln!(text, "{IDLE}").expect("writing to a string cannot fail");
    }
    writeln!(text, "{}", comparison.meaning).expect("writing to a string cannot fail");
    text
}

/// Returns `names` without duplicates, in the same order.
fn distinct(names: &[String]) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for name in names {
        if !found.contains(&name.as_str()) {
            found.push(name);
        }
    }
    found
}

/// Returns the commands that the user can try next.
#[must_use]
pub fn next(out: &Path) -> String {
    let out = out.display();
    format!("next: tardy report {out} --html {out}.html | tardy show {out} | tardy compare {out}\n")
}

/// Returns the last lines that user programs wrote in the guests, and the paths of the complete
/// output.
#[must_use]
pub fn said(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for file in outcomes
        .iter()
        .flat_map(|outcome| WRITTEN.map(|name| outcome.folder.join(name)))
    {
        // The output may not be valid UTF-8.
        let all = std::fs::read(&file).unwrap_or_default();
        let all = String::from_utf8_lossy(&all);
        let lines: Vec<&str> = all.lines().filter(|line| !line.trim().is_empty()).collect();
        if !lines.is_empty() {
            writeln!(text, "{}:", file.display()).expect("writing to a string cannot fail");
        }
        for line in &lines[lines.len().saturating_sub(LINES_SAID)..] {
            writeln!(text, "  {line}").expect("writing to a string cannot fail");
        }
    }
    text
}

fn block(
    text: &mut String,
    comparison: &Comparison,
    columns: &[(String, String)],
    title: &str,
    value: &dyn Fn(&PhaseResult) -> String,
    width: usize,
) {
    let several_probes = columns.iter().any(|(_, probe)| *probe != columns[0].1);
    let head = columns.iter().map(|(label, probe)| {
        if several_probes {
            format!("{label} {probe}")
        } else {
            label.clone()
        }
    });
    let mut table = Table::new([title.to_owned()].into_iter().chain(head));
    for variant in &comparison.variants {
        let cell = |(label, probe): &(String, String)| {
            let phase = variant
                .phases
                .iter()
                .find(|phase| phase.label() == *label && phase.probe == *probe);
            phase.map_or("-".to_owned(), value)
        };
        table.row(
            [variant.variant.name.clone()]
                .into_iter()
                .chain(columns.iter().map(cell)),
        );
    }
    text.push_str(&table.in_blocks(width));
}

/// Writes a line about failed runs of a variant, and a line about repeated runs whose results
/// differ.
pub(super) fn remarks(text: &mut String, name: &str, runs: &[RunResult]) {
    let failed = runs.iter().filter(|run| run.failure.is_some()).count();
    let mut line = |words: String| {
        writeln!(text, "! {name}: {words}").expect("writing to a string cannot fail")
    };
    if failed > 0 {
        let first = runs
            .iter()
            .find_map(|run| run.failure.as_ref())
            .map(String::as_str)
            .unwrap_or_default();
        line(format!(
            "{failed} of {} runs gave no result: {first}",
            runs.len()
        ));
    }
    let repeated = runs.iter().filter(|run| run.repeated.is_some()).count();
    let different = runs
        .iter()
        .filter(|run| run.repeated == Some(false))
        .count();
    if different > 0 {
        line(format!(
            "NOT DETERMINISTIC: {different} of {repeated} repeated runs differ"
        ));
    }
}
