//! Checks whether `--explain` names the true causes of delays. While a probe runs in a guest, the
//! kernel module in `inject/` makes delays whose causes are known.
//!
//! The probe's thread may be woken before the injected section starts. If the kernel does not
//! preempt its own code, the thread then waits for the code around the section. In this case, the
//! true cause is "kernel code", because a preemptible kernel would have run the thread before the
//! section started.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use tardy_core::units::Nanos;
use tardy_machine::facts::CompiledPreemption;
use tardy_run::folder::{self, FolderError};
use tardy_samples::delays::{self, DelayChunk, DelayReader, SampleDelay};
use tardy_trace::explain::{Cause, Certainty, Component};

use crate::injection::{Context, InjectedDelay, LOG_PATH, parse_log};

/// Maximum difference between the time that a sample waited for a delay and the part of this time
/// that the explanation attributes to the cause. If the sample waited for more than 100 us, the
/// maximum is instead a fiftieth of the wait.
const LENGTH_OFF_MAX: Nanos = Nanos::from_micros(2);
/// Name that the guest's kernel shows for the thread that causes the injected delays.
const FIRING_THREAD: &str = "exe";

/// Why a run cannot be judged.
#[derive(Debug, thiserror::Error)]
pub enum BlameError {
    /// The folder contains no run.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A file of the run cannot be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        path: PathBuf,
        /// The error that the system reported.
        error: io::Error,
    },
    /// A line of the log of delays is not in the module's format.
    #[error("line {0} of the log of delays cannot be read")]
    Log(usize),
    /// The run does not record the preemption model of its kernel.
    #[error("the run does not record its kernel's preemption mode")]
    Preemption,
}

/// What one injected delay did to the probe, according to the run's explanation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgedDelay {
    /// The injected delay, with its start and end.
    pub firing: InjectedDelay,
    /// The true cause, which the explanation must name; `None` if the kernel can preempt the delay.
    pub truth: Option<Cause>,
    /// The cause that the explanation names; `None` if no sample waited until the end of the delay
    /// and for at least half of its length.
    pub blamed: Option<Blame>,
}

/// The holder that, according to the explanation, had the CPU for the longest part of a sample's
/// wait. Only the part of the wait between the delay's two clock reads counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blame {
    /// Why the sample waited.
    pub cause: Cause,
    /// Name of the thread or softirq.
    pub name: String,
    /// How certain the explanation is of the cause.
    pub known: Certainty,
    /// How long the sample waited during the delay.
    pub waited: Nanos,
    /// The part of `waited` that the explanation attributes to this holder, or to interrupts and
    /// softirqs that interrupted it.
    pub laid: Nanos,
    /// When the thread that took the sample was woken.
    woken: Nanos,
}

impl JudgedDelay {
    /// Returns whether the explanation names the true cause and the thread that made the delay.
    #[must_use]
    pub fn is_true(&self) -> bool {
        self.blamed.as_ref().map(|blame| blame.cause) == self.truth
            && self.blamed.as_ref().is_none_or(Blame::is_named)
    }

    /// Returns true if the attributed length is within 2 us or 2 % of the truth, or if no sample
    /// waited for the delay.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.blamed
            .as_ref()
            .is_none_or(|blame| blame.off() <= LENGTH_OFF_MAX.max(Nanos(blame.waited.0 / 50)))
    }
}

impl Blame {
    /// Returns by how much the attributed length and `waited` differ.
    #[must_use]
    pub fn off(&self) -> Nanos {
        Nanos((self.waited - self.laid).0.abs())
    }

    fn is_named(&self) -> bool {
        self.name
            == if self.cause == Cause::Softirq {
                "TASKLET"
            } else {
                FIRING_THREAD
            }
    }
}

