//! User-space instructions per sample, counted by callgrind as the difference between runs of two
//! lengths, which cancels start and end.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::figure::{Bench, Figure, FigureResult, holds, row, scratch};
use crate::failure::{Failure, Result, While};
use crate::{program, workspace};

pub(crate) const FIGURE: Figure = Figure {
    name: "instructions",
    promise: "The measuring thread takes at most 90 user-space instructions per sample, recording included",
    measure,
};

/// Lengths of the two runs in samples.
const LENGTHS: [u64; 2] = [200, 1200];
/// Period in us: Valgrind runs one thread at a time, and keeps up at 2 ms.
const PERIOD_US: &str = "2000";

/// A tool in one of its modes.
struct Mode {
    name: &'static str,
    /// The program and its options.
    words: &'static str,
    /// Callgrind's number for the measuring thread, under which no other thread ran; `None` if
    /// unknown.
    measuring: Option<&'static str>,
}

const PEERS: [Mode; 4] = [
    Mode {
        name: "cyclictest -q (no recording)",
        words: "cyclictest -t 1 -m -q",
        measuring: Some("02"),
    },
    Mode {
        name: "cyclictest -v (recording, to /dev/null)",
        words: "cyclictest -t 1 -m -v",
        measuring: Some("02"),
    },
    Mode {
        name: "jitterdebugger (no recording)",
        words: "jitterdebugger",
        measuring: Some("02"),
    },
    Mode {
        name: "jitterdebugger -s (recording)",
        words: "jitterdebugger -s -o jitter",
        measuring: None,
    },
];

/// The instruction counts of a run under callgrind.
struct InstructionCount {
    by_thread: Vec<(String, u64)>,
    samples: u64,
}

impl InstructionCount {
    fn whole(&self) -> u64 {
        self.by_thread.iter().map(|(_, count)| count).sum()
    }

    fn of(&self, thread: &str) -> u64 {
        self.by_thread
            .iter()
            .filter(|(name, _)| name == thread)
            .map(|(_, count)| count)
            .sum()
    }
}

fn measure(bench: &Bench) -> Result<FigureResult> {
    let cpu = bench.measured_cpu()?.to_string();
    let mut table = vec![row(["tool", "measuring thread", "whole process"])];
    let loop_only = both(|samples| tardy(bench, &cpu, samples, true))?;
    let whole = both(|samples| tardy(bench, &cpu, samples, false))?;
    if loop_only[0].whole() == 0 {
        return Err(Failure::new(
            "callgrind found no measuring loop: the binary has no symbols",
        ));
    }
    let own = a_sample(&loop_only, InstructionCount::whole);
    table.push(vec![
        "tardy (recording)".to_owned(),
        format!("{own:.1}"),
        format!("{:.0}", a_sample(&whole, InstructionCount::whole)),
    ]);
    for mode in PEERS {
        let counted = both(|samples| peer(bench, &mode, &cpu, samples))?;
        let measuring = mode
            .measuring
            .map(|thread| format!("{:.1}", a_sample(&counted, |counted| counted.of(thread))));
        table.push(vec![
            mode.name.to_owned(),
            measuring.unwrap_or_else(|| "not told apart".to_owned()),
            format!("{:.0}", a_sample(&counted, InstructionCount::whole)),
        ]);
    }
    Ok(FigureResult {
        reached: format!("{own:.1}: {}", holds(own <= 90.0)),
        table,
        notes: vec![
            format!(
                "Difference of runs of {} and {} samples, divided by the difference of the \
                 samples recorded. The clock read is a system call under valgrind, which hides \
                 the vDSO: its instructions are counted for no tool.",
                LENGTHS[1], LENGTHS[0]
            ),
            "The measuring thread of tardy is counted from the loop's begin to its end \
             (--toggle-collect); its whole process includes the summary at the end."
                .to_owned(),
        ],
    })
}

fn both(mut run: impl FnMut(u64) -> Result<InstructionCount>) -> Result<[InstructionCount; 2]> {
    Ok([run(LENGTHS[0])?, run(LENGTHS[1])?])
}

