//! `signal`: a thread waits for a signal that another thread sends. The signal has no handler.

use std::io;
use std::sync::atomic::{AtomicI32, Ordering};

use tardy_sys::thread_signal::{self, BlockedSignal};

use super::ProbeInfo;
use super::pair::{self, Channel};

pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "signal",
    about: "one thread wakes another by a signal",
    times: "tgkill(2) wakes a thread in sigtimedwait(2): from the waker's clock read just before tgkill to the woken \
            thread's clock read just after sigtimedwait returns",
    source: "williams2002 (wake-ups by threads), sigwaittest",
    open: pair::open::<Signal>,
    is_single: true,
    system_calls: &["clock_nanosleep", "getpid", "tgkill", "rt_sigtimedwait"],
    ..pair::INFO
};

struct Signal {
    signal: BlockedSignal,
    /// The thread that waits; 0 until it is known.
    thread: AtomicI32,
}

impl Channel for Signal {
    /// Creates the channel. Blocks its signal before other threads exist, because new threads
    /// inherit blocked signals. The signal would kill the process if a thread did not block it.
    fn new() -> io::Result<Self> {
        Ok(Self {
            signal: BlockedSignal::block(thread_signal::first_real_time())?,
            thread: AtomicI32::new(0),
        })
    }

    fn prepare_to_wait(&self) -> io::Result<()> {
        self.thread
            .store(tardy_sys::sched::thread_id(), Ordering::Release);
        Ok(())
    }

    #[inline]
    fn wake(&self) -> io::Result<()> {
        thread_signal::send(self.thread.load(Ordering::Acquire), self.signal.number())
    }

    #[inline]
    fn wait(&self) -> io::Result<()> {
        self.signal.wait()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_period_is_accounted_for() {
        std::thread::spawn(pair::tests::accounts_for_every_period::<Signal>)
            .join()
            .unwrap();
    }
}
