//! Estimates the cost of one wake-up on this machine, to refuse a period that leaves no time for
//! other work.

use std::io;

use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;
use tardy_sys::clock::{self, Instant};
use tardy_sys::{affinity, sched};

/// A period is refused if it is shorter than the time that this number of wake-ups takes.
pub const COSTS_A_PERIOD_MIN: i64 = 4;
/// Periods of at least this length leave enough time on any machine, so the cost of a wake-up is
/// not measured for them.
pub const PERIOD_UNCALIBRATED_MIN: Nanos = Nanos::from_millis(1);

const BLOCKS: usize = 10;
const WAKES_A_BLOCK: i64 = 25;
const INTERVAL: i64 = 100_000;

/// Returns the CPU time of one wake-up on `cpu`, under `policy`. Several blocks of wake-ups are
/// timed, and the fastest one counts, because disturbances only add to the time.
///
/// # Errors
/// Returns an error if the thread cannot be started or cannot sleep. It is not an error if the
/// kernel refuses the policy or the CPU.
pub fn wake_up_cost(cpu: CpuId, policy: sched::Policy) -> io::Result<Nanos> {
    let calibration = std::thread::Builder::new()
        .name("tardy-calibrate".into())
        .spawn(move || -> io::Result<i64> {
            let _ = affinity::set(0, &[cpu.0]);
            let _ = sched::set_policy(0, policy);
            let mut cheapest = i64::MAX;
            for _ in 0..BLOCKS {
                let before = clock::thread_cpu_time();
                let mut due = Instant::from_nanos(clock::monotonic());
                for _ in 0..WAKES_A_BLOCK {
                    due.advance(INTERVAL);
                    clock::sleep_until(&due)?;
                }
                cheapest = cheapest.min((clock::thread_cpu_time() - before) / WAKES_A_BLOCK);
            }
            Ok(cheapest)
        })?;
    calibration
        .join()
        .map_err(|_| io::Error::other("the calibration ended unexpectedly"))?
        .map(Nanos)
}
