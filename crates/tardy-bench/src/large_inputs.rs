//! Measures how long commands with large inputs take, and how much memory they need at most.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tardy_browser::{Browser, Screen};
use tardy_sys::process;

use super::figure::{Bench, Figure, FigureResult, bytes_of, row, scratch};
use super::made_run;
use super::statistics::median;
use crate::failure::{Failure, Result, While};
use crate::{program, workspace};

pub(crate) const SUMMARY: Figure = Figure {
    name: "long-summary",
    promise: "65.5 million samples are summarised in 1 s, in constant memory",
    measure: measure_summary,
};

pub(crate) const REPORT: Figure = Figure {
    name: "long-report",
    promise: "The HTML report of 65.5 million samples takes 5 s and 3 MB, and opens in 1 s",
    measure: measure_report,
};

pub(crate) const COMPARISON: Figure = Figure {
    name: "long-comparison",
    promise: "Two runs of 65.5 million samples are compared in 10 s",
    measure: measure_comparison,
};

pub(crate) const MANY_CPUS: Figure = Figure {
    name: "many-cpus",
    promise: "`show` of 1,024 series takes at most 2 s and 200 MiB",
    measure: measure_many_cpus,
};

pub(crate) const MANY_RUNS: Figure = Figure {
    name: "many-runs",
    promise: "The history of a million runs takes at most a minute and 1 GiB",
    measure: measure_many_runs,
};

pub(crate) const IMPORT_RATE: Figure = Figure {
    name: "import-rate",
    promise: "cyclictest -v text is imported at 150 MB/s",
    measure: measure_import,
};

/// Number of samples in 24 hours, in the cyclictest runs of koolwal2009.
const SAMPLES: u64 = 65_500_000;
/// Number of series on a large machine: four probes run on each of 256 CPUs.
const SERIES: u32 = 1024;
/// Number of samples in each of these series: 6.5 s at 1 kHz.
const SERIES_SAMPLES: u64 = 6_500;
const BOARDS: u64 = 10_000;
const BUILDS: u64 = 100;
/// How often a command is run and measured. Before that, the command runs once without measurement,
/// which fills the page cache.
const RUNS: usize = 5;
/// Folder that a command makes; it is removed before each run of the command.
const MADE: &str = "made";

/// Wall times and peak memory of one command.
struct Timing {
    what: String,
    seconds: Vec<f64>,
    /// Peak resident memory in MiB.
    memory: f64,
}

impl Timing {
    /// Runs `tardy WORDS` once to fill the page cache, then [`RUNS`] times with measurement, all in
    /// the folder. The words are separated by blanks. `input` describes the command's input.
    fn of(bench: &Bench, folder: &Path, words: &str, input: &str) -> Result<Self> {
        run_once(bench, folder, words)?;
        let runs = (0..RUNS)
            .map(|_| run_once(bench, folder, words))
            .collect::<Result<Vec<_>>>()?;
        Ok(Self {
            what: format!("`{words}`, {input}"),
            seconds: runs.iter().map(|run| run.0).collect(),
            memory: runs.iter().map(|run| run.1).fold(0.0, f64::max),
        })
    }

    fn median(&self) -> f64 {
        median(&self.seconds)
    }

    fn reached(&self) -> String {
        format!("{:.2} s and {:.0} MiB", self.median(), self.memory)
    }

    fn row(&self) -> Vec<String> {
        let least = self.seconds.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.seconds.iter().copied().fold(0.0, f64::max);
        let times = [least, self.median(), most].map(|seconds| format!("{seconds:.2}"));
        [
            &[self.what.clone()][..],
            &times,
            &[format!("{:.1}", self.memory)],
        ]
        .concat()
    }
}

/// Returns the result of a figure as a table of the timings. `note` describes the inputs.
fn result(reached: String, timings: &[Timing], note: String) -> FigureResult {
    let head = row([
        "command, input",
        "min, s",
        "median, s",
        "max, s",
        "peak memory, MiB",
    ]);
    FigureResult {
        reached,
        table: std::iter::once(head)
            .chain(timings.iter().map(Timing::row))
            .collect(),
        notes: vec![
            note,
            format!(
                "Wall time from the start of the process to its end, {RUNS} runs after one that \
                 warms the page cache; peak memory is the process's own (wait4)."
            ),
        ],
    }
}

