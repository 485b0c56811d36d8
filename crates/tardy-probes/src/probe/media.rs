//! `media`: measures audio/video skew and inter-frame time, the two numbers by which abeni2002
//! judged a player. It measures either a built-in player loop or a real player. The built-in loop
//! takes its audio clock from a sound card or from a model. The names of the series show which of
//! these was measured.
//!
//! The probe uses the numbers that a real player reports, without changes. mpv plays an endless
//! clip, which libavfilter makes without a file. mpv reports the frame times in its statistics and
//! the skew through its JSON interface, and the probe joins the two by the number of the frame. A
//! frame without a reported skew is recorded as lost. A frame that was not shown is recorded as
//! skipped. The series of simulated players have separate names, so no table mixes a simulated and
//! a real player.
//!
//! The kernel reports the position of the card's hardware pointer, with a time stamp. From the two,
//! the probe computes which position in the sound is audible at the time of a frame. It assumes
//! that the pointer has advanced at the nominal rate since the time stamp. If the pointer moves in
//! uneven steps, the result has an error of the same size. The run reports this error, and the rate
//! of the card's clock. After an xrun, the sound resumes where it was interrupted.
//!
//! The series of the built-in loop are called `media.alsa` if a card's clock is used, and `media`
//! if a modelled clock is used. Without `player=`, the card's clock is used if there is a card; the
//! run stores the choice with its reason.

mod alsa;
mod audio;
mod built_in;
mod card;
mod mpv;
mod player;
mod pointer;
mod reported;
mod timeline;

use std::io;

use tardy_core::units::Nanos;
use tardy_machine::host::Host;
use tardy_machine::unsupported::Unsupported;
use tardy_run::parameter::Parameter;
use tardy_run::plan::{ProbePlan, WaitsFor};

use super::info::{Cycles, Placement, ProbeInfo};
use super::series_info::{SeriesInfo, SeriesKind};
use super::{OpenContext, ProbeInstance, Refusal};

use card::Card;

const SKEW: SeriesInfo = SeriesInfo {
    part: "",
    quantity: "audio/video skew",
    kind: SeriesKind::Skew,
    is_outside_verdict: false,
    bins_below_least: false,
};
const FRAME: SeriesInfo = SeriesInfo {
    part: "frame",
    quantity: "inter-frame time less the period",
    kind: SeriesKind::Interval {
        has_own_clock: false,
    },
    is_outside_verdict: true,
    bins_below_least: false,
};

/// Value of `delay` for an audio clock without deliberate delay.
const NO_DELAY: &str = "0ns";
/// The values of `player`. The first three select the built-in player. The first uses a card's
/// audio clock if there is a card, the second always uses a card's clock, and the third uses a
/// modelled clock. The last one selects the external player.
const PLAYERS: &[&str] = &["auto", "alsa", "simulated", "mpv"];
/// Frame periods that a real player supports.
const REAL_PERIOD: std::ops::RangeInclusive<Nanos> = Nanos::from_millis(2)..=Nanos::from_secs(1);

pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "media",
    about: "a media player: audio/video skew, and time between frames",
    times: "a player: the audio time minus the frame's video time when the frame is shown \
            (negative: the picture is ahead); the series media.frame has the time between two \
            frames. 25, 30 and 60 frames per second are periods of 40ms, 33333333ns and \
            16666667ns. The built-in player takes its audio clock from a sound card (ALSA; series \
            media.alsa and media.alsa-frame); without a sound card, it simulates the clock. With \
            player=mpv, the numbers are a real player's own reports (media.player and \
            media.player-frame)",
    context: "timer of a relative sleep (with player=mpv, of a wait with a time-out); stock \
              kernel: hard interrupt; PREEMPT_RT: hard interrupt for real-time threads, softirq \
              thread for others",
    source: "abeni2002 section 5",
    parameters: &[
        Parameter::choice(
            "player",
            "the player: alsa (built in, on the clock of a sound card), simulated (built in, on a \
             simulated clock), auto (alsa if there is a sound card, otherwise simulated), or mpv \
             (that program, which plays a generated clip of libavfilter)",
            PLAYERS,
        ),
        Parameter::duration(
            "buffer",
            "length of sound that the player buffers ahead; once this sound is played, the audio \
             clock stands still (auto, alsa, simulated)",
            "200ms",
            Nanos::from_millis(1),
            Nanos::from_secs(10),
        ),
        Parameter::duration(
            "delay",
            "delay added to the audio clock at some frames, to check that the probe detects the \
             delay (simulated; auto then means simulated)",
            NO_DELAY,
            Nanos::ZERO,
            Nanos::from_secs(1),
        ),
        Parameter::count(
            "delay-every",
            "number of frames from one delayed frame to the next (simulated)",
            "100",
            1,
            1_000_000,
        ),
        Parameter::count(
            "audio-rate",
            "sound samples per second; the audio clock counts these samples",
            "48000",
            8_000,
            768_000,
        ),
        Parameter::path(
            "device",
            "sound card, as card and device (0,0) or a path; by default the first available one \
             (alsa; auto then means alsa)",
        ),
        Parameter::choice(
            "video-out",
            "video output (mpv)",
            &["null", "gpu", "x11", "drm", "wlshm"],
        ),
        Parameter::choice(
            "audio-out",
            "audio output (mpv)",
            &["null", "alsa", "pipewire", "pulse", "jack"],
        ),
    ],
    series: &[SKEW, FRAME],
    placement: Placement::FirstCpu,
    period: Nanos(33_333_333),
    is_single: true,
    waits_for: WaitsFor::Event,
    cycles: Cycles::OfAPlayer,
    resolve,
    open,
    ..ProbeInfo::USUAL
};

