//! Wake-ups between threads compared with ptsematest of rt-tests, on one CPU and across two CPUs.
//!
//! Both programs do the same with the same system call: a thread at SCHED_FIFO sleeps for a period,
//! asks another thread for a wake-up, waits on a futex, and reads the clock when it runs again.
//! ptsematest prints the mean of its samples to 10 ns, so means are compared, run by run.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tardy_sys::affinity;

use super::figure::{Bench, Figure, FigureResult, row, scratch};
use super::statistics::{ESTIMATE, Pairs, mean_and_half_width, median, middle_and_interval};
use crate::failure::{Failure, Result, While};
use crate::program;

/// Equivalence of the mean latency with ptsematest's.
pub(crate) const FIGURE: Figure = Figure {
    name: "futex",
    promise: "A futex wake-up takes as long as in ptsematest, within 1 us or 5 %",
    measure,
};

const PRIORITY: u32 = 95;
/// Maximum wait until ptsematest has its threads.
const PATIENCE: Duration = Duration::from_secs(5);

/// The CPUs of the woken thread and of its waker.
#[derive(Debug, Clone, Copy)]
struct Processors {
    woken: u32,
    waker: u32,
}

impl Processors {
    fn name(self) -> &'static str {
        if self.woken == self.waker {
            "same CPU"
        } else {
            "across CPUs"
        }
    }
}

fn measure(bench: &Bench) -> Result<FigureResult> {
    let (rounds, cycles) = if bench.is_quick { (4, 300) } else { (24, 1000) };
    let woken = bench.measured_cpu()?;
    let other = bench.other_cpu(woken)?;
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
        notes: vec![format!(
            "{rounds} rounds of {cycles} wake-ups each, in rotating order; the woken thread on CPU \
             {woken} at SCHED_FIFO {PRIORITY}, the waker on the same or on CPU {other}; tardy's \
             waker one priority lower, ptsematest's at the same. Across CPUs ptsematest has no \
             option for it: its two threads are bound from outside as soon as there are two."
        )],
        ..FigureResult::default()
    };
    let mut reached = Vec::new();
    for waker in [woken, other] {
        let cpus = Processors { woken, waker };
        let pairs = Pairs::measure(
            rounds,
            || tardy(bench, cpus, cycles),
            || ptsematest(bench, cpus, cycles),
        )?;
        let (cells, text, note) = judged(&pairs, cpus);
        measured.tables[0].push(cells);
        reached.push(text);
        measured.notes.push(note);
    }
    measured.reached = reached.join("; ");
    measured.notes.push(
        "Means of all samples of a run: ptsematest prints no median, and stamps whole \
         microseconds."
            .to_owned(),
    );
    Ok(measured)
}

/// Returns a row of the table, the result, and a note.
fn judged(pairs: &Pairs, cpus: Processors) -> (Vec<String>, String, String) {
    let (differences, margin, name) = (pairs.differences(), pairs.margin(), cpus.name());
    let (middle, lower, upper) = middle_and_interval(&differences, 0.95);
    let (mean, half_width) = mean_and_half_width(&differences, 0.95);
    let verdict = if lower >= -margin && upper <= margin {
        "holds"
    } else {
        "not shown"
    };
    let cells = vec![
        name.to_owned(),
        format!("{:.2}", median(&pairs.own)),
        format!("{:.2}", median(&pairs.peer)),
        format!("{middle:+.2}"),
        format!("{lower:+.2} to {upper:+.2}"),
        format!("{margin:.2}"),
        verdict.to_owned(),
    ];
    let text = format!(
        "{name}: {middle:+.2} us, {lower:+.2} to {upper:+.2} in {} pairs, margin {margin:.2} us: \
         {verdict}",
        differences.len()
    );
    let note = format!(
        "{name}: the difference is the {ESTIMATE}; the mean is {mean:+.2} us, {:+.2} to {:+.2} by \
         Student's t.",
        mean - half_width,
        mean + half_width
    );
    (cells, text, note)
}

/// Runs tardy once, and returns its mean wake-up latency in us.
fn tardy(bench: &Bench, cpus: Processors, cycles: u32) -> Result<f64> {
    let place = scratch()?;
    let waker = if cpus.woken == cpus.waker {
        "same"
    } else {
        "other"
    };
    let mut command = Command::new(&bench.tardy);
    command.current_dir(place.path()).args(
        format!(
            "run --probe futex:waker={waker}:pace=woken --cycles {cycles} --cpus {} --period 1ms \
             --priority {PRIORITY} --cpu-dma-latency leave --quiet --json --out run",
            cpus.woken
        )
        .split(' '),
    );
    mean_of_tardy(&bench.capture(&mut command)?).ok_or_else(|| {
        Failure::new(format!(
            "`{}` printed no series `futex` with all its samples",
            program::line(&command)
        ))
    })
}

/// Returns the mean of the series `futex`. The series must account for every wake-up.
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

/// Runs ptsematest once, and returns its mean wake-up latency in us.
fn ptsematest(bench: &Bench, cpus: Processors, cycles: u32) -> Result<f64> {
    let place = scratch()?;
    let mut command = Command::new(program::required("ptsematest", "rt-tests")?);
    if cpus.woken == cpus.waker {
        command.arg(format!("-a{}", cpus.woken));
    }
    command
        .args(format!("-p {PRIORITY} -i 1000 -l {cycles} -q --json=result.json").split(' '))
        .current_dir(place.path());
    bench.note(&command);
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .while_doing(|| "starting ptsematest".to_owned())?;
    let bound = if cpus.woken == cpus.waker {
        Ok(())
    } else {
        bind_threads(child.id(), cpus)
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
    mean_of_ptsematest(&result, cpus.waker, cpus.woken).ok_or_else(|| {
        Failure::new(format!(
            "ptsematest ran elsewhere than it was put, or wrote no mean: {result}"
        ))
    })
}

/// Returns the mean of the single pair, which must have ended on these CPUs.
fn mean_of_ptsematest(result: &str, sender: u32, receiver: u32) -> Option<f64> {
    let result: serde_json::Value = serde_json::from_str(result).ok()?;
    let pair = &result["thread"]["0"];
    let is_there = pair["sender"]["cpu"] == sender && pair["receiver"]["cpu"] == receiver;
    pair["receiver"]["avg"].as_f64().filter(|_| is_there)
}

/// Binds the receiver and the sender to their CPUs, once both exist. ptsematest starts the receiver
/// first.
fn bind_threads(process: u32, cpus: Processors) -> Result<()> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        // Thread numbers ascend in the order of the starts.
        let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
        let tasks = tasks.into_iter().flatten().flatten();
        let mut threads: Vec<i32> = tasks
            .filter_map(|task| task.file_name().to_str()?.parse().ok())
            .collect();
        threads.sort_unstable();
        if let [_, receiver, sender, ..] = threads[..] {
            let bind = |thread, cpu| {
                affinity::set(thread, &[cpu])
                    .while_doing(|| "binding a thread of ptsematest".to_owned())
            };
            return bind(receiver, cpus.woken).and(bind(sender, cpus.waker));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(Failure::new("ptsematest did not start its threads"))
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
        let cpus = Processors { woken: 1, waker: 1 };
        assert!(judged(&pairs(0.3), cpus).1.ends_with("holds"));
        assert!(judged(&pairs(1.3), cpus).1.ends_with("not shown"));
    }
}
