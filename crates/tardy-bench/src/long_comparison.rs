//! How long the comparison of two days' samples takes.

use std::process::{Command, Stdio};
use std::time::Instant;

use tardy_sys::process;

use super::figure::{Bench, Figure, FigureResult, row};
use super::made_run;
use super::statistics::median;
use crate::failure::{Failure, Result, While};

/// Samples of 24 hours in koolwal2009's cyclictest runs.
const SAMPLES: u64 = 65_500_000;
const RUNS: usize = 3;

pub(crate) const FIGURE: Figure = Figure {
    name: "long-comparison",
    promise: "Two runs of 65.5 million samples are compared in 10 s",
    measure,
};

fn measure(bench: &Bench) -> Result<FigureResult> {
    let samples = if bench.is_quick {
        SAMPLES / 20
    } else {
        SAMPLES
    };
    let place = tempfile::tempdir().while_doing(|| "making a temporary folder".to_owned())?;
    for name in ["base", "new"] {
        made_run::make(&bench.tardy, &place.path().join(name), 2, samples / 2)?;
    }
    let mut seconds = Vec::new();
    let mut resident = 0;
    for index in 0..=RUNS {
        let begin = Instant::now();
        let mut command = Command::new(&bench.tardy);
        command
            .current_dir(place.path())
            .args(["compare", "base", "new", "--resamples", "2000"])
            .stdout(Stdio::null());
        let child = command
            .spawn()
            .while_doing(|| "starting tardy".to_owned())?;
        let pid = i32::try_from(child.id()).while_doing(|| "starting tardy".to_owned())?;
        let (status, usage) =
            process::reap_with_usage(pid).while_doing(|| "waiting for tardy".to_owned())?;
        // Inconclusive is a result too.
        if !matches!(status.code(), Some(0 | 1 | 4)) {
            return Err(Failure::new(format!("`tardy compare` failed ({status})")));
        }
        // The first warms the page cache.
        if index > 0 {
            seconds.push(begin.elapsed().as_secs_f64());
            resident = resident.max(usage.resident_bytes_max);
        }
    }
    let fastest = seconds.iter().copied().fold(f64::INFINITY, f64::min);
    let slowest = seconds.iter().copied().fold(0.0, f64::max);
    let memory = resident as f64 / f64::from(1 << 20);
    let mut table = vec![row([
        "samples per run",
        "min, s",
        "median, s",
        "max, s",
        "peak memory, MiB",
    ])];
    table.push(vec![
        samples.to_string(),
        format!("{fastest:.2}"),
        format!("{:.2}", median(&seconds)),
        format!("{slowest:.2}"),
        format!("{memory:.1}"),
    ]);
    Ok(FigureResult {
        reached: format!("{:.2} s and {memory:.0} MiB", median(&seconds)),
        commands: vec!["tardy compare base new --resamples 2000".to_owned()],
        tables: vec![table],
        notes: vec![
            "Two runs as in long-summary, of two series and two phases each: the comparison has a \
             table for the whole and one for each phase."
                .to_owned(),
            format!(
                "Wall time from the start to the end of the process, of {RUNS} runs after a run \
                 that warms the page cache."
            ),
        ],
    })
}
