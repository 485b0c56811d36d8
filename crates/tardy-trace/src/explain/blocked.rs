//! Records when the explained threads waited in the kernel for a page or a lock, rather than for
//! the wake-up that a sample measures.
//!
//! A thread in an uninterruptible wait does not wait for the wake-up that a sample measures. The
//! cause of such a wait is a page fault or a kernel lock, even if the sample became due during the
//! wait and another thread ended the wait. Without this rule, the wait would count as time that the
//! waker took to wake the probe.
//!
//! If events were lost during a wait, its cause or its end is unknown. Until the thread is woken or
//! writes an event, such a wait counts as lost events.

use std::collections::VecDeque;

use foldhash::HashMap;

use super::{Cause, Certainty, Component, Holder, Piece};
use crate::event::{Event, Kind, Thread};

/// State of a thread that signals do not wake (TASK_UNINTERRUPTIBLE of include/linux/sched.h). A
/// thread that waits for a time, a pipe or a futex has another state.
pub(super) const UNINTERRUPTIBLE: i64 = 2;
const INTERRUPTIBLE: i64 = 1;
/// Maximum number of waits that are stored per thread.
const SPANS_MAX: usize = 1 << 12;

/// Waits by thread.
#[derive(Debug, Default)]
pub(super) struct ThreadWaits {
    threads: HashMap<i32, Stint>,
}

/// The recent waits of a thread, and those events that may explain its next wait.
#[derive(Debug, Default)]
struct Stint {
    has_fault: bool,
    has_contention: bool,
    /// When the thread's current wait started, and why.
    since: Option<(u64, Cause)>,
    spans: VecDeque<Span>,
}

impl Stint {
    fn push(&mut self, span: Span) {
        if self.spans.len() == SPANS_MAX {
            self.spans.pop_front();
        }
        self.spans.push_back(span);
    }

    /// If events were lost during the current wait, returns the wait up to `to`.
    fn lost_span(&self, to: u64) -> Option<Span> {
        let lost = self.since.filter(|(_, cause)| *cause == Cause::Lost);
        lost.map(|(from, cause)| Span {
            from,
            to,
            holder: Holder::of(cause),
        })
    }

    /// If events were lost during the current wait, ends the wait at `time`.
    fn end_lost(&mut self, time: u64) {
        if let Some(span) = self.lost_span(time) {
            self.since = None;
            self.push(span);
        }
    }
}

/// A wait that has ended, and its cause.
#[derive(Debug, Clone, Copy)]
struct Span {
    from: u64,
    to: u64,
    holder: Holder,
}

impl ThreadWaits {
    /// Processes an event that was written while one of the threads ran, not while it was
    /// interrupted.
    pub(super) fn take_own(&mut self, event: &Event) {
        if event.head.is_in_interrupt() || event.head.is_in_softirq() || event.head.is_in_nmi() {
            return;
        }
        if let Some(stint) = self.threads.get_mut(&event.head.pid) {
            stint.end_lost(event.time);
        }
        match event.kind {
            Kind::PageFault { .. } => {
                self.threads.entry(event.head.pid).or_default().has_fault = true
            }
            Kind::ContentionBegin { .. } => {
                self.threads
                    .entry(event.head.pid)
                    .or_default()
                    .has_contention = true
            }
            Kind::ContentionEnd => {
                self.threads
                    .entry(event.head.pid)
                    .or_default()
                    .has_contention = false
            }
            // The thread starts to sleep until a timer expires.
            Kind::TimerStart { .. } => {
                self.threads.entry(event.head.pid).or_default().has_fault = false
            }
            Kind::Switch { previous_state, .. } if previous_state & UNINTERRUPTIBLE != 0 => {
                let stint = self.threads.entry(event.head.pid).or_default();
                let cause = match (stint.has_contention, stint.has_fault) {
                    (true, _) => Cause::KernelLock,
                    (false, true) => Cause::PageFault,
                    (false, false) => Cause::Blocked,
                };
                stint.since = Some((event.time, cause));
            }
            // The thread itself chose to sleep, so it does not wait for the page that it touched.
            Kind::Switch { previous_state, .. } if previous_state & INTERRUPTIBLE != 0 => {
                self.threads.entry(event.head.pid).or_default().has_fault = false;
            }
            _ => {}
        }
    }

