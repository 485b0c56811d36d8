//! `response`: a thread sends a stimulus to a device or another machine, busy-polls for its answer,
//! and measures the time of this round trip.

use std::io;

use tardy_core::units::Nanos;
use tardy_core::warning::Warning;
use tardy_machine::host::Host;
use tardy_run::parameter::{Kind, Parameter};
use tardy_run::plan::{ProbePlan, ThreadPlan, WaitsFor};

use super::info::{Placement, ProbeInfo};
use super::member::{Member, Run};
use super::series_info::{SeriesInfo, SeriesKind};
use super::{OpenContext, ProbeInstance, Refusal};
use crate::link::exchange::{Pace, Rings, Tally};
use crate::link::initiation::{Answers, Initiation};
use crate::link::respond::{Responder, ResponderResult};
use crate::link::{Link, ParseLinkError};

const ROUND_TRIP: SeriesInfo = SeriesInfo {
    part: "",
    quantity: "round trip",
    kind: SeriesKind::Event,
    is_outside_verdict: false,
    bins_below_least: false,
};
const LOOK: SeriesInfo = SeriesInfo {
    part: "look",
    quantity: "longest time between two polls",
    kind: SeriesKind::Event,
    is_outside_verdict: true,
    bins_below_least: false,
};
const IN_RESPONDER: SeriesInfo = SeriesInfo {
    part: "responder",
    quantity: "time in the responder",
    kind: SeriesKind::Event,
    is_outside_verdict: true,
    bins_below_least: false,
};
/// Name of the series if the other machine's kernel answers. It is separate, so that no table mixes
/// answers of kernels with answers of processes.
const IN_KERNEL: SeriesInfo = SeriesInfo {
    part: "in-kernel",
    quantity: "round trip, answered in the kernel",
    ..ROUND_TRIP
};

pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "response",
    about: "round trip of a stimulus to another machine, or over a cable",
    times: "the round trip of a stimulus to another machine or device over a link: from the clock \
            read just before the sending call until the answer arrives (the kernel's timestamp or, \
            without timestamps, the poll that found the answer)",
    context: "no timer; stock kernel: the other end answers in its responder, after a hard \
              interrupt (icmp: in the softirq); PREEMPT_RT: the same, but interrupt and softirq \
              run in threads",
    source: "koolwal2009 (lpptest)",
    parameters: &[
        Parameter {
            name: "link",
            means: "link to the other end, as in udp:board7 (`tardy list links`)",
            kind: Kind::Text,
            default: None,
            needed: true,
        },
        Parameter::duration(
            "time-out",
            "time limit for an answer; a lost answer is recorded as a sample of this length",
            "100ms",
            Nanos::from_millis(1),
            Nanos::from_secs(10),
        ),
        Parameter::duration(
            "interrupted",
            "a longer time between two polls means that the initiator was interrupted",
            "20us",
            Nanos::from_micros(1),
            Nanos::from_secs(1),
        ),
        Parameter::path(
            "secret",
            "file with the responder's --secret, readable by its owner only",
        ),
    ],
    series: &[ROUND_TRIP, LOOK, IN_RESPONDER],
    placement: Placement::FirstCpu,
    is_single: true,
    waits_for: WaitsFor::Event,
    // The system calls of the loopback link. Other links make other calls.
    system_calls: &["clock_nanosleep", "write", "read", "ppoll"],
    resolve,
    open,
    ..ProbeInfo::USUAL
};

fn resolve(probe: &ProbePlan, _: &Host) -> Result<(), Refusal> {
    super::info::no_dither(probe)?;
    link(probe).map(drop).map_err(Refusal::Request)
}

/// Returns the link, including its secret. Returns an error message if the requested link is not
/// valid or its secret cannot be used.
fn link(probe: &ProbePlan) -> Result<Link, String> {
    let link: Link = probe
        .parameters
        .text("link")
        .parse()
        .map_err(|error: ParseLinkError| error.to_string())?;
    match probe.parameters.path("secret") {
        Some(file) => link.with_secret(file).map_err(|error| error.to_string()),
        None => Ok(link),
    }
}