/// Where the built-in player takes its audio clock from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AudioBy {
    /// The clock of a sound card, which is required.
    Card,
    /// The clock of a sound card if there is one, otherwise a modelled clock.
    CardOrModel,
    Model,
}

fn is_real(probe: &ProbePlan) -> bool {
    probe.parameters.text("player") == PLAYERS[3]
}

fn audio_by(probe: &ProbePlan) -> AudioBy {
    match probe.parameters.text("player") {
        "alsa" => AudioBy::Card,
        "simulated" => AudioBy::Model,
        // A deliberate delay is possible only with the modelled clock, and a named device only with
        // the card's clock.
        _ if probe.parameters.duration("delay") > Nanos::ZERO => AudioBy::Model,
        _ if probe.parameters.path("device").is_some() => AudioBy::Card,
        _ => AudioBy::CardOrModel,
    }
}

fn resolve(probe: &ProbePlan, host: &Host) -> Result<(), Refusal> {
    super::info::no_dither(probe)?;
    if is_real(probe) {
        resolve_real(probe, host)
    } else {
        resolve_built_in(probe, host)
    }
}

fn refuse(text: &str) -> Result<(), Refusal> {
    Err(Refusal::Request(text.to_owned()))
}

fn resolve_real(probe: &ProbePlan, host: &Host) -> Result<(), Refusal> {
    if probe.parameters.duration("delay") > Nanos::ZERO {
        return refuse(
            "the clock of a real player cannot be delayed: leave out delay= or player=mpv",
        );
    }
    if probe.parameters.path("device").is_some() {
        return refuse("mpv finds its sound device itself: leave out device=, or use player=alsa");
    }
    if !REAL_PERIOD.contains(&probe.period) {
        let (from, to) = (REAL_PERIOD.start().exact(), REAL_PERIOD.end().exact());
        return refuse(&format!(
            "{} is not a frame period for mpv: give one from {from} to {to}",
            probe.period.exact()
        ));
    }
    if host.program(mpv::PROGRAM).is_none() {
        let remedy = "install the package mpv, or leave player=mpv out for the built-in player";
        return Err(Refusal::Absent(Unsupported::new("the player mpv", remedy)));
    }
    Ok(())
}

fn resolve_built_in(probe: &ProbePlan, host: &Host) -> Result<(), Refusal> {
    let (delay, is_null) = (probe.parameters.duration("delay"), |name| {
        probe.parameters.text(name) == "null"
    });
    let (by, names_device) = (audio_by(probe), probe.parameters.path("device").is_some());
    if delay >= probe.period {
        return refuse("a delay must be shorter than one frame: give delay= less than the period");
    }
    if !is_null("video-out") || !is_null("audio-out") {
        return refuse(
            "the built-in player has no outputs to choose: leave out video-out= and audio-out=, or \
             add player=mpv",
        );
    }
    match by {
        AudioBy::Card if delay > Nanos::ZERO => refuse(
            "the clock of a sound card cannot be delayed: leave out delay=, or use \
             player=simulated",
        ),
        AudioBy::Model if names_device => refuse(
            "a simulated clock has no sound card: leave out device=, or use player=alsa without \
             delay=",
        ),
        AudioBy::Card => Card::open(probe, host)
            .map(drop)
            .map_err(|error| Refusal::Absent(error.into_absent())),
        AudioBy::Model | AudioBy::CardOrModel => Ok(()),
    }
}

fn open(opening: OpenContext<'_>) -> io::Result<ProbeInstance> {
    if is_real(opening.probe) {
        reported::open(opening)
    } else {
        built_in::open(opening)
    }
}
