//! A unit of work of known length, which stands for the work that a task does after its wake-up.
//!
//! A task meets its deadline only when its work is complete, not when it starts (mckenney2009,
//! section 1). The length is calibrated before the measurement, on the CPU that will do the work,
//! and with as few disturbances as possible. If the work takes longer during a run, other tasks
//! used the CPU meanwhile, or the kernel was slower.

mod calibrate;
mod compute;
mod memory;
mod syscalls;

use std::io;

use tardy_core::units::Nanos;
use tardy_run::work_kind::WorkKind;
use tardy_sys::clock;

pub use calibrate::Calibration;

use compute::Compute;
use memory::Memory;
use syscalls::SystemCalls;

/// A unit of work, which consists of a number of steps of one kind. All memory is allocated and
/// touched before the first step.
#[derive(Debug)]
pub struct UnitOfWork {
    body: Body,
    steps: u64,
}

#[derive(Debug)]
enum Body {
    Compute(Compute),
    Syscalls(SystemCalls),
    Memory(Memory),
}

impl UnitOfWork {
    /// Default size of the memory that the kind `memory` reads, in bytes: more than second-level
    /// caches hold, and more than most CPUs' share of a last-level cache.
    pub const AREA_BYTES: u64 = 32 << 20;

    /// Makes a unit that takes `length` without disturbance. `area_bytes` is the size of the memory
    /// that the kind `memory` reads. Should be called on the CPU that will do the work. The
    /// calibration takes at most about half a second, or three times `length` if that is more.
    ///
    /// # Errors
    /// Returns an error if a pipe cannot be made, or if one of the system calls on it fails.
    pub fn calibrated(
        kind: WorkKind,
        length: Nanos,
        area_bytes: u64,
    ) -> io::Result<(Self, Calibration)> {
        let body = match kind {
            WorkKind::Compute => Body::Compute(Compute::new()),
            WorkKind::Syscalls => Body::Syscalls(SystemCalls::new()?),
            WorkKind::Memory => Body::Memory(Memory::new(area_bytes)),
        };
        let mut unit = Self { body, steps: 1 };
        let calibration = calibrate::calibrate(length, |steps| {
            unit.steps = steps;
            let begin = clock::monotonic();
            unit.run()?;
            Ok(Nanos(clock::monotonic() - begin))
        })?;
        unit.steps = calibration.steps;
        Ok((unit, calibration))
    }

    /// Does the work once.
    ///
    /// # Errors
    /// Returns the error of a system call in the unit; `compute` and `memory` make none.
    #[inline]
    pub fn run(&mut self) -> io::Result<()> {
        match &mut self.body {
            Body::Compute(compute) => compute.step(self.steps),
            Body::Syscalls(calls) => return calls.step(self.steps),
            Body::Memory(memory) => memory.step(self.steps),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_calibrated_and_can_be_done() {
        for kind in WorkKind::ALL {
            let (mut unit, calibration) =
                UnitOfWork::calibrated(kind, Nanos::from_micros(50), 1 << 20).unwrap();
            assert!(
                calibration.steps > 1 && calibration.measured > Nanos::ZERO,
                "{kind}: {calibration:?}"
            );
            assert_eq!(unit.steps, calibration.steps);
            unit.run().unwrap();
        }
    }
}
