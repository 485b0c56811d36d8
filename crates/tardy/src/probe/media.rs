//! `media`: audio/video skew and inter-frame time, by which abeni2002 judged a player. Of a player's loop that is built in, with a modelled audio clock,
//! and of a real player; the two never stand under one name.

mod audio;
mod mpv;
mod player;
mod reported;
mod simulated;
mod timeline;

use std::io;

use tardy_core::units::Nanos;

use super::info::{Placement, ProbeInfo, SeriesInfo, SeriesKind};
use super::{Opened, Opening, Refusal};
use crate::cli::run::PolicyName;
use crate::load::{Absent, Surroundings};
use crate::parameter::Parameter;
use crate::plan::ProbePlan;

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
/// The player that is built in, and the one that is a program; as values of the parameter.
const PLAYERS: &[&str] = &["simulated", "mpv"];
/// Frames that a real player can be asked for.
const REAL_PERIOD: std::ops::RangeInclusive<Nanos> = Nanos::from_millis(2)..=Nanos::from_secs(1);

pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "media",
    times: "a player: the audio time less the frame's video time when it is shown (below zero the picture is ahead), and the time between two \
            frames as media.frame; 25, 30 and 60 frames per second are periods of 40ms, 33333333ns and 16666667ns. Built in: a simulated player, no \
            audio hardware. With player=mpv: a real one, and what it reports, as media.player and media.player-frame",
    context: "stock: hard interrupt (relative sleep; mpv: wait with a time-out); RT: hard interrupt for real-time threads, softirq thread for others",
    source: "abeni2002 section 5",
    parameters: &[
        Parameter::choice(
            "player",
            "who plays: a loop of this tool, or the program mpv with a clip that it makes itself (libavfilter)",
            PLAYERS,
        ),
        Parameter::duration(
            "buffer",
            "sound that the player keeps written ahead; when it is played, the audio clock stands still (simulated)",
            "200ms",
            Nanos::from_millis(1),
            Nanos::from_secs(10),
        ),
        Parameter::duration(
            "delay",
            "how much the audio clock is held back on purpose at some frames, to see that this is found (simulated)",
            NO_DELAY,
            Nanos::ZERO,
            Nanos::from_secs(1),
        ),
        Parameter::count("delay-every", "at every how many-th frame (simulated)", "100", 1, 1_000_000),
        Parameter::count("audio-rate", "sound samples a second, in which the audio clock counts", "48000", 8_000, 768_000),
        Parameter::choice("video-out", "where pictures go (mpv)", &["null", "gpu", "x11", "drm", "wlshm"]),
        Parameter::choice("audio-out", "where sound goes (mpv)", &["null", "alsa", "pipewire", "pulse", "jack"]),
    ],
    series: &[SKEW, FRAME],
    placement: Placement::FirstCpu,
    policy: PolicyName::Fifo,
    period: Nanos(33_333_333),
    resolve,
    open,
};

fn is_real(probe: &ProbePlan) -> bool {
    probe.parameters.text("player") == PLAYERS[1]
}

fn resolve(probe: &ProbePlan, surroundings: &Surroundings) -> Result<(), Refusal> {
    super::info::no_dither(probe)?;
    let refuse = |text: String| Err(Refusal::Request(text));
    let (delay, is_null) = (probe.parameters.duration("delay"), |name| probe.parameters.text(name) == "null");
    match is_real(probe) {
        true if delay > Nanos::ZERO => refuse("the clock of a real player cannot be held back: leave delay out, or player".to_owned()),
        true if !REAL_PERIOD.contains(&probe.period) => refuse(format!(
            "{} is no period of frames for mpv: give one from {} to {}",
            probe.period.exact(),
            REAL_PERIOD.start().exact(),
            REAL_PERIOD.end().exact()
        )),
        true if surroundings.program(mpv::PROGRAM).is_none() => {
            let remedy = "install the package mpv, or leave player=mpv out for the simulated player";
            Err(Refusal::Absent(Absent::new("the player mpv", remedy)))
        }
        true => Ok(()),
        false if delay >= probe.period => refuse("a delay of a whole frame is another frame: give delay= less than the period".to_owned()),
        false if !is_null("video-out") || !is_null("audio-out") => {
            refuse("the simulated player has no outputs: leave video-out and audio-out out, or add player=mpv".to_owned())
        }
        false => Ok(()),
    }
}

fn open(opening: Opening<'_>) -> io::Result<Opened> {
    if is_real(opening.probe) { reported::open(opening) } else { simulated::open(opening) }
}
