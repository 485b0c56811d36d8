//! The player's loop: writes sound, waits until the audio clock reaches the next frame's time, and
//! shows the frame. Players synchronise the picture to the sound, because errors are easier to hear
//! than to see.

use std::io;

use tardy_core::sample::Sample;
use tardy_core::units::Nanos;

use crate::recording::ring::Producer;

/// A clock and a relative sleep. The player uses those of the machine; tests use simulated ones.
pub(super) trait Time {
    fn now(&mut self) -> Nanos;
    fn sleep_for(&mut self, time: Nanos) -> io::Result<()>;
}

/// The sound, which is written ahead of playback and serves as the clock of the picture.
pub(super) trait Sound {
    /// Writes sound ahead of the position that playback has reached at `now`. If the device ran out
    /// of sound, this call resumes playback.
    fn fill(&mut self, now: Nanos) -> io::Result<()>;

    /// Returns the position in the sound that is audible at `now`.
    fn position(&mut self, now: Nanos) -> io::Result<Nanos>;
}

/// A deliberate delay of the audio clock at some frames.
#[derive(Debug, Clone, Copy)]
pub(super) struct Delay {
    pub(super) by: Nanos,
    pub(super) every: u64,
}

#[derive(Debug)]
pub(super) struct Rings {
    pub(super) skew: Producer,
    pub(super) frame: Producer,
}

#[derive(Debug)]
pub(super) struct Player<S> {
    first: Nanos,
    period: Nanos,
    sound: S,
    delay: Option<Delay>,
    rings: Rings,
    /// Number of the next frame. A frame that is late by a whole period is dropped, and recorded as
    /// skipped.
    frame: i64,
    shown: Option<Nanos>,
}

impl<S: Sound> Player<S> {
    /// Makes a player whose frame 0 is due at `first`.
    pub(super) fn new(
        first: Nanos,
        period: Nanos,
        sound: S,
        delay: Option<Delay>,
        rings: Rings,
    ) -> Self {
        Self {
            first,
            period,
            sound,
            delay,
            rings,
            frame: 0,
            shown: None,
        }
    }

    fn due(&self) -> Nanos {
        self.first + self.period * self.frame
    }

    /// Plays until `is_over` returns true or `go_on` returns false. `is_over` gets the next frame's
    /// due time and the current time; `go_on` gets each sample of the skew.
    ///
    /// # Errors
    /// Returns an error if sleeping or the sound output fails.
    pub(super) fn play(
        &mut self,
        time: &mut impl Time,
        is_over: impl Fn(Nanos, Nanos) -> bool,
        go_on: impl Fn(Sample) -> bool,
    ) -> io::Result<()> {
        let mut now = time.now();
        while !is_over(self.due(), now) {
            self.sound.fill(now)?;
            let video = self.period * self.frame;
            let early = video - self.sound.position(now)?;
            if early > Nanos::ZERO {
                time.sleep_for(early)?;
            }
            now = time.now();
            let sample = self.show(video, now)?;
            self.rings.skew.push(sample);
            if !go_on(sample) {
                break;
            }
        }
        Ok(())
    }

    /// Shows the frame whose time in the film is `video`, and advances to the next frame that is
    /// not too late.
    fn show(&mut self, video: Nanos, now: Nanos) -> io::Result<Sample> {
        let heard = self.sound.position(now)?;
        if let Some(before) = self.shown.replace(now) {
            self.rings.frame.begin_cycle();
            let due = before + self.period;
            self.rings.frame.push(Sample {
                due,
                latency: now - due,
                skipped: 0,
            });
        }
        let held_back = match self.delay {
            Some(Delay { by, every }) if (self.frame as u64).is_multiple_of(every) => by,
            _ => Nanos::ZERO,
        };
        let skew = heard - held_back - video;
        let dropped = (skew.get() / self.period.get()).max(0);
        let sample = Sample {
            due: self.due(),
            latency: skew,
            skipped: u32::try_from(dropped).unwrap_or(u32::MAX),
        };
        self.frame += 1 + i64::from(sample.skipped);
        Ok(sample)
    }

