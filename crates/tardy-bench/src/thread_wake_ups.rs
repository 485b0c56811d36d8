//! Wake-ups from thread to thread against ptsematest of rt-tests, on one CPU and across two.
//!
//! The two do the same by the same system call: a thread at SCHED_FIFO sleeps for a period, asks
//! the other one to be woken, waits on a futex, and reads the clock when it is back. ptsematest
//! prints the mean of its samples to 10 ns, so that means are compared, run by run.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tardy_sys::affinity;

use super::figure::{Bench, Figure, FigureResult, row, scratch};
use super::statistics::{mean_and_half_width, median, middle_and_interval};
use crate::failure::{Failure, Result, While};
use crate::program;

/// Equivalence with ptsematest.
pub(crate) const FIGURE: Figure = Figure {
    name: "futex",
    promise: "A futex wake-up takes as long as in ptsematest, within 1 us or 5 %",
    measure,
};

const PERIOD_US: &str = "1000";
const PRIORITY: &str = "95";
/// How long ptsematest may take to have its threads.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where the waking thread runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waker {
    Same,
    Other,
}

impl Waker {
    fn name(self) -> &'static str {
        match self {
            Self::Same => "same CPU",
            Self::Other => "across CPUs",
        }
    }
}

/// The CPUs of the woken thread and of a waker on another one.
#[derive(Debug, Clone, Copy)]
struct Processors {
    woken: u32,
    other: u32,
}

/// Means in us, ours and the peer's, of each round.
#[derive(Debug, Default)]
struct Pairs {
    own: Vec<f64>,
    peer: Vec<f64>,
}

fn measure(bench: &Bench) -> Result<FigureResult> {
    let (rounds, cycles) = if bench.is_quick { (4, 300) } else { (24, 1000) };
    let woken = bench.measured_cpu()?;
    let allowed = affinity::get(0).while_doing(|| "asking for the CPUs".to_owned())?;
    let other = allowed
        .into_iter()
        .find(|&cpu| cpu != woken)
        .ok_or_else(|| Failure::new("this figure needs a second CPU"))?;
    let cpus = Processors { woken, other };
    let mut measured = FigureResult {
        tables: vec![vec![row([
            "waker",
            "tardy, us",
            "ptsematest, us",
            "difference, us",
            "95 % interval, us",
            "margin, us",
            "verdict",
        ])]],
        ..FigureResult::default()
    };
    let mut reached = Vec::new();
    for waker in [Waker::Same, Waker::Other] {
        let mut pairs = Pairs::default();
        for round in 0..rounds {
            // The order turns, so that what drifts on the machine falls on both alike.
            if round % 2 == 0 {
                pairs
                    .own
                    .push(tardy(bench, waker, cpus, cycles, &mut measured.commands)?);
                pairs
                    .peer
                    .push(ptsematest(waker, cpus, cycles, &mut measured.commands)?);
            } else {
                pairs
                    .peer
                    .push(ptsematest(waker, cpus, cycles, &mut measured.commands)?);
                pairs
                    .own
                    .push(tardy(bench, waker, cpus, cycles, &mut measured.commands)?);
            }
            eprint!("\r{}: round {} of {rounds}", waker.name(), round + 1);
        }
        eprintln!();
        let (cells, text, note) = pairs.judged(waker);
        measured.tables[0].push(cells);
        reached.push(text);
        measured.notes.push(note);
    }
    measured.reached = reached.join("; ");
    measured.notes.insert(
        0,
        format!(
            "{rounds} rounds of {cycles} wake-ups each, in rotating order; the woken thread \
             on CPU {woken} at SCHED_FIFO {PRIORITY}, the waker on the same or on CPU {other}; \
             tardy's waker one priority lower, ptsematest's at the same. Across CPUs ptsematest \
             has no option for it: its two threads are bound from outside as soon as there are \
             two."
        ),
    );
    measured.notes.push(
        "Means of all samples of a run: ptsematest prints no median, and stamps whole \
         microseconds."
            .to_owned(),
    );
    Ok(measured)
}

