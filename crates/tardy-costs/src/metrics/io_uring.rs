//! Submits an io_uring request that does nothing, and receives its completion: io_uring_enter(2).

use tardy_run::cost::{CacheState, Group};
use tardy_sys::io_uring::Ring;

use crate::metric::{Metric, Unavailable, repeated};

pub(super) const METRIC: Metric = Metric {
    name: "io-uring-nop",
    group: Group::Today,
    operation: "submit and complete an io_uring request that does nothing",
    bytes: None,
    state: CacheState::Warm,
    lmbench: None,
    prepare: |_| {
        let mut ring = Ring::new().map_err(Unavailable::system(
            "set up an io_uring (see sysctl kernel.io_uring_disabled)",
        ))?;
        Ok(repeated(move || ring.nop()))
    },
};
