//! The text of `--dry-run`, which states what a run would do and what it would change.

use std::fmt::Write as _;

use tardy_core::bytes::format_bytes;
use tardy_core::cpu::CpuList;
use tardy_run::plan::{Plan, PolicyName, ProbePlan};
use tardy_run::request::Request;
use tardy_run::shell;

/// Returns the plan as text.
#[must_use]
pub fn text(plan: &Plan) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "scenario   {}", plan.scenario);
    for probe in &plan.probes {
        let _ = writeln!(
            out,
            "measure    {probe} on {}, {}",
            cpus(plan, probe).named(),
            policy(probe)
        );
    }
    let _ = writeln!(out, "tool       on {}", plan.housekeeping_cpus.named());
    for (place, phase) in plan.phases.iter().enumerate() {
        let loads: Vec<String> = phase
            .loads
            .iter()
            .map(|load| format!("{} on {}", load.label, load.cpus.named()))
            .collect();
        let loads = if loads.is_empty() {
            "no load".to_owned()
        } else {
            loads.join(", ")
        };
        let length = match phase.cycles {
            Some(cycles) => format!(
                "{cycles} cycles of each probe thread (about {})",
                phase.length
            ),
            None => phase.length.to_string(),
        };
        let lasts = if plan.until_stopped && place + 1 == plan.phases.len() {
            "until it is stopped".to_owned()
        } else {
            format!("for {length}")
        };
        let _ = writeln!(out, "phase      {} {lasts}: {loads}", phase.name);
    }
    if let Some(window) = plan.window {
        let _ = writeln!(
            out,
            "deadline   {window}{}",
            plan.misses_allowed
                .map_or_else(String::new, |share| format!(
                    ", missed in at most {share:e} of the due times"
                ))
        );
    }
    if let Some(skipped) = plan.skipped_allowed {
        let _ = writeln!(out, "skipped    at most {skipped} periods");
    }
    if let Some(disk) = plan.disk {
        let _ = writeln!(
            out,
            "disk       at most {}: beyond that, the oldest samples are folded into hourly \
             histograms",
            format_bytes(disk)
        );
    }
    let an_hour = if plan.until_stopped { " an hour" } else { "" };
    let _ = writeln!(
        out,
        "disk       about {:.1} MB{an_hour}",
        plan.bytes_estimated as f64 / 1e6
    );
    let options = Request::of(plan).words_not_shown();
    if !options.is_empty() {
        let _ = writeln!(out, "options    {}", shell::line(&options));
    }
    for (name, text) in &plan.labels {
        let _ = writeln!(out, "label      {name}={text}");
    }
    for sentence in &plan.defaults {
        let _ = writeln!(out, "defaults   {sentence}");
    }
    for line in plan.device_writes() {
        let _ = writeln!(out, "writes     {line}");
    }
    let _ = writeln!(out, "seed       {}", plan.seed);
    if plan.changes.is_empty() {
        let _ = writeln!(out, "changes    none");
    }
    for change in &plan.changes {
        let _ = writeln!(out, "changes    {change}");
    }
    for warning in &plan.warnings {
        let _ = writeln!(out, "warning    {warning}");
    }
    out
}

/// Returns the CPUs of a probe: those of its threads, or, if the threads have no fixed CPU, all
/// measured CPUs.
fn cpus(plan: &Plan, probe: &ProbePlan) -> CpuList {
    let places = || {
        plan.threads
            .iter()
            .filter(|thread| thread.probe == probe.name)
    };
    if places().any(|thread| thread.plan.cpu.is_none()) {
        return plan.measured_cpus.clone();
    }
    places().filter_map(|thread| thread.plan.cpu).collect()
}

/// Returns scheduling policy and priority, for example `SCHED_FIFO 80`.
#[must_use]
pub fn policy(probe: &ProbePlan) -> String {
    match (probe.policy, probe.priority) {
        (PolicyName::Fifo, Some(priority)) => format!("SCHED_FIFO {priority}"),
        (PolicyName::Rr, Some(priority)) => format!("SCHED_RR {priority}"),
        _ => "SCHED_OTHER".to_owned(),
    }
}