    /// Ends the series. Returns the sound.
    pub(super) fn close(self) -> S {
        let next = self.due();
        self.rings.skew.close(next);
        self.rings.frame.close(next);
        self.sound
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::media::audio::AudioClock;
    use crate::recording::ring::{Consumer, ring};
    use tardy_core::sample::Record;

    const PERIOD: Nanos = Nanos(33_333_333);

    /// A clock that advances only when the player sleeps: by the requested time, plus a delay that
    /// the test chooses for each sleep.
    struct Virtual<F> {
        now: Nanos,
        sleeps: usize,
        late: F,
    }

    impl<F: FnMut(usize) -> i64> Time for Virtual<F> {
        fn now(&mut self) -> Nanos {
            self.now
        }

        fn sleep_for(&mut self, time: Nanos) -> io::Result<()> {
            self.now = self.now + time + Nanos((self.late)(self.sleeps));
            self.sleeps += 1;
            Ok(())
        }
    }

    fn samples(consumer: &mut Consumer) -> Vec<Sample> {
        let mut samples = Vec::new();
        consumer.drain_up_to(u64::MAX, |record| match record {
            Record::Sample(sample) => samples.push(sample),
            Record::Gap(gap) => panic!("{gap:?}"),
        });
        samples
    }

    /// Plays `frames` frames. Returns the samples of the skew, the inter-frame errors, and the due
    /// time of the frame that would follow.
    fn played(
        frames: i64,
        delay: Option<Delay>,
        late: impl FnMut(usize) -> i64,
    ) -> (Vec<Sample>, Vec<Sample>, Nanos) {
        let ((skew, mut skews), (frame, mut errors)) = (ring(4096), ring(4096));
        let first = Nanos(7_000_000_000);
        let audio = AudioClock::new(first, Nanos::from_millis(200), 1_000_000_000);
        let mut player = Player::new(first, PERIOD, audio, delay, Rings { skew, frame });
        let mut time = Virtual {
            now: first - Nanos(5_000_000),
            sleeps: 0,
            late,
        };
        player
            .play(&mut time, |due, _| due >= first + PERIOD * frames, |_| true)
            .unwrap();
        player.close();
        let next = skews.closing_statement().unwrap().next_due;
        (samples(&mut skews), samples(&mut errors), next)
    }

    #[test]
    fn a_clock_that_is_delayed_by_a_millisecond_at_every_hundredth_frame_shows_exactly_those() {
        let delay = Delay {
            by: Nanos::from_millis(1),
            every: 100,
        };
        let (skews, errors, _) = played(1000, Some(delay), |sleep| (sleep as i64 * 7919) % 400_000);
        assert_eq!((skews.len(), errors.len()), (1000, 999));
        let off: Vec<usize> = (0..1000)
            .filter(|&frame| skews[frame].latency < Nanos(-500_000))
            .collect();
        assert_eq!(off, [0, 100, 200, 300, 400, 500, 600, 700, 800, 900]);
        assert!(
            skews
                .iter()
                .enumerate()
                .all(|(frame, sample)| frame % 100 == 0 || sample.latency >= Nanos::ZERO)
        );
    }

    #[test]
    fn on_time_there_is_no_skew_and_a_period_between_frames() {
        let (skews, errors, next) = played(300, None, |_| 0);
        assert!(
            skews
                .iter()
                .chain(&errors)
                .all(|sample| sample.latency == Nanos::ZERO && sample.skipped == 0)
        );
        assert_eq!(next, skews[0].due + PERIOD * 300);
    }

    #[test]
    fn a_late_frame_is_skew_and_lengthens_one_interval_and_shortens_the_next() {
        let (skews, errors, _) = played(20, None, |sleep| if sleep == 10 { 4_000_000 } else { 0 });
        assert_eq!(
            (skews[10].latency, skews[11].latency),
            (Nanos(4_000_000), Nanos::ZERO)
        );
        assert_eq!(
            (errors[9].latency, errors[10].latency),
            (Nanos(4_000_000), Nanos(-4_000_000))
        );
    }

    #[test]
    fn frames_that_are_a_period_late_are_dropped_and_a_long_stall_stops_the_sound() {
        // After a delay of 3.5 periods, three frames have passed, and the 200 ms of sound written
        // ahead sufficed.
        let (skews, _, next) = played(30, None, |sleep| if sleep == 10 { 116_666_666 } else { 0 });
        assert_eq!(
            (skews[10].latency, skews[10].skipped),
            (Nanos(116_666_666), 3)
        );
        assert_eq!(skews[11].due, skews[10].due + PERIOD * 4);
        let shown: i64 = skews
            .iter()
            .map(|sample| 1 + i64::from(sample.skipped))
            .sum();
        assert_eq!(
            skews[0].due + PERIOD * shown,
            next,
            "every frame was shown or dropped"
        );
        // A delay of one second: playback ended 200 ms after sound was last written, so the skew is
        // at most 200 ms.
        let (skews, _, _) = played(
            30,
            None,
            |sleep| if sleep == 10 { 1_000_000_000 } else { 0 },
        );
        assert_eq!(skews[10].latency, Nanos::from_millis(200) - PERIOD);
        assert_eq!(
            skews[11].latency,
            Nanos::ZERO,
            "sound and picture continue together"
        );
    }
}
