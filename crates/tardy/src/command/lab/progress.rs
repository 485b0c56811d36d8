//! How far an experiment is: one line a guest on stderr, and on a terminal a last line that is kept
//! up to date.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tardy_lab::experiment::{Outcome, Repetition};
use tardy_lab::variant::Variant;

/// Counts guests and tells about them; used from several threads.
pub(super) struct Progress {
    guests: usize,
    started: Instant,
    terminal: bool,
    counts: Mutex<Counts>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    running: usize,
    ended: usize,
    failed: usize,
}

impl Progress {
    pub(super) fn new(guests: usize) -> Self {
        Self {
            guests,
            started: Instant::now(),
            terminal: std::io::stderr().is_terminal(),
            counts: Mutex::default(),
        }
    }

    pub(super) fn began(&self) {
        self.change(None, |counts| counts.running += 1);
    }

    pub(super) fn ended(&self, variant: &Variant, outcome: &Outcome) {
        let bad =
            outcome.result.is_err() || !matches!(outcome.repetition, None | Some(Repetition::Same));
        self.change(Some(&describe(variant, outcome)), |counts| {
            counts.running -= 1;
            counts.ended += 1;
            counts.failed += usize::from(bad);
        });
    }

    /// Changes the counts and prints, both under the lock: lines of several threads do not mix.
    fn change(&self, line: Option<&str>, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.lock().expect("its holders never panic");
        change(&mut counts);
        let mut stderr = std::io::stderr().lock();
        // A terminal that is gone is no reason to end the experiment.
        let _ = self.print(&mut stderr, line, *counts);
    }

    fn print(
        &self,
        stderr: &mut dyn Write,
        line: Option<&str>,
        counts: Counts,
    ) -> std::io::Result<()> {
        // Back to the line's beginning, and erase it (ECMA-48, EL).
        const CLEAR: &str = "\r\x1b[K";
        let clear = if self.terminal { CLEAR } else { "" };
        if let Some(line) = line {
            writeln!(stderr, "{clear}{line}")?;
        }
        if self.terminal {
            write!(
                stderr,
                "{clear}{}",
                status(counts, self.guests, self.started.elapsed())
            )?;
            if counts.ended == self.guests {
                write!(stderr, "{clear}")?;
            }
        }
        stderr.flush()
    }
}

/// `12 of 40 guests, 2 running, 1 failed, about 3 min left`.
fn status(counts: Counts, guests: usize, elapsed: Duration) -> String {
    let mut text = format!(
        "{} of {guests} guests, {} running",
        counts.ended, counts.running
    );
    if counts.failed > 0 {
        text.push_str(&format!(", {} failed", counts.failed));
    }
    if counts.ended > 0 {
        let left = elapsed.as_secs_f64() / counts.ended as f64 * (guests - counts.ended) as f64;
        let (value, unit) = if left < 90.0 {
            (left, "s")
        } else {
            (left / 60.0, "min")
        };
        text.push_str(&format!(", about {value:.0} {unit} left"));
    }
    text
}

fn describe(variant: &Variant, outcome: &Outcome) -> String {
    let head = format!(
        "{} replica {} ({:.1} s)",
        variant.name,
        outcome.replica,
        outcome.wall.as_secs_f64()
    );
    match (&outcome.result, &outcome.repetition) {
        (Err(failure), _) => format!("{head}: {failure}"),
        (Ok(_), Some(Repetition::Failed(failure))) => format!("{head}: the second run: {failure}"),
        (Ok(_), Some(Repetition::Different(folder))) => {
            format!(
                "{head}: NOT DETERMINISTIC: the second run differs: {}",
                folder.display()
            )
        }
        (Ok(provenance), repetition) => {
            let digest = provenance
                .sample_digest
                .as_ref()
                .unwrap_or(&provenance.output_digest);
            let restored = provenance.restore_ms.map_or(String::new(), |time| {
                format!(", resumed from its snapshot after {time} ms")
            });
            format!(
                "{head}: {}{}{restored}",
                digest.short(),
                if repetition.is_some() {
                    ", the same twice"
                } else {
                    ""
                }
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_from_the_guests_that_ended() {
        let counts = Counts {
            running: 2,
            ended: 10,
            failed: 0,
        };
        assert_eq!(
            status(counts, 40, Duration::from_secs(20)),
            "10 of 40 guests, 2 running, about 60 s left"
        );
        let counts = Counts {
            failed: 1,
            ..counts
        };
        assert_eq!(
            status(counts, 40, Duration::from_secs(60)),
            "10 of 40 guests, 2 running, 1 failed, about 3 min left"
        );
        assert_eq!(
            status(Counts::default(), 3, Duration::ZERO),
            "0 of 3 guests, 0 running"
        );
    }
}