impl Pairs {
    /// A row of the table, the figure reached, and a note.
    fn judged(&self, waker: Waker) -> (Vec<String>, String, String) {
        let differences: Vec<f64> = self
            .own
            .iter()
            .zip(&self.peer)
            .map(|(own, peer)| own - peer)
            .collect();
        let (middle, lower, upper) = middle_and_interval(&differences, 0.95);
        let (mean, half_width) = mean_and_half_width(&differences, 0.95);
        let margin = (median(&self.peer) * 0.05).max(1.0);
        let verdict = if lower >= -margin && upper <= margin {
            "holds"
        } else {
            "not shown"
        };
        let cells = vec![
            waker.name().to_owned(),
            format!("{:.2}", median(&self.own)),
            format!("{:.2}", median(&self.peer)),
            format!("{middle:+.2}"),
            format!("{lower:+.2} to {upper:+.2}"),
            format!("{margin:.2}"),
            verdict.to_owned(),
        ];
        let text = format!(
            "{}: {middle:+.2} us, {lower:+.2} to {upper:+.2} in {} pairs, margin {margin:.2} us: \
             {verdict}",
            waker.name(),
            differences.len()
        );
        let note = format!(
            "{}: the difference is the Hodges-Lehmann estimate over the pairs, its interval is from Wilcoxon's signed-rank test; their mean is {mean:+.2} us, {:+.2} to {:+.2} by Student's \
             t.",
            waker.name(),
            mean - half_width,
            mean + half_width
        );
        (cells, text, note)
    }
}

/// One run of ours; the mean of its wake-ups in us.
fn tardy(
    bench: &Bench,
    waker: Waker,
    cpus: Processors,
    cycles: u32,
    commands: &mut Vec<String>,
) -> Result<f64> {
    let place = scratch()?;
    let probe = match waker {
        Waker::Same => "futex:waker=same:pace=woken",
        Waker::Other => "futex:waker=other:pace=woken",
    };
    let mut command = Command::new(&bench.tardy);
    command.args([
        "run",
        "--probe",
        probe,
        "--cycles",
        &cycles.to_string(),
        "--cpus",
        &cpus.woken.to_string(),
        "--period",
        "1ms",
    ]);
    command
        .args([
            "--priority",
            PRIORITY,
            "--cpu-dma-latency",
            "leave",
            "--quiet",
            "--json",
            "--out",
            "run",
        ])
        .current_dir(place.path());
    note_once(commands, &command);
    let summary = program::capture(&mut command)?;
    mean_of_tardy(&summary).ok_or_else(|| {
        Failure::new(format!(
            "`{}` printed no series `futex` with all its samples",
            program::line(&command)
        ))
    })
}

/// The mean of the series `futex`, which must account for every wake-up.
fn mean_of_tardy(summary: &str) -> Option<f64> {
    let summary: serde_json::Value = serde_json::from_str(summary).ok()?;
    let series = summary["series"]
        .as_array()?
        .iter()
        .find(|series| series["probe"] == "futex")?;
    let is_whole = series["counts"]["expected"] == series["counts"]["recorded"];
    series["numbers"]["mean_ns"]
        .as_f64()
        .filter(|_| is_whole)
        .map(|mean| mean / 1000.0)
}

