//! A real player as a probe. The player's reports for each frame become samples; their series are
//! separate from those of the simulated player.

use std::collections::VecDeque;
use std::io;

use tardy_core::sample::Sample;
use tardy_core::units::Nanos;
use tardy_core::warning::Warning;
use tardy_machine::host::Host;
use tardy_run::plan::ThreadPlan;
use tardy_sys::{affinity, clock, sched, scoped, signal};

use super::mpv::{Mpv, Orders, PROGRAM, PlayerLine};
use super::timeline::{Fate, Frame, Timeline};
use super::{FRAME, SKEW};
use crate::app::track::Track;
use crate::probe::member::{DetectedGrid, Member, Run};
use crate::probe::{OpenContext, ProbeInstance, SeriesInfo};
use crate::recording::control::{Control, Departure};
use crate::recording::ring::Producer;

const REPORTED_SKEW: SeriesInfo = SeriesInfo {
    part: "player",
    quantity: "player-reported audio/video skew",
    ..SKEW
};
const REPORTED_FRAME: SeriesInfo = SeriesInfo {
    part: "player-frame",
    quantity: "player-reported inter-frame time less the period",
    ..FRAME
};

/// Number of frames that must have been shown before the run starts. The first frames are late,
/// because the player is still opening its outputs.
const FIRST_FRAMES: usize = 10;
/// How long the player may take to show these frames.
const START_MAX: Nanos = Nanos::from_secs(30);
/// How long to wait after the run for the statistics of the last frames. They arrive late, because
/// the player writes statistics in blocks of 4 KiB.
const PATIENCE: Nanos = Nanos::from_secs(1);
const LOOK_MILLIS: i32 = 10;

pub(super) fn open(mut opening: OpenContext<'_>) -> io::Result<ProbeInstance> {
    let (frame, skew) = opening
        .producers
        .pop()
        .zip(opening.producers.pop())
        .ok_or_else(|| io::Error::other("a player was opened without its series"))?;
    let (probe, thread) = (opening.probe, opening.thread.clone());
    let program = Host::of_this_machine()
        .program(PROGRAM)
        .ok_or_else(|| io::Error::other("mpv is gone"))?;
    let orders = Orders {
        period: probe.period,
        audio_rate: probe.parameters.number("audio-rate"),
        video_out: probe.parameters.text("video-out"),
        audio_out: probe.parameters.text("audio-out"),
        policy: probe.policy.policy(probe.priority),
    };
    let mut player = start_on(thread.cpu.map(|cpu| cpu.0), || {
        Mpv::start(&program, &orders)
    })?;
    let mut timeline = Timeline::default();
    let first_due = watch_first_frames(&mut player, &mut timeline, probe.period)?;
    player.check_outputs(&orders)?;
    let notes = vec![format!(
        "media: player-reported, by {} (video output {}, audio output {}): skew is the player's \
         avsync when it passes a frame to its output; frame times are the player's own timestamps, \
         with a resolution of {}, mapped to the run's clock with an error of at most {}",
        player.property("mpv-version")?.as_str().unwrap_or(PROGRAM),
        orders.video_out,
        orders.audio_out,
        player.stamp_unit,
        player.clock_error,
    )];
    let grid = DetectedGrid {
        period: probe.period,
        phase: first_due,
    };
    let wanted = orders.policy;
    let run: Run = Box::new(move |ready| {
        // The listener's thread is started before the run starts. Starting a thread causes page
        // faults, and during the run, the tool counts page faults of the current thread as those of
        // a measuring thread.
        std::thread::scope(|scope| {
            let (go, gone) = std::sync::mpsc::sync_channel::<(Film, &Control)>(1);
            let plan = thread.clone();
            let watching =
                std::thread::Builder::new().spawn_scoped(scope, move || match gone.recv() {
                    Ok((film, control)) => {
                        warn_of_policy(&player, wanted, control);
                        watch(player, timeline, film, &plan, control)
                    }
                    Err(_) => Err(io::Error::other("the run did not start")),
                });
            let watching = watching.map_err(scoped::refused)?;
            let begin = ready.wait();
            let (first, period) = (grid.first_from(begin.at), grid.period);
            let film = Film {
                period,
                first_due,
                end: thread.cycles.map_or(Nanos::MAX, |cycles| {
                    first.saturating_add(Nanos(period.get().saturating_mul(cycles as i64)))
                }),
                next_due: first,
                shown: None,
                unreported: 0,
                dropped: 0,
                skew: Track::new(Some(period), first, skew),
                frame,
            };
            let _ = go.send((film, begin.control));
            let watched = watching.join().map_err(|_| {
                io::Error::other("the thread that listens to the player ended unexpectedly")
            })?;
            watched.inspect_err(|_| begin.control.stop_at(Nanos(clock::monotonic())))
        })
    });
    // The planned policy is for the player. This thread only waits for the listener, so it stays an
    // ordinary task.
    let member = Member {
        policy: sched::Policy::Other { nice: 0 },
        is_watched: false,
        ..Member::new(probe, None, run)
    };
    Ok(ProbeInstance {
        members: vec![member],
        series: Some(vec![REPORTED_SKEW, REPORTED_FRAME]),
        grid: Some(grid),
        notes,
        ..ProbeInstance::default()
    })
}

