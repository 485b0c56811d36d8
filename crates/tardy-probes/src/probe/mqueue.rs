//! `mqueue`: a thread receives from a POSIX message queue that another thread sends to.

use std::io;

use tardy_machine::host::Host;
use tardy_run::plan::ProbePlan;
use tardy_sys::message_queue::MessageQueue;

use super::ProbeInfo;
use super::info::Refusal;
use super::pair::{self, Channel};

pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "mqueue",
    about: "one thread wakes another through a POSIX message queue",
    times: "mq_send(3) wakes a thread in mq_receive(3): from the waker's clock read just before mq_send to the woken \
            thread's clock read just after mq_receive returns",
    source: "williams2002 (wake-ups by threads), pmqtest",
    resolve,
    open: pair::open::<MessageQueue>,
    system_calls: &["clock_nanosleep", "mq_timedsend", "mq_timedreceive"],
    ..pair::INFO
};

fn resolve(probe: &ProbePlan, host: &Host) -> Result<(), Refusal> {
    let remedy = "use a kernel built with CONFIG_POSIX_MQUEUE, and leave room below \
                  RLIMIT_MSGQUEUE (ulimit -q) and /proc/sys/fs/mqueue/queues_max";
    pair::resolve_with::<MessageQueue>(probe, host, "support for POSIX message queues", remedy)
}

impl Channel for MessageQueue {
    /// Creates a queue with room for the current wake-up and the final one, so that the waker never
    /// has to wait for the woken thread.
    fn new() -> io::Result<Self> {
        MessageQueue::new(2)
    }

    #[inline]
    fn wake(&self) -> io::Result<()> {
        self.send(1)
    }

    #[inline]
    fn wait(&self) -> io::Result<()> {
        self.receive().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_period_is_accounted_for_where_the_kernel_has_message_queues() {
        match <MessageQueue as Channel>::new() {
            Ok(_) => pair::tests::accounts_for_every_period::<MessageQueue>(),
            Err(error) => assert_eq!(
                error.raw_os_error(),
                Some(38),
                "{error}: only ENOSYS is no failure"
            ),
        }
    }
}