/// One run of the peer; the mean of its wake-ups in us.
fn ptsematest(
    waker: Waker,
    cpus: Processors,
    cycles: u32,
    commands: &mut Vec<String>,
) -> Result<f64> {
    let place = scratch()?;
    let path = program::find("ptsematest").ok_or_else(|| {
        Failure::new("there is no ptsematest on this machine: install the package rt-tests")
    })?;
    let mut command = Command::new(path);
    if waker == Waker::Same {
        command.arg(format!("-a{}", cpus.woken));
    }
    command
        .args([
            "-p",
            PRIORITY,
            "-i",
            PERIOD_US,
            "-l",
            &cycles.to_string(),
            "-q",
            "--json=result.json",
        ])
        .current_dir(place.path());
    note_once(commands, &command);
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .while_doing(|| "starting ptsematest".to_owned())?;
    let bound = if waker == Waker::Other {
        bind_threads(child.id(), cpus)
    } else {
        Ok(())
    };
    let status = child
        .wait()
        .while_doing(|| "waiting for ptsematest".to_owned())?;
    bound?;
    if !status.success() {
        return Err(Failure::new(format!(
            "ptsematest failed ({status}): does it have the right to real-time priorities?"
        )));
    }
    let result = std::fs::read_to_string(place.path().join("result.json"))
        .while_doing(|| "reading what ptsematest wrote".to_owned())?;
    let mean = mean_of_ptsematest(
        &result,
        if waker == Waker::Same {
            cpus.woken
        } else {
            cpus.other
        },
        cpus.woken,
    );
    mean.ok_or_else(|| {
        Failure::new(format!(
            "ptsematest ran elsewhere than it was put, or wrote no mean: {result}"
        ))
    })
}

/// The mean of the only pair, which must have ended on these CPUs.
fn mean_of_ptsematest(result: &str, sender: u32, receiver: u32) -> Option<f64> {
    let result: serde_json::Value = serde_json::from_str(result).ok()?;
    let pair = &result["thread"]["0"];
    let is_there = pair["sender"]["cpu"] == sender && pair["receiver"]["cpu"] == receiver;
    pair["receiver"]["avg"].as_f64().filter(|_| is_there)
}

/// Binds the receiver, which ptsematest starts first, and the sender, as soon as there are both.
fn bind_threads(process: u32, cpus: Processors) -> Result<()> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if let [_, receiver, sender, ..] = threads_of(process)[..] {
            let bind = |thread, cpu| {
                affinity::set(thread, &[cpu])
                    .while_doing(|| "binding a thread of ptsematest".to_owned())
            };
            return bind(receiver, cpus.woken).and(bind(sender, cpus.other));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(Failure::new("ptsematest did not start its threads"))
}

/// Ascending, which is the order in which they were started.
fn threads_of(process: u32) -> Vec<i32> {
    let tasks = std::fs::read_dir(Path::new("/proc").join(process.to_string()).join("task"))
        .into_iter()
        .flatten()
        .flatten();
    let mut threads: Vec<i32> = tasks
        .filter_map(|task| task.file_name().to_str()?.parse().ok())
        .collect();
    threads.sort_unstable();
    threads
}

fn note_once(commands: &mut Vec<String>, command: &Command) {
    let line = program::line(command);
    let line = line
        .rsplit_once("/ptsematest")
        .map_or(line.clone(), |(_, rest)| format!("ptsematest{rest}"));
    if !commands.contains(&line) {
        commands.push(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_taken_from_whole_runs_on_the_right_cpus() {
        let result =
            r#"{"thread": {"0": {"sender": {"cpu": 1}, "receiver": {"cpu": 0, "avg": 3.21}}}}"#;
        assert_eq!(mean_of_ptsematest(result, 1, 0), Some(3.21));
        assert_eq!(mean_of_ptsematest(result, 0, 0), None);
        let summary = |recorded: u32| {
            format!(
                r#"{{"series": [{{"probe": "futex.timer"}}, {{"probe": "futex", "counts": {{"expected": 9, "recorded": {recorded}}}, "numbers": {{"mean_ns": 2500.0}}}}]}}"#
            )
        };
        assert_eq!(
            (mean_of_tardy(&summary(9)), mean_of_tardy(&summary(8))),
            (Some(2.5), None)
        );
    }

    #[test]
    fn a_difference_beyond_the_margin_is_not_shown() {
        let pairs = |shift: f64| Pairs {
            own: (0..24)
                .map(|round| 20.0 + shift + 0.01 * f64::from(round))
                .collect(),
            peer: (0..24)
                .map(|round| 20.0 + 0.01 * f64::from(round % 5))
                .collect(),
        };
        assert!(pairs(0.3).judged(Waker::Same).1.ends_with("holds"));
        assert!(pairs(1.3).judged(Waker::Same).1.ends_with("not shown"));
    }
}
