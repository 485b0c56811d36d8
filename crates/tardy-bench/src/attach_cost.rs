//! The cost of `tardy attach`, compared with other recorders of the scheduler's events: CPU time of
//! the recorder, bytes that it writes, and CPU time of the recorded loop. The recorders record the
//! same loop one after another.
//!
//! The peers can only record the whole machine. To find late wake-ups in their recordings, a second
//! command is needed; its cost is not counted here.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::figure::{Bench, Figure, FigureResult, bytes_of, holds, row, scratch};
use super::statistics::{ESTIMATE, in_turn, median, ratio};
use super::threads;
use crate::failure::{Failure, Result, While};
use crate::program;

/// Compares CPU time and bytes of `tardy attach` with those of its peers.
pub(crate) const FIGURE: Figure = Figure {
    name: "attach-cost",
    promise: "`tardy attach` takes no more CPU time and no more bytes per wake-up than the cheaper of perf sched and trace-cmd, loses no wake-up, and takes at most 3 % of one CPU for 20,000 wake-ups a second",
    measure,
};

/// Period of each thread of the loop, in us.
const PERIOD_US: u32 = 1000;
/// Maximum CPU time of `tardy attach` at 20,000 wake-ups a second, in percent of one CPU.
const SHARE_MAX: f64 = 3.0;
/// Maximum time that the loop may take to start its threads.
const PATIENCE: Duration = Duration::from_secs(5);

/// A recorder of the loop's wake-ups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recorder {
    Attach,
    Perf,
    TraceCmd,
}

impl Recorder {
    fn name(self) -> &'static str {
        match self {
            Self::Attach => "tardy attach",
            Self::Perf => "perf sched record",
            Self::TraceCmd => "trace-cmd record -e sched",
        }
    }
}

/// The cost of one recording, per wake-up of the loop.
#[derive(Debug, Clone, Copy)]
struct Cost {
    cpu_us: f64,
    bytes: f64,
    /// CPU time of all threads of the loop.
    loop_us: f64,
}

/// The recorded program: cyclictest with several threads.
struct Loop {
    child: Child,
    threads: u32,
}

fn measure(bench: &Bench) -> Result<FigureResult> {
    let (pairs, threads, seconds) = if bench.is_quick {
        (2, 4, 3)
    } else {
        (10, 20, 30)
    };
    let mut measured = FigureResult {
        table: vec![row([
            "recorder",
            "CPU time, us",
            "bytes",
            "CPU time of the loop, us",
        ])],
        ..FigureResult::default()
    };
    let mut reached = Vec::new();
    let mut is_held = true;
    for peer in [Recorder::Perf, Recorder::TraceCmd] {
        let looped = Loop::start(bench, threads)?;
        // trace-cmd fails, for example, on a kernel without the function tracer.
        if let Err(refusal) = looped.recorded(bench, peer, 1) {
            measured
                .notes
                .push(format!("Not measured beside {}: {refusal}", peer.name()));
            continue;
        }
        let [own, other] = in_turn(pairs, |side| {
            looped.recorded(bench, [Recorder::Attach, peer][side], seconds)
        })?;
        let ratio = |of: fn(&Cost) -> f64| {
            let values = |costs: &[Cost]| costs.iter().map(of).collect::<Vec<_>>();
            ratio(&values(&own), &values(&other), 0.95)
        };
        let (cpu, bytes) = (ratio(|cost| cost.cpu_us), ratio(|cost| cost.bytes));
        let share =
            median(&own.iter().map(|cost| cost.cpu_us).collect::<Vec<_>>()) * 20_000.0 / 1e4;
        is_held &= cpu.middle <= 1.0 && bytes.middle <= 1.0 && share <= SHARE_MAX;
        reached.push(format!(
            "{share:.1} % of one CPU for 20,000 wake-ups a second, {:.2} times the CPU time ({:.2} to {:.2}) and {:.2} times the bytes of {}",
            cpu.middle,
            cpu.lower,
            cpu.upper,
            bytes.middle,
            peer.name()
        ));
        measured.table.push(cells(Recorder::Attach, &own));
        measured.table.push(cells(peer, &other));
    }
    if reached.is_empty() {
        return Err(Failure::new(measured.notes.join("; ")));
    }
    measured.reached = format!("{}: {}", reached.join("; "), holds(is_held));
    measured.notes.extend([
        format!(
            "{pairs} pairs with each peer, each first in every second pair; each recording takes \
             {seconds} s. The loop is cyclictest with {threads} threads of {PERIOD_US} us at \
             SCHED_FIFO, so that there are {} wake-ups a second. Figures are medians, for each of \
             these wake-ups.",
            u64::from(threads) * 1_000_000 / u64::from(PERIOD_US)
        ),
        format!("Ratios: {ESTIMATE}."),
        "The peers record every thread of the machine, and write no explanation. attach writes \
         samples and cycles, and decodes while it records."
            .to_owned(),
        "A recording of attach that lost a wake-up ends the figure with an error.".to_owned(),
    ]);
    Ok(measured)
}