fn a_sample(
    [short, long]: &[InstructionCount; 2],
    count: impl Fn(&InstructionCount) -> u64,
) -> f64 {
    (count(long) as f64 - count(short) as f64) / (long.samples as f64 - short.samples as f64)
}

fn tardy(bench: &Bench, cpu: &str, samples: u64, is_loop_only: bool) -> Result<InstructionCount> {
    let words = format!(
        "run --cycles {samples} --cpus {cpu} --period {PERIOD_US}us --quiet --json --out run"
    );
    let toggle = "--toggle-collect=tardy_probes::probe::cyclic::measure*";
    let program = bench.tardy.to_string_lossy();
    let arguments: Vec<&str> = is_loop_only
        .then_some(toggle)
        .into_iter()
        .chain([&*program])
        .chain(words.split(' '))
        .collect();
    let (by_thread, output) = callgrind(bench, &arguments)?;
    let summary: serde_json::Value =
        serde_json::from_str(&output).while_doing(|| "reading tardy's summary".to_owned())?;
    let recorded = summary
        .pointer("/series/0/counts/recorded")
        .and_then(serde_json::Value::as_u64);
    Ok(InstructionCount {
        by_thread,
        samples: recorded.ok_or_else(|| Failure::new("tardy's summary has no counts"))?,
    })
}

fn peer(bench: &Bench, mode: &Mode, cpu: &str, samples: u64) -> Result<InstructionCount> {
    let words = format!("{} -a {cpu} -p 95 -i {PERIOD_US} -l {samples}", mode.words);
    let arguments: Vec<&str> = words.split(' ').collect();
    let (by_thread, _) = callgrind(bench, &arguments)?;
    Ok(InstructionCount { by_thread, samples })
}

/// Runs a command under callgrind. Returns the instructions of each of callgrind's thread numbers,
/// and the command's output.
fn callgrind(bench: &Bench, arguments: &[&str]) -> Result<(Vec<(String, u64)>, String)> {
    let place = scratch()?;
    let mut command = Command::new(program::required("valgrind", "valgrind")?);
    command
        .args("--quiet --tool=callgrind --separate-threads=yes".split(' '))
        .arg("--callgrind-out-file=counts")
        .args(arguments);
    let output = bench.capture(command.current_dir(place.path()).stdin(Stdio::null()))?;
    Ok((read_counts(place.path())?, output))
}

/// Reads the files `counts-NN`, one per thread number.
fn read_counts(folder: &Path) -> Result<Vec<(String, u64)>> {
    let mut counts = Vec::new();
    for file in fs::read_dir(folder)
        .while_doing(|| "listing callgrind's files".to_owned())?
        .flatten()
    {
        let name = file.file_name().to_string_lossy().into_owned();
        let Some(thread) = name.strip_prefix("counts-") else {
            continue;
        };
        let text = workspace::read(&file.path())?;
        let total = text
            .lines()
            .find_map(|line| line.strip_prefix("totals: ")?.parse().ok())
            .unwrap_or(0);
        counts.push((thread.to_owned(), total));
    }
    if counts.is_empty() {
        Err(Failure::new("callgrind wrote no counts"))
    } else {
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_by_thread_and_compared_by_samples() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(
            folder.path().join("counts-01"),
            "version: 1\nthread: 1\ntotals: 5000\n",
        )
        .unwrap();
        fs::write(folder.path().join("counts-02"), "thread: 2\ntotals: 900\n").unwrap();
        let short = InstructionCount {
            by_thread: read_counts(folder.path()).unwrap(),
            samples: 10,
        };
        fs::write(folder.path().join("counts-02"), "thread: 2\ntotals: 2700\n").unwrap();
        let long = InstructionCount {
            by_thread: read_counts(folder.path()).unwrap(),
            samples: 30,
        };
        assert_eq!((short.whole(), long.of("02")), (5900, 2700));
        assert_eq!(a_sample(&[short, long], |counted| counted.of("02")), 90.0);
    }
}
