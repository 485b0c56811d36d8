//! The modelled audio device: it plays what was written to it at the pace of the clock, and stands still when there is nothing.

use tardy_core::units::Nanos;

/// How much was played, and how much more was written.
#[derive(Debug)]
pub(super) struct AudioClock {
    /// When playing last began or went on.
    since: Nanos,
    /// What was played until then.
    played: Nanos,
    /// The end of what was written.
    written: Nanos,
    /// How much is written ahead.
    buffer: Nanos,
}

impl AudioClock {
    /// A device that begins to play a full buffer at `start`.
    pub(super) fn new(start: Nanos, buffer: Nanos) -> Self {
        Self { since: start, played: Nanos::ZERO, written: buffer, buffer }
    }

    /// The time of the sound that is heard at `now`; below zero before the start.
    pub(super) fn position(&self, now: Nanos) -> Nanos {
        (self.played + (now - self.since)).min(self.written)
    }

    /// Fills the buffer at `now`. A device that had nothing to play goes on from there, with what it did not play meanwhile.
    pub(super) fn fill(&mut self, now: Nanos) {
        let position = self.position(now);
        if position == self.written {
            self.played = position;
            self.since = now;
        }
        self.written = self.written.max(position + self.buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_the_clock_while_there_is_sound_and_stands_still_without() {
        let mut audio = AudioClock::new(Nanos(1000), Nanos(200));
        assert_eq!(audio.position(Nanos(900)), Nanos(-100));
        assert_eq!(audio.position(Nanos(1150)), Nanos(150));
        audio.fill(Nanos(1150));
        assert_eq!(audio.position(Nanos(1350)), Nanos(350));
        assert_eq!(audio.position(Nanos(1500)), Nanos(350), "nothing more was written");
        audio.fill(Nanos(1500));
        assert_eq!(audio.position(Nanos(1510)), Nanos(360), "it lost 150");
    }
}
