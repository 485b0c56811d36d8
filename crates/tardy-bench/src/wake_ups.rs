//! Counts how often a tool's other threads get the measured CPU, with the scheduler's tracepoint.
//! Also measures the cost of the live view of `tardy run`.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::contender::{CONTENDERS, Contender};
use super::figure::{Bench, Figure, FigureResult, holds, row, scratch};
use super::sched_trace::SchedTrace;
use super::threads::{self, Thread};
use crate::failure::{Failure, Result, While};

pub(crate) const WAKE_UPS: Figure = Figure {
    name: "wake-ups",
    promise: "With a spare CPU, no other thread of the tool runs on a measured CPU",
    measure: measure_wake_ups,
};

pub(crate) const LIVE_VIEW: Figure = Figure {
    name: "live-view",
    promise: "The live view takes at most 1 % of a CPU, and never runs on a measured CPU",
    measure: measure_live_view,
};

const SHARE_MAX: f64 = 0.01;
const PATIENCE: Duration = Duration::from_secs(30);

/// Number of times that a tool's threads got a CPU during its measurement.
struct Switches {
    to_measuring: u64,
    others_on_measured: u64,
    others_elsewhere: u64,
}

/// Counts the switches and the CPU time of all threads of a process that measures `cpu`.
fn observe(process: u32, cpu: u32, seconds: u64) -> Result<(Switches, Vec<Thread>)> {
    let before = threads::of_tree(process);
    let trace = SchedTrace::start(&before.iter().map(|thread| thread.id).collect::<Vec<_>>());
    std::thread::sleep(Duration::from_secs(seconds));
    let switches = trace.and_then(SchedTrace::finish);
    let spent = threads::since(&before, &threads::of_tree(process));
    let measuring = threads::measuring(&spent)
        .ok_or_else(|| Failure::new("the tool has no thread that measures"))?;
    let switches = whole(count(&switches?, measuring.id, cpu), measuring.waits)?;
    Ok((switches, spent))
}

fn measure_wake_ups(bench: &Bench) -> Result<FigureResult> {
    let cpu = bench.measured_cpu()?;
    let seconds = if bench.is_quick { 3 } else { 20 };
    let mut table = vec![row([
        "tool",
        "the measuring thread's turns",
        "its others' on that CPU",
        "a second",
        "its others' elsewhere",
    ])];
    let mut own = 0;
    for contender in CONTENDERS {
        let place = scratch()?;
        let command = contender.command(bench, cpu, (seconds + 3) * 1000, place.path())?;
        bench.note(&command);
        let mut child = contender.start(command, place.path())?;
        contender.when_measuring(&child)?;
        let observed = observe(child.id(), cpu, seconds);
        contender.finish(&mut child, place.path())?;
        let (switches, _) = observed?;
        if contender == Contender::Tardy {
            own = switches.others_on_measured;
        }
        table.push(vec![
            contender.name().to_owned(),
            switches.to_measuring.to_string(),
            switches.others_on_measured.to_string(),
            format!("{:.1}", switches.others_on_measured as f64 / seconds as f64),
            switches.others_elsewhere.to_string(),
        ]);
    }
    Ok(FigureResult {
        reached: format!("{own} in {seconds} s: {}", holds(own == 0)),
        table,
        notes: vec![
            format!(
                "CPU {cpu} measured at 1 kHz, the others left over. Counted by sched:sched_switch \
                 in a separate trace instance, over {seconds} s from the measuring thread's 500th \
                 wait on."
            ),
            "The peers bind only their measuring threads: the scheduler and the machine's other \
             work decide where their others run."
                .to_owned(),
        ],
    })
}

/// Checks that the trace saw about as many waits as the thread counted. A trace that saw fewer
/// waits may also have missed other threads.
fn whole(switches: Switches, waits: u64) -> Result<Switches> {
    if switches.to_measuring < waits / 5 * 4 {
        return Err(Failure::new(format!(
            "the trace saw {} turns of the measuring thread, which waited {waits} times meanwhile",
            switches.to_measuring
        )));
    }
    Ok(switches)
}

