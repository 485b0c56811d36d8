//! Shows the progress of an experiment: one line per guest on stderr, and on a terminal an updated
//! last line.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tardy_core::units::Nanos;
use tardy_lab::exchange::{self, GuestProgress};
use tardy_lab::experiment::{Outcome, Repetition, again_folder};
use tardy_lab::variant::Variant;

use crate::command::status_line::{self, StatusLine};

/// Counts guests and prints their results. Several threads use the same value.
pub(super) struct Progress {
    guests: Arc<Mutex<Guests>>,
    _line: Option<StatusLine>,
}

#[derive(Debug, Default)]
struct Guests {
    running: Vec<(String, PathBuf)>,
    ended: usize,
    failed: usize,
}

impl Progress {
    pub(super) fn new(all: usize) -> Self {
        let guests = Arc::<Mutex<Guests>>::default();
        let (shown, started) = (guests.clone(), Instant::now());
        let line = move || {
            let guests = shown.lock().unwrap_or_else(PoisonError::into_inner);
            status(&guests, all, started.elapsed(), guest_progress)
        };
        Self {
            guests,
            _line: StatusLine::show(line),
        }
    }

    pub(super) fn began(&self, variant: &Variant, replica: u32, folder: &Path) {
        let name = format!("{} replica {replica}", variant.name);
        let mut guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        guests.running.push((name, folder.to_owned()));
    }

    pub(super) fn ended(&self, variant: &Variant, outcome: &Outcome) {
        let bad =
            outcome.result.is_err() || !matches!(outcome.repetition, None | Some(Repetition::Same));
        // The lock prevents the lines of several threads from being mixed.
        let mut guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        guests
            .running
            .retain(|(_, folder)| *folder != outcome.folder);
        guests.ended += 1;
        guests.failed += usize::from(bad);
        status_line::say_above(&describe(variant, outcome));
    }
}

/// Returns the progress of the guest's run, or of the run's repetition.
fn guest_progress(folder: &Path) -> Option<GuestProgress> {
    exchange::progress(folder).or_else(|| exchange::progress(&again_folder(folder)))
}

/// Returns a line such as `12 of 40 guests, 1 failed, 3 min left; 6.1 replica 5: hackbench, 12 of
/// 40 s of virtual time`.
fn status(
    guests: &Guests,
    all: usize,
    elapsed: Duration,
    progress: impl Fn(&Path) -> Option<GuestProgress>,
) -> String {
    let (mut done, mut running) = (guests.ended as f64, String::new());
    for (name, folder) in &guests.running {
        let Some(guest) = progress(folder) else {
            running.push_str(&format!("; {name}: no measurement yet"));
            continue;
        };
        done += guest.elapsed.get() as f64 / guest.planned.get() as f64;
        let seconds = |time: Nanos| time.get() / 1_000_000_000;
        running.push_str(&format!(
            "; {name}: {}, {} of {} s of virtual time",
            guest.phase,
            seconds(guest.elapsed),
            seconds(guest.planned)
        ));
    }
    let mut text = format!("{} of {all} guests", guests.ended);
    if guests.failed > 0 {
        text.push_str(&format!(", {} failed", guests.failed));
    }
    text.push_str(&status_line::time_left(done / all as f64, elapsed));
    text + &running
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
        (Ok(_), Some(Repetition::Failed(failure))) => {
            format!("{head}: in the second run: {failure}")
        }
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
                    ", repeated exactly"
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
    fn the_time_left_follows_from_the_guests_and_how_far_each_of_them_is() {
        let mut guests = Guests {
            running: vec![
                ("6.1 replica 5".into(), "a".into()),
                ("6.1-rt replica 5".into(), "b".into()),
            ],
            ended: 10,
            failed: 0,
        };
        let half = |folder: &Path| {
            (folder == Path::new("a")).then(|| GuestProgress {
                phase: "hackbench".into(),
                elapsed: Nanos::from_secs(20),
                planned: Nanos::from_secs(40),
            })
        };
        assert_eq!(
            status(&guests, 42, Duration::from_secs(20), half),
            "10 of 42 guests, 60 s left; 6.1 replica 5: hackbench, 20 of 40 s of virtual time; \
             6.1-rt replica 5: no measurement yet"
        );
        guests.failed = 1;
        guests.running.clear();
        assert_eq!(
            status(&guests, 40, Duration::from_secs(60), half),
            "10 of 40 guests, 1 failed, 3 min left"
        );
        assert_eq!(
            status(&Guests::default(), 3, Duration::ZERO, half),
            "0 of 3 guests"
        );
    }
}
