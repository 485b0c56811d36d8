//! Figures of the lab: the cost of comparing four kernels, in guest instructions (which are exact)
//! and in host time, and the speed of making an atlas.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::Value;
use tardy_core::units::Nanos;
use tardy_run::folder;

use super::figure::{Bench, Figure, FigureResult, holds, row};
use crate::failure::Result;
use crate::{program, workspace};

pub(crate) const BUDGET: Figure = Figure {
    name: "lab-budget",
    promise: "On each of four kernels, a guest that measures 2,000 cycles under each of six loads executes at most 5 G instructions",
    measure: measure_budget,
};

pub(crate) const ATLAS: Figure = Figure {
    name: "lab-atlas",
    promise: "Two CPUs measure 3,000 cells of an atlas per hour",
    measure: measure_atlas,
};

/// The arguments for the four preemption models of Debian's Linux 6.1. The kernel's command line
/// selects three of them; the fourth is a separate package.
const MODELS: [&str; 6] = [
    "--kernel",
    "debian:6.1",
    "--preempt",
    "none,voluntary,full",
    "--kernel",
    "debian:6.1-rt",
];
/// A folder below the workspace, so that recorded commands contain no path of this machine.
const FOLDER: &str = "target/bench-lab";
const INSTRUCTIONS_MAX: f64 = 5e9;
/// Virtual time per instruction in ns, the lab's default.
const INSTRUCTION_NS: f64 = 4.0;
const CELLS_AN_HOUR: f64 = 3000.0;
const CPUS: f64 = 2.0;

/// Runs `tardy lab SUBCOMMAND` into the folder `name`, and returns its JSON document.
fn lab(bench: &Bench, subcommand: &str, name: &str, arguments: &[&str]) -> Result<Value> {
    let mut command = Command::new(&bench.tardy);
    command
        .args(["lab", subcommand, "--json", "--out"])
        .arg(Path::new(FOLDER).join(name))
        .args(MODELS)
        .args(arguments)
        .current_dir(workspace::root());
    eprintln!("$ {}", program::line(&command));
    bench.capture_json(&mut command)
}

/// Removes the folder of an earlier measurement.
fn remove(name: &str) -> Result<()> {
    workspace::remove(&workspace::root().join(FOLDER).join(name))
}

fn measure_budget(bench: &Bench) -> Result<FigureResult> {
    let scenario = ["--scenario", "crates/tardy/tests/data/lab/six-loads.toml"];
    let timed = |name: &str, more: &[&str]| {
        remove(name)?;
        let started = Instant::now();
        let arguments = [&scenario, more].concat();
        let comparison = lab(bench, "run", name, &arguments)?;
        Ok::<_, crate::failure::Failure>((comparison, started.elapsed().as_secs_f64()))
    };
    let (cold, cold_s) = timed("cold", &[])?;
    let (_, first_s) = timed("snapshots-first", &["--snapshots"])?;
    let (restored, restored_s) = timed("snapshots", &["--snapshots"])?;
    let mut table = vec![row([
        "variant",
        "package",
        "G instructions",
        "with idle time",
        "host's seconds, cold",
        "from a snapshot",
        "restoring, ms",
    ])];
    let variants = |comparison: &Value| comparison["variants"].as_array().cloned();
    let (cold, restored) = (variants(&cold), variants(&restored));
    let mut most: f64 = 0.0;
    for (one, other) in cold.iter().flatten().zip(restored.iter().flatten()) {
        let (run, again) = (&one["runs"][0], &other["runs"][0]);
        let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
        let executed = number(&run["instructions"]);
        most = most.max(executed);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        table.push(vec![
            text(&one["variant"]["name"]),
            text(&one["variant"]["kernel"]["package"]),
            format!("{:.2}", executed / 1e9),
            format!("{:.2}", number(&run["virtual_ns"]) / INSTRUCTION_NS / 1e9),
            format!("{:.1}", number(&run["wall_s"])),
            format!("{:.1}", number(&again["wall_s"])),
            again["restore_ms"].to_string(),
        ]);
    }
    let qemu = program::capture(Command::new("qemu-system-x86_64").arg("--version"))?;
    Ok(FigureResult {
        reached: format!(
            "at most {:.2} G instructions: {}; {cold_s:.0} s cold, {restored_s:.0} s from \
             snapshots ({first_s:.0} s with making them)",
            most / 1e9,
            holds(most > 0.0 && most <= INSTRUCTIONS_MAX),
        ),
        table,
        notes: vec![
            "Instructions: the guest's clock at the end less its idle time, divided by the time \
             of an instruction (4 ns); the kernel reports its idle time with a resolution of 10 \
             ms. With idle time: the clock alone."
                .to_owned(),
            qemu.lines().next().unwrap_or_default().to_owned(),
        ],
    })
}

fn measure_atlas(bench: &Bench) -> Result<FigureResult> {
    remove("atlas")?;
    let cells = || folder::folders(&workspace::root().join(FOLDER).join("atlas/cells"));
    let replicas = ["--replicas", if bench.is_quick { "1" } else { "3" }];
    let mut table = vec![row([
        "",
        "cells",
        "host's seconds",
        "CPU seconds",
        "CPU seconds per cell",
        "cells an hour on two CPUs, by CPU time",
    ])];
    let mut reached = String::new();
    // A short cell of each group makes the snapshots.
    for (name, more) in [
        (
            "snapshots and a short cell each",
            &["--load", "none", "--for", "300ms"][..],
        ),
        ("cells", &[]),
    ] {
        let before = cells();
        let (started, cpu_before) = (Instant::now(), program::children_cpu_s());
        let arguments = [&replicas, more].concat();
        lab(bench, "atlas", "atlas", &arguments)?;
        let (wall_s, cpu_s) = (
            started.elapsed().as_secs_f64(),
            program::children_cpu_s() - cpu_before,
        );
        let mut made = cells();
        made.retain(|cell| !before.contains(cell));
        let busy: Nanos = made
            .iter()
            .filter_map(|cell| folder::open(cell).ok())
            .flat_map(|record| record.phases)
            .flat_map(|phase| phase.cpu_busy_ns.into_values())
            .fold(Nanos::ZERO, |sum, busy| sum + busy);
        let count = made.len() as f64;
        let an_hour = 3600.0 * CPUS * count / cpu_s;
        table.push(vec![
            name.to_owned(),
            made.len().to_string(),
            format!("{wall_s:.0}"),
            format!("{cpu_s:.0}"),
            format!("{:.2}", cpu_s / count),
            format!("{an_hour:.0}"),
        ]);
        reached = format!(
            "{an_hour:.0} cells an hour on two CPUs by CPU time: {}; {:.0} by the clock; {:.0} \
             million instructions of guests in a CPU second of the host",
            holds(an_hour >= CELLS_AN_HOUR),
            3600.0 * count / wall_s,
            busy.get() as f64 / INSTRUCTION_NS / cpu_s / 1e6,
        );
    }
    Ok(FigureResult {
        reached,
        table,
        notes: vec![
            "Instructions are those of the measurement: the guests' busy time in their phases, \
             divided by the time of an instruction (4 ns). CPU seconds are those of tardy, QEMU \
             and what both do besides (start, reading the snapshot, the result)."
                .to_owned(),
        ],
    })
}