/// Returns the true cause of delays in a context, or `None` if the kernel can preempt them.
/// `is_preemptible` states whether the kernel preempts its own code.
fn truth(context: Context, is_real_time: bool, is_preemptible: bool) -> Option<Cause> {
    match context {
        Context::InterruptsOff => Some(Cause::InterruptsOff),
        Context::PreemptionOff | Context::RawSpinlock => Some(Cause::PreemptionOff),
        // With PREEMPT_RT, the kernel can preempt spinlock sections, because the lock sleeps, and
        // softirqs, because they run in threads.
        Context::Spinlock => (!is_real_time).then_some(Cause::PreemptionOff),
        Context::Softirq => (!is_real_time).then_some(Cause::Softirq),
        Context::Plain => (!is_preemptible).then_some(Cause::KernelCode),
    }
}

/// Judges how the run in `folder` explains its injected delays, all of which have this `context`.
/// Uses the samples of the probe `cyclic` on CPU 0.
///
/// # Errors
/// Returns [`BlameError`].
pub fn judge(folder: &Path, context: Context) -> Result<Vec<JudgedDelay>, BlameError> {
    let record = folder::open(folder)?;
    let preemption = record
        .machine
        .kernel
        .preemption
        .as_ref()
        .ok_or(BlameError::Preemption)?;
    let is_real_time = preemption.compiled == CompiledPreemption::RealTime;
    let is_preemptible =
        is_real_time || matches!(preemption.mode.as_deref(), Some("full" | "lazy"));
    let truth = truth(context, is_real_time, is_preemptible);
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |error| BlameError::Unreadable { path, error }
    };
    let log = folder.join(LOG_PATH);
    let text = std::fs::read_to_string(&log).map_err(unreadable(&log))?;
    let firings = parse_log(&text).map_err(BlameError::Log)?;
    let mut judged: Vec<_> = firings
        .into_iter()
        .map(|firing| JudgedDelay {
            firing,
            truth,
            blamed: None,
        })
        .collect();
    let path = delays::path(folder, "cyclic.cpu0.series");
    let mut reader = DelayReader::open(&path).map_err(unreadable(&path))?;
    while let Some(chunk) = reader.next_chunk().map_err(unreadable(&path))? {
        for sample in &chunk.samples {
            let woke = sample.due.0 + sample.sum().cast_signed();
            // Looks at the last delay that ended before the sample was taken. If the sample was due
            // before this delay ended, the sample waited for the delay.
            let next = judged.partition_point(|judged| judged.firing.ended.0 <= woke);
            let Some(judged) = judged[..next]
                .last_mut()
                .filter(|judged| sample.due < judged.firing.ended)
            else {
                continue;
            };
            let blame = blame(sample, &chunk, judged.firing);
            // If a sample is due near the delay's end, its latency proves nothing, because every
            // wake-up takes some time.
            let is_delayed = blame.waited.0 * 2 >= judged.firing.ended.0 - judged.firing.begun.0;
            // If the thread was woken before the section started, and the kernel does not preempt
            // its own code, the thread waited for the kernel code around the section.
            if is_delayed
                && !is_preemptible
                && blame.cause == Cause::KernelCode
                && blame.woken < judged.firing.begun
            {
                judged.truth = Some(Cause::KernelCode);
            }
            if is_delayed
                && judged
                    .blamed
                    .as_ref()
                    .is_none_or(|other| other.waited < blame.waited)
            {
                judged.blamed = Some(blame);
            }
        }
    }
    Ok(judged)
}

