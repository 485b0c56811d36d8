//! Converts readings of a sound card's hardware pointer to the time of the audible sound, and
//! measures the rate of the card's clock.

use tardy_core::units::Nanos;
use tardy_sys::pcm::{State, Status};

/// The position of playback. The kernel counts frames from 0 again after each preparation of the
/// device; this type adds up these counts.
#[derive(Debug)]
pub(super) struct Pointer {
    /// Frames per second, as a fraction.
    rate: (u32, u32),
    /// Frames written before the last preparation.
    before: u64,
    /// The last reading; absent directly after a preparation.
    last: Option<Reading>,
    tally: Tally,
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Nanos,
    heard: Nanos,
}

/// Statistics of the playback.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Number of underruns (xruns).
    pub(super) underruns: u64,
    /// Total time without sound.
    pub(super) silent: Nanos,
    /// Duration of sound played between readings, according to the pointer at its nominal rate.
    played: Nanos,
    /// Time between the same readings, according to their time stamps.
    took: Nanos,
    /// Maximum difference, over all pairs of consecutive readings, between the duration of the
    /// sound that the pointer passed and the time that elapsed.
    pub(super) uneven_max: Nanos,
}

const SECOND: i128 = 1_000_000_000;

impl Pointer {
    /// Makes the pointer of a device to which no frame has been written yet. `rate` is the number
    /// of frames per second, as a fraction.
    pub(super) fn new(rate: (u32, u32)) -> Self {
        Self {
            rate: (rate.0.max(1), rate.1.max(1)),
            before: 0,
            last: None,
            tally: Tally::default(),
        }
    }

    /// Returns the position in the sound that is audible at `now`. This position is extrapolated
    /// from the pointer's position at its time stamp, at the nominal rate, but is never beyond the
    /// written sound.
    pub(super) fn heard(&mut self, status: &Status, now: Nanos) -> Nanos {
        let end = self.time_of(i128::from(self.before) + i128::from(status.written));
        if status.state == State::Underrun {
            return end;
        }
        let reading = Reading {
            at: Nanos(status.at.max(status.started)),
            heard: self.time_of(
                i128::from(self.before) + i128::from(status.written) - i128::from(status.delay),
            ),
        };
        if let Some(last) = self.last.replace(reading) {
            let (played, took) = (reading.heard - last.heard, reading.at - last.at);
            self.tally.played += played;
            self.tally.took += took;
            self.tally.uneven_max = self
                .tally
                .uneven_max
                .max(Nanos((played - took).get().abs()));
        }
        (reading.heard + (now - reading.at)).min(end)
    }

    /// Records that the device played everything `written` (in frames), stopped, and restarts at
    /// `now`.
    pub(super) fn begin_anew(&mut self, written: u64, now: Nanos) {
        self.before += written;
        let end = self.time_of(i128::from(self.before));
        if let Some(last) = self.last.take() {
            let stopped = last.at + (end - last.heard);
            self.tally.silent += (now - stopped).max(Nanos::ZERO);
        }
        self.tally.underruns += 1;
    }

    pub(super) fn tally(&self) -> Tally {
        self.tally
    }

    fn time_of(&self, frames: i128) -> Nanos {
        Nanos(
            (frames * SECOND * i128::from(self.rate.1)).div_euclid(i128::from(self.rate.0)) as i64,
        )
    }
}

