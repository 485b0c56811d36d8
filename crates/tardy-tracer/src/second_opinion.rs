//! Compares the records of the kernel's timerlat tracer with this crate's explanations of the same
//! wake-ups, which are derived from other events.
//!
//! timerlat reads the clock in its timer's function and again in its thread. Each time, it writes
//! how long ago its due time was (kernel/trace/trace_osnoise.c, `timerlat_irq` and
//! `timerlat_main`). Both written times are compared with the explanation of the same wake-up. The
//! time that the timer's function wrote is compared with the explained time from the due time to
//! that function. The time that the thread wrote is compared with the time from the explained due
//! time to the thread's record.

use std::collections::VecDeque;

use tardy_run::tracing::{Agreement, SecondOpinion};
use tardy_trace::event::{Event, Kind};
use tardy_trace::explain::{Component, Delay, Samples};

/// Name of the tracer, and of its records.
pub(crate) const TIMERLAT: &str = "timerlat";
/// Where a timerlat record was made (kernel/trace/trace_osnoise.c): in the timer's function, or in
/// the thread.
const IN_INTERRUPT: i64 = 0;
const IN_THREAD: i64 = 1;
/// Maximum number of records that wait for the trace; it is reached only if the trace stalls.
const WAITING_MAX: usize = 1 << 16;

/// A record of the timerlat tracer.
#[derive(Debug, Clone, Copy)]
struct TimerlatRecord {
    time: u64,
    cpu: u32,
    /// The thread, taken from the record that the thread itself wrote, because the interrupt's
    /// record names the interrupted thread.
    pid: i32,
    context: i64,
    latency: u64,
}

/// Compares records with wake-ups while the stream is read.
#[derive(Debug, Default)]
pub(crate) struct Opinions {
    waiting: VecDeque<TimerlatRecord>,
    /// For each CPU, the latency that timerlat's timer function wrote last, if the thread has not
    /// yet written its record.
    in_interrupt: Vec<Option<u64>>,
    pub(crate) found: SecondOpinion,
}

impl Opinions {
    /// Processes an event; follows threads of timerlat from their first record on.
    pub(crate) fn take(&mut self, event: &Event, samples: &mut Samples) {
        let Kind::Timerlat { context, latency } = event.kind else {
            return;
        };
        if context == IN_THREAD {
            samples.follow(event.head.pid);
        }
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(TimerlatRecord {
                time: event.time,
                cpu: event.cpu,
                pid: event.head.pid,
                context,
                latency,
            });
        }
    }

    /// Compares the records that are older than `settled`.
    pub(crate) fn compare(&mut self, settled: u64, samples: &mut Samples) {
        while let Some(told) = self.waiting.pop_front_if(|told| told.time < settled) {
            let place = told.cpu as usize;
            if self.in_interrupt.len() <= place {
                self.in_interrupt.resize(place + 1, None);
            }
            match told.context {
                IN_INTERRUPT => self.in_interrupt[place] = Some(told.latency),
                IN_THREAD => {
                    let in_interrupt = self.in_interrupt[place].take();
                    // A thread is followed only after its first record, so the due time of its
                    // first wake-up is unknown.
                    let Some(due) = samples.due_of_wake_up(told.pid, told.time) else {
                        continue;
                    };
                    let delay = samples.explain(&[told.pid], told.cpu, due, told.time);
                    self.found.wake_ups += 1;
                    if let Some(theirs) = in_interrupt {
                        add(&mut self.found.interrupt, way_to_function(&delay), theirs);
                    }
                    add(
                        &mut self.found.thread,
                        told.time.saturating_sub(due),
                        told.latency,
                    );
                }
                _ => {}
            }
        }
    }
}

/// Returns the time from the due time to the call of the timer's function.
fn way_to_function(delay: &Delay) -> u64 {
    let is_before = |component| matches!(component, Component::Timer | Component::Interrupt);
    delay
        .pieces
        .iter()
        .filter(|piece| is_before(piece.component))
        .map(|piece| piece.length())
        .sum()
}

fn add(agreement: &mut Agreement, ours: u64, theirs: u64) {
    let difference = theirs.cast_signed().wrapping_sub(ours.cast_signed());
    agreement.compared += 1;
    agreement.agreeing += u64::from(
        difference.unsigned_abs() <= Agreement::WITHIN_NS.max(theirs / Agreement::WITHIN_PART),
    );
    if agreement.compared == 1 {
        (agreement.difference_min_ns, agreement.difference_max_ns) = (difference, difference);
    }
    agreement.difference_min_ns = agreement.difference_min_ns.min(difference);
    agreement.difference_max_ns = agreement.difference_max_ns.max(difference);
    agreement.theirs_max_ns = agreement.theirs_max_ns.max(theirs);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_agree_within_one_us_or_two_percent() {
        let mut agreement = Agreement::default();
        for (ours, theirs) in [
            (5_000, 6_000),
            (5_000, 6_001),
            (6_000, 5_000),
            (100_000, 102_000),
            (100_000, 103_000),
        ] {
            add(&mut agreement, ours, theirs);
        }
        assert_eq!((agreement.compared, agreement.agreeing), (5, 3));
        assert_eq!(
            (
                agreement.difference_min_ns,
                agreement.difference_max_ns,
                agreement.theirs_max_ns
            ),
            (-1_000, 3_000, 103_000)
        );
    }
}