fn open(opening: OpenContext<'_>) -> io::Result<ProbeInstance> {
    let link = link(opening.probe).map_err(io::Error::other)?;
    let opened = link.place().initiate();
    let mut initiation = opened.map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("{link}: {error}: {}", link.place().remedy(&error)),
        )
    })?;
    let (answers, own) = (initiation.answers, initiation.own_responder.take());
    let (probe, beside) = (
        opening.probe,
        opening.measured_cpus.iter().skip(1).take(1).collect(),
    );
    let mut opened = initiate(opening, &link, initiation)?;
    opened
        .members
        .extend(own.map(|responder| own_responder(probe, beside, responder)));
    opened.series = match answers {
        Answers::OfTheKernel => Some(vec![IN_KERNEL, LOOK]),
        Answers::OfAProcess => Some(vec![ROUND_TRIP, LOOK]),
        Answers::OfAProcessThatTells => None,
    };
    Ok(opened)
}

/// Makes the thread that sends stimuli and polls for answers.
fn initiate(
    mut opening: OpenContext<'_>,
    link: &Link,
    initiation: Initiation,
) -> io::Result<ProbeInstance> {
    let in_responder = opening.producers.pop();
    let (look, round_trip) = opening
        .producers
        .pop()
        .zip(opening.producers.pop())
        .ok_or_else(|| io::Error::other("a link was opened without its series"))?;
    let rings = Rings {
        round_trip,
        look,
        in_responder,
    };
    let pace = pace(opening.probe, opening.thread);
    let name = link.to_string();
    let (floor, external) = (initiation.floor.clone(), initiation.is_external);
    let run: Run = Box::new(move |ready| {
        let start = ready.wait();
        let control = start.control;
        let tally = initiation.exchange(pace, rings, start.at, &|next| control.is_past_end(next));
        control.warn(Warning::Note {
            text: describe(&name, &tally, pace),
        });
        if tally.to_nobody > 0 {
            control.warn(Warning::ResponderGone {
                link: name,
                unanswered: tally.to_nobody,
            });
        }
        // The measurement has ended, so the loopback's responder has nothing left to answer.
        control.stop_at(Nanos(tardy_sys::clock::monotonic()));
        Ok(control.leave())
    });
    let mut notes = vec![format!(
        "response: the initiator's own calls take {floor}, so round trips over {link} take at \
         least that long"
    )];
    if !external {
        notes.push(format!(
            "response: {link} does not leave this machine (external=false): verdicts ignore it"
        ));
    }
    if let Some(included) = link.place().includes() {
        notes.push(format!(
            "response: a round trip over {link} includes {included}"
        ));
    }
    let members = vec![Member::new(opening.probe, opening.thread.cpu, run)];
    Ok(ProbeInstance {
        members,
        external: Some(external),
        notes,
        ..ProbeInstance::default()
    })
}

fn pace(probe: &ProbePlan, thread: &ThreadPlan) -> Pace {
    Pace {
        period: probe.period,
        time_out: probe.parameters.duration("time-out"),
        interrupted_above: probe.parameters.duration("interrupted"),
        cycles: thread.cycles,
    }
}

/// Makes the thread of a loopback's responder, scheduled like the initiator.
fn own_responder(
    probe: &ProbePlan,
    cpus: tardy_core::cpu::CpuList,
    mut responder: Box<dyn Responder>,
) -> Member {
    let run: Run = Box::new(move |ready| {
        let start = ready.wait();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        // The responder returns when the initiator closes its side of the link.
        let mut answered = ResponderResult::default();
        responder.answer(&is_over, &mut None, &mut answered)?;
        if answered.failures > 0 {
            start.control.warn(Warning::Problem {
                text: format!("response: {} answers could not be sent", answered.failures),
            });
        }
        Ok(start.control.leave())
    });
    Member {
        role: "responder",
        cpus,
        ..Member::new(probe, None, run)
    }
}

fn describe(link: &str, tally: &Tally, pace: Pace) -> String {
    let Tally {
        sent,
        answered,
        lost,
        late,
        duplicate,
        interrupted,
        ..
    } = tally;
    let lost_as = if *lost > 0 {
        format!(
            " (each recorded as a sample of {}, the time-out)",
            pace.time_out.exact()
        )
    } else {
        String::new()
    };
    format!(
        "response: {sent} stimuli over {link}, {answered} answered, {lost} lost{lost_as}, {late} \
         late, {duplicate} duplicated; during {interrupted} stimuli the initiator itself was \
         interrupted, for more than {} (series response.look)",
        pace.interrupted_above.exact()
    )
}
