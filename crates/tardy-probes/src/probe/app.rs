//! `app`: the user's own loop, which reports each cycle by two calls into memory that is shared
//! with the tool.

use std::io;
use std::process::Command;

use tardy_core::units::Nanos;
use tardy_core::warning::Warning;
use tardy_machine::host::Host;
use tardy_run::parameter::{Kind, Parameter};
use tardy_run::plan::{PolicyName, ProbePlan, WaitsFor};
use tardy_sys::{sched, scoped, signal};

use super::info::{Cycles, Placement, ProbeInfo};
use super::member::{DetectedGrid, Member, Run, Start};
use super::series_info::{SeriesInfo, SeriesKind};
use super::{OpenContext, ProbeInstance, Refusal};
use crate::app::program::{Ending, LoopDescription, Program, look_at};
use crate::app::relay::{LoopRings, RunningLoop, relay};

const DONE: SeriesInfo = SeriesInfo {
    part: "",
    quantity: "completion",
    kind: SeriesKind::Work,
    is_outside_verdict: false,
    bins_below_least: false,
};
const START: SeriesInfo = SeriesInfo {
    part: "start",
    quantity: "start",
    kind: SeriesKind::Grid,
    is_outside_verdict: true,
    bins_below_least: false,
};

/// Name of the parameter with the program's command line.
pub(super) const COMMAND: &str = "command";

pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "app",
    about: "each cycle of your own loop, from due time to end of work",
    times: "cycles of your own loop: in the series app, from the due time to the end of the work \
            (tardy_done); in the series app.start, from the due time to the start of the work \
            (tardy_due)",
    context: "stock kernel: the context depends on how the program waits; PREEMPT_RT: the same",
    source: "today (include/tardy.h, crates/tardy-app)",
    parameters: &[Parameter {
        name: COMMAND,
        means: "command line of the program that runs the loop, quoted as for a shell; the loop's \
                own period applies",
        kind: Kind::Text,
        default: None,
        needed: true,
    }],
    series: &[DONE, START],
    placement: Placement::Unbound,
    policy: PolicyName::Other,
    is_single: true,
    waits_for: WaitsFor::Event,
    cycles: Cycles::OfAProgram,
    resolve,
    open,
    ..ProbeInfo::USUAL
};

fn resolve(probe: &ProbePlan, _: &Host) -> Result<(), Refusal> {
    super::info::no_dither(probe)
}

