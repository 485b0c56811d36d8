//! Installs a signal handler with sigaction(2), and lets a handler run.

use std::io;

use tardy_core::units::Nanos;
use tardy_run::cost::{CacheState, Group};
use tardy_sys::{clock, process, signal_handler};

use crate::metric::{Metric, Unavailable, Work, repeated};

pub(super) const INSTALL: Metric = Metric {
    name: "signal-install",
    group: Group::Processor,
    operation: "install a signal handler (sigaction)",
    bytes: None,
    state: CacheState::Warm,
    lmbench: Some("lat_sig install"),
    prepare: |_| Ok(repeated(signal_handler::install)),
};

pub(super) const HANDLE: Metric = Metric {
    name: "signal-handle",
    group: Group::Processor,
    operation: "catch a signal in a handler, less the cost of the kill that sends the signal",
    bytes: None,
    state: CacheState::Warm,
    lmbench: Some("lat_sig catch"),
    prepare: |_| Ok(Box::new(Handle::new()?)),
};

/// A signal that a handler receives. The cost of kill(2) without a signal is subtracted.
pub(super) struct Handle;

impl Handle {
    pub(super) fn new() -> Result<Self, Unavailable> {
        signal_handler::install().map_err(Unavailable::system("install a handler"))?;
        Ok(Self)
    }
}

impl Work for Handle {
    /// Alternates, in short batches, between sending a signal to the handler and calling kill(2)
    /// without a signal, so that a disturbance affects both alike.
    fn run(&mut self, operations: u64) -> io::Result<Nanos> {
        const STRETCH: u64 = 1000;
        let me = process::id();
        let mut handled = 0;
        let mut left = operations;
        while left > 0 {
            let stretch = left.min(STRETCH);
            let begin = clock::monotonic();
            for _ in 0..stretch {
                process::kill(me, signal_handler::USER)?;
            }
            let middle = clock::monotonic();
            for _ in 0..stretch {
                process::kill(me, 0)?;
            }
            handled += middle - begin - (clock::monotonic() - middle);
            left -= stretch;
        }
        Ok(Nanos(handled))
    }
}
