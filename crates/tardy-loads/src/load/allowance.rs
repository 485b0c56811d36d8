//! Limits how fast a load may write to a device. Flash wears out by writing, so loads that write
//! have a bound. Loads that run compilers are an exception: for these, the plan contains an
//! estimate.
//!
//! The bound is a rate and not a total, because a load that had used up its total would do nothing
//! for the rest of its phase. Between writes, `io` reads from the device, which causes no wear. The
//! bound does not count writes to the journals of file systems.

use tardy_run::device_writes::DeviceWrites;
use tardy_run::parameter::Parameter;
use tardy_sys::clock;

use super::backing::Backing;
use super::resolution::Resolution;
use super::worker::Worker;

/// The parameter that bounds a load's writes.
pub(super) const RATE: Parameter = Parameter::bytes(
    "rate",
    "bytes per second that all workers together may write to a device, because writes wear out \
     flash",
    "32MiB",
    4096,
    1 << 40,
);

/// Records in the plan that the load writes to the device in `backing`, at the rate in the load's
/// parameter `rate`. If the load's folder is in memory, records nothing.
pub(super) fn declare(resolution: &mut Resolution<'_>, backing: &Backing) {
    if !matches!(backing, Backing::Memory(_)) {
        let rate = resolution.plan.parameters.number("rate");
        resolution.plan.device_writes = Some(DeviceWrites {
            device: backing.name().to_owned(),
            rate,
            is_estimate: false,
        });
    }
}

/// Bytes per second that compilers write for each CPU that they keep busy. A build of a kernel's
/// defconfig leaves about 1.5 GiB of files after some 30 minutes of one CPU's time.
pub(super) const COMPILER_WRITES_A_CPU: u64 = 1 << 20;

/// Records in the plan how much the load is expected to write to the device of the scratch folder.
/// This estimate is for loads without a bound, which run compilers. If the scratch folder is in
/// memory, records nothing.
pub(super) fn estimate(resolution: &mut Resolution<'_>, rate_a_cpu: u64) {
    let backing = Backing::of(&resolution.host.scratch, resolution.host);
    if !matches!(backing, Backing::Memory(_)) {
        let rate = rate_a_cpu * resolution.plan.cpus.len() as u64;
        resolution.plan.device_writes = Some(DeviceWrites {
            device: backing.name().to_owned(),
            rate,
            is_estimate: true,
        });
    }
}

/// The number of bytes that one worker may still write.
#[derive(Debug)]
pub(super) struct Allowance {
    /// Bytes per second; `None` if no device wears out.
    rate: Option<u64>,
    started: i64,
    taken: u64,
}

impl Allowance {
    /// Starts the allowance of a worker, which is the worker's share of the load's rate.
    pub(super) fn new(worker: &Worker) -> Self {
        let load = &worker.plan.load;
        let rate = load
            .device_writes
            .as_ref()
            .map(|writes| writes.rate / load.worker_count().max(1) as u64);
        Self {
            rate,
            started: clock::monotonic(),
            taken: 0,
        }
    }

    /// Returns whether `bytes` may be written now. If so, they count as written. The worker may
    /// write up to one second's bytes in advance. So a run of n seconds writes at most as many
    /// bytes as n + 1 seconds at this rate.
    pub(super) fn take(&mut self, bytes: u64) -> bool {
        self.take_at(bytes, clock::monotonic())
    }

    fn take_at(&mut self, bytes: u64, now: i64) -> bool {
        let Some(rate) = self.rate else { return true };
        let elapsed = u128::from((now - self.started).max(0).unsigned_abs());
        let allowed = u128::from(rate) * (elapsed + 1_000_000_000) / 1_000_000_000;
        if u128::from(self.taken) + u128::from(bytes) > allowed {
            return false;
        }
        self.taken += bytes;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn a_second_is_allowed_at_once_and_no_more() {
        let mut allowance = Allowance {
            rate: Some(1000),
            started: 0,
            taken: 0,
        };
        assert!(allowance.take_at(1000, 0) && !allowance.take_at(1, 0));
        assert!(!allowance.take_at(500, SECOND / 4) && allowance.take_at(500, SECOND / 2));
        let mut unlimited = Allowance {
            rate: None,
            started: 0,
            taken: 0,
        };
        assert!(unlimited.take_at(u64::MAX, 0) && unlimited.take_at(u64::MAX, 0));
    }

    proptest! {
        #[test]
        fn the_bound_holds_whatever_is_asked_for(asked in proptest::collection::vec((0_i64..SECOND, 0_u64..5000), 1..100)) {
            let mut allowance = Allowance { rate: Some(1000), started: 0, taken: 0 };
            let (mut now, mut written) = (0, 0);
            for (pause, bytes) in asked {
                now += pause;
                written += if allowance.take_at(bytes, now) { bytes } else { 0 };
                prop_assert!(i128::from(written) * i128::from(SECOND) <= 1000 * i128::from(now + SECOND));
            }
        }
    }
}
