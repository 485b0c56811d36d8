//! `eventfd`: one thread waits until a counter is above zero, and another thread adds to the
//! counter. Event loops are often woken up in this way.

use std::io;

use tardy_sys::event_fd::EventFd;

use super::ProbeInfo;
use super::pair::{self, Channel};

pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "eventfd",
    about: "one thread wakes another through an eventfd",
    times: "write(2) wakes a thread that reads an eventfd: from the waker's clock read just before write to the woken \
            thread's clock read just after read returns",
    source: "today (event loops, virtual machines)",
    open: pair::open::<EventFd>,
    system_calls: &["clock_nanosleep", "write", "read"],
    ..pair::INFO
};

impl Channel for EventFd {
    fn new() -> io::Result<Self> {
        EventFd::new()
    }

    #[inline]
    fn wake(&self) -> io::Result<()> {
        self.add(1)
    }

    #[inline]
    fn wait(&self) -> io::Result<()> {
        EventFd::wait(self).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_period_is_accounted_for() {
        pair::tests::accounts_for_every_period::<EventFd>();
    }
}
