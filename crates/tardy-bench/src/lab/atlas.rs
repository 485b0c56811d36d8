//! How fast an atlas is made: cells an hour, and instructions of guests in a second of the host.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::Value;
use tardy_core::units::Nanos;
use tardy_machine::cpu_time::tick_length;
use tardy_machine::root::Root;
use tardy_run::folder;

use super::{FOLDER, MODELS, holds};
use crate::failure::{Failure, Result, While};
use crate::figure::{Bench, Figure, FigureResult, row};
use crate::{program, workspace};

pub(crate) const FIGURE: Figure = Figure {
    name: "lab-atlas",
    promise: "Two CPUs measure 3,000 cells of an atlas per hour",
    measure,
};

const CELLS_AN_HOUR: f64 = 3000.0;
const CPUS: f64 = 2.0;
/// 4 ns an instruction is the lab's default.
const INSTRUCTION: Nanos = Nanos(4);

/// What making some cells took.
struct Cost {
    cells: usize,
    wall_s: f64,
    cpu_s: f64,
    /// Virtual time in which the guests' CPUs were busy while they measured.
    busy: Nanos,
}

fn measure(bench: &Bench) -> Result<FigureResult> {
    let replicas = if bench.is_quick { "1" } else { "3" };
    let mut commands = Vec::new();
    let whole = workspace::root().join(FOLDER).join("atlas");
    if whole.exists() {
        std::fs::remove_dir_all(&whole).while_doing(|| format!("removing {}", whole.display()))?;
    }
    // One short cell of each group makes the snapshots.
    let first = make(
        bench,
        replicas,
        &["--load", "none", "--for", "300ms"],
        &whole,
        &mut commands,
    )?;
    let cells = make(bench, replicas, &[], &whole, &mut commands)?;
    let mut table = vec![row([
        "",
        "cells",
        "host's seconds",
        "CPU seconds",
        "CPU seconds per cell",
        "cells an hour on two CPUs, by CPU time",
    ])];
    for (name, cost) in [
        ("snapshots and a short cell each", &first),
        ("cells", &cells),
    ] {
        let each = cost.cpu_s / cost.cells as f64;
        let numbers = [cost.wall_s, cost.cpu_s].map(|seconds| format!("{seconds:.0}"));
        table.push(row([
            name,
            &cost.cells.to_string(),
            &numbers[0],
            &numbers[1],
            &format!("{each:.2}"),
            &format!("{:.0}", 3600.0 * CPUS / each),
        ]));
    }
    let an_hour = 3600.0 * CPUS * cells.cells as f64 / cells.cpu_s;
    let instructions = cells.busy.get() as f64 / INSTRUCTION.get() as f64;
    Ok(FigureResult {
        reached: format!(
            "{an_hour:.0} cells an hour on two CPUs by CPU time: {}; {:.0} by the clock; {:.0} \
             million instructions of guests in a CPU second of the host",
            holds(an_hour >= CELLS_AN_HOUR),
            3600.0 * cells.cells as f64 / cells.wall_s,
            instructions / cells.cpu_s / 1e6,
        ),
        commands,
        tables: vec![table],
        notes: vec![
            "Instructions are those of the measurement: the guests' busy time in their phases, \
             divided by the time of an instruction (4 ns). CPU seconds are those of tardy, QEMU \
             and what both do besides (start, reading the snapshot, the result)."
                .to_owned(),
        ],
    })
}

fn make(
    bench: &Bench,
    replicas: &str,
    more: &[&str],
    whole: &Path,
    commands: &mut Vec<String>,
) -> Result<Cost> {
    let before = folders(whole);
    let mut command = Command::new(&bench.tardy);
    command
        .args(["lab", "atlas", "--json", "--replicas", replicas, "--out"])
        .arg(Path::new(FOLDER).join("atlas"));
    command
        .args(MODELS)
        .args(more)
        .current_dir(workspace::root());
    eprintln!("$ {}", program::line(&command));
    let (started, cpu_before) = (Instant::now(), children_s()?);
    // A kernel without huge pages cannot run the load thp, which is no failure of the atlas.
    let json = program::capture(&mut command)?;
    let (wall_s, cpu_s) = (started.elapsed().as_secs_f64(), children_s()? - cpu_before);
    serde_json::from_str::<Value>(&json).while_doing(|| "reading the atlas".to_owned())?;
    commands.push(program::line(&command));
    let made: Vec<_> = folders(whole)
        .into_iter()
        .filter(|cell| !before.contains(cell))
        .collect();
    let busy = |cell: &std::path::PathBuf| {
        folder::open(cell).ok().map(|record| {
            record
                .phases
                .iter()
                .flat_map(|phase| phase.cpu_busy_ns.values().copied())
                .fold(Nanos::ZERO, |sum, busy| sum + busy)
        })
    };
    Ok(Cost {
        cells: made.len(),
        wall_s,
        cpu_s,
        busy: made
            .iter()
            .filter_map(busy)
            .fold(Nanos::ZERO, |sum, busy| sum + busy),
    })
}

fn folders(whole: &Path) -> Vec<std::path::PathBuf> {
    folder::folders(&whole.join("cells"))
}

/// CPU time of all children that have ended, and theirs, in seconds: the 16th and 17th field of
/// proc_pid_stat(5), in ticks.
fn children_s() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")
        .while_doing(|| "reading /proc/self/stat".to_owned())?;
    // The name stands in brackets and may hold blanks.
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let ticks = |field: usize| {
        fields
            .get(field - 3)
            .and_then(|text| text.parse::<f64>().ok())
    };
    let sum = ticks(16).zip(ticks(17)).map(|(user, system)| user + system);
    Ok(
        sum.ok_or_else(|| Failure::new("/proc/self/stat has no times of children"))?
            * tick_length(&Root::system()).as_secs_f64(),
    )
}
