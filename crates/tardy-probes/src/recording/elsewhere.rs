//! Stores which samples a thread took on a CPU other than the planned one, as intervals of
//! consecutive samples. The measuring thread records them without locking or allocating; the
//! recorder reads them.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;
use tardy_run::record::MovedStretch;

/// Maximum number of intervals; the last one also covers all later samples.
const STRETCHES_MAX: usize = 64;

/// The intervals of one series.
#[derive(Debug)]
pub(super) struct Stretches {
    stretches: [Stretch; STRETCHES_MAX],
    /// Number of intervals in use.
    used: AtomicU32,
}

impl Default for Stretches {
    fn default() -> Self {
        Self {
            stretches: std::array::from_fn(|_| Stretch::default()),
            used: AtomicU32::new(0),
        }
    }
}

#[derive(Debug, Default)]
struct Stretch {
    cpu: AtomicU32,
    first_due: AtomicI64,
    last_due: AtomicI64,
    samples: AtomicU64,
}

impl Stretches {
    /// Records a sample that the thread took on `cpu`, which is not the planned one. `goes_on` is
    /// true if the previous sample of the series was also recorded by this function. Must be called
    /// by one thread only.
    pub(super) fn note(&self, cpu: u32, due: Nanos, goes_on: bool) {
        let used = self.used.load(Ordering::Relaxed) as usize;
        let is_same =
            goes_on && used > 0 && self.stretches[used - 1].cpu.load(Ordering::Relaxed) == cpu;
        let is_new = !is_same && used < STRETCHES_MAX;
        let stretch = &self.stretches[if is_new { used } else { used - 1 }];
        if is_new {
            stretch.cpu.store(cpu, Ordering::Relaxed);
            stretch.first_due.store(due.get(), Ordering::Relaxed);
        }
        stretch.last_due.store(due.get(), Ordering::Relaxed);
        stretch.samples.store(
            stretch.samples.load(Ordering::Relaxed) + 1,
            Ordering::Relaxed,
        );
        if is_new {
            self.used.store(used as u32 + 1, Ordering::Release);
        }
    }

    /// Returns the recorded intervals. The intervals are exact once the measuring thread has closed
    /// its ring.
    pub(super) fn read(&self) -> Vec<MovedStretch> {
        let used = self.used.load(Ordering::Acquire) as usize;
        let value = |stretch: &Stretch| MovedStretch {
            cpu: CpuId(stretch.cpu.load(Ordering::Relaxed)),
            first_due_ns: Nanos(stretch.first_due.load(Ordering::Relaxed)),
            last_due_ns: Nanos(stretch.last_due.load(Ordering::Relaxed)),
            samples: stretch.samples.load(Ordering::Relaxed),
        };
        self.stretches[..used].iter().map(value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_lasts_as_long_as_samples_come_from_one_cpu() {
        let stretches = Stretches::default();
        for (due, cpu, goes_on) in [(10, 3, false), (20, 3, true), (30, 2, true), (70, 2, false)] {
            stretches.note(cpu, Nanos(due), goes_on);
        }
        let seen: Vec<_> = stretches
            .read()
            .iter()
            .map(|seen| {
                (
                    seen.cpu.0,
                    seen.first_due_ns.get(),
                    seen.last_due_ns.get(),
                    seen.samples,
                )
            })
            .collect();
        assert_eq!(seen, [(3, 10, 20, 2), (2, 30, 30, 1), (2, 70, 70, 1)]);
    }

    #[test]
    fn what_finds_no_room_is_counted_in_the_last_stretch() {
        let stretches = Stretches::default();
        let count = STRETCHES_MAX as i64 + 5;
        (0..count).for_each(|due| stretches.note(1, Nanos(due), false));
        let seen = stretches.read();
        assert_eq!(seen.len(), STRETCHES_MAX);
        assert_eq!(
            seen.iter().map(|stretch| stretch.samples).sum::<u64>(),
            count as u64
        );
        assert_eq!(
            seen.last().map(|stretch| stretch.last_due_ns),
            Some(Nanos(count - 1))
        );
    }
}
