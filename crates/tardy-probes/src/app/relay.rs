//! The relay's thread, which passes the cycles of other programs' loops to the recorder's rings.

use tardy_core::units::Nanos;
use tardy_sys::{clock, sched};

use super::memory::{AppMemory, Cycle, LoopReader};
use super::track::{OffGrid, Track};
use crate::recording::control::Control;
use crate::recording::ring::Producer;

/// Interval between reads of the loops' rings, which hold 1.6 s or more.
const INTERVAL: std::time::Duration = std::time::Duration::from_millis(10);
/// Maximum time for which the relay waits, after the run's end, for the cycle that completes the
/// last sample.
const PATIENCE: Nanos = Nanos::from_secs(1);

/// A loop to relay.
#[derive(Debug)]
pub struct RunningLoop {
    pub name: String,
    /// Time between two due times; `None` if the due times are not equally spaced.
    pub period: Option<Nanos>,
    /// The first due time of the loop's series. Earlier cycles are ignored.
    pub first: Nanos,
    /// Whether the loop reports when its work is done. If not, the start of the cycle is used
    /// instead.
    pub tells_done: bool,
    /// Reads the loop's cycles.
    pub reader: LoopReader,
}

/// The rings for the samples of a loop.
#[derive(Debug)]
pub struct LoopRings {
    /// Ring for the times when work was done.
    pub done: Producer,
    pub start: Producer,
}

/// A loop whose due times left the grid, so that its series ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftGrid {
    pub name: String,
    /// The loop's period.
    pub period: Nanos,
    /// The due time at which the loop left the grid.
    pub at: OffGrid,
}

struct Line {
    looped: RunningLoop,
    next_number: u64,
    has_begun: bool,
    start: Track,
    done: Track,
}

/// Why the relay stops passing on cycles of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// This due time is past the run's end.
    Past(Nanos),
    /// The loop reported its end, or its program is gone.
    Gone,
    /// The loop left its grid.
    OffGrid(OffGrid),
}

/// What was seen of a loop during a measurement.
#[derive(Debug)]
pub struct Relayed {
    /// Where the loop left its grid, if it did.
    pub left: Option<LeftGrid>,
    /// Whether any cycle was due during the measurement.
    pub has_cycles: bool,
}

/// Passes on the cycles of a loop until the loop ends or `control` stops it.
pub fn relay(
    memory: &AppMemory,
    running: RunningLoop,
    rings: LoopRings,
    control: &Control,
) -> Relayed {
    // The thread needs the same niceness as the recorder, because a full ring would lose cycles.
    let _ = sched::set_policy(0, sched::Policy::Other { nice: -20 });
    let mut line = Line::new(running, rings);
    loop {
        std::thread::sleep(INTERVAL);
        let is_over = control.is_past_end(Nanos(clock::monotonic()) - PATIENCE);
        // Whether the loop has ended is checked before its cycles are read. In the other order, the
        // relay would miss cycles that a program writes just before it ends.
        let is_gone = !memory.is_anybody_there().unwrap_or(true);
        if let Some(end) = line
            .take_waiting(control)
            .or((is_gone || is_over).then_some(End::Gone))
        {
            return Relayed {
                has_cycles: line.has_begun,
                left: line.close(end),
            };
        }
    }
}

impl Line {
    fn new(running: RunningLoop, rings: LoopRings) -> Self {
        let track = |producer| Track::new(running.period, running.first, producer);
        Self {
            next_number: 0,
            has_begun: false,
            start: track(rings.start),
            done: track(rings.done),
            looped: running,
        }
    }

    /// Passes on all cycles in the ring.
    fn take_waiting(&mut self, control: &Control) -> Option<End> {
        let is_closed = self.looped.reader.is_closed();
        let mut end = None;
        let Self {
            looped,
            next_number,
            has_begun,
            start,
            done,
        } = self;
        let (first, tells_done) = (looped.first, looped.tells_done);
        looped.reader.drain(|cycle| {
            if control.is_past_end(cycle.due) {
                end = Some(End::Past(cycle.due));
            } else if cycle.due >= first || *has_begun {
                // Cycles lost before the first one do not belong to this series.
                let lost = if *has_begun {
                    cycle.number.saturating_sub(*next_number)
                } else {
                    0
                };
                end = take(cycle, lost, tells_done, start, done)
                    .err()
                    .map(End::OffGrid);
                *has_begun = true;
                *next_number = cycle.number.saturating_add(1);
            }
            end.is_none()
        });
        end.or(is_closed.then_some(End::Gone))
    }

