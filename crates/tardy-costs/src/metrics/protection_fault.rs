//! Writes to a write-protected page, and measures the time from the fault to the signal's handler.

use std::io;

use tardy_core::units::Nanos;
use tardy_run::cost::{CacheState, Group};
use tardy_sys::clock;
use tardy_sys::signal_handler::ProtectedPage;

use super::signal::Handle;
use crate::metric::{Metric, Unavailable, Work};

pub(super) const METRIC: Metric = Metric {
    name: "protection-fault",
    group: Group::FileAndMemory,
    operation: "write to a protected page, minus the cost of the signal handler (see signal-handle)",
    bytes: None,
    state: CacheState::Warm,
    lmbench: Some("lat_sig prot FILE"),
    prepare: |_| {
        let page = ProtectedPage::new()
            .map_err(Unavailable::system("protect a page and handle its faults"))?;
        Ok(Box::new(ProtectionFault {
            page,
            handle: Handle::new()?,
        }))
    },
};

/// Number of faults between two measurements of a handler's cost.
const STRETCH: u64 = 1000;

struct ProtectionFault {
    page: ProtectedPage,
    handle: Handle,
}

impl Work for ProtectionFault {
    fn run(&mut self, operations: u64) -> io::Result<Nanos> {
        let (mut took, mut left) = (0, operations);
        while left > 0 {
            let stretch = left.min(STRETCH);
            let begin = clock::monotonic();
            self.page.fault(stretch)?;
            took += clock::monotonic() - begin - self.handle.run(stretch)?.get();
            left -= stretch;
        }
        Ok(Nanos(took))
    }
}