/// Returns a note on the runs that [`made_run`] makes.
fn note_on_runs() -> String {
    "The runs are made with the recorder's own library: 1 kHz, chunks of 125 samples, latencies \
     about log-normal around 13 us (idle third) and 21 us (under load) with exponential tails; see \
     `crates/tardy-bench/src/made_run.rs`."
        .to_owned()
}

/// Runs `tardy WORDS`. Returns the wall time in s and the peak memory in MiB. Any verdict counts as
/// success.
fn run_once(bench: &Bench, folder: &Path, words: &str) -> Result<(f64, f64)> {
    bench.note_line(&format!("tardy {words}"));
    workspace::remove(&folder.join(MADE))?;
    let begin = Instant::now();
    let child = Command::new(&bench.tardy)
        .args(words.split(' '))
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .while_doing(|| "starting tardy".to_owned())?;
    let pid = i32::try_from(child.id()).while_doing(|| "starting tardy".to_owned())?;
    let (status, usage) =
        process::reap_with_usage(pid).while_doing(|| "waiting for tardy".to_owned())?;
    if !matches!(status.code(), Some(0 | 1 | 4)) {
        return Err(Failure::new(format!("`tardy {words}` failed ({status})")));
    }
    let memory = usage.resident_bytes_max as f64 / f64::from(1 << 20);
    Ok((begin.elapsed().as_secs_f64(), memory))
}

/// Returns `count`, or a twentieth of it if the runs should be short.
fn shortened(bench: &Bench, count: u64) -> u64 {
    if bench.is_quick { count / 20 } else { count }
}

fn megabytes(folder: &Path, name: &str) -> Result<f64> {
    Ok(bytes_of(&folder.join(name))? as f64 / 1e6)
}

fn measure_summary(bench: &Bench) -> Result<FigureResult> {
    let samples = shortened(bench, SAMPLES);
    let (mut timings, mut reached) = (Vec::new(), Vec::new());
    // The last run has a tenth of the samples, to show whether the memory use depends on their
    // number.
    for (series, samples) in [(2, samples / 2), (1, samples), (2, samples / 20)] {
        let place = scratch()?;
        made_run::make(&bench.tardy, &place.path().join("run"), series, samples)?;
        let millions = (samples * u64::from(series)) as f64 / 1e6;
        let bytes = megabytes(place.path(), "run/samples")? / millions;
        let input = format!("{millions:.1} million in {series} series, {bytes:.2} bytes each");
        let timing = Timing::of(bench, place.path(), "show run", &input)?;
        reached.push(format!(
            "{} for {millions:.1} million in {series} series",
            timing.reached()
        ));
        timings.push(timing);
    }
    Ok(result(reached.join("; "), &timings, note_on_runs()))
}

fn measure_report(bench: &Bench) -> Result<FigureResult> {
    let samples = shortened(bench, SAMPLES);
    let (mut timings, mut reached) = (Vec::new(), Vec::new());
    for series in [2, 1] {
        let place = scratch()?;
        let run = place.path().join("run");
        made_run::make(&bench.tardy, &run, series, samples / u64::from(series))?;
        let input = format!("{:.1} million in {series} series", samples as f64 / 1e6);
        let words = "report run --html report.html";
        let timing = Timing::of(bench, place.path(), words, &input)?;
        reached.push(format!(
            "{:.2} s and {:.2} MB for {input}, first paint after {:.0} ms",
            timing.median(),
            megabytes(place.path(), "report.html")?,
            first_paint(&place.path().join("report.html"))?,
        ));
        timings.push(timing);
    }
    Ok(result(reached.join("; "), &timings, note_on_runs()))
}

/// Returns the median time until a browser paints the page, in ms.
fn first_paint(file: &Path) -> Result<f64> {
    let paint = |_| {
        let mut browser = Browser::open(file, Screen::DESK);
        browser.settle();
        let script = "performance.getEntriesByName('first-contentful-paint')[0].startTime";
        let paint = browser.evaluate(script).as_f64();
        paint.ok_or_else(|| Failure::new("the browser reported no first paint"))
    };
    let paints = (0..RUNS).map(paint).collect::<Result<Vec<_>>>()?;
    Ok(median(&paints))
}