/// Returns the holder that the explanation names for the sample's wait during the delay.
fn blame(sample: &SampleDelay, chunk: &DelayChunk, firing: InjectedDelay) -> Blame {
    let mut by_holder: BTreeMap<usize, i64> = BTreeMap::new();
    let mut start = sample.due.0;
    for piece in &sample.pieces {
        let end = start + piece.length.cast_signed();
        let within = end.min(firing.ended.0) - start.max(firing.begun.0);
        *by_holder.entry(piece.holder).or_default() += within.max(0);
        start = end;
    }
    let longest = by_holder
        .iter()
        .max_by_key(|&(_, &length)| length)
        .map_or(0, |(&holder, _)| holder);
    let holder = &chunk.holders[longest];
    // The times in the module's log also include interrupts during the section, and softirqs that
    // follow these interrupts.
    let is_of_it = |place: usize| {
        let other = &chunk.holders[place];
        let is_on_top = matches!(other.cause, Cause::Interrupt | Cause::Softirq | Cause::Nmi);
        (other.cause, &other.name) == (holder.cause, &holder.name) || is_on_top
    };
    let laid = by_holder
        .iter()
        .filter(|&(&place, _)| is_of_it(place))
        .map(|(_, length)| length)
        .sum();
    let waited = by_holder.values().sum();
    let to_waking = [
        Component::Request,
        Component::Timer,
        Component::Interrupt,
        Component::Expiry,
        Component::Waker,
    ];
    let before = sample
        .pieces
        .iter()
        .take_while(|piece| to_waking.contains(&piece.component))
        .map(|piece| piece.length.cast_signed());
    let woken = Nanos(sample.due.0 + before.sum::<i64>());
    Blame {
        woken,
        cause: holder.cause,
        name: holder.name.clone(),
        known: holder.known,
        waited: Nanos(waited),
        laid: Nanos(laid),
    }
}

#[cfg(test)]
mod tests {
    use tardy_samples::delays::{DelayHolder, DelayPiece, DelayWaker};

    use super::*;

    fn judged(cause: Cause, name: &str, lengths: [u64; 3]) -> JudgedDelay {
        let holder = |cause, name: &str| DelayHolder {
            cause,
            known: Certainty::Inferred,
            name: name.into(),
            priority: None,
            work: None,
            stack: Vec::new(),
            ended: Vec::new(),
            sender: None,
        };
        let holders = vec![
            holder(cause, name),
            holder(Cause::Interrupt, "local_timer"),
            holder(Cause::Switch, ""),
        ];
        let piece = |(holder, &length)| DelayPiece {
            component: Component::Switch,
            holder,
            cpu: 0,
            length,
        };
        let pieces = lengths.iter().enumerate().map(piece).collect();
        let sample = SampleDelay {
            due: Nanos(1_000),
            cpu: 0,
            waker: DelayWaker::Nobody,
            is_switch_seen: true,
            pieces,
        };
        let firing = InjectedDelay {
            begun: Nanos(0),
            ended: Nanos(1_000_000),
        };
        let chunk = DelayChunk {
            holders,
            samples: Vec::new(),
        };
        JudgedDelay {
            firing,
            truth: Some(Cause::PreemptionOff),
            blamed: Some(blame(&sample, &chunk, firing)),
        }
    }

    #[test]
    fn a_delay_is_judged_by_cause_name_and_length() {
        let right = judged(Cause::PreemptionOff, "exe", [989_000, 10_000, 20_000]);
        assert!(right.is_true() && right.is_exact(), "{right:?}");
        assert_eq!(
            right
                .blamed
                .as_ref()
                .map(|blame| (blame.waited, blame.laid)),
            Some((Nanos(999_000), Nanos(999_000)))
        );
        assert!(
            !judged(Cause::PreemptionOff, "kworker", [989_000, 10_000, 20_000]).is_true(),
            "somebody else"
        );
        assert!(
            !judged(Cause::KernelCode, "exe", [989_000, 10_000, 20_000]).is_true(),
            "something else"
        );
        let short = judged(Cause::PreemptionOff, "exe", [900_000, 10_000, 120_000]);
        assert!(short.is_true() && !short.is_exact(), "{short:?}");
        assert!(
            !JudgedDelay {
                blamed: None,
                ..short
            }
            .is_true(),
            "nothing"
        );
    }

    #[test]
    fn what_a_kernel_preempts_is_no_cause() {
        let causes = |is_real_time, is_preemptible| {
            Context::ALL.map(|context| truth(context, is_real_time, is_preemptible).is_some())
        };
        assert_eq!(causes(false, false), [true; 6]);
        assert_eq!(causes(false, true), [true, true, true, true, true, false]);
        assert_eq!(causes(true, true), [true, true, false, true, false, false]);
    }
}
