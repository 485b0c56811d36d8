//! How long the summary of a day's samples takes.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use tardy_sys::process;

use super::figure::{Bench, Figure, FigureResult, row};
use super::made_run;
use super::statistics::median;
use crate::failure::{Failure, Result, While};
use crate::program;

/// Samples of 24 hours in koolwal2009's cyclictest runs.
const SAMPLES: u64 = 65_500_000;
const RUNS: usize = 5;

pub(crate) const FIGURE: Figure = Figure {
    name: "long-summary",
    promise: "65.5 million samples are summarised in 1 s, in constant memory",
    measure,
};

struct ShowTimes {
    seconds: Vec<f64>,
    resident_bytes: u64,
    file_bytes: u64,
    /// Each with the files dropped from the page cache before.
    cold: Vec<f64>,
    /// The same, of reading the files and nothing else.
    cold_reading: Vec<f64>,
}

fn measure(bench: &Bench) -> Result<FigureResult> {
    let samples = if bench.is_quick {
        SAMPLES / 20
    } else {
        SAMPLES
    };
    let mut table = vec![row([
        "run",
        "samples",
        "file, MB",
        "bytes per sample",
        "min, s",
        "median, s",
        "max, s",
        "peak memory, MiB",
        "cold, s",
        "reading cold, s",
        "ratio",
    ])];
    let mut reached = Vec::new();
    for (series, samples) in [(2, samples / 2), (1, samples), (2, samples / 20)] {
        let shown = show_made_run(bench, series, samples)?;
        let total = samples * u64::from(series);
        let fastest = shown.seconds.iter().copied().fold(f64::INFINITY, f64::min);
        let slowest = shown.seconds.iter().copied().fold(0.0, f64::max);
        let memory = shown.resident_bytes as f64 / f64::from(1 << 20);
        let name = format!("{series} series");
        table.push(vec![
            name.clone(),
            total.to_string(),
            format!("{:.1}", shown.file_bytes as f64 / 1e6),
            format!("{:.2}", shown.file_bytes as f64 / total as f64),
            format!("{fastest:.2}"),
            format!("{:.2}", median(&shown.seconds)),
            format!("{slowest:.2}"),
            format!("{memory:.1}"),
            format!("{:.2}", median(&shown.cold)),
            format!("{:.2}", median(&shown.cold_reading)),
            format!("{:.2}", shown.cold_ratio()),
        ]);
        reached.push(format!(
            "{:.2} s and {memory:.0} MiB for {:.1} million in {name}, cold {:.2} x of reading",
            median(&shown.seconds),
            total as f64 / 1e6,
            shown.cold_ratio()
        ));
    }
    Ok(FigureResult {
        reached: reached.join("; "),
        commands: vec!["tardy show RUN".to_owned()],
        tables: vec![table],
        notes: vec![
            "The runs are made with the recorder's own library: 1 kHz, chunks of 125 samples, \
             latencies about log-normal around 13 us (idle third) and 21 us (under load) with \
             exponential tails; see `crates/tardy-bench/src/made_run.rs`."
                .to_owned(),
            format!(
                "Wall time from the start to the end of the process, of {RUNS} runs after a run \
                 that warms the page cache; peak memory is the process's own (wait4)."
            ),
            "Cold: after each file was dropped from the page cache (dd iflag=nocache); reading \
             means the files in order, 1 MiB at a time, by one thread. The two are measured in turn; medians are shown. Layers below the file system may keep the data. A summary computes for as long as it \
             does with a warm cache: the ratio can come near 1 only where the disk is slower than \
             that."
                .to_owned(),
            "The last row has a tenth of the samples: memory that does not depend on the length \
             of the run."
                .to_owned(),
        ],
    })
}

fn show_made_run(bench: &Bench, series: u32, samples: u64) -> Result<ShowTimes> {
    let place = tempfile::tempdir().while_doing(|| "making a temporary folder".to_owned())?;
    let run = place.path().join("run");
    made_run::make(&bench.tardy, &run, series, samples)?;
    show(bench, &run)?;
    let mut shown = ShowTimes {
        seconds: Vec::new(),
        resident_bytes: 0,
        file_bytes: 0,
        cold: Vec::new(),
        cold_reading: Vec::new(),
    };
    for _ in 0..RUNS {
        let (seconds, resident_bytes) = show(bench, &run)?;
        shown.seconds.push(seconds);
        shown.resident_bytes = shown.resident_bytes.max(resident_bytes);
    }
    let entries =
        std::fs::read_dir(run.join("samples")).while_doing(|| "listing the samples".to_owned())?;
    let files: Vec<PathBuf> = entries.filter_map(|file| Some(file.ok()?.path())).collect();
    shown.file_bytes = files
        .iter()
        .filter_map(|file| Some(file.metadata().ok()?.len()))
        .sum();
    for _ in 0..RUNS {
        drop_from_cache(&files)?;
        let begin = Instant::now();
        read_all(&files)?;
        shown.cold_reading.push(begin.elapsed().as_secs_f64());
        drop_from_cache(&files)?;
        shown.cold.push(show(bench, &run)?.0);
    }
    Ok(shown)
}

impl ShowTimes {
    fn cold_ratio(&self) -> f64 {
        median(&self.cold) / median(&self.cold_reading)
    }
}

/// Brings the files to the disk first: what is not written yet cannot be dropped.
fn drop_from_cache(files: &[PathBuf]) -> Result<()> {
    for file in files {
        File::open(file)
            .and_then(|file| file.sync_all())
            .while_doing(|| format!("bringing {} to the disk", file.display()))?;
        let mut input = std::ffi::OsString::from("if=");
        input.push(file);
        let mut dd = Command::new("dd");
        dd.arg(input)
            .args(["iflag=nocache", "count=0", "status=none"]);
        program::capture(&mut dd)?;
    }
    Ok(())
}

fn read_all(files: &[PathBuf]) -> Result<()> {
    let mut buffer = vec![0; 1 << 20];
    for path in files {
        let mut file = File::open(path).while_doing(|| format!("opening {}", path.display()))?;
        while file
            .read(&mut buffer)
            .while_doing(|| format!("reading {}", path.display()))?
            > 0
        {}
    }
    Ok(())
}

/// Wall time and peak memory of `tardy show`.
fn show(bench: &Bench, run: &Path) -> Result<(f64, u64)> {
    let begin = Instant::now();
    let child = Command::new(&bench.tardy)
        .arg("show")
        .arg(run)
        .stdout(Stdio::null())
        .spawn()
        .while_doing(|| "starting tardy".to_owned())?;
    let pid = i32::try_from(child.id()).while_doing(|| "starting tardy".to_owned())?;
    let (status, usage) =
        process::reap_with_usage(pid).while_doing(|| "waiting for tardy".to_owned())?;
    let seconds = begin.elapsed().as_secs_f64();
    if !status.success() {
        return Err(Failure::new(format!("`tardy show` failed ({status})")));
    }
    Ok((seconds, usage.resident_bytes_max))
}