/// Starts a program that may run only on `cpu`, then restores this thread's affinity.
fn start_on<T>(cpu: Option<u32>, start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let own = affinity::get(0)?;
    if let Some(cpu) = cpu {
        affinity::set(0, &[cpu])?;
    }
    let started = start();
    affinity::set(0, &own)?;
    started
}

/// Waits until [`FIRST_FRAMES`] frames were shown. Returns the due time of the clip's first frame,
/// computed from the frame that was least late.
fn watch_first_frames(
    player: &mut Mpv,
    timeline: &mut Timeline,
    period: Nanos,
) -> io::Result<Nanos> {
    let stop_signals = [signal::INTERRUPT, signal::TERMINATE, signal::HANG_UP];
    let begin = Nanos(clock::monotonic());
    let (mut number, mut shown, mut first_due) = (0, 0, Nanos::MAX);
    while shown < FIRST_FRAMES {
        let mut fates = VecDeque::new();
        let is_there =
            player.listen(LOOK_MILLIS, |said| hear(said, timeline, period, &mut fates))?;
        for fate in fates {
            if let Fate::Shown(at) = fate {
                shown += 1;
                first_due = first_due.min(at - period * number);
            }
            number += 1;
        }
        if !is_there {
            return Err(io::Error::other(
                "mpv ended before it showed a frame: do the outputs named with video-out and \
                 audio-out exist?",
            ));
        }
        if signal::is_pending(&stop_signals) {
            return Err(io::Error::new(
                io::ErrorKind::Interrupted,
                "interrupted before mpv played",
            ));
        }
        if Nanos(clock::monotonic()) - begin > START_MAX {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("mpv showed {shown} frames in {START_MAX}: run it by itself to see why"),
            ));
        }
    }
    Ok(first_due)
}

/// Adds a report of the player to the timeline. If it states whether a frame was shown or dropped,
/// also adds this to `fates`.
fn hear(said: PlayerLine, timeline: &mut Timeline, period: Nanos, fates: &mut VecDeque<Fate>) {
    match said {
        PlayerLine::Fate(fate) => {
            timeline.fate(fate);
            fates.push_back(fate);
        }
        PlayerLine::Skew { position, skew } => {
            timeline.skew(
                (position.get() as f64 / period.get() as f64).round() as i64,
                skew,
            );
        }
    }
}

fn warn_of_policy(player: &Mpv, wanted: sched::Policy, control: &Control) {
    let (threads, beside) = player.threads_beside(wanted);
    let policy = match wanted {
        sched::Policy::Fifo { priority } => format!("SCHED_FIFO {priority}"),
        sched::Policy::RoundRobin { priority } => format!("SCHED_RR {priority}"),
        _ => "SCHED_OTHER".to_owned(),
    };
    if beside > 0 {
        control.warn(Warning::NoRealTimePolicy {
            policy,
            error: format!("{beside} of {threads} threads of mpv run under another policy"),
        });
    } else {
        control.warn(Warning::Note {
            text: format!("media: {threads} threads of mpv ran under {policy}"),
        });
    }
}