fn open(mut opening: OpenContext<'_>) -> io::Result<ProbeInstance> {
    let stop_signals = [signal::INTERRUPT, signal::TERMINATE, signal::HANG_UP];
    let parameters = &opening.probe.parameters;
    let name = parameters
        .get(COMMAND)
        .map(ToString::to_string)
        .unwrap_or_default();
    let command = match parameters.words(COMMAND) {
        Some([program, arguments @ ..]) => with_arguments(program, arguments),
        _ => with_arguments(
            "/bin/sh",
            &[
                "-c".to_owned(),
                format!("exec {}", parameters.text(COMMAND)),
            ],
        ),
    };
    let mut program =
        Program::start(name, command, opening.measured_cpus).map_err(io::Error::other)?;
    let mut reader = program
        .wait_for_loop(|| signal::is_pending(&stop_signals))
        .map_err(io::Error::other)?;
    let found = look_at(&mut reader);
    let grid = found.period.map(|period| DetectedGrid {
        period,
        phase: found.phase,
    });
    let kind = if grid.is_some() {
        SeriesKind::Work
    } else {
        SeriesKind::Event
    };
    let series = [DONE, START]
        .map(|series| SeriesInfo { kind, ..series })
        .to_vec();
    let notes = vec![describe(&found)];
    let loop_thread = found.thread;
    let loop_name = found.name.clone();
    let (start, done) = match (opening.producers.pop(), opening.producers.pop()) {
        (Some(start), Some(done)) => (start, done),
        _ => {
            return Err(io::Error::other(
                "a program's loop was opened without its two series",
            ));
        }
    };
    let run: Run = Box::new(move |ready| {
        let memory = std::sync::Arc::clone(program.memory());
        // The relay runs in a separate thread, which is started before the run starts. Starting a
        // thread causes page faults for the new stack, and the tool counts page faults of the
        // current thread as those of a measuring thread.
        let (begin, relayed) = std::thread::scope(|scope| {
            let (go, gone) = std::sync::mpsc::sync_channel::<Start<'_>>(1);
            let memory = &memory;
            let relaying = std::thread::Builder::new().spawn_scoped(scope, move || {
                // If the run did not start, the sender is gone, and receiving fails.
                let begin = gone.recv().ok()?;
                let first = grid.map_or(begin.at, |grid| grid.first_from(begin.at));
                let running = RunningLoop {
                    name: found.name,
                    period: found.period,
                    first,
                    tells_done: found.tells_done,
                    reader,
                };
                Some(relay(
                    memory,
                    running,
                    LoopRings { done, start },
                    begin.control,
                ))
            });
            let relaying = relaying.map_err(scoped::refused)?;
            let begin = ready.wait();
            let _ = go.send(begin);
            let relayed = relaying.join().map_err(|_| {
                io::Error::other("the thread that reads the program's loop ended unexpectedly")
            })?;
            io::Result::Ok((begin, relayed))
        })?;
        let refused = memory.refused();
        let is_empty = relayed.as_ref().is_some_and(|relayed| !relayed.has_cycles);
        if let Some(left) = relayed.and_then(|relayed| relayed.left) {
            let (period, before, due) = (left.period, left.at.before, left.at.due);
            begin.control.warn(Warning::LoopLeftItsGrid {
                name: left.name,
                period,
                before,
                due,
            });
        }
        if is_empty {
            begin.control.warn(Warning::Problem {
                text: format!(
                    "the loop `{loop_name}` started no cycle during the measurement: measure for \
                     longer, or give a loop that runs for longer"
                ),
            });
        }
        if refused > 0 {
            begin.control.warn(Warning::Problem {
                text: format!(
                    "{refused} more loops of the program were not measured: tardy measures only \
                     the first loop of a program"
                ),
            });
        }
        let is_ending = !begin
            .control
            .is_past_end(Nanos(tardy_sys::clock::monotonic()));
        // Once the measured program has ended, the run ends, because other probes have nothing to
        // wait for.
        begin.control.stop_at(Nanos(tardy_sys::clock::monotonic()));
        let left = begin.control.leave();
        match program.end(is_ending)? {
            Ending::Asked => {}
            Ending::ByItself(status) => begin.control.warn(Warning::Problem {
                text: format!("the program ended by itself ({status})"),
            }),
            Ending::Killed => {
                begin.control.warn(Warning::Problem {
                    text: "the program did not exit on SIGTERM, and was killed".to_owned(),
                });
            }
        }
        Ok(left)
    });
    // The planned policy applies to the program. This thread only waits for the relay, so it stays
    // an ordinary task.
    let member = Member {
        policy: sched::Policy::Other { nice: 0 },
        is_watched: false,
        ..Member::new(opening.probe, None, run)
    };
    Ok(ProbeInstance {
        members: vec![member],
        series: Some(series),
        grid,
        loop_thread,
        notes,
        ..ProbeInstance::default()
    })
}

fn with_arguments(program: &str, arguments: &[String]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

fn describe(found: &LoopDescription) -> String {
    let every = found.period.map_or_else(
        || "without a grid".to_owned(),
        |period| format!("every {}", period.exact()),
    );
    let policy = found.policy.as_ref().map_or_else(
        || "under a policy that could not be read".to_owned(),
        |policy| format!("under {policy}"),
    );
    let done = if found.tells_done {
        ""
    } else {
        "; the loop does not report the end of its work, so the start of its work is used instead"
    };
    format!("app is the loop `{}`, {every}, {policy}{done}", found.name)
}
