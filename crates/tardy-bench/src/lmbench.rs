//! Compares the costs found by `tardy cost` with those of LMbench's own programs.
//!
//! LMbench is not part of this project, and its licence allows publishing only results of its
//! unmodified programs. The programs are searched in the folder that the environment variable
//! LMBENCH names, then in the folder of Debian's package `lmbench` (non-free).

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tardy_costs::metrics::tiny_program;
use tardy_sys::affinity;

use super::figure::{Bench, Figure, FigureResult, row, scratch};
use super::lmbench_programs::{self, Peer, SERVERS};
use super::statistics::{median, middle_and_interval};
use crate::failure::{Failure, Result, While};
use crate::program;

/// The costs that tardy and LMbench find.
pub(crate) const FIGURE: Figure = Figure {
    name: "lmbench",
    promise: "Costs equal those of LMbench's programs within 10 %, with at most 3 exceptions",
    measure,
};

/// The folder of the programs in Debian's package.
const PACKAGED: &str = "/usr/lib/lmbench/bin/x86_64-linux-gnu";
const BYTES: usize = 64 << 20;
/// Size of a write by `tardy cost`, in bytes.
const PORTION_BYTES: usize = 64 << 10;
/// Minimum length of an interval for LMbench, in us: that of a trial of `tardy cost`.
const ENOUGH: &str = "10000";
/// The program that measures connecting. Its server runs on the other CPU.
const CONNECTED: &str = "lat_connect";
const TOLERANCE: f64 = 0.10;
/// Time until a server of LMbench listens. The server does not report when it is ready.
const SERVER_START: Duration = Duration::from_millis(300);

fn measure(bench: &Bench) -> Result<FigureResult> {
    let folder = programs()?;
    let rounds = if bench.is_quick { 1 } else { 16 };
    let cpu = bench.measured_cpu()?;
    let scratch = scratch()?;
    // The folder is as deep as that of `tardy cost`, because every folder of a path takes time.
    let folder_of_file = scratch.path().join("files");
    std::fs::create_dir(&folder_of_file)
        .while_doing(|| format!("making {}", folder_of_file.display()))?;
    let file = folder_of_file.join("file");
    let executed = TinyProgramFile::put()?;
    let before = affinity::get(0).while_doing(|| "asking for the CPUs".to_owned())?;
    // Both sides inherit the affinity.
    affinity::set(0, &[cpu]).while_doing(|| format!("binding to CPU {cpu}"))?;
    let cpus = Processors {
        measured: cpu,
        other: before
            .iter()
            .copied()
            .find(|other| *other != cpu)
            .unwrap_or(cpu),
    };
    let sides = all_rounds(bench, &folder, (scratch.path(), &file), rounds, cpus);
    affinity::set(0, &before).while_doing(|| "unbinding".to_owned())?;
    drop(executed);
    report(&sides?, rounds)
}

/// Writes a file in the same portions as `tardy cost`. With large folios, the portion's size
/// determines the size of the folios that hold the file, and this makes a page fault up to ten
/// times cheaper or more expensive.
fn write_like_tardy(path: &Path) -> std::io::Result<()> {
    let mut file = std::fs::File::create(path)?;
    for _ in 0..BYTES / PORTION_BYTES {
        file.write_all(&[1; PORTION_BYTES])?;
    }
    file.sync_all()
}

fn programs() -> Result<PathBuf> {
    let given = std::env::var_os("LMBENCH").map(PathBuf::from);
    let folder = given
        .into_iter()
        .chain([PathBuf::from(PACKAGED)])
        .find(|folder| folder.join("lat_syscall").is_file());
    folder.ok_or_else(|| {
        Failure::new(format!(
            "{PACKAGED} has no programs of LMbench: install the package lmbench (non-free), or \
             name their folder in LMBENCH"
        ))
    })
}

/// The program that lat_proc executes, at the path that lat_proc uses: a copy of the program that
/// `tardy cost` executes. The start of LMbench's own program, and its libraries, would cause most
/// of the difference.
struct TinyProgramFile;

impl TinyProgramFile {
    const PATH: &str = "/tmp/hello";

    fn put() -> Result<Self> {
        let image = tiny_program::image()
            .ok_or_else(|| Failure::new("tardy has no program to execute on this architecture"))?;
        std::fs::write(Self::PATH, image)
            .and_then(|()| {
                std::fs::set_permissions(Self::PATH, std::fs::Permissions::from_mode(0o755))
            })
            .while_doing(|| format!("writing {}", Self::PATH))?;
        Ok(Self)
    }
}

impl Drop for TinyProgramFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(Self::PATH);
    }
}

/// The results of the rounds for a metric, in ns per operation.
#[derive(Clone, Default)]
struct MetricPairs {
    /// Result of tardy and result of LMbench, measured right after one another.
    pairs: Vec<(f64, f64)>,
    /// The number of bytes that an operation moves, for a bandwidth.
    bytes: Option<f64>,
}

