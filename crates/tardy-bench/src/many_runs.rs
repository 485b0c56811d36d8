//! What a history of a fleet takes: a million runs in one table, and a day of run folders made into
//! one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::figure::{Bench, Figure, FigureResult, row};
use super::many_cpus::timed;
use super::statistics::median;
use crate::failure::{Failure, Result, While};
use crate::{program, workspace};

const BOARDS: u64 = 10_000;
const BUILDS: u64 = 100;
const RUNS: usize = 3;
/// Run folders that are read: copies of one that was measured, each of a board of its own.
const FOLDERS: usize = 1000;

pub(crate) const FIGURE: Figure = Figure {
    name: "many-runs",
    promise: "The history of a million runs takes at most a minute and 1 GiB",
    measure,
};

fn measure(bench: &Bench) -> Result<FigureResult> {
    let boards = if bench.is_quick { BOARDS / 20 } else { BOARDS };
    let tardy = workspace::build_tardy()?;
    let maker = workspace::build(&[
        "--release",
        "--package",
        "tardy-formats",
        "--example",
        "many_runs",
    ])?;
    let place = tempfile::tempdir().while_doing(|| "making a temporary folder".to_owned())?;
    let (file, html) = (
        place.path().join("runs.csv.gz"),
        place.path().join("history.html"),
    );
    program::run(
        Command::new(maker)
            .args([boards.to_string(), BUILDS.to_string()])
            .arg(&file),
    )?;
    let mut table = vec![row([
        "command",
        "runs",
        "numbers per build",
        "min, s",
        "median, s",
        "max, s",
        "peak memory, MiB",
    ])];
    let mut reached = Vec::new();
    let commands: [(&str, Vec<&Path>); 2] = [
        ("history RUNS.csv.gz", vec![Path::new("history"), &file]),
        (
            "history RUNS.csv.gz --html FILE",
            vec![Path::new("history"), &file, Path::new("--html"), &html],
        ),
    ];
    for (name, arguments) in &commands {
        let times = (0..RUNS)
            .map(|_| timed(&tardy, arguments))
            .collect::<Result<Vec<_>>>()?;
        let seconds: Vec<f64> = times.iter().map(|time| time.0).collect();
        let memory = times.iter().map(|time| time.1).max().unwrap_or(0) as f64 / f64::from(1 << 20);
        let (fastest, slowest) = seconds
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |(min, max), &s| {
                (min.min(s), max.max(s))
            });
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
    let of_folders = of_folders(bench, &tardy, place.path())?;
    let bytes = |path: &Path| {
        Ok(std::fs::metadata(path)
            .while_doing(|| format!("looking at {}", path.display()))?
            .len() as f64
            / 1e6)
    };
    Ok(FigureResult {
        reached: format!(
            "{}, with its page {}; table of {:.0} MB, page of {:.1} MB; {}",
            reached[0],
            reached[1],
            bytes(&file)?,
            bytes(&html)?,
            of_folders.reached
        ),
        commands: vec!["cargo xtask bench many-runs".to_owned()],
        tables: vec![table, of_folders.table],
        notes: vec![
            format!(
                "{boards} boards ran {BUILDS} builds, each under two loads; the median and 99.9 % \
                 of each are followed. The table is made \
                 (`crates/tardy-formats/examples/many_runs.rs`): 5 % of noise, and 15 % more \
                 under one load on all boards in the last four builds, which is what the command \
                 finds."
            ),
            format!(
                "Folders: copies of one run of a minute at 1 kHz on all CPUs without a load, with \
                 `--keep histogram`; {FOLDERS} of them, each of a different board. They are in the \
                 page cache."
            ),
            format!(
                "Wall time from the start to the end of the process, of {RUNS} runs; peak memory \
                 is the process's own (wait4)."
            ),
        ],
    })
}

/// What folders take.
struct OfFolders {
    reached: String,
    table: Vec<Vec<String>>,
}

/// A measured run in many copies, in two halves, made into tables of their own and those into one.
fn of_folders(bench: &Bench, tardy: &Path, place: &Path) -> Result<OfFolders> {
    let count = if bench.is_quick {
        FOLDERS / 20
    } else {
        FOLDERS
    };
    let first = place.join("first");
    let seconds = if bench.is_quick { "1s" } else { "60s" };
    let words = [
        "run",
        "--for",
        seconds,
        "--load",
        "none",
        "--keep",
        "histogram",
        "--label",
        "build=b1",
        "--label",
        "board=first",
        "--quiet",
        "--out",
    ];
    let mut command = Command::new(tardy);
    command
        .args(words)
        .arg(&first)
        .stdout(std::process::Stdio::null());
    // A run whose verdict is open is as good.
    let status = command
        .status()
        .while_doing(|| "starting tardy run".to_owned())?;
    if !matches!(status.code(), Some(0 | 4)) {
        return Err(Failure::new(format!("tardy run ended with {status}")));
    }
    let bytes = size(&first)?;
    for index in 0..count {
        copy(
            &first,
            &place.join(format!("half{}/board{index:04}", index % 2)),
            &format!("board{index:04}"),
        )?;
    }
    let tables = [0, 1].map(|half| {
        (
            place.join(format!("half{half}")),
            place.join(format!("half{half}.csv.gz")),
        )
    });
    let mut rows = vec![row([
        "of run folders",
        "runs",
        "read, MB",
        "written, MB",
        "time, s",
        "peak memory, MiB",
    ])];
    let mut of_run = 0.0;
    let mut add =
        |what: &str, runs: usize, read: u64, written: &Path, time: (f64, u64)| -> Result<()> {
            rows.push(vec![
                what.to_owned(),
                runs.to_string(),
                format!("{:.1}", read as f64 / 1e6),
                format!(
                    "{:.2}",
                    fs::metadata(written)
                        .while_doing(|| format!("looking at {}", written.display()))?
                        .len() as f64
                        / 1e6
                ),
                format!("{:.2}", time.0),
                format!("{:.0}", time.1 as f64 / f64::from(1 << 20)),
            ]);
            Ok(())
        };
    let flag = Path::new("--table");
    for (half, table) in &tables {
        let time = timed(tardy, &[Path::new("history"), half, flag, table])?;
        of_run = time.0 / (count as f64 / 2.0);
        add(
            "history HALF --table HALF.csv.gz",
            count / 2,
            bytes * count as u64 / 2,
            table,
            time,
        )?;
    }
    let all = place.join("all.csv.gz");
    let read = tables
        .iter()
        .map(|(_, table)| fs::metadata(table).map_or(0, |file| file.len()))
        .sum();
    let time = timed(
        tardy,
        &[Path::new("history"), &tables[0].1, &tables[1].1, flag, &all],
    )?;
    add(
        "history HALF.csv.gz OTHER.csv.gz --table ALL.csv.gz",
        count,
        read,
        &all,
        time,
    )?;
    Ok(OfFolders {
        reached: format!(
            "a run folder of {:.0} kB, read in {:.1} ms",
            bytes as f64 / 1e3,
            of_run * 1e3
        ),
        table: rows,
    })
}

/// Bytes of all files in a folder.
fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for path in entries(folder)? {
        let of = path
            .metadata()
            .while_doing(|| format!("looking at {}", path.display()))?;
        bytes += if of.is_dir() { size(&path)? } else { of.len() };
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
