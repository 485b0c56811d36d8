//! Commands on large inputs: how long each takes, and its peak memory.

use std::fs::{self, File};
use std::io::{BufWriter, Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tardy_browser::{Browser, Screen};
use tardy_sys::process;
use tempfile::TempDir;

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

/// Samples of 24 hours in koolwal2009's cyclictest runs.
const SAMPLES: u64 = 65_500_000;
/// Series of a large machine: 256 CPUs and four probes.
const SERIES: u32 = 1024;
/// Samples of each of these: 6.5 s at 1 kHz.
const SERIES_SAMPLES: u64 = 6_500;
const BOARDS: u64 = 10_000;
const BUILDS: u64 = 100;
/// Run folders that are read: copies of a measured one, each of another board.
const FOLDERS: u64 = 1000;
/// Measured runs of a command, after one that warms the page cache.
const RUNS: usize = 5;
const MADE: &str = "The runs are made with the recorder's own library: 1 kHz, chunks of 125 \
                    samples, latencies about log-normal around 13 us (idle third) and 21 us \
                    (under load) with exponential tails; see \
                    `crates/tardy-bench/src/made_run.rs`.";
/// Steps of zoom, one a frame; every twentieth goes back to the whole run, which is the most to
/// draw.
const ZOOM: &str = "new Promise((done) => {
  const press = (what) => document.querySelector(`figure.timeline .tools \
                    [data-do=${what}]`).click();
  document.querySelector('figure.timeline').scrollIntoView();
  const frames = [];
  let last = performance.now();
  const step = () => {
    const now = performance.now();
    frames.push(now - last);
    last = now;
    if (frames.length > 200) return done(frames.slice(1));
    press(frames.length % 20 === 0 ? 'all' : frames.length % 3 === 0 ? 'right' : 'in');
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})";

/// Wall times and peak memory of one command.
struct Timing {
    seconds: Vec<f64>,
    /// Peak resident memory in MiB.
    memory: f64,
}

impl Timing {
    /// Runs `tardy WORDS` in the folder [`RUNS`] times, after one run that warms the page cache.
    /// The words are divided at blanks.
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

    /// The columns of [`timing_head`].
    fn row<const N: usize>(&self, input: [&str; N], more: &[String]) -> Vec<String> {
        let least = self.seconds.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.seconds.iter().copied().fold(0.0, f64::max);
        let times = [least, self.median(), most].map(|seconds| format!("{seconds:.2}"));
        let memory = [format!("{:.1}", self.memory)];
        [&row(input)[..], &times, &memory, more].concat()
    }
}

/// The head of a table of timings, with columns for the input before and for others behind.
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

/// Wall time in s and peak memory in MiB of `tardy WORDS`; any verdict is a success.
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

/// As many, or a twentieth for a first result.
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
        ["cold, s", "reading cold, s", "ratio"],
    )];
    let mut reached = Vec::new();
    for (series, samples) in [(2, samples / 2), (1, samples), (2, samples / 20)] {
        let place = scratch()?;
        made_run::make(&bench.tardy, &place.path().join("run"), series, samples)?;
        let timing = Timing::of(bench, place.path(), "show run")?;
        let files = entries(&place.path().join("run/samples"))?;
        let bytes = size(&place.path().join("run/samples"))? as f64;
        let (mut cold, mut reading) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            drop_from_cache(&files)?;
            let begin = Instant::now();
            read_all(&files)?;
            reading.push(begin.elapsed().as_secs_f64());
            drop_from_cache(&files)?;
            cold.push(run_once(bench, place.path(), "show run")?.0);
        }
        let (cold, reading) = (median(&cold), median(&reading));
        let total = (samples * u64::from(series)) as f64;
        let input = [
            &format!("{series} series"),
            &format!("{total}"),
            &format!("{:.1}", bytes / 1e6),
            &format!("{:.2}", bytes / total),
        ];
        let more = [cold, reading, cold / reading].map(|number| format!("{number:.2}"));
        table.push(timing.row(input.map(String::as_str), &more));
        reached.push(format!(
            "{} for {:.1} million in {series} series, cold {:.2} x of reading",
            timing.reached(),
            total / 1e6,
            cold / reading
        ));
    }
    Ok(FigureResult {
        reached: reached.join("; "),
        tables: vec![table],
        notes: vec![
            MADE.to_owned(),
            note_on_times(),
            "Cold: after each file was dropped from the page cache (dd iflag=nocache); reading \
             means the files in order, 1 MiB at a time, by one thread. The two are measured in \
             turn; medians are shown. Layers below the file system may keep the data."
                .to_owned(),
            "The last row has a tenth of the samples: memory that does not depend on the length \
             of the run."
                .to_owned(),
        ],
    })
}

/// Brings the files to the disk first: dirty pages cannot be dropped.
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
        let doing = || format!("reading {}", path.display());
        let mut file = File::open(path).while_doing(doing)?;
        while file.read(&mut buffer).while_doing(doing)? > 0 {}
    }
    Ok(())
}

