//! Computes how far the wake-ups of a grid fall behind a schedule that skips no period. Cyclictest
//! V 0.15 of 2007 had such a schedule.
//!
//! Today's cyclictest, like Tardy, skips periods that passed during a late wake-up. V 0.15 sleeps
//! until each due time, even if it has passed. If a kernel's timers fire only on ticks, both loops
//! wake up at the same ticks, because even a sleep until a past time lasts until the next tick.
//! Therefore the nth wake-up has the same time in both loops. In the loop that skips no period, the
//! nth wake-up was due n periods after the start.

use tardy_core::chunk::Chunk;
use tardy_core::series::Schedule;
use tardy_core::summary::accumulator::PhaseSpan;
use tardy_core::summary::cell::Cell;
use tardy_core::units::Nanos;

use crate::read_series::{SeriesError, SeriesFile};

/// Reads how late each wake-up in `span` is relative to a schedule in which the nth wake-up is due
/// n periods after the first due time in `span`.
///
/// # Errors
/// Fails with a [`SeriesError`] if the file cannot be read.
pub fn read(file: &SeriesFile, span: PhaseSpan) -> Result<Cell, SeriesError> {
    let mut backlog = Backlog {
        schedule: file.descriptor().schedule,
        span,
        next_due: None,
        found: Cell::default(),
    };
    file.read(&mut |chunk| backlog.add(chunk))?;
    Ok(backlog.found)
}

struct Backlog {
    schedule: Schedule,
    span: PhaseSpan,
    /// When the next wake-up is due in a schedule without skipped periods.
    next_due: Option<Nanos>,
    found: Cell,
}

impl Backlog {
    fn add(&mut self, chunk: &Chunk) {
        let schedule = self.schedule;
        let period = schedule.period();
        for (gap, sample) in chunk.samples(&schedule) {
            if sample.due < self.span.begin || sample.due >= self.span.end {
                continue;
            }
            // Lost samples are counted as wake-ups, too.
            let lost = Nanos(period.get().saturating_mul(gap.lost.cast_signed()));
            let due = self
                .next_due
                .map_or(sample.due, |due| due.saturating_add(lost));
            // The subtraction saturates, because the times in a damaged file can be far apart.
            let late = sample.wake().get().saturating_sub(due.get());
            self.found.latency.record(late);
            self.found.sum += i128::from(late);
            self.next_due = Some(due.saturating_add(period));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series_writer::SeriesWriter;
    use tardy_core::accounting::Counts;
    use tardy_core::chunk::ChunkEncoder;
    use tardy_core::sample::{Gap, Record, Sample};
    use tardy_core::series::{ClockKind, Descriptor};

    /// With ticks of 4 ms and a period of 1 ms, each wake-up skips three periods, and falls 3 ms
    /// further behind.
    #[test]
    fn a_wake_up_at_each_tick_falls_behind_by_the_skipped_periods() {
        let tick = Nanos::from_millis(4);
        let schedule = Schedule::Grid {
            period: Nanos::from_millis(1),
            start: Nanos::ZERO,
            dither: Nanos::ZERO,
        };
        let descriptor = Descriptor::latency("cyclic", None, ClockKind::Hardware, schedule);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(descriptor.file_name());
        let mut writer = SeriesWriter::create(&path, &descriptor).unwrap();
        let mut encoder = ChunkEncoder::new(&descriptor);
        for number in (0..100).filter(|number| *number != 70) {
            if number == 71 {
                let (lost, skipped) = (1, 3);
                encoder.push(Record::Gap(Gap { lost, skipped }));
            }
            encoder.push(Record::Sample(Sample {
                due: tick * number,
                latency: tick - Nanos(7),
                skipped: 3,
            }));
        }
        let mut bytes = Vec::new();
        encoder.finish(&Counts::default(), true, &mut bytes);
        writer.append(&bytes).unwrap();
        let file = SeriesFile::open(&path).unwrap();
        let found = |from: i64, until: i64| {
            let (begin, end) = (tick * from, tick * until);
            let cell = read(&file, PhaseSpan { begin, end }).unwrap();
            let latency = &cell.latency;
            (latency.count(), latency.min(), latency.max(), cell.sum)
        };
        let late = |number: i64| 3_000_000 * number + 3_999_993;
        let sum: i64 = (0..50).map(late).sum();
        let expected = (50, Some(late(0)), Some(late(49)), i128::from(sum));
        assert_eq!(found(0, 50), expected);
        // Each phase starts a new schedule. In this phase, one wake-up was lost, and one due time
        // of the schedule belongs to it.
        let without_lost = i128::from(sum - late(20));
        assert_eq!(
            found(50, 100),
            (49, Some(late(0)), Some(late(49)), without_lost)
        );
        assert_eq!(found(100, 110).0, 0);
    }
}
