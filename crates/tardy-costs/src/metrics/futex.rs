//! Lets threads wait for each other, at futexes and at locks with priority inheritance.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tardy_core::units::Nanos;
use tardy_run::cost::{CacheState, Group};
use tardy_sys::clock;
use tardy_sys::futex;
use tardy_sys::inheriting_lock::InheritingLock;

use crate::metric::{Metric, Unavailable, Work};
use crate::peer::Partner;

/// A token that two threads pass to each other with futexes.
pub(super) const ROUND_TRIP: Metric = Metric {
    name: "futex-latency",
    group: Group::Today,
    operation: "pass a turn to another thread on the same CPU and back; each thread waits on a \
                futex",
    bytes: None,
    state: CacheState::Warm,
    lmbench: None,
    prepare: |_| Ok(Box::new(Turns::start()?)),
};

/// A lock with priority inheritance that the other thread always waits for.
pub(super) const INHERITING_LOCK: Metric = Metric {
    name: "mutex-pi-contended",
    group: Group::Today,
    operation: "pass a priority-inheritance mutex to another thread and back; each thread waits \
                while the other holds the mutex",
    bytes: None,
    state: CacheState::Warm,
    lmbench: None,
    prepare: |_| {
        let mut contended = ContendedLock::start()?;
        // Kernels without such locks return an error for the first lock that is contended.
        contended.run(1).map_err(Unavailable::system(
            "take a mutex with priority inheritance",
        ))?;
        Ok(Box::new(contended))
    },
};

const NEAR: u32 = 0;
const FAR: u32 = 1;
const NOBODY: u32 = 2;

struct Turns {
    whose: Arc<AtomicU32>,
    partner: Partner,
}

impl Turns {
    fn start() -> Result<Self, Unavailable> {
        let whose = Arc::new(AtomicU32::new(NEAR));
        let (far, last) = (Arc::clone(&whose), Arc::clone(&whose));
        let body = move |is_over: &AtomicBool| {
            while await_turn(&far, FAR, is_over)? {
                give_turn(&far, NEAR)?;
            }
            Ok(())
        };
        let wake = move || {
            last.store(NOBODY, Ordering::Release);
            let _ = futex::wake(&last, 1);
        };
        Ok(Self {
            whose,
            partner: Partner::start(body, wake)?,
        })
    }
}

impl Work for Turns {
    fn run(&mut self, operations: u64) -> io::Result<Nanos> {
        let never = AtomicBool::new(false);
        let begin = clock::monotonic();
        for _ in 0..operations {
            give_turn(&self.whose, FAR)?;
            await_turn(&self.whose, NEAR, &never)?;
        }
        let took = clock::monotonic() - begin;
        if self.partner.has_ended() {
            Err(io::Error::other("the other thread ended"))
        } else {
            Ok(Nanos(took))
        }
    }
}

fn give_turn(whose: &AtomicU32, next: u32) -> io::Result<()> {
    whose.store(next, Ordering::Release);
    futex::wake(whose, 1).map(drop)
}

/// Waits for this thread's turn. Returns false when the measurement has ended.
fn await_turn(whose: &AtomicU32, mine: u32, is_over: &AtomicBool) -> io::Result<bool> {
    loop {
        let turn = whose.load(Ordering::Acquire);
        if turn == mine || is_over.load(Ordering::Relaxed) {
            return Ok(turn == mine);
        }
        futex::wait(whose, turn)?;
    }
}

/// A lock that two threads pass to each other. Each thread releases the lock only while the other
/// waits for it, so that the kernel hands the lock over each time.
struct ContendedLock {
    lock: Arc<InheritingLock>,
    /// Whether a trial is in progress. During a trial, the other thread takes the lock, and holds
    /// it until this thread waits for the lock.
    goes_on: Arc<AtomicBool>,
    partner: Partner,
}

impl ContendedLock {
    fn start() -> Result<Self, Unavailable> {
        let lock = Arc::new(InheritingLock::new());
        let goes_on = Arc::new(AtomicBool::new(false));
        let (far, wanted) = (Arc::clone(&lock), Arc::clone(&goes_on));
        let body = move |is_over: &AtomicBool| {
            while !is_over.load(Ordering::Relaxed) {
                if !wanted.load(Ordering::Acquire) {
                    // Both threads run on the same CPU. Between trials, this thread leaves the lock
                    // and the CPU to the other thread.
                    std::thread::yield_now();
                    continue;
                }
                far.lock()?;
                while !far.is_wanted()
                    && wanted.load(Ordering::Acquire)
                    && !is_over.load(Ordering::Relaxed)
                {
                    std::thread::yield_now();
                }
                far.unlock()?;
            }
            Ok(())
        };
        Ok(Self {
            lock,
            goes_on,
            partner: Partner::start(body, || ())?,
        })
    }
}

impl Work for ContendedLock {
    fn run(&mut self, operations: u64) -> io::Result<Nanos> {
        self.lock.lock()?;
        self.goes_on.store(true, Ordering::Release);
        let begin = clock::monotonic();
        let handed_over = self.hand_over(operations);
        let took = clock::monotonic() - begin;
        self.goes_on.store(false, Ordering::Release);
        self.lock.unlock()?;
        handed_over?;
        Ok(Nanos(took))
    }
}

impl ContendedLock {
    /// Gives the lock away and takes it back, `times` times. The calling thread must hold the lock
    /// when it calls this function, and holds the lock when the function returns.
    fn hand_over(&self, times: u64) -> io::Result<()> {
        for _ in 0..times {
            while !self.lock.is_wanted() {
                if self.partner.has_ended() {
                    return Err(io::Error::other("the other thread ended"));
                }
                std::thread::yield_now();
            }
            self.lock.unlock()?;
            self.lock.lock()?;
        }
        Ok(())
    }
}