    fn close(self, end: End) -> Option<LeftGrid> {
        let Self {
            looped,
            next_number,
            has_begun,
            mut start,
            mut done,
        } = self;
        let mut next = None;
        match end {
            End::Past(due) => next = Some(due),
            End::OffGrid(_) => {}
            End::Gone => {
                if let Some((latest, due)) = looped.reader.latest_begun()
                    && has_begun
                    && latest >= next_number
                {
                    // The latest cycle is still in progress, or the loop did not report its end.
                    // The cycles between the latest cycle and the last one that was passed on are
                    // lost.
                    let lost = latest - next_number;
                    start.lose(lost);
                    done.lose(lost);
                    next = Some(due);
                }
            }
        }
        let next_due = next.unwrap_or_else(|| start.next_due());
        start.close(next);
        done.close(Some(next_due));
        match (end, looped.period) {
            (End::OffGrid(at), Some(period)) => Some(LeftGrid {
                name: looped.name,
                period,
                at,
            }),
            _ => None,
        }
    }
}

/// Passes on one cycle. `lost` cycles before it are missing.
fn take(
    cycle: Cycle,
    lost: u64,
    tells_done: bool,
    start: &mut Track,
    done: &mut Track,
) -> Result<(), OffGrid> {
    start.lose(lost);
    done.lose(lost);
    start.take(cycle.due, cycle.start)?;
    match cycle.done.or((!tells_done).then_some(cycle.start)) {
        Some(at) => done.take(cycle.due, at),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::ring::{Consumer, ring};
    use std::sync::Arc;
    use tardy_app::Loop;
    use tardy_core::sample::Record;

    struct RelayEnd {
        left: Option<LeftGrid>,
        start: Consumer,
        done: Consumer,
    }

    fn relayed(memory: &Arc<AppMemory>, period: i64, control: &Control) -> RelayEnd {
        let ((start, start_consumer), (done, done_consumer)) = (ring(1024), ring(1024));
        let period = (period > 0).then_some(Nanos(period));
        let reader = memory.readers().remove(0);
        let running = RunningLoop {
            name: "control".into(),
            period,
            first: Nanos(0),
            tells_done: true,
            reader,
        };
        let relayed = relay(memory, running, LoopRings { done, start }, control);
        RelayEnd {
            left: relayed.left,
            start: start_consumer,
            done: done_consumer,
        }
    }

    /// Returns the due time and the number of skipped due times of each sample.
    fn dues(consumer: &mut Consumer) -> Vec<(i64, u32)> {
        let mut found = Vec::new();
        consumer.drain_up_to(u64::MAX, |record| match record {
            Record::Sample(sample) => found.push((sample.due.get(), sample.skipped)),
            Record::Gap(gap) => panic!("{gap:?}"),
        });
        found
    }

    fn open(memory: &AppMemory, period: i64) -> Loop {
        Loop::open_at(&memory.path_for_others(), "control", period).unwrap()
    }

    #[test]
    fn a_loop_that_ends_ends_its_series_and_work_that_was_not_done_is_skipped() {
        let memory = Arc::new(AppMemory::create(1, 64).unwrap());
        let mut control = open(&memory, 1000);
        for (due, is_done) in [
            (-1000, true),
            (0, true),
            (1000, false),
            (2000, true),
            (4000, true),
            (5000, false),
        ] {
            control.due(due);
            if is_done {
                control.done();
            }
        }
        drop(control);
        let mut relayed = relayed(&memory, 1000, &Control::new(None, None));
        assert_eq!(relayed.left, None);
        assert_eq!(
            dues(&mut relayed.start),
            [(0, 0), (1000, 0), (2000, 1), (4000, 0), (5000, 0)]
        );
        assert_eq!(dues(&mut relayed.done), [(0, 1), (2000, 1), (4000, 1)]);
        for consumer in [&relayed.start, &relayed.done] {
            assert_eq!(consumer.closing_statement().unwrap().next_due, Nanos(6000));
        }
    }

    #[test]
    fn no_cycle_that_is_due_after_the_end_is_taken() {
        let memory = Arc::new(AppMemory::create(1, 64).unwrap());
        let mut control = open(&memory, 1000);
        let ends = Control::new(None, None);
        ends.stop_at(Nanos(2500));
        for due in [0, 1000, 3000, 4000] {
            control.due(due);
            control.done();
        }
        let mut relayed = relayed(&memory, 1000, &ends);
        assert_eq!(relayed.left, None);
        assert_eq!(dues(&mut relayed.start), [(0, 0), (1000, 1)]);
        assert_eq!(
            relayed.start.closing_statement().unwrap().next_due,
            Nanos(3000)
        );
    }

    #[test]
    fn a_loop_that_leaves_its_grid_is_named() {
        let memory = Arc::new(AppMemory::create(1, 64).unwrap());
        let mut control = open(&memory, 1000);
        for due in [0, 1000, 1700] {
            control.due(due);
            control.done();
        }
        let relayed = relayed(&memory, 1000, &Control::new(None, None));
        let at = OffGrid {
            due: Nanos(1700),
            before: Nanos(1000),
        };
        assert_eq!(
            relayed.left,
            Some(LeftGrid {
                name: "control".into(),
                period: Nanos(1000),
                at
            })
        );
        assert_eq!(
            relayed.start.closing_statement().unwrap().next_due,
            Nanos(2000)
        );
    }
}