fn measure_comparison(bench: &Bench) -> Result<FigureResult> {
    let samples = shortened(bench, SAMPLES);
    let place = scratch()?;
    for name in ["base", "new"] {
        made_run::make(&bench.tardy, &place.path().join(name), 2, samples / 2)?;
    }
    let words = "compare base new --resamples 2000";
    let input = format!("{samples} samples per run, in two series and two phases");
    let timing = Timing::of(bench, place.path(), words, &input)?;
    Ok(result(timing.reached(), &[timing], note_on_runs()))
}

fn measure_many_cpus(bench: &Bench) -> Result<FigureResult> {
    let series = if bench.is_quick { SERIES / 8 } else { SERIES };
    let place = scratch()?;
    for name in ["run", "other"] {
        let folder = place.path().join(name);
        made_run::make(&bench.tardy, &folder, series, SERIES_SAMPLES)?;
    }
    let input = format!("{series} series of {SERIES_SAMPLES} samples");
    let (mut timings, mut reached) = (Vec::new(), Vec::new());
    for words in [
        "show run",
        "report run --html report.html",
        "compare run other",
    ] {
        let timing = Timing::of(bench, place.path(), words, &input)?;
        let verb = words.split(' ').next().unwrap_or_default();
        reached.push(format!("{verb} {}", timing.reached()));
        timings.push(timing);
    }
    let size = megabytes(place.path(), "report.html")?;
    reached.push(format!("report of {size:.1} MB"));
    Ok(result(reached.join("; "), &timings, note_on_runs()))
}

fn measure_many_runs(bench: &Bench) -> Result<FigureResult> {
    let boards = shortened(bench, BOARDS);
    let example = "--release --package tardy-formats --example many_runs";
    let maker = workspace::build(&example.split(' ').collect::<Vec<_>>())?;
    let place = scratch()?;
    program::run(
        Command::new(maker)
            .args([boards.to_string(), BUILDS.to_string()])
            .arg(place.path().join("runs.csv.gz")),
    )?;
    let input = format!("{} runs", boards * BUILDS);
    let table = Timing::of(bench, place.path(), "history runs.csv.gz", &input)?;
    let words = "history runs.csv.gz --html history.html";
    let page = Timing::of(bench, place.path(), words, &input)?;
    let reached = format!(
        "{}, with its page {}; table of {:.0} MB, page of {:.1} MB",
        table.reached(),
        page.reached(),
        megabytes(place.path(), "runs.csv.gz")?,
        megabytes(place.path(), "history.html")?,
    );
    let note = format!(
        "{boards} boards ran {BUILDS} builds, each under two loads; the median and 99.9 % of each \
         are followed. The table is made (`crates/tardy-formats/examples/many_runs.rs`): 5 % of \
         noise, and 15 % more under one load on all boards in the last four builds, which is what \
         the command finds."
    );
    Ok(result(reached, &[table, page], note))
}

fn measure_import(bench: &Bench) -> Result<FigureResult> {
    // The text has one line per sample.
    let lines = shortened(bench, SAMPLES);
    let place = scratch()?;
    write_text(&place.path().join("verbose.txt"), lines)
        .while_doing(|| "writing the text".to_owned())?;
    let megabytes = megabytes(place.path(), "verbose.txt")?;
    let words = format!("import verbose.txt --out {MADE}");
    let timing = Timing::of(bench, place.path(), &words, &format!("{lines} lines"))?;
    let reached = format!(
        "{:.0} MB/s ({:.2} s for {megabytes:.0} MB)",
        megabytes / timing.median(),
        timing.median()
    );
    let note = "The text is that of two threads every 1 ms, in the format of cyclictest -v, values \
                about exponential; the resulting run is written and synced to the disk.";
    Ok(result(reached, &[timing], note.to_owned()))
}

fn write_text(path: &Path, lines: u64) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut random = Pcg64Mcg::seed_from_u64(1);
    out.write_all(
        b"Max CPUs = 2\nOnline CPUs = 2\n# /dev/cpu_dma_latency set to 0us\nThread 0 Interval: \
          1000\nThread 1 Interval: 1000\n",
    )?;
    for line in 0..lines {
        let value = 5 + (-8.0 * f64::ln(1.0 - random.random::<f64>())) as u64;
        writeln!(out, "{:8}:{:8}:{value:8}", line % 2, line / 2)?;
    }
    out.flush()
}
