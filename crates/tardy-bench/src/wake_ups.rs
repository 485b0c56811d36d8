//! How often a tool's other threads come onto the measured CPU, counted by the scheduler's own
//! tracepoint.

use std::collections::BTreeMap;
use std::time::Duration;

use super::contender::{CONTENDERS, Contender};
use super::figure::{Bench, Figure, FigureResult, row, scratch};
use super::sched_trace::SchedTrace;
use super::threads;
use crate::failure::{Failure, Result};

pub(crate) const FIGURE: Figure = Figure {
    name: "wake-ups",
    promise: "With a spare CPU, no other thread of the tool runs on a measured CPU",
    measure,
};

/// How often a tool's threads had a CPU while it measured one.
struct Switches {
    to_measuring: u64,
    others_on_measured: u64,
    others_elsewhere: u64,
}

fn measure(bench: &Bench) -> Result<FigureResult> {
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
        let switches = observe(contender, bench, cpu, seconds)?;
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
        reached: format!(
            "{own} in {seconds} s: {}",
            if own == 0 { "holds" } else { "NOT reached" }
        ),
        tables: vec![table],
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

fn observe(contender: Contender, bench: &Bench, cpu: u32, seconds: u64) -> Result<Switches> {
    let place = scratch()?;
    let command = contender.command(bench, cpu, (seconds + 3) * 1000, place.path())?;
    bench.note(&command);
    let mut child = contender.start(command, place.path())?;
    let before = contender.when_measuring(&child)?;
    let trace = SchedTrace::start(&before.iter().map(|thread| thread.id).collect::<Vec<_>>());
    std::thread::sleep(Duration::from_secs(seconds));
    let switches = trace.and_then(SchedTrace::finish);
    let spent = threads::since(&before, &threads::of_tree(child.id()));
    contender.finish(&mut child, place.path())?;
    let measuring = threads::measuring(&spent)
        .ok_or_else(|| Failure::new(format!("{} has no thread that measures", contender.name())))?;
    whole(count(&switches?, measuring.id, cpu), measuring.waits)
}

/// Refuses a trace that saw much less than the thread's own count of waits: that it saw no other
/// thread would say nothing.
fn whole(switches: Switches, waits: u64) -> Result<Switches> {
    if switches.to_measuring < waits / 5 * 4 {
        return Err(Failure::new(format!(
            "the trace saw {} turns of the measuring thread, which waited {waits} times meanwhile",
            switches.to_measuring
        )));
    }
    Ok(switches)
}

/// `switches` by (CPU, thread).
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
