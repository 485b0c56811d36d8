//! A model of an audio device. The model plays written sound at the pace of the clock, and pauses
//! when it has played all of it. Like a device driver, it reports its progress in whole samples.

use std::io;

use tardy_core::units::Nanos;

use super::player::Sound;

/// The state of playback: how much sound was played and how much is written ahead.
#[derive(Debug)]
pub(super) struct AudioClock {
    /// When playback last started or resumed.
    since: Nanos,
    /// Duration played before `since`.
    played: Nanos,
    /// Duration of the sound written so far.
    written: Nanos,
    /// Duration of sound that is written ahead.
    buffer: Nanos,
    /// Samples per second.
    rate: i128,
}

/// Nanoseconds per second.
const SECOND: i128 = 1_000_000_000;

impl AudioClock {
    /// Makes a device that starts to play a full buffer at `start`, with `rate` samples per second.
    pub(super) fn new(start: Nanos, buffer: Nanos, rate: u64) -> Self {
        Self {
            since: start,
            played: Nanos::ZERO,
            written: buffer,
            buffer,
            rate: i128::from(rate.max(1)),
        }
    }

    fn exact(&self, now: Nanos) -> Nanos {
        (self.played + (now - self.since)).min(self.written)
    }
}

impl Sound for AudioClock {
    fn fill(&mut self, now: Nanos) -> io::Result<()> {
        let position = self.exact(now);
        if position == self.written {
            self.played = position;
            self.since = now;
        }
        self.written = self.written.max(position + self.buffer);
        Ok(())
    }

    /// Returns the position in whole played samples; below zero before the start.
    fn position(&mut self, now: Nanos) -> io::Result<Nanos> {
        let samples = (i128::from(self.exact(now).get()) * self.rate).div_euclid(SECOND);
        // The time is rounded up, because reading a time that was rounded down would give one
        // sample less.
        Ok(Nanos(
            (samples * SECOND + self.rate - 1).div_euclid(self.rate) as i64,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rate at which a sample lasts 1 ns.
    const EXACT: u64 = 1_000_000_000;

    #[test]
    fn it_follows_the_clock_while_there_is_sound_and_stands_still_without() {
        let mut audio = AudioClock::new(Nanos(1000), Nanos(200), EXACT);
        let heard = |audio: &mut AudioClock, now| audio.position(Nanos(now)).unwrap();
        assert_eq!(heard(&mut audio, 900), Nanos(-100));
        assert_eq!(heard(&mut audio, 1150), Nanos(150));
        audio.fill(Nanos(1150)).unwrap();
        assert_eq!(heard(&mut audio, 1350), Nanos(350));
        assert_eq!(heard(&mut audio, 1500), Nanos(350), "writing has stopped");
        audio.fill(Nanos(1500)).unwrap();
        assert_eq!(heard(&mut audio, 1510), Nanos(360), "it lost 150");
    }

    #[test]
    fn it_counts_in_whole_samples_of_its_rate() {
        let mut audio = AudioClock::new(Nanos::ZERO, Nanos::from_secs(1), 8_000);
        for (now, heard) in [
            (0, 0),
            (124_999, 0),
            (125_000, 125_000),
            (374_999, 250_000),
            (-1, -125_000),
        ] {
            assert_eq!(
                audio.position(Nanos(now)).unwrap(),
                Nanos(heard),
                "at {now}"
            );
        }
    }
}
