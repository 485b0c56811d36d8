//! The simulated player as a probe: its loop on the machine's own clock, and its rings.

use std::io;

use tardy_core::units::Nanos;
use tardy_sys::clock;

use super::audio::AudioClock;
use super::player::{Delay, Player, Rings, Time};
use crate::probe::member::{Member, Run};
use crate::probe::schedule::grid_of;
use crate::probe::{Opened, Opening};

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

pub(super) fn open(mut opening: Opening<'_>) -> io::Result<Opened> {
    let (frame, skew) =
        opening.producers.pop().zip(opening.producers.pop()).ok_or_else(|| io::Error::other("a player was opened without its series"))?;
    let (buffer, delay) = (opening.probe.parameters.duration("buffer"), opening.probe.parameters.duration("delay"));
    let delay = (delay > Nanos::ZERO).then(|| Delay { by: delay, every: opening.probe.parameters.number("delay-every").max(1) });
    let rate = opening.probe.parameters.number("audio-rate");
    let thread = opening.thread.clone();
    let run: Run = Box::new(move |ready| {
        let begin = ready.wait();
        let plan = thread.at(begin.at);
        let (walk, end) = grid_of(&plan)?;
        let (first, period) = (walk.base(), plan.schedule.period());
        let stop_above = plan.stop_above.unwrap_or(Nanos::MAX);
        let mut player = Player::new(first, period, AudioClock::new(first, buffer, rate), delay, Rings { skew, frame });
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
