//! What a history of a fleet takes: a million runs in one table.

use std::path::Path;
use std::process::Command;

use super::figure::{Bench, Figure, FigureResult, row};
use super::many_cpus::timed;
use super::statistics::median;
use crate::failure::{Result, While};
use crate::{program, workspace};

const BOARDS: u64 = 10_000;
const BUILDS: u64 = 100;
const RUNS: usize = 3;

pub(crate) const FIGURE: Figure = Figure {
    name: "many-runs",
    title: "a history of a million runs",
    promise: "bounded time and memory: less than a minute and 1 GiB",
    measure,
};

fn measure(bench: &Bench) -> Result<FigureResult> {
    let boards = if bench.is_quick { BOARDS / 20 } else { BOARDS };
    // Tables are not in the binary that is built for users first.
    let tardy = workspace::build(&["--release", "--package", "tardy", "--features", "arrow"])?;
    let maker = workspace::build(&["--release", "--package", "tardy-formats", "--features", "arrow", "--example", "many_runs"])?;
    let place = tempfile::tempdir().while_doing(|| "making a temporary folder".to_owned())?;
    let (file, html) = (place.path().join("runs.parquet"), place.path().join("history.html"));
    program::run(Command::new(maker).args([boards.to_string(), BUILDS.to_string()]).arg(&file))?;
    let mut table = vec![row(["command", "runs", "numbers a build", "min, s", "median, s", "max, s", "peak memory, MiB"])];
    let mut reached = Vec::new();
    let commands: [(&str, Vec<&Path>); 2] = [
        ("history RUNS.parquet", vec![Path::new("history"), &file]),
        ("history RUNS.parquet --html FILE", vec![Path::new("history"), &file, Path::new("--html"), &html]),
    ];
    for (name, arguments) in &commands {
        let times = (0..RUNS).map(|_| timed(&tardy, arguments)).collect::<Result<Vec<_>>>()?;
        let seconds: Vec<f64> = times.iter().map(|time| time.0).collect();
        let memory = times.iter().map(|time| time.1).max().unwrap_or(0) as f64 / f64::from(1 << 20);
        let (fastest, slowest) = seconds.iter().fold((f64::INFINITY, 0.0_f64), |(min, max), &s| (min.min(s), max.max(s)));
        table.push(vec![
            format!("tardy {name}"),
            (boards * BUILDS).to_string(),
            (boards * 4).to_string(),
            format!("{fastest:.1}"),
            format!("{:.1}", median(&seconds)),
            format!("{slowest:.1}"),
            format!("{memory:.0}"),
        ]);
        reached.push(format!("{:.0} s and {memory:.0} MiB", median(&seconds)));
    }
    let bytes = |path: &Path| Ok(std::fs::metadata(path).while_doing(|| format!("looking at {}", path.display()))?.len() as f64 / 1e6);
    Ok(FigureResult {
        reached: format!("{}, with its page {}; table of {:.0} MB, page of {:.1} MB", reached[0], reached[1], bytes(&file)?, bytes(&html)?),
        commands: commands.iter().map(|(name, _)| format!("tardy {name}")).collect(),
        tables: vec![table],
        notes: vec![
            format!(
                "{boards} boards ran {BUILDS} builds, each under two loads; the median and 99.9 % of each are followed. The table is made \
                 (`crates/tardy-formats/examples/many_runs.rs`): 5 % of noise, and 15 % more under one load on all boards in the last four builds, \
                 which is what the command finds."
            ),
            format!("Wall time from the start of the process to its end, {RUNS} runs; peak memory is the process's own (wait4)."),
        ],
    })
}
