//! `media`: a player's loop, with the two figures by which abeni2002 judged one: audio/video skew and inter-frame time.

mod audio;
mod player;

use std::io;

use tardy_core::units::Nanos;
use tardy_sys::clock;

use super::info::{Placement, ProbeInfo, SeriesInfo, SeriesKind};
use super::member::{Member, Run};
use super::schedule::grid_of;
use super::{Opened, Opening, Refusal};
use crate::cli::run::PolicyName;
use crate::load::Surroundings;
use crate::parameter::Parameter;
use crate::plan::ProbePlan;
use audio::AudioClock;
use player::{Delay, Player, Rings, Time};

const SKEW: SeriesInfo =
    SeriesInfo { part: "", quantity: "audio/video skew", kind: SeriesKind::Skew, is_outside_verdict: false, counts_small: false };
const FRAME: SeriesInfo = SeriesInfo {
    part: "frame",
    quantity: "inter-frame time less the period",
    kind: SeriesKind::Interval { has_own_clock: false },
    is_outside_verdict: true,
    counts_small: false,
};

/// `delay` where the audio clock is not delayed on purpose.
const NO_DELAY: &str = "0ns";

pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "media",
    times: "a simulated player, no audio hardware: the audio time less the frame's video time when it is shown (below zero the picture is ahead), \
            and the time between two frames as media.frame; 25, 30 and 60 frames per second are periods of 40ms, 33333333ns and 16666667ns",
    context: "stock: hard interrupt (relative sleep); RT: hard interrupt for real-time threads, softirq thread for others",
    source: "abeni2002 section 5",
    parameters: &[
        Parameter::duration(
            "buffer",
            "sound that the player keeps written ahead; when it is played, the audio clock stands still",
            "200ms",
            Nanos::from_millis(1),
            Nanos::from_secs(10),
        ),
        Parameter::duration(
            "delay",
            "how much the audio clock is held back on purpose at some frames, to see that this is found",
            NO_DELAY,
            Nanos::ZERO,
            Nanos::from_secs(1),
        ),
        Parameter::count("delay-every", "at every how many-th frame", "100", 1, 1_000_000),
    ],
    series: &[SKEW, FRAME],
    placement: Placement::FirstCpu,
    policy: PolicyName::Fifo,
    period: Nanos(33_333_333),
    resolve,
    open,
};

fn resolve(probe: &ProbePlan, _: &Surroundings) -> Result<(), Refusal> {
    super::info::no_dither(probe)?;
    if probe.parameters.duration("delay") >= probe.period {
        return Err(Refusal::Request("a delay of a whole frame is another frame: give delay= less than the period".to_owned()));
    }
    Ok(())
}

/// The machine's own clock and sleep.
struct RealTime;

impl Time for RealTime {
    #[inline]
    fn now(&mut self) -> Nanos {
        Nanos(clock::monotonic())
    }

    #[inline]
    fn sleep_for(&mut self, time: Nanos) -> io::Result<()> {
        clock::sleep_for(&clock::Instant::from_nanos(time.get()))
    }
}

fn open(mut opening: Opening<'_>) -> io::Result<Opened> {
    let (frame, skew) =
        opening.producers.pop().zip(opening.producers.pop()).ok_or_else(|| io::Error::other("a player was opened without its series"))?;
    let (buffer, delay) = (opening.probe.parameters.duration("buffer"), opening.probe.parameters.duration("delay"));
    let delay = (delay > Nanos::ZERO).then(|| Delay { by: delay, every: opening.probe.parameters.number("delay-every").max(1) });
    let thread = opening.thread.clone();
    let run: Run = Box::new(move |ready| {
        let begin = ready.wait();
        let plan = thread.at(begin.at);
        let (walk, end) = grid_of(&plan)?;
        let (first, period) = (walk.base(), plan.schedule.period());
        let stop_above = plan.stop_above.unwrap_or(Nanos::MAX);
        let mut player = Player::new(first, period, AudioClock::new(first, buffer), delay, Rings { skew, frame });
        let result = player.play(
            &mut RealTime,
            |due, now| due >= end || begin.control.is_past_end(due.max(now)),
            |sample| {
                let is_too_much = sample.latency > stop_above;
                if is_too_much {
                    begin.control.stop_because_of(plan.cpu, sample);
                }
                !is_too_much
            },
        );
        player.close();
        result
    });
    let notes = vec![
        "media: simulated player, no audio hardware: the audio clock is the system's, and stands still while there is no sound to play"
            .to_owned(),
    ];
    Ok(Opened { members: vec![Member::new(opening.probe, opening.thread.cpu, run)], notes, ..Opened::default() })
}
