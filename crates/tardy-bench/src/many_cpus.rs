//! What readers take for a run of a large machine: 256 CPUs and four probes make 1024 series.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use tardy_sys::process;

use super::figure::{Bench, Figure, FigureResult, row};
use super::made_run;
use super::statistics::median;
use crate::failure::{Failure, Result, While};

const SERIES: u32 = 1024;
/// 6.5 s at 1 kHz.
const SAMPLES: u64 = 6_500;
const RUNS: usize = 3;

pub(crate) const FIGURE: Figure = Figure {
    name: "many-cpus",
    promise: "`show` of 1,024 series takes at most 2 s and 200 MiB",
    measure,
};

fn measure(bench: &Bench) -> Result<FigureResult> {
    let series = if bench.is_quick { SERIES / 8 } else { SERIES };
    let place = tempfile::tempdir().while_doing(|| "making a temporary folder".to_owned())?;
    let (run, other, html) = (
        place.path().join("run"),
        place.path().join("other"),
        place.path().join("report.html"),
    );
    for folder in [&run, &other] {
        made_run::make(&bench.tardy, folder, series, SAMPLES)?;
    }
    let mut table = vec![row([
        "command",
        "series",
        "samples",
        "min, s",
        "median, s",
        "max, s",
        "peak memory, MiB",
    ])];
    let mut reached = Vec::new();
    let commands: [(&str, Vec<&Path>); 3] = [
        ("show RUN", vec![Path::new("show"), &run]),
        (
            "report RUN --html FILE",
            vec![Path::new("report"), &run, Path::new("--html"), &html],
        ),
        (
            "compare RUN OTHER",
            vec![Path::new("compare"), &run, &other],
        ),
    ];
    for (name, arguments) in &commands {
        // The first one warms the page cache.
        let times = (0..=RUNS)
            .map(|_| timed(&bench.tardy, arguments))
            .collect::<Result<Vec<_>>>()?;
        let seconds: Vec<f64> = times[1..].iter().map(|time| time.0).collect();
        let memory = times.iter().map(|time| time.1).max().unwrap_or(0) as f64 / f64::from(1 << 20);
        let (fastest, slowest) = seconds
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |(min, max), &s| {
                (min.min(s), max.max(s))
            });
        table.push(vec![
            format!("tardy {name}"),
            series.to_string(),
            (u64::from(series) * SAMPLES).to_string(),
            format!("{fastest:.2}"),
            format!("{:.2}", median(&seconds)),
            format!("{slowest:.2}"),
            format!("{memory:.0}"),
        ]);
        let verb = name.split(' ').next().unwrap_or_default();
        reached.push(format!(
            "{verb} {:.2} s and {memory:.0} MiB",
            median(&seconds)
        ));
    }
    let bytes = std::fs::metadata(&html)
        .while_doing(|| format!("looking at {}", html.display()))?
        .len();
    reached.push(format!("report of {:.1} MB", bytes as f64 / 1e6));
    Ok(FigureResult {
        reached: reached.join("; "),
        commands: commands
            .iter()
            .map(|(name, _)| format!("tardy {name}"))
            .collect(),
        tables: vec![table],
        notes: vec![
            format!(
                "The runs are made as for `long-summary`: {SAMPLES} samples per series at 1 kHz."
            ),
            format!(
                "Wall time from the start to the end of the process, of {RUNS} runs after a run \
                 that warms the page cache; peak memory is the process's own (wait4)."
            ),
        ],
    })
}

/// Wall time in seconds and peak memory in bytes; any verdict is one.
pub(super) fn timed(tardy: &Path, arguments: &[&Path]) -> Result<(f64, u64)> {
    let mut command = Command::new(tardy);
    command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let begin = Instant::now();
    let child = command
        .spawn()
        .while_doing(|| "starting tardy".to_owned())?;
    let pid = i32::try_from(child.id()).while_doing(|| "starting tardy".to_owned())?;
    let (status, usage) =
        process::reap_with_usage(pid).while_doing(|| "waiting for tardy".to_owned())?;
    let seconds = begin.elapsed().as_secs_f64();
    match status.code() {
        Some(0 | 1 | 4) => Ok((seconds, usage.resident_bytes_max)),
        _ => Err(Failure::new(format!(
            "`tardy {}` failed ({status})",
            arguments[0].display()
        ))),
    }
}
