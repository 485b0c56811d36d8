//! What a run hands to whoever shows it. Whoever measures or records never waits here: where the
//! other side looks at it just now, it comes back later.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tardy_core::figures::Figures;
use tardy_core::units::Nanos;

use crate::progress::RunProgress;

/// Shared by a run and its view.
#[derive(Debug, Default)]
pub struct Feed {
    progress: Mutex<Option<RunProgress>>,
    figures: Mutex<Option<Vec<Figures>>>,
    is_wanted: AtomicBool,
    marks: Mutex<Vec<Nanos>>,
}

impl Feed {
    /// Whether somebody waits for new figures.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Acquire)
    }

    /// Hands over figures, if nobody looks at the older ones just now.
    pub fn publish_figures(&self, figures: Vec<Figures>) {
        if let Ok(mut place) = self.figures.try_lock() {
            *place = Some(figures);
            self.is_wanted.store(false, Ordering::Release);
        }
    }

    /// The same with how far the run is.
    pub fn publish_progress(&self, progress: RunProgress) {
        if let Ok(mut place) = self.progress.try_lock() {
            *place = Some(progress);
        }
    }

    /// Asks for new figures.
    pub fn want(&self) {
        self.is_wanted.store(true, Ordering::Release);
    }

    /// Figures that came since the last call.
    #[must_use]
    pub fn take_figures(&self) -> Option<Vec<Figures>> {
        self.figures.lock().ok()?.take()
    }

    /// How far the run is.
    #[must_use]
    pub fn progress(&self) -> Option<RunProgress> {
        self.progress.lock().ok()?.clone()
    }

    /// Marks this moment.
    pub fn mark(&self, at: Nanos) {
        if let Ok(mut marks) = self.marks.lock() {
            marks.push(at);
        }
    }

    /// Moments that were marked since the last call.
    #[must_use]
    pub fn take_marks(&self) -> Vec<Nanos> {
        self.marks
            .try_lock()
            .map(|mut marks| std::mem::take(&mut *marks))
            .unwrap_or_default()
    }
}
