//! The built-in player as a probe: runs the player's loop on the machine's own clock, with its
//! rings and the selected audio clock.

use std::io;

use tardy_core::units::Nanos;
use tardy_core::warning::Warning;
use tardy_machine::host::Host;
use tardy_sys::clock;

use super::alsa::CardSound;
use super::audio::AudioClock;
use super::card::Card;
use super::player::{Delay, Player, Rings, Sound, Time};
use super::{AudioBy, FRAME, SKEW, audio_by};
use crate::probe::member::{Member, Run};
use crate::probe::schedule::grid_of;
use crate::probe::series_info::SeriesKind;
use crate::probe::{OpenContext, ProbeInstance, SeriesInfo};
use crate::recording::control::Control;

const CARD_SKEW: SeriesInfo = SeriesInfo {
    part: "alsa",
    quantity: "audio/video skew by the sound card",
    ..SKEW
};
const CARD_FRAME: SeriesInfo = SeriesInfo {
    part: "alsa-frame",
    quantity: "inter-frame time by the sound card less the period",
    kind: SeriesKind::Interval {
        has_own_clock: true,
    },
    ..FRAME
};

/// The clock and the sleep of this machine.
struct RealTime;

impl Time for RealTime {
    #[inline]
    fn now(&mut self) -> Nanos {
        Nanos(clock::monotonic())
    }

    #[inline]
    fn sleep_for(&mut self, time: Nanos) -> io::Result<()> {
        clock::sleep_for(
            clock::Clock::Monotonic,
            &clock::Instant::from_nanos(time.get()),
        )
    }
}

pub(super) fn open(opening: OpenContext<'_>) -> io::Result<ProbeInstance> {
    let why = match audio_by(opening.probe) {
        AudioBy::Model => None,
        by => match Card::open(opening.probe, &Host::of_this_machine()) {
            Ok(card) => return open_card(opening, card),
            Err(error) if by == AudioBy::Card => return Err(io::Error::other(error)),
            Err(error) => Some(error),
        },
    };
    let buffer = opening.probe.parameters.duration("buffer");
    let delay = opening.probe.parameters.duration("delay");
    let delay = (delay > Nanos::ZERO).then(|| Delay {
        by: delay,
        every: opening.probe.parameters.number("delay-every").max(1),
    });
    let rate = opening.probe.parameters.number("audio-rate");
    let why = why.map_or_else(String::new, |error| format!("; missing: {error}"));
    let notes = vec![format!(
        "media: simulated player, no audio hardware: the audio clock is the system's, and stands \
         still while there is no sound to play{why}"
    )];
    let members = vec![member(
        opening,
        delay,
        move |first| Ok(AudioClock::new(first, buffer, rate)),
        |_, _| (),
    )?];
    Ok(ProbeInstance {
        members,
        notes,
        ..ProbeInstance::default()
    })
}

fn open_card(opening: OpenContext<'_>, card: Card) -> io::Result<ProbeInstance> {
    let notes = vec![card.note()];
    let sound = CardSound::new(card)?;
    let begin = |first| {
        let mut sound = sound;
        sound.start(first, &mut RealTime)?;
        Ok(sound)
    };
    let members = vec![member(opening, None, begin, |sound, control| {
        control.warn(Warning::Note {
            text: sound.finish(),
        })
    })?];
    Ok(ProbeInstance {
        members,
        series: Some(vec![CARD_SKEW, CARD_FRAME]),
        notes,
        ..ProbeInstance::default()
    })
}

/// Makes the player's thread. `begin` makes the sound device, whose playback starts at the first
/// frame's due time; `end` receives the device after the last frame.
fn member<S: Sound>(
    mut opening: OpenContext<'_>,
    delay: Option<Delay>,
    begin: impl FnOnce(Nanos) -> io::Result<S> + Send + 'static,
    end: impl FnOnce(S, &Control) + Send + 'static,
) -> io::Result<Member> {
    let (frame, skew) = opening
        .producers
        .pop()
        .zip(opening.producers.pop())
        .ok_or_else(|| io::Error::other("a player was opened without its series"))?;
    let thread = opening.thread.clone();
    let run: Run = Box::new(move |ready| {
        let start = ready.wait();
        let plan = thread.at(start.at);
        let (walk, last) = grid_of(&plan)?;
        let (first, period) = (walk.base(), plan.schedule.period());
        let stop_above = plan.stop_above.unwrap_or(Nanos::MAX);
        let mut player = Player::new(first, period, begin(first)?, delay, Rings { skew, frame });
        let result = player.play(
            &mut RealTime,
            |due, now| due >= last || start.control.is_past_end(due.max(now)),
            |sample| {
                let is_too_much = sample.latency > stop_above;
                if is_too_much {
                    start.control.stop_because_of(plan.cpu, sample);
                }
                !is_too_much
            },
        );
        let sound = player.close();
        let left = start.control.leave();
        end(sound, start.control);
        result.map(|()| left)
    });
    Ok(Member::new(opening.probe, opening.thread.cpu, run))
}