impl Tally {
    /// Returns by how many millionths the device's clock was faster than the system's clock, and
    /// the time over which the two clocks were compared. Returns `None` with fewer than two
    /// readings.
    pub(super) fn fast_by_ppm(&self) -> Option<(f64, Nanos)> {
        let took = self.took.get() as f64;
        (took > 0.0).then(|| {
            (
                (self.played - self.took).get() as f64 / took * 1e6,
                self.took,
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(at: i64, written: u64, delay: i64) -> Status {
        Status {
            state: State::Running,
            at,
            started: 0,
            written,
            delay,
            room: 0,
        }
    }

    /// Returns a pointer whose frames last one millisecond.
    fn pointer() -> Pointer {
        Pointer::new((1000, 1))
    }

    const MS: i64 = 1_000_000;

    #[test]
    fn the_time_at_the_stamp_is_taken_on_and_back_to_the_moment_asked_for() {
        let mut pointer = pointer();
        assert_eq!(
            pointer.heard(&status(5 * MS, 200, 150), Nanos(5 * MS)),
            Nanos(50 * MS)
        );
        assert_eq!(
            pointer.heard(&status(6 * MS, 200, 149), Nanos(6 * MS + 250)),
            Nanos(51 * MS + 250)
        );
        assert_eq!(
            pointer.heard(&status(7 * MS, 200, 148), Nanos(7 * MS - 250)),
            Nanos(52 * MS - 250)
        );
        assert_eq!(
            pointer.heard(&status(8 * MS, 200, 147), Nanos(900 * MS)),
            Nanos(200 * MS),
            "writing has stopped"
        );
        assert_eq!(pointer.tally().uneven_max, Nanos::ZERO);
    }

    #[test]
    fn a_pointer_that_has_not_moved_yet_has_the_time_of_the_start_and_no_older_stamp() {
        let mut pointer = pointer();
        let waiting = Status {
            started: 70 * MS,
            ..status(40 * MS, 200, 200)
        };
        assert_eq!(pointer.heard(&waiting, Nanos(73 * MS)), Nanos(3 * MS));
        assert_eq!(
            pointer.heard(
                &Status {
                    started: 70 * MS,
                    ..status(74 * MS, 200, 196)
                },
                Nanos(75 * MS)
            ),
            Nanos(5 * MS)
        );
        assert_eq!(pointer.tally().uneven_max, Nanos::ZERO);
    }

    #[test]
    fn a_rate_is_a_fraction_and_frames_are_not_rounded_one_by_one() {
        let mut pointer = Pointer::new((44_100, 1));
        assert_eq!(
            pointer.heard(&status(0, 441_000, 441_000 - 44_100), Nanos::ZERO),
            Nanos(1000 * MS)
        );
        let mut pointer = Pointer::new((96_001, 2));
        assert_eq!(
            pointer.heard(&status(0, 480_005, 0), Nanos::ZERO),
            Nanos(10_000 * MS)
        );
    }

    #[test]
    fn after_an_underrun_the_sound_goes_on_where_it_ended_and_the_silence_is_counted() {
        let mut pointer = pointer();
        pointer.heard(&status(0, 100, 100), Nanos(0));
        pointer.heard(&status(60 * MS, 100, 40), Nanos(60 * MS));
        let stopped = Status {
            state: State::Underrun,
            ..status(130 * MS, 100, 0)
        };
        assert_eq!(
            pointer.heard(&stopped, Nanos(130 * MS)),
            Nanos(100 * MS),
            "all that was written"
        );
        pointer.begin_anew(100, Nanos(135 * MS));
        assert_eq!(
            pointer.heard(&status(140 * MS, 100, 95), Nanos(140 * MS)),
            Nanos(105 * MS)
        );
        let tally = pointer.tally();
        assert_eq!(
            (tally.underruns, tally.silent),
            (1, Nanos(35 * MS)),
            "it ended at 100 ms"
        );
        assert_eq!(
            tally.uneven_max,
            Nanos::ZERO,
            "the stop is no unevenness of the clock"
        );
    }

    #[test]
    fn a_clock_that_is_fast_and_one_that_moves_in_steps_are_told() {
        let mut fast = pointer();
        for second in 0..=100 {
            // One extra frame in 1000 s would be 1 ppm; here it is one in 10 s.
            fast.heard(
                &status(
                    second * 1000 * MS,
                    1_000_000,
                    1_000_000 - second * 1000 - second / 10,
                ),
                Nanos(second * 1000 * MS),
            );
        }
        let (ppm, took) = fast.tally().fast_by_ppm().unwrap();
        assert!(
            (ppm - 100.0).abs() < 1e-6 && took == Nanos::from_secs(100),
            "{ppm} over {took}"
        );
        let mut stepping = pointer();
        for ms in 0..=100 {
            stepping.heard(&status(ms * MS, 1000, 1000 - ms / 4 * 4), Nanos(ms * MS));
        }
        assert_eq!(stepping.tally().uneven_max, Nanos(3 * MS));
        assert_eq!(pointer().tally().fast_by_ppm(), None);
    }
}
