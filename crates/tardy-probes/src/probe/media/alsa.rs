//! Plays silence on a sound card, writing sound ahead of playback as a player does. Computes from
//! the card's pointer which sound is audible at a given time.

use std::io;

use tardy_core::units::Nanos;
use tardy_sys::pcm::State;

use super::card::Card;
use super::player::{Sound, Time};
use super::pointer::Pointer;

/// A card that plays, or is ready to play.
#[derive(Debug)]
pub(super) struct CardSound {
    card: Card,
    pointer: Pointer,
    /// Silence that fills the card's buffer.
    silence: Vec<u8>,
}

/// EPIPE: the card stopped, because there was nothing to play.
const UNDERRUN: io::ErrorKind = io::ErrorKind::BrokenPipe;

impl CardSound {
    /// Fills the buffer of a prepared card.
    pub(super) fn new(card: Card) -> io::Result<Self> {
        let silence = vec![0; card.shape.buffer_frames as usize * card.shape.frame_bytes];
        let sound = Self {
            pointer: Pointer::new(card.shape.rate),
            card,
            silence,
        };
        sound.write()?;
        Ok(sound)
    }

    /// Starts playback at `first`.
    pub(super) fn start(&mut self, first: Nanos, time: &mut impl Time) -> io::Result<()> {
        let early = first - time.now();
        if early > Nanos::ZERO {
            time.sleep_for(early)?;
        }
        self.card
            .playback
            .start()
            .map_err(|error| self.named(error))
    }

    /// Stops playback. Returns a note about the xruns and the rate of the card's clock.
    pub(super) fn finish(self) -> String {
        let stopped = self.card.playback.stop();
        let (tally, name) = (self.pointer.tally(), &self.card.name);
        let pace = tally.fast_by_ppm().map_or_else(String::new, |(ppm, took)| {
            format!(
                "; over {took} its clock was {ppm:+.1} ppm off CLOCK_MONOTONIC, and its pointer \
                 deviated from an even pace by at most {} between two readings",
                tally.uneven_max
            )
        });
        let failed = stopped.err().map_or_else(String::new, |error| {
            format!("; it could not be stopped: {error}")
        });
        let xruns = match tally.underruns {
            0 => "no xruns".to_owned(),
            1 => format!("1 xrun, with nothing to play for {}", tally.silent),
            many => format!(
                "{many} xruns, with nothing to play for {} in all",
                tally.silent
            ),
        };
        format!("media: {name} had {xruns}{pace}{failed}")
    }

    /// Writes as much silence as fits into the buffer. Returns false if the card stopped.
    fn write(&self) -> io::Result<bool> {
        match self.card.playback.write(&self.silence) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == UNDERRUN => Ok(false),
            Err(error) => Err(self.named(error)),
        }
    }

    #[cold]
    fn begin_anew(&mut self, now: Nanos) -> io::Result<()> {
        let playback = &self.card.playback;
        let again = || -> io::Result<u64> {
            let written = playback.status()?.written;
            playback.prepare()?;
            playback.write(&self.silence)?;
            playback.start()?;
            Ok(written)
        };
        let written = again().map_err(|error| self.named(error))?;
        self.pointer.begin_anew(written, now);
        Ok(())
    }

    #[cold]
    fn named(&self, error: io::Error) -> io::Error {
        io::Error::new(
            error.kind(),
            format!(
                "{} ({}): {error}: is the sound card still there?",
                self.card.path.display(),
                self.card.model
            ),
        )
    }
}

impl Sound for CardSound {
    fn fill(&mut self, now: Nanos) -> io::Result<()> {
        if self.write()? {
            Ok(())
        } else {
            self.begin_anew(now)
        }
    }

    fn position(&mut self, now: Nanos) -> io::Result<Nanos> {
        let status = self
            .card
            .playback
            .status()
            .map_err(|error| self.named(error))?;
        match status.state {
            State::Running | State::Underrun => Ok(self.pointer.heard(&status, now)),
            State::Other(state) => Err(self.named(io::Error::other(format!(
                "the card stopped playing (state {state})"
            )))),
        }
    }
}