fn cells(recorder: Recorder, costs: &[Cost]) -> Vec<String> {
    let middle = |of: fn(&Cost) -> f64| median(&costs.iter().map(of).collect::<Vec<_>>());
    vec![
        recorder.name().to_owned(),
        format!("{:.2}", middle(|cost| cost.cpu_us)),
        format!("{:.1}", middle(|cost| cost.bytes)),
        format!("{:.2}", middle(|cost| cost.loop_us)),
    ]
}

impl Loop {
    fn start(bench: &Bench, threads: u32) -> Result<Self> {
        let mut command = Command::new(program::required("cyclictest", "rt-tests")?);
        // The option -D makes cyclictest end after an hour even if this program is killed.
        command.args(
            format!("-q -t {threads} -i {PERIOD_US} -d 0 -p 20 -D 1h --policy=fifo").split(' '),
        );
        bench.note(&command);
        let child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .while_doing(|| "starting cyclictest".to_owned())?;
        let looped = Self { child, threads };
        let begin = Instant::now();
        // Besides its measuring threads, cyclictest has a main thread, which waits for them.
        while threads::of_tree(looped.child.id()).len() <= threads as usize {
            if begin.elapsed() > PATIENCE {
                return Err(Failure::new("cyclictest did not start its threads"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(looped)
    }

    /// Returns the CPU time of all threads in ns.
    fn cpu_ns(&self) -> f64 {
        let threads = threads::of_tree(self.child.id());
        threads.iter().map(|thread| thread.cpu_time as f64).sum()
    }

    /// Records the loop for `seconds`.
    fn recorded(&self, bench: &Bench, recorder: Recorder, seconds: u32) -> Result<Cost> {
        let place = scratch()?;
        let out = place.path().join("out");
        let length = seconds.to_string();
        let mut command = match recorder {
            Recorder::Attach => {
                let mut command = Command::new(&bench.tardy);
                command.args(["attach", &self.child.id().to_string(), "--json", "--for"]);
                command.arg(format!("{seconds}s")).arg("--out").arg(&out);
                command
            }
            Recorder::Perf => {
                let mut command = Command::new(program::required("perf", "linux-perf")?);
                command.args(["sched", "record", "-q", "-o"]).arg(&out);
                command.args(["--", "sleep", &length]);
                command
            }
            Recorder::TraceCmd => {
                let mut command = Command::new(program::required("trace-cmd", "trace-cmd")?);
                command
                    .args(["record", "-q", "-e", "sched", "-o"])
                    .arg(&out);
                command.args(["sleep", &length]);
                command
            }
        };
        command.current_dir(place.path());
        let (before, loop_before) = (program::children_cpu_s(), self.cpu_ns());
        let printed = bench.capture(&mut command)?;
        let cpu_s = program::children_cpu_s() - before;
        let loop_ns = self.cpu_ns() - loop_before;
        if recorder == Recorder::Attach {
            demand_every_wake_up(&printed)?;
        }
        let wake_ups = f64::from(self.threads) * f64::from(seconds) * 1e6 / f64::from(PERIOD_US);
        Ok(Cost {
            cpu_us: cpu_s * 1e6 / wake_ups,
            bytes: bytes_of(&out)? as f64 / wake_ups,
            loop_us: loop_ns / 1e3 / wake_ups,
        })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Fails if `tardy attach` lost wake-up events, or recorded no wake-up.
fn demand_every_wake_up(printed: &str) -> Result<()> {
    let found: Value = serde_json::from_str(printed)
        .map_err(|error| Failure::new(format!("the result of attach: {error}")))?;
    let lost = [&found["trace"]["losses"], &found["wakings"]["lost"]];
    if lost.iter().any(|count| **count != 0) || found["wake_ups"] == 0 {
        return Err(Failure::new(format!(
            "attach lost wake-ups, or had none: {} {}",
            found["trace"], found["wakings"]
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_that_lost_a_wake_up_is_no_figure() {
        let found = |losses: u32, lost: u32, wake_ups: u32| {
            format!(
                r#"{{"trace": {{"losses": {losses}}}, "wakings": {{"lost": {lost}}}, "wake_ups": {wake_ups}}}"#
            )
        };
        assert!(demand_every_wake_up(&found(0, 0, 9)).is_ok());
        assert!(demand_every_wake_up(&found(1, 0, 9)).is_err());
        assert!(demand_every_wake_up(&found(0, 1, 9)).is_err());
        assert!(demand_every_wake_up(&found(0, 0, 0)).is_err());
        assert!(demand_every_wake_up("{}").is_err());
    }
}
