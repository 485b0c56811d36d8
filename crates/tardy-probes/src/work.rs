//! A unit of work of known length: the work of a task after its wake-up.
//!
//! A task is in time when its work is done, not when it starts (mckenney2009, section 1). The
//! length is calibrated before the measurement, on the CPU that will do the work, as undisturbed as
//! possible: time above it during a run was taken by other tasks, or by a slower kernel.

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

/// A number of steps of one kind. All that it needs is made and touched before the first one is
/// done.
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
    /// Bytes that `memory` goes through by default: more than the second-level caches hold, and
    /// than most shares of a last-level one.
    pub const AREA_BYTES: u64 = 32 << 20;

    /// Makes a unit that takes `length` without disturbance; `area_bytes` is the area of `memory`.
    /// The calling thread should be on the CPU that will do it, and takes at most about half a
    /// second of it, or three lengths if that is more.
    ///
    /// # Errors
    /// Returns errors of making a pipe, and of its system calls.
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
    /// Returns errors of the system calls made; `compute` and `memory` make none.
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
