//! The cheapest system call: getppid(2). The C library does not cache its result.

use std::hint::black_box;

use tardy_run::cost::{CacheState, Group};

use crate::metric::{Metric, repeated};

pub(super) const METRIC: Metric = Metric {
    name: "null-call",
    group: Group::Processor,
    operation: "call getppid",
    bytes: None,
    state: CacheState::Warm,
    lmbench: Some("lat_syscall null"),
    prepare: |_| {
        Ok(repeated(|| {
            black_box(tardy_sys::process::parent_id());
            Ok(())
        }))
    },
};