    /// Records that `waker` woke one of the threads; `None` stands for an interrupt or a softirq.
    pub(super) fn woken(&mut self, pid: i32, time: u64, waker: Option<Thread>) {
        let Some(stint) = self.threads.get_mut(&pid) else {
            return;
        };
        stint.end_lost(time);
        let Some((from, cause)) = stint.since.take() else {
            return;
        };
        let of_waker = waker.map(|waker| (waker.name, waker.priority));
        let holder = Holder {
            name: of_waker.unwrap_or_default().0,
            priority: of_waker.map(|(_, priority)| priority),
            ..Holder::of(cause)
        };
        stint.push(Span {
            from,
            to: time,
            holder,
        });
    }

    /// Records that events were lost, among them perhaps the end of any wait, or the reason for a
    /// wait.
    pub(super) fn lose(&mut self) {
        for stint in self.threads.values_mut() {
            stint.has_fault = false;
            stint.has_contention = false;
            if let Some((_, cause)) = &mut stint.since {
                *cause = Cause::Lost;
            }
        }
    }

    pub(super) fn forget_before(&mut self, time: u64) {
        for stint in self.threads.values_mut() {
            let gone = stint.spans.partition_point(|span| span.to < time);
            stint.spans.drain(..gone);
        }
    }

    /// Replaces those parts of `pieces` in which the thread itself waited in the kernel. Whatever
    /// had the CPU at that time did not delay the thread.
    pub(super) fn lay(&self, pid: i32, pieces: &mut Vec<Piece>) {
        let Some(stint) = self.threads.get(&pid) else {
            return;
        };
        let open = stint.lost_span(u64::MAX);
        if stint.spans.is_empty() && open.is_none() {
            return;
        }
        let (Some(begin), Some(end)) = (
            pieces.first().map(|piece| piece.start),
            pieces.last().map(|piece| piece.end),
        ) else {
            return;
        };
        for span in stint
            .spans
            .iter()
            .chain(&open)
            .filter(|span| span.from < end && span.to > begin)
        {
            let mut laid: Vec<Piece> = Vec::with_capacity(pieces.len() + 2);
            for piece in pieces.drain(..) {
                let (from, to) = (
                    span.from.clamp(piece.start, piece.end),
                    span.to.clamp(piece.start, piece.end),
                );
                let may_wait = matches!(
                    piece.component,
                    Component::Waker
                        | Component::Return
                        | Component::SwitchAndReturn
                        | Component::Awake
                );
                if from == to || !may_wait || piece.holder.cause.is_unexplained() {
                    laid.push(piece);
                    continue;
                }
                // If the thread waited for a lock, its holder is inferred: it is assumed that the
                // waker had released the lock. If the thread waited for a page, the trace shows the
                // page fault itself.
                let known = if span.holder.cause == Cause::KernelLock {
                    Certainty::Inferred
                } else {
                    Certainty::Seen
                };
                let waits = Piece {
                    holder: span.holder,
                    known,
                    start: from,
                    end: to,
                    stack: None,
                    ended: None,
                    ..piece
                };
                let parts = [
                    Piece { end: from, ..piece },
                    waits,
                    Piece { start: to, ..piece },
                ];
                for part in parts.into_iter().filter(|part| part.start < part.end) {
                    match laid.last_mut() {
                        Some(last)
                            if (last.component, last.holder, last.cpu)
                                == (part.component, part.holder, part.cpu) =>
                        {
                            last.end = part.end
                        }
                        _ => laid.push(part),
                    }
                }
            }
            *pieces = laid;
        }
    }
}