/// Sums the `switches` of each thread on each CPU.
fn count(switches: &BTreeMap<(u32, u32), u64>, measuring: u32, cpu: u32) -> Switches {
    let sum = |wanted: &dyn Fn(u32, u32) -> bool| {
        switches
            .iter()
            .filter(|&(&(on, thread), _)| wanted(on, thread))
            .map(|(_, count)| count)
            .sum()
    };
    Switches {
        to_measuring: sum(&|_, thread| thread == measuring),
        others_on_measured: sum(&|on, thread| thread != measuring && on == cpu),
        others_elsewhere: sum(&|on, thread| thread != measuring && on != cpu),
    }
}

fn measure_live_view(bench: &Bench) -> Result<FigureResult> {
    let cpu = bench.measured_cpu()?;
    let seconds = if bench.is_quick { 5 } else { 30 };
    let (switches, with) = in_terminal(bench, cpu, seconds, "")?;
    let (_, without) = in_terminal(bench, cpu, seconds, " --no-live")?;
    let share = |spent: &[Thread], name: &str| {
        let time: u64 = spent
            .iter()
            .filter(|thread| thread.name == name)
            .map(|thread| thread.cpu_time)
            .sum();
        time as f64 / 1e9 / seconds as f64
    };
    let mut table = vec![row(["thread", "share of a CPU, with the view", "without"])];
    let mut more = 0.0;
    for name in ["tardy-view", "tardy-recorder", "tardy"] {
        let (with, without) = (share(&with, name), share(&without, name));
        more += with - without;
        table.push(vec![
            name.to_owned(),
            format!("{:.3} %", with * 100.0),
            format!("{:.3} %", without * 100.0),
        ]);
    }
    let on_measured = switches.others_on_measured;
    let verdict = holds(more <= SHARE_MAX && on_measured == 0);
    Ok(FigureResult {
        reached: format!(
            "{:.2} % of one CPU more, {on_measured} turns of other threads on the measured CPU in \
             {seconds} s: {verdict}",
            more * 100.0
        ),
        table,
        notes: vec![format!(
            "CPU {cpu} measured at 1 kHz, a terminal of 80 x 24 made by script(1). CPU time by \
             /proc/PID/task/TID/schedstat; turns counted by sched:sched_switch."
        )],
    })
}

/// Observes a run in a terminal.
fn in_terminal(
    bench: &Bench,
    cpu: u32,
    seconds: u64,
    flags: &str,
) -> Result<(Switches, Vec<Thread>)> {
    let place = scratch()?;
    let line = format!(
        "{} run --cycles {} --cpus {cpu} --load none --out run{flags}",
        bench.tardy.display(),
        (seconds + 5) * 1000
    );
    let mut command = Command::new("script");
    command
        .args(["-q", "-e", "-c", &line, "/dev/null"])
        .current_dir(place.path())
        .env("TERM", "xterm")
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    bench.note(&command);
    let mut child = command
        .spawn()
        .while_doing(|| "starting script of util-linux".to_owned())?;
    let observed = recorder_of(child.id()).and_then(|tool| observe(tool, cpu, seconds));
    let _ = child.kill();
    let _ = child.wait();
    observed
}

/// Returns the process of tardy below `script`, once it measures.
fn recorder_of(script: u32) -> Result<u32> {
    let patience = Instant::now() + PATIENCE;
    while Instant::now() < patience {
        let threads = threads::when_measuring(script)
            .ok_or_else(|| Failure::new("the tool does not measure in a terminal"))?;
        let mut threads = threads.iter();
        if let Some(recorder) = threads.find(|thread| thread.name == "tardy-recorder") {
            return Ok(recorder.process);
        }
    }
    Err(Failure::new("the tool has no recorder"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_are_counted_by_thread_and_cpu() {
        let switches = BTreeMap::from([((1, 50), 1000), ((1, 51), 3), ((0, 51), 40), ((0, 52), 2)]);
        let counted = count(&switches, 50, 1);
        assert_eq!(
            (
                counted.to_measuring,
                counted.others_on_measured,
                counted.others_elsewhere
            ),
            (1000, 3, 42)
        );
        assert!(whole(counted, 1100).is_ok());
    }

    #[test]
    fn a_trace_with_holes_is_no_evidence() {
        let counted = count(&BTreeMap::from([((1, 50), 396)]), 50, 1);
        assert!(whole(counted, 20_000).is_err());
    }
}
