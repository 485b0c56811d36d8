//! The channel from a run to its display. The measuring and recording threads never wait here: if
//! the display holds a lock, they try again later.
//!
//! The recorder computes figures only when the view asks for them. It publishes them unless the
//! view is reading at that moment.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tardy_core::figures::Figures;
use tardy_core::units::Nanos;

use crate::progress::RunProgress;

/// Merges the largest values of `older` figures into `figures` of the same series.
pub fn after(figures: &mut [Figures], older: &[Figures]) {
    for (figures, older) in figures.iter_mut().zip(older) {
        figures.after(older);
    }
}

/// The data that a run and its view share.
#[derive(Debug, Default)]
pub struct Feed {
    progress: Mutex<Option<RunProgress>>,
    figures: Mutex<Option<Vec<Figures>>>,
    is_wanted: AtomicBool,
    marks: Mutex<Vec<Nanos>>,
}

impl Feed {
    /// Returns whether the view has asked for new figures.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Acquire)
    }

    /// Publishes the figures of all series; every call must have the series in the same order. If
    /// the view has not read the previous figures, their largest values are merged into the new
    /// ones.
    ///
    /// # Errors
    /// If the view is reading at this moment, publishes nothing and returns the figures. The caller
    /// then passes them to [`after`] together with the next figures.
    pub fn publish_figures(&self, mut figures: Vec<Figures>) -> Result<(), Vec<Figures>> {
        let Ok(mut place) = self.figures.try_lock() else {
            return Err(figures);
        };
        if let Some(older) = place.as_deref() {
            after(&mut figures, older);
        }
        *place = Some(figures);
        self.is_wanted.store(false, Ordering::Release);
        Ok(())
    }

    /// Publishes the progress of the run, unless the view is reading at that moment.
    pub fn publish_progress(&self, progress: RunProgress) {
        if let Ok(mut place) = self.progress.try_lock() {
            *place = Some(progress);
        }
    }

    /// Asks for new figures.
    pub fn want(&self) {
        self.is_wanted.store(true, Ordering::Release);
    }

    /// Returns the figures that were published since the last call.
    #[must_use]
    pub fn take_figures(&self) -> Option<Vec<Figures>> {
        self.figures.lock().ok()?.take()
    }

    /// Returns the last published progress of the run.
    #[must_use]
    pub fn progress(&self) -> Option<RunProgress> {
        self.progress.lock().ok()?.clone()
    }

    /// Adds a mark at the time `at`.
    pub fn mark(&self, at: Nanos) {
        if let Ok(mut marks) = self.marks.lock() {
            marks.push(at);
        }
    }

    /// Returns the times that were marked since the last call.
    #[must_use]
    pub fn take_marks(&self) -> Vec<Nanos> {
        self.marks
            .try_lock()
            .map(|mut marks| std::mem::take(&mut *marks))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tardy_core::accounting::Counts;
    use tardy_core::figures::Peaks;

    use super::*;

    fn figures(recent: i64) -> Figures {
        let mut peaks = Peaks::default();
        peaks.note(Nanos::ZERO, Nanos(recent));
        Figures {
            probe: "cyclic".to_owned(),
            cpu: None,
            counts: Counts::default(),
            misses: None,
            latest: None,
            recent: peaks,
            numbers: None,
        }
    }

    proptest! {
        // For each step: the recorder's largest value, whether the view holds the lock during the
        // step, and whether the view reads afterwards.
        #[test]
        fn no_largest_value_is_lost_whoever_comes_when(steps in prop::collection::vec((1_i64..1_000_000, any::<bool>(), any::<bool>()), 1..60)) {
            let feed = Feed::default();
            let (mut kept, mut seen): (Vec<Figures>, Option<Nanos>) = (Vec::new(), None);
            let mut look = |feed: &Feed| {
                for figures in feed.take_figures().into_iter().flatten() {
                    seen = seen.max(figures.recent.iter().map(|peak| peak.1).max());
                }
            };
            for &(largest, is_held, looks) in &steps {
                let mut new = vec![figures(largest)];
                after(&mut new, &kept);
                let held = is_held.then(|| feed.figures.lock().unwrap());
                kept = feed.publish_figures(new).err().unwrap_or_default();
                prop_assert_eq!(kept.is_empty(), held.is_none());
                drop(held);
                if looks {
                    look(&feed);
                }
            }
            let mut last = vec![figures(0)];
            after(&mut last, &kept);
            prop_assert!(feed.publish_figures(last).is_ok());
            look(&feed);
            prop_assert_eq!(seen, steps.iter().map(|step| Nanos(step.0)).max());
        }
    }
}
