//! Runs of tardy on every CPU under the loads io and fork, at 1 kHz and at 20 kHz: lost samples,
//! memory, and stored bytes.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use tardy_core::accounting::Counts;
use tardy_core::units::Nanos;
use tardy_results::summary::model::Summary;

use super::figure::{Bench, Figure, FigureResult, holds, measured_once, row, scratch};
use crate::failure::{Failure, Result, While};
use crate::{program, workspace};

/// Number of lost samples.
pub(crate) const LOSSES: Figure = Figure {
    name: "losses",
    promise: "Every sample is stored at 20 kHz under io and fork",
    measure: measure_losses,
};

pub(crate) const MEMORY: Figure = Figure {
    name: "memory",
    promise: "A long run takes constant memory, below 64 MiB plus 1 MiB per CPU",
    measure: measure_memory,
};

pub(crate) const STORED_BYTES: Figure = Figure {
    name: "stored-bytes",
    promise: "A stored sample takes at most 3 bytes",
    measure: measure_stored_bytes,
};

const MEBIBYTE: f64 = 1_048_576.0;

/// A run that was made.
#[derive(Debug)]
struct RealRun {
    what: String,
    command: String,
    cpus: usize,
    counts: Counts,
    stored_bytes: u64,
    /// Resident and locked bytes, read once per second.
    memory: Vec<(u64, u64)>,
}

impl RealRun {
    fn bytes_a_sample(&self) -> f64 {
        self.stored_bytes as f64 / self.counts.stored().max(1) as f64
    }

    fn resident_max(&self) -> u64 {
        let resident = self.memory.iter().map(|memory| memory.0);
        resident.max().unwrap_or(0)
    }
}

#[derive(Debug)]
struct RealRuns {
    runs: Vec<RealRun>,
    notes: Vec<String>,
}

impl RealRuns {
    /// Returns the runs. The first call in this process makes them.
    fn once(bench: &Bench) -> Result<&'static Self> {
        static MEASURED: OnceLock<RealRuns> = OnceLock::new();
        let runs = measured_once(&MEASURED, || Self::measure(bench))?;
        runs.runs
            .iter()
            .for_each(|run| bench.note_line(&run.command));
        Ok(runs)
    }

    fn measure(bench: &Bench) -> Result<Self> {
        let length = if bench.is_quick { "6s" } else { "90s" };
        let mut runs = vec![make(bench, length, "1ms", &[])?.map_err(Failure::new)?];
        let mut notes = Vec::new();
        match make(bench, length, "50us", &[])? {
            Ok(run) => runs.push(run),
            Err(refusal) => {
                notes.push(format!(
                    "20 kHz on every CPU is refused on this machine: \"{refusal}\". In its place: \
                     the shortest period that it offers, on every CPU, and 20 kHz with a CPU left \
                     out."
                ));
                let period =
                    shortest_period_us(&refusal).ok_or_else(|| Failure::new(refusal.clone()))?;
                runs.push(make(bench, length, &format!("{period}us"), &[])?.map_err(Failure::new)?);
                let cpu = bench.measured_cpu()?.to_string();
                runs.push(
                    make(bench, length, "50us", &["--force", "--cpus", &cpu])?
                        .map_err(Failure::new)?,
                );
            }
        }
        Ok(Self { runs, notes })
    }
}

/// Parses a refusal such as "use at least 53.0us". Returns a period in whole us that is a tenth
/// longer, because the next calibration may find a higher cost.
fn shortest_period_us(refusal: &str) -> Option<u64> {
    let (_, rest) = refusal.split_once("use at least ")?;
    let least: Nanos = rest.split(',').next()?.parse().ok()?;
    Some((least.as_micros_f64() * 1.1).ceil() as u64)
}