/// The results of all rounds.
struct Sides {
    metrics: Vec<MetricPairs>,
}

/// The CPUs that both sides use.
#[derive(Clone, Copy)]
struct Processors {
    measured: u32,
    /// The CPU of the server that accepts connections, as in `tardy cost`.
    other: u32,
}

fn all_rounds(
    bench: &Bench,
    folder: &Path,
    (scratch, file): (&Path, &Path),
    rounds: u32,
    cpus: Processors,
) -> Result<Sides> {
    let mut sides = Sides {
        metrics: vec![MetricPairs::default(); lmbench_programs::all().count()],
    };
    for round in 0..rounds {
        for &server in SERVERS {
            let cpu = if server == CONNECTED {
                cpus.other
            } else {
                cpus.measured
            };
            affinity::set(0, &[cpu]).while_doing(|| format!("binding to CPU {cpu}"))?;
            start(folder, server)?;
        }
        std::thread::sleep(SERVER_START);
        for (index, peer) in lmbench_programs::all().enumerate() {
            let measure_own = || {
                // tardy binds itself to the measured CPU, and its server to the other one, so both
                // must be allowed.
                affinity::set(0, &[cpus.measured, cpus.other])
                    .while_doing(|| "unbinding".to_owned())?;
                own(
                    bench,
                    peer.metric,
                    cpus.measured,
                    &scratch.join(format!("run-{round}-{index}")),
                    scratch,
                )
            };
            let measure_theirs = |bytes| {
                affinity::set(0, &[cpus.measured])
                    .while_doing(|| format!("binding to CPU {}", cpus.measured))?;
                ask_all(folder, &peer, (scratch, file), bytes)
            };
            let found = &mut sides.metrics[index];
            // The order alternates, because the first side leaves closed connections, a warm CPU
            // and other state for the second.
            let (own, theirs) = if round % 2 == 0 {
                let (own, bytes) = measure_own()?;
                found.bytes = bytes;
                (own, measure_theirs(bytes)?)
            } else {
                let theirs = measure_theirs(found.bytes)?;
                (measure_own()?.0, theirs)
            };
            found.pairs.extend(
                Option::zip(own, theirs).filter(|(own, theirs)| *own > 0.0 && *theirs > 0.0),
            );
            eprintln!(
                "round {} of {rounds}: {}, ns: {own:?} and {theirs:?}",
                round + 1,
                peer.metric
            );
        }
        for server in SERVERS {
            let mut stop = Command::new(folder.join(server));
            let _ = stop
                .args(["-S", "localhost"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
        }
    }
    for peer in lmbench_programs::all() {
        for words in peer.programs() {
            bench.note_line(&words.join(" "));
        }
    }
    Ok(sides)
}

/// Returns the mean of the results of the peer's programs, in ns per operation; `None` if an output
/// cannot be parsed.
fn ask_all(
    folder: &Path,
    peer: &Peer,
    files: (&Path, &Path),
    bytes: Option<f64>,
) -> Result<Option<f64>> {
    // Each measurement writes a new file, as `tardy cost` does. The placement of a file in memory
    // is random, and does not change as long as the file exists.
    if peer.programs().any(|words| words.contains(&"FILE")) {
        write_like_tardy(files.1).while_doing(|| format!("writing {}", files.1.display()))?;
    }
    let values: Vec<Option<f64>> = peer
        .programs()
        .map(|words| ask(folder, peer, &words, files, bytes))
        .collect::<Result<_>>()?;
    let values: Option<Vec<f64>> = values.into_iter().collect();
    Ok(values.map(|values| values.iter().sum::<f64>() / values.len() as f64))
}

/// Returns the result of `tardy cost` in ns, and the number of bytes that an operation moves for a
/// bandwidth.
fn own(
    bench: &Bench,
    metric: &str,
    cpu: u32,
    out: &Path,
    scratch: &Path,
) -> Result<(Option<f64>, Option<f64>)> {
    let mut tardy = Command::new(&bench.tardy);
    tardy
        .args([
            "cost",
            "--rounds",
            "1",
            "--quiet",
            "--json",
            "--metric",
            metric,
            "--cpu",
            &cpu.to_string(),
            "--out",
        ])
        .arg(out)
        .env("TMPDIR", scratch);
    let costs: Value = serde_json::from_str(&program::capture(&mut tardy)?)
        .map_err(|error| Failure::new(format!("tardy cost: {error}")))?;
    let found = &costs["metrics"][0];
    Ok((found["cost"].as_f64(), found["bytes"].as_f64()))
}

/// Starts a server of LMbench, which moves itself into the background.
fn start(folder: &Path, server: &str) -> Result<()> {
    let mut command = Command::new(folder.join(server));
    command
        .arg("-s")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
        .status()
        .while_doing(|| format!("starting `{}`", program::line(&command)))
        .map(drop)
}

/// Runs a program of the peer. Returns its result in ns per operation; `None` if its output cannot
/// be parsed.
fn ask(
    folder: &Path,
    peer: &Peer,
    words: &[&str],
    (scratch, file): (&Path, &Path),
    bytes: Option<f64>,
) -> Result<Option<f64>> {
    let (name, arguments) = words
        .split_first()
        .ok_or_else(|| Failure::new("a metric without a program"))?;
    let mut command = Command::new("timeout");
    command
        .args(["-k", "5", "30"])
        .arg(folder.join(name))
        .env("ENOUGH", ENOUGH)
        .current_dir(scratch);
    for argument in arguments {
        match *argument {
            "FILE" => command.arg(file),
            plain => command.arg(plain),
        };
    }
    let output = program::output(&mut command)?;
    // All programs print results to standard error.
    let text = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    Ok((peer.read)(&text).and_then(|found| found.nanos(bytes)))
}

fn report(sides: &Sides, rounds: u32) -> Result<FigureResult> {
    let mut table = vec![row([
        "metric",
        "unit",
        "tardy",
        "LMbench",
        "difference",
        "its 95 % interval",
        "LMbench's program",
        "why it differs",
    ])];
    let (mut within, mut outside, mut missing) = (0, Vec::new(), Vec::new());
    for (found, peer) in sides.metrics.iter().zip(lmbench_programs::all()) {
        if found.pairs.is_empty() {
            missing.push(peer.metric);
            continue;
        }
        // For a bandwidth, the ratio is that of the bandwidths, not of the times.
        let ratio = |(own, theirs): &(f64, f64)| {
            if peer.is_bandwidth {
                theirs / own
            } else {
                own / theirs
            }
        };
        let ratios: Vec<f64> = found.pairs.iter().map(|pair| ratio(pair).ln()).collect();
        let (middle, lower, upper) = middle_and_interval(&ratios, 0.95);
        let [difference, lower, upper] = [middle, lower, upper].map(f64::exp_m1);
        let is_within = difference.abs() <= TOLERANCE;
        if is_within {
            within += 1
        } else {
            outside.push(peer.metric)
        }
        let sides = found
            .pairs
            .iter()
            .copied()
            .unzip::<f64, f64, Vec<f64>, Vec<f64>>();
        let medians = [&sides.0, &sides.1].map(|values| median(values));
        let (unit, shown): (&str, [f64; 2]) = match found.bytes.filter(|_| peer.is_bandwidth) {
            Some(bytes) => ("MB/s", medians.map(|nanos| bytes * 1e3 / nanos)),
            None => ("us", medians.map(|nanos| nanos / 1e3)),
        };
        let [own, theirs] = shown.map(|value| {
            if value < 100.0 {
                format!("{value:.3}")
            } else {
                format!("{value:.0}")
            }
        });
        let percent = |part: f64| format!("{:+.1} %", part * 100.0);
        let why = if is_within { "" } else { peer.differs };
        let interval = if lower.is_finite() && upper.is_finite() {
            format!("{} to {}", percent(lower), percent(upper))
        } else {
            "none".to_owned()
        };
        table.push(row([
            peer.metric,
            unit,
            &own,
            &theirs,
            &percent(difference),
            &interval,
            peer.programs,
            why,
        ]));
    }
    if table.len() == 1 {
        return Err(Failure::new(
            "the programs of LMbench printed nothing readable",
        ));
    }
    let mut notes = vec![
        format!(
            "{rounds} rounds, in each of them one side right after the other, each side first in every second round, on the same CPU, everything bound to it but the server of connections, \
             which is on another one. A round's figure is the median of 11 trials of 10 ms, which both call their result; the table has the medians of the rounds."
        ),
        "The difference is the Hodges-Lehmann estimate over the rounds' ratios; its interval comes \
         from Wilcoxon's signed-rank test: the speed of this machine changes from minute to \
         minute, by more than the two sides differ."
            .to_owned(),
        format!(
            "lat_proc executes {}: both sides execute the same program, tardy's of two \
             instructions.",
            TinyProgramFile::PATH
        ),
        "Bandwidths are compared as bandwidths, in 10^6 bytes a second.".to_owned(),
        "Left out: lat_fs, which did not end within minutes on this machine, and lat_rpc, which \
         measures its own server."
            .to_owned(),
    ];
    if !missing.is_empty() {
        notes.push(format!(
            "Not compared, because LMbench's program printed nothing here (it lacks what it \
             needs, or crashed): {}.",
            missing.join(", ")
        ));
    }
    let reached = format!(
        "{within} of {} within 10 %; beyond it: {}",
        within + outside.len(),
        if outside.is_empty() {
            "none".to_owned()
        } else {
            outside.join(", ")
        }
    );
    Ok(FigureResult {
        reached,
        tables: vec![table],
        notes,
    })
}