fn measure_report(bench: &Bench) -> Result<FigureResult> {
    let samples = shortened(bench, SAMPLES);
    let mut table = vec![timing_head(
        ["run", "samples"],
        [
            "file, MB",
            "first paint, ms",
            "zoom: median frame, ms",
            "longest, ms",
        ],
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
        let (paint, frames) = opened(&file)?;
        let longest = frames.iter().copied().fold(0.0, f64::max);
        table.push(timing.row(
            [&format!("{series} series"), &samples.to_string()],
            &[
                format!("{megabytes:.2}"),
                format!("{paint:.0}"),
                format!("{:.1}", median(&frames)),
                format!("{longest:.1}"),
            ],
        ));
        reached.push(format!(
            "{:.2} s and {megabytes:.2} MB for {:.1} million in {series} series, first paint \
             after {paint:.0} ms, longest frame of the zoom {longest:.0} ms",
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

/// The median first paint of the page in a browser, and the frames of a zoom, in ms.
fn opened(file: &Path) -> Result<(f64, Vec<f64>)> {
    let (mut paints, mut frames) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let mut browser = Browser::open(file, Screen::DESK);
        browser.settle();
        let paint =
            browser.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime");
        paints.extend(paint.as_f64());
        let zoom = browser.evaluate(ZOOM);
        frames = zoom
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(serde_json::Value::as_f64)
            .collect();
    }
    if paints.len() < RUNS || frames.is_empty() {
        return Err(Failure::new("the browser reported no paint, or no frame"));
    }
    Ok((median(&paints), frames))
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
    let folder_bytes = make_folders(bench, &place)?;
    let mut table = vec![timing_head(["command", "runs"], [])];
    let mut reached = Vec::new();
    let folders = shortened(bench, FOLDERS);
    let runs = boards * BUILDS;
    for (words, runs) in [
        ("history runs.csv.gz", runs),
        ("history runs.csv.gz --html history.html", runs),
        ("history half0 --table half0.csv.gz", folders / 2),
        ("history half1 --table half1.csv.gz", folders / 2),
        (
            "history half0.csv.gz half1.csv.gz --table all.csv.gz",
            folders,
        ),
    ] {
        let timing = Timing::of(bench, place.path(), words)?;
        table.push(timing.row([&format!("tardy {words}"), &runs.to_string()], &[]));
        reached.push(timing.reached());
    }
    let megabytes = |name: &str| Ok::<_, Failure>(bytes_of(&place.path().join(name))? as f64 / 1e6);
    Ok(FigureResult {
        reached: format!(
            "{}, with its page {}; table of {:.0} MB, page of {:.1} MB; {} run folders of {:.0} \
             kB each in {}",
            reached[0],
            reached[1],
            megabytes("runs.csv.gz")?,
            megabytes("history.html")?,
            folders / 2,
            folder_bytes as f64 / 1e3,
            reached[2],
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
            "Folders: copies of one run of a minute at 1 kHz on all CPUs without a load, with \
             `--keep histogram`, each of a different board."
                .to_owned(),
            note_on_times(),
        ],
    })
}

/// Measures a run and copies its folder into `half0` and `half1`; returns its bytes.
fn make_folders(bench: &Bench, place: &TempDir) -> Result<u64> {
    let length = if bench.is_quick { "1s" } else { "60s" };
    run_once(
        bench,
        place.path(),
        &format!(
            "run --for {length} --load none --keep histogram --label build=b1 --label board=first \
             --quiet --out first"
        ),
    )?;
    let first = place.path().join("first");
    for index in 0..shortened(bench, FOLDERS) {
        let board = format!("board{index:04}");
        let there = place.path().join(format!("half{}/{board}", index % 2));
        copy(&first, &there, &board)?;
    }
    size(&first)
}

/// Bytes of all files in a folder.
fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for path in entries(folder)? {
        bytes += if path.is_dir() {
            size(&path)?
        } else {
            bytes_of(&path)?
        };
    }
    Ok(bytes)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let doing = || format!("reading {}", folder.display());
    fs::read_dir(folder)
        .while_doing(doing)?
        .map(|entry| entry.map(|entry| entry.path()).while_doing(doing))
        .collect()
}

/// Copies a run folder for another board.
fn copy(from: &Path, to: &Path, board: &str) -> Result<()> {
    let doing = || format!("copying {} to {}", from.display(), to.display());
    fs::create_dir_all(to).while_doing(doing)?;
    for path in entries(from)? {
        let there = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy(&path, &there, board)?;
        } else if there.ends_with("run.json") {
            let record = fs::read_to_string(&path)
                .while_doing(doing)?
                .replace("\"first\"", &format!("\"{board}\""));
            fs::write(&there, record).while_doing(doing)?;
        } else {
            fs::copy(&path, &there).while_doing(doing)?;
        }
    }
    Ok(())
}

fn measure_import(bench: &Bench) -> Result<FigureResult> {
    // A line for each sample.
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
    // The first warms the page cache.
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
