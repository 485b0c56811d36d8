//! Runs the threads of one worker, each bound to its CPU. Each thread repeats the same round and
//! counts its work.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;
use tardy_sys::affinity;

use super::info::{ErrorContext, WorkError};
use super::worker::Worker;

/// The result of one round of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RoundWork {
    pub(super) operations: u64,
    /// Bytes moved.
    pub(super) bytes: u64,
}

/// The state that the threads share with the worker.
#[derive(Debug, Default)]
struct SharedState {
    stop: AtomicBool,
    operations: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
    first_error: Mutex<Option<std::io::Error>>,
}

/// Stack of a thread, in bytes.
const STACK_BYTES: usize = 64 << 10;

/// Runs a thread for each of `cpus`, in this order, until the worker is stopped. Each thread calls
/// `prepare` with its number, and then repeats the returned round. If `prepare` or the first round
/// fails, the load fails with its error, and `doing` names the failed operation. Later errors are
/// counted.
pub(super) fn repeat<R>(
    worker: &mut Worker,
    cpus: &[CpuId],
    doing: &'static str,
    prepare: impl Fn(usize) -> std::io::Result<R> + Sync,
) -> Result<(), WorkError>
where
    R: FnMut() -> std::io::Result<RoundWork>,
{
    let shared = SharedState::default();
    std::thread::scope(|scope| {
        let mut result = Ok(());
        for (index, &cpu) in cpus.iter().enumerate() {
            let (shared, prepare) = (&shared, &prepare);
            let task =
                move || shared.work(affinity::set(0, &[cpu.0]).and_then(|()| prepare(index)));
            if let Err(source) = std::thread::Builder::new()
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, task)
            {
                result = Err(WorkError::System {
                    doing: "start a thread",
                    source,
                });
                break;
            }
        }
        while result.is_ok() && worker.rest(Nanos::from_millis(100)) {
            shared.hand_over(worker);
        }
        shared.stop.store(true, Ordering::Relaxed);
        result
    })?;
    shared.hand_over(worker);
    let first = shared
        .first_error
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    first.map_or(Ok(()), Err).doing(doing)
}

impl SharedState {
    fn work<R: FnMut() -> std::io::Result<RoundWork>>(&self, prepared: std::io::Result<R>) {
        let first = prepared.and_then(|mut round| round().map(|done| (round, done)));
        let (mut round, done) = match first {
            Ok(first) => first,
            Err(error) => {
                if let Ok(mut first) = self.first_error.lock() {
                    first.get_or_insert(error);
                }
                return;
            }
        };
        self.count(done);
        while !self.stop.load(Ordering::Relaxed) {
            match round() {
                Ok(done) => self.count(done),
                Err(_) => {
                    self.errors.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    fn count(&self, done: RoundWork) {
        self.operations
            .fetch_add(done.operations, Ordering::Relaxed);
        self.bytes.fetch_add(done.bytes, Ordering::Relaxed);
    }

    fn hand_over(&self, worker: &mut Worker) {
        worker.did(
            self.operations.swap(0, Ordering::Relaxed),
            self.bytes.swap(0, Ordering::Relaxed),
        );
        for _ in 0..self.errors.swap(0, Ordering::Relaxed) {
            worker.failed();
        }
    }
}
