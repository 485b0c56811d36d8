//! Passes samples from a recorder to the explainer, in batches over a channel that never makes the
//! recorder wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};

use tardy_core::sample::Sample;

/// A batch of samples of one series.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Index of the series.
    pub(crate) series: usize,
    pub(crate) samples: Vec<Sample>,
}

/// The sending end of the channel, which the recorder of one series holds.
#[derive(Debug)]
pub struct Tap {
    series: usize,
    waiting: Vec<Sample>,
    sender: SyncSender<Batch>,
    left_out: Arc<AtomicU64>,
}

impl Tap {
    pub(crate) fn new(series: usize, sender: SyncSender<Batch>, left_out: Arc<AtomicU64>) -> Self {
        Self {
            series,
            waiting: Vec::new(),
            sender,
            left_out,
        }
    }

    /// Adds a sample to the batch that is sent next.
    pub fn note(&mut self, sample: Sample) {
        self.waiting.push(sample);
    }

    /// Sends the samples of the current batch. If the explainer is too far behind, these samples
    /// are not sent: they are counted, and get no explanation.
    pub fn hand_over(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let samples = std::mem::take(&mut self.waiting);
        let count = samples.len() as u64;
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            self.sender.try_send(Batch {
                series: self.series,
                samples,
            })
        {
            self.left_out.fetch_add(count, Ordering::Relaxed);
        }
    }
}
