//! Commands with large inputs: their duration and their peak memory.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tardy_browser::{Browser, Screen};
use tardy_sys::process;

use super::figure::{Bench, Figure, FigureResult, row, scratch};
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
/// Number of series on a large machine: 256 CPUs with four probes.
const SERIES: u32 = 1024;
/// Number of samples in each of these series: 6.5 s at 1 kHz.
const SERIES_SAMPLES: u64 = 6_500;
const BOARDS: u64 = 10_000;
const BUILDS: u64 = 100;
/// Number of measured runs of a command. A run before them fills the page cache.
const RUNS: usize = 5;
const MADE: &str = "The runs are made with the recorder's own library: 1 kHz, chunks of 125 \
                    samples, latencies about log-normal around 13 us (idle third) and 21 us \
                    (under load) with exponential tails; see \
                    `crates/tardy-bench/src/made_run.rs`.";
/// Wall times and peak memory of one command.
struct Timing {
    seconds: Vec<f64>,
    /// Peak resident memory in MiB.
    memory: f64,
}

impl Timing {
    /// Runs `tardy WORDS` [`RUNS`] times in the folder, after a run that fills the page cache. The
    /// words are separated by blanks.
    fn of(bench: &Bench, folder: &Path, words: &str) -> Result<Self> {
        run_once(bench, folder, words)?;
        let runs = (0..RUNS)
            .map(|_| run_once(bench, folder, words))
            .collect::<Result<Vec<_>>>()?;
        Ok(Self {
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

    /// Returns a row with the columns of [`timing_head`].
    fn row<const N: usize>(&self, input: [&str; N], more: &[String]) -> Vec<String> {
        let least = self.seconds.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.seconds.iter().copied().fold(0.0, f64::max);
        let times = [least, self.median(), most].map(|seconds| format!("{seconds:.2}"));
        let memory = [format!("{:.1}", self.memory)];
        [&row(input)[..], &times, &memory, more].concat()
    }
}

/// Returns the head of a table of timings, with columns for the input before the timings, and with
/// `more` columns after them.
fn timing_head<const N: usize, const M: usize>(input: [&str; N], more: [&str; M]) -> Vec<String> {
    let times = row(["min, s", "median, s", "max, s", "peak memory, MiB"]);
    [row(input), times, row(more)].concat()
}

fn note_on_times() -> String {
    format!(
        "Wall time from the start of the process to its end, {RUNS} runs after one that warms the \
         page cache; peak memory is the process's own (wait4)."
    )
}

/// Runs `tardy WORDS`. Returns the wall time in s and the peak memory in MiB. Any verdict counts as
/// success.
fn run_once(bench: &Bench, folder: &Path, words: &str) -> Result<(f64, f64)> {
    bench.note_line(&format!("tardy {words}"));
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

/// Returns `count`; for a quick run, a twentieth of `count`.
fn shortened(bench: &Bench, count: u64) -> u64 {
    if bench.is_quick { count / 20 } else { count }
}

fn bytes_of(file: &Path) -> Result<u64> {
    let metadata = fs::metadata(file).while_doing(|| format!("looking at {}", file.display()))?;
    Ok(metadata.len())
}

fn measure_summary(bench: &Bench) -> Result<FigureResult> {
    let samples = shortened(bench, SAMPLES);
    let mut table = vec![timing_head(
        ["run", "samples", "file, MB", "bytes per sample"],
        [],
    )];
    let mut reached = Vec::new();
    for (series, samples) in [(2, samples / 2), (1, samples), (2, samples / 20)] {
        let place = scratch()?;
        made_run::make(&bench.tardy, &place.path().join("run"), series, samples)?;
        let timing = Timing::of(bench, place.path(), "show run")?;
        let bytes = size(&place.path().join("run/samples"))? as f64;
        let total = (samples * u64::from(series)) as f64;
        let input = [
            &format!("{series} series"),
            &format!("{total}"),
            &format!("{:.1}", bytes / 1e6),
            &format!("{:.2}", bytes / total),
        ];
        table.push(timing.row(input.map(String::as_str), &[]));
        reached.push(format!(
            "{} for {:.1} million in {series} series",
            timing.reached(),
            total / 1e6,
        ));
    }
    Ok(FigureResult {
        reached: reached.join("; "),
        tables: vec![table],
        notes: vec![
            MADE.to_owned(),
            note_on_times(),
            "The last row has a tenth of the samples: memory that does not depend on the length \
             of the run."
                .to_owned(),
        ],
    })
}

fn measure_report(bench: &Bench) -> Result<FigureResult> {
    let samples = shortened(bench, SAMPLES);
    let mut table = vec![timing_head(
        ["run", "samples"],
        ["file, MB", "first paint, ms"],
    )];
    let mut reached = Vec::new();
    for series in [2, 1] {
        let place = scratch()?;
        let run = place.path().join("run");
        made_run::make(&bench.tardy, &run, series, samples / u64::from(series))?;
        let words = "report run --html report.html";
        let timing = Timing::of(bench, place.path(), words)?;
        let file = place.path().join("report.html");
        let megabytes = bytes_of(&file)? as f64 / 1e6;
        let paint = first_paint(&file)?;
        table.push(timing.row(
            [&format!("{series} series"), &samples.to_string()],
            &[format!("{megabytes:.2}"), format!("{paint:.0}")],
        ));
        reached.push(format!(
            "{:.2} s and {megabytes:.2} MB for {:.1} million in {series} series, first paint \
             after {paint:.0} ms",
            timing.median(),
            samples as f64 / 1e6,
        ));
    }
    Ok(FigureResult {
        reached: reached.join("; "),
        tables: vec![table],
        notes: vec![
            "The runs are those of `long-summary`. The samples are read twice: for the numbers, \
             and in the order of time for the charts."
                .to_owned(),
            note_on_times(),
        ],
    })
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
    let timing = Timing::of(bench, place.path(), words)?;
    Ok(FigureResult {
        reached: timing.reached(),
        tables: vec![vec![
            timing_head(["samples per run"], []),
            timing.row([&samples.to_string()], &[]),
        ]],
        notes: vec![
            "Two runs as in long-summary, of two series and two phases each: the comparison has a \
             table for the whole and one for each phase."
                .to_owned(),
            note_on_times(),
        ],
    })
}

fn measure_many_cpus(bench: &Bench) -> Result<FigureResult> {
    let series = if bench.is_quick { SERIES / 8 } else { SERIES };
    let samples = (u64::from(series) * SERIES_SAMPLES).to_string();
    let place = scratch()?;
    for name in ["run", "other"] {
        let folder = place.path().join(name);
        made_run::make(&bench.tardy, &folder, series, SERIES_SAMPLES)?;
    }
    let mut table = vec![timing_head(["command", "series", "samples"], [])];
    let mut reached = Vec::new();
    let commands = [
        "show run",
        "report run --html report.html",
        "compare run other",
    ];
    for words in commands {
        let timing = Timing::of(bench, place.path(), words)?;
        let command = format!("tardy {words}");
        table.push(timing.row([&command, &series.to_string(), &samples], &[]));
        let verb = words.split(' ').next().unwrap_or_default();
        reached.push(format!("{verb} {}", timing.reached()));
    }
    let bytes = bytes_of(&place.path().join("report.html"))?;
    reached.push(format!("report of {:.1} MB", bytes as f64 / 1e6));
    Ok(FigureResult {
        reached: reached.join("; "),
        tables: vec![table],
        notes: vec![MADE.to_owned(), note_on_times()],
    })
}

fn measure_many_runs(bench: &Bench) -> Result<FigureResult> {
    let boards = shortened(bench, BOARDS);
    let maker = workspace::build(&[
        "--release",
        "--package",
        "tardy-formats",
        "--example",
        "many_runs",
    ])?;
    let place = scratch()?;
    let file = place.path().join("runs.csv.gz");
    program::run(
        Command::new(maker)
            .args([boards.to_string(), BUILDS.to_string()])
            .arg(&file),
    )?;
    let mut table = vec![timing_head(["command", "runs"], [])];
    let mut reached = Vec::new();
    let runs = boards * BUILDS;
    for words in [
        "history runs.csv.gz",
        "history runs.csv.gz --html history.html",
    ] {
        let timing = Timing::of(bench, place.path(), words)?;
        table.push(timing.row([&format!("tardy {words}"), &runs.to_string()], &[]));
        reached.push(timing.reached());
    }
    let megabytes = |name: &str| Ok::<_, Failure>(bytes_of(&place.path().join(name))? as f64 / 1e6);
    Ok(FigureResult {
        reached: format!(
            "{}, with its page {}; table of {:.0} MB, page of {:.1} MB",
            reached[0],
            reached[1],
            megabytes("runs.csv.gz")?,
            megabytes("history.html")?,
        ),
        tables: vec![table],
        notes: vec![
            format!(
                "{boards} boards ran {BUILDS} builds, each under two loads; the median and 99.9 % \
                 of each are followed. The table is made \
                 (`crates/tardy-formats/examples/many_runs.rs`): 5 % of noise, and 15 % more \
                 under one load on all boards in the last four builds, which is what the command \
                 finds."
            ),
            note_on_times(),
        ],
    })
}

/// Returns the size of all files in a folder, in bytes.
fn size(folder: &Path) -> Result<u64> {
    let files = fs::read_dir(folder).while_doing(|| format!("reading {}", folder.display()))?;
    files.flatten().map(|file| bytes_of(&file.path())).sum()
}

fn measure_import(bench: &Bench) -> Result<FigureResult> {
    // The text has one line per sample.
    let lines = shortened(bench, SAMPLES);
    let place = scratch()?;
    let text = place.path().join("verbose.txt");
    write_text(&text, lines).while_doing(|| "writing the text".to_owned())?;
    let megabytes = bytes_of(&text)? as f64 / 1e6;
    let (mut seconds, mut memory) = (Vec::new(), 0.0_f64);
    for _ in 0..=RUNS {
        let run = run_once(bench, place.path(), "import verbose.txt --out run")?;
        fs::remove_dir_all(place.path().join("run"))
            .while_doing(|| "removing the run".to_owned())?;
        seconds.push(run.0);
        memory = memory.max(run.1);
    }
    // The first run only fills the page cache.
    seconds.remove(0);
    let timing = Timing { seconds, memory };
    let rate = megabytes / timing.median();
    Ok(FigureResult {
        reached: format!(
            "{rate:.0} MB/s ({:.2} s for {megabytes:.0} MB)",
            timing.median()
        ),
        tables: vec![vec![
            timing_head(["lines", "text, MB"], ["MB/s at the median"]),
            timing.row(
                [&lines.to_string(), &format!("{megabytes:.1}")],
                &[format!("{rate:.0}")],
            ),
        ]],
        notes: vec![
            "The text is that of two threads every 1 ms, in the format of cyclictest -v, values \
             about exponential; the resulting run is written and synced to the disk."
                .to_owned(),
            note_on_times(),
        ],
    })
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