/// Makes a run under io and fork, after an idle phase of a third of the run, but at most 10 s. The
/// inner error is tardy's refusal.
fn make(
    bench: &Bench,
    length: &str,
    period: &str,
    more: &[&str],
) -> Result<std::result::Result<RealRun, String>> {
    let place = scratch()?;
    let mut command = Command::new(&bench.tardy);
    command
        .args([
            "run", "--for", length, "--period", period, "--load", "io", "--load", "fork",
        ])
        .args(more);
    command
        .args(["--quiet", "--json", "--out", "run"])
        .current_dir(place.path());
    eprintln!("$ {}", program::line(&command));
    let making = || format!("running `{}`", program::line(&command));
    let files = (
        fs::File::create(place.path().join("out")),
        fs::File::create(place.path().join("err")),
    );
    let (output, errors) = (files.0.while_doing(making)?, files.1.while_doing(making)?);
    let line = program::line(&command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .spawn()
        .while_doing(|| format!("running `{line}`"))?;
    let memory = watch_memory(&mut child)?;
    let status = child.wait().while_doing(|| format!("running `{line}`"))?;
    let read = |name: &str| workspace::read(&place.path().join(name));
    if status.code() == Some(2) {
        return Ok(Err(read("err")?
            .trim()
            .trim_start_matches("tardy: ")
            .to_owned()));
    }
    let summary: Summary = serde_json::from_str(&read("out")?)
        .while_doing(|| format!("reading the summary of `{line}` ({status})"))?;
    Ok(Ok(RealRun {
        what: format!("{period}, CPUs {}", summary.measured_cpus),
        command: line,
        cpus: summary.measured_cpus.len(),
        counts: summary
            .series
            .iter()
            .fold(Counts::default(), |sum, series| sum.plus(&series.counts)),
        stored_bytes: stored_bytes(&place.path().join("run/samples"))?,
        memory,
    }))
}

fn stored_bytes(samples: &Path) -> Result<u64> {
    let files = fs::read_dir(samples).while_doing(|| "listing the samples".to_owned())?;
    let series = files.filter_map(|file| file.ok()).filter(|file| {
        file.path()
            .extension()
            .is_some_and(|extension| extension == "series")
    });
    // The files of the machine's state belong to no probe.
    let probes = series.filter(|file| file.file_name().to_string_lossy().contains(".cpu"));
    Ok(probes
        .filter_map(|file| Some(file.metadata().ok()?.len()))
        .sum())
}

/// Reads resident and locked bytes of the measuring process once per second, until it ends.
fn watch_memory(child: &mut Child) -> Result<Vec<(u64, u64)>> {
    let mut memory = Vec::new();
    while child
        .try_wait()
        .while_doing(|| "waiting for tardy".to_owned())?
        .is_none()
    {
        std::thread::sleep(Duration::from_secs(1));
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        if let (Some(resident), Some(locked)) = (
            status_bytes(&status, "VmRSS:"),
            status_bytes(&status, "VmLck:"),
        ) {
            memory.push((resident, locked));
        }
    }
    // The last reading may be from the time of the summary, for which tardy unlocks its memory; it
    // does not count.
    while memory.last().is_some_and(|&(_, locked)| locked == 0) {
        memory.pop();
    }
    Ok(memory)
}

fn status_bytes(status: &str, field: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(field))?;
    Some(value.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

/// Returns the result of a figure of these runs: what it reached, and a table of the runs.
fn result(runs: &RealRuns, reached: String) -> FigureResult {
    let mut table = vec![row([
        "run",
        "expected",
        "recorded",
        "skipped",
        "lost",
        "unstored",
        "bytes per sample",
        "resident after 5 s, MiB",
        "at most, MiB",
        "locked address space, MiB",
    ])];
    for run in &runs.runs {
        let counts = &run.counts;
        let numbers = [
            counts.expected,
            counts.recorded,
            counts.skipped,
            counts.lost,
            counts.unstored,
        ];
        let early = run.memory.get(4).or(run.memory.last());
        let mebibytes = |bytes: u64| format!("{:.1}", bytes as f64 / MEBIBYTE);
        table.push(
            std::iter::once(run.what.clone())
                .chain(numbers.iter().map(u64::to_string))
                .chain([
                    format!("{:.2}", run.bytes_a_sample()),
                    mebibytes(early.map_or(0, |memory| memory.0)),
                    mebibytes(run.resident_max()),
                    mebibytes(run.memory.last().map_or(0, |memory| memory.1)),
                ])
                .collect(),
        );
    }
    let mut notes = runs.notes.clone();
    notes.push(
        "Skipped due times passed before the thread was woken: they show the system's latency, \
         count with their latency, and are not lost. Memory is that of the measuring process, once \
         a second (VmRSS, VmLck). Bytes are those of whole series files."
            .to_owned(),
    );
    FigureResult {
        reached,
        table,
        notes,
    }
}

fn measure_losses(bench: &Bench) -> Result<FigureResult> {
    let runs = RealRuns::once(bench)?;
    let fast = &runs.runs[1..];
    let lost: u64 = fast.iter().map(|run| run.counts.lost).sum();
    let expected: u64 = fast.iter().map(|run| run.counts.expected).sum();
    let is_exact = fast.iter().all(|run| run.counts.is_exact());
    let exact = if is_exact { "exact" } else { "NOT exact" };
    let reached = format!("{lost} lost of {expected} expected, accounting {exact}");
    Ok(result(runs, reached))
}

fn measure_memory(bench: &Bench) -> Result<FigureResult> {
    let runs = RealRuns::once(bench)?;
    let mut is_held = true;
    let mut reached = Vec::new();
    for run in &runs.runs {
        if run.memory.is_empty() {
            return Err(Failure::new("a run ended before its memory was looked at"));
        }
        let largest = run.resident_max() as f64 / MEBIBYTE;
        is_held &= largest < 64.0 + run.cpus as f64;
        reached.push(format!("{largest:.1} MiB at {}", run.what));
    }
    let reached = format!("{}: {}", reached.join(", "), holds(is_held));
    Ok(result(runs, reached))
}

fn measure_stored_bytes(bench: &Bench) -> Result<FigureResult> {
    let runs = RealRuns::once(bench)?;
    let reached: Vec<String> = runs
        .runs
        .iter()
        .map(|run| format!("{:.2} at {}", run.bytes_a_sample(), run.what))
        .collect();
    Ok(result(runs, reached.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_period_that_a_refusal_offers_is_found() {
        let refusal = "--period 50us is below 4 times the 13.2 us that a wake-up costs: use at \
                       least 53.0us, or --force";
        assert_eq!(shortest_period_us(refusal), Some(59));
        assert_eq!(shortest_period_us("unknown probe"), None);
    }

    #[test]
    fn memory_is_read_in_kibibytes() {
        assert_eq!(
            status_bytes("VmLck:\t  203848 kB\nVmRSS:\t    7700 kB\n", "VmRSS:"),
            Some(7700 * 1024)
        );
    }
}
