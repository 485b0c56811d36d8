//! Measures how fast the lab makes an atlas.

use std::process::Command;
use std::time::Instant;

use tardy_core::units::Nanos;
use tardy_run::folder;

use super::figure::{Bench, Figure, FigureResult, holds, row};
use crate::failure::Result;
use crate::{program, workspace};

pub(crate) const FIGURE: Figure = Figure {
    name: "lab-atlas",
    promise: "Two CPUs measure 3,000 cells of an atlas per hour",
    measure,
};

/// The arguments for the four preemption models of Debian's Linux 6.1. The kernel's command line
/// selects three of these models; the fourth is a separate package.
const MODELS: [&str; 6] = [
    "--kernel",
    "debian:6.1",
    "--preempt",
    "none,voluntary,full",
    "--kernel",
    "debian:6.1-rt",
];
/// The folder of the atlas. It is relative to the workspace, so the recorded commands contain no
/// path of this machine.
const FOLDER: &str = "target/bench-atlas";
/// Virtual time per instruction in ns: the lab's default.
const INSTRUCTION_NS: f64 = 4.0;
const CELLS_AN_HOUR: f64 = 3000.0;
const CPUS: f64 = 2.0;

fn measure(bench: &Bench) -> Result<FigureResult> {
    let folder = workspace::root().join(FOLDER);
    workspace::remove(&folder)?;
    let cells = || folder::folders(&folder.join("cells"));
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
    // The first command makes the snapshots; for this, the lab must measure one short cell of each
    // group.
    for (name, more) in [
        (
            "snapshots and a short cell each",
            &["--load", "none", "--for", "300ms"][..],
        ),
        ("cells", &[]),
    ] {
        let before = cells();
        let (started, cpu_before) = (Instant::now(), program::children_cpu_s());
        let mut atlas = Command::new(&bench.tardy);
        atlas
            .args(["lab", "atlas", "--json", "--out", FOLDER])
            .args(MODELS)
            .args(replicas)
            .args(more)
            .current_dir(workspace::root());
        eprintln!("$ {}", program::line(&atlas));
        bench.capture(&mut atlas)?;
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