/// Converts frames to the samples of both series.
struct Film {
    period: Nanos,
    /// Due time of frame 0.
    first_due: Nanos,
    /// The end of the series: frames due at or after this time do not belong to it.
    end: Nanos,
    /// Due time of the first frame about which nothing is known yet.
    next_due: Nanos,
    /// When the last frame was shown.
    shown: Option<Nanos>,
    unreported: u64,
    dropped: u64,
    skew: Track,
    frame: Producer,
}

impl Film {
    /// Adds a frame to the series. Returns false if the frame is due after the end of the series.
    fn take(&mut self, frame: Frame, plan: &ThreadPlan, control: &Control) -> bool {
        let due = self.first_due + self.period * frame.number;
        if due < self.next_due {
            return true;
        }
        if due >= self.end || control.is_past_end(due) {
            return false;
        }
        self.next_due = due + self.period;
        let Fate::Shown(at) = frame.fate else {
            self.dropped += 1;
            return true;
        };
        if let Some(before) = self.shown.replace(at) {
            let due = before + self.period;
            self.frame.begin_cycle();
            self.frame.push(Sample {
                due,
                latency: at - due,
                skipped: 0,
            });
        }
        let Some(skew) = frame.skew else {
            self.unreported += 1;
            self.skew.lose(1);
            return true;
        };
        if self.skew.take(due, due + skew).is_err() {
            // This cannot happen, because due times are computed from frame numbers and are
            // therefore on the grid.
            self.skew.lose(1);
        }
        if plan.stop_above.is_some_and(|stop_above| skew > stop_above) {
            control.stop_because_of(
                plan.cpu,
                Sample {
                    due,
                    latency: skew,
                    skipped: 0,
                },
            );
        }
        true
    }

    fn close(self) {
        self.skew.close(Some(self.next_due));
        self.frame.close(self.next_due);
    }
}

/// Reads the player's reports until the run or the player ends.
fn watch(
    mut player: Mpv,
    mut timeline: Timeline,
    mut film: Film,
    plan: &ThreadPlan,
    control: &Control,
) -> io::Result<Departure> {
    // The thread needs the same niceness as the recorder, because the player's reports must not
    // wait.
    let _ = sched::set_policy(0, sched::Policy::Other { nice: -20 });
    let (mut unseen, period) = (VecDeque::new(), film.period);
    let (mut is_there, mut goes_on) = (true, true);
    while is_there && goes_on && !control.is_past_end(Nanos(clock::monotonic()) - PATIENCE) {
        is_there = player.listen(LOOK_MILLIS, |said| {
            hear(said, &mut timeline, period, &mut unseen)
        })?;
        unseen.clear();
        while goes_on && let Some(frame) = timeline.next(false) {
            goes_on = film.take(frame, plan, control);
        }
    }
    // If the player ended before the planned end of the run, this ends the run for all other
    // probes, too.
    control.stop_at(Nanos(clock::monotonic()));
    let left = control.leave();
    if is_there {
        let said = counters(&mut player);
        player.quit();
        while player.listen(LOOK_MILLIS, |said| {
            hear(said, &mut timeline, period, &mut unseen)
        })? {}
        control.warn(Warning::Note {
            text: format!("media: {said}"),
        });
    }
    while goes_on && let Some(frame) = timeline.next(true) {
        goes_on = film.take(frame, plan, control);
    }
    let Film {
        unreported,
        dropped,
        ..
    } = film;
    film.close();
    let status = player.end()?;
    if !is_there {
        control.warn(Warning::Problem {
            text: format!("media: mpv ended by itself ({status})"),
        });
    }
    let text = format!(
        "media: {dropped} frames were dropped (skipped); no skew was reported for {unreported} \
         shown frames (lost)"
    );
    control.warn(Warning::Note { text });
    Ok(left)
}

/// Returns the player's counters since it started to play.
fn counters(player: &mut Mpv) -> String {
    let mut text = |name| {
        player
            .property(name)
            .ok()
            .filter(|value| !value.is_null())
            .map_or_else(|| "unknown".to_owned(), |value| value.to_string())
    };
    let (output, decoder, moved) = (
        text("frame-drop-count"),
        text("decoder-frame-drop-count"),
        text("total-avsync-change"),
    );
    format!(
        "since playback started, mpv counted {output} frames dropped by its output and {decoder} \
         by its decoder, and shifted the sound by {moved} s in all"
    )
}
