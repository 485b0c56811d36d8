//! Opens a file for reading, and closes it.

use tardy_run::cost::{CacheState, Group};

use super::stat::file;
use crate::metric::{Metric, repeated};

pub(super) const METRIC: Metric = Metric {
    name: "open-close",
    group: Group::Processor,
    operation: "open and close a file two directories deep",
    bytes: None,
    state: CacheState::Warm,
    lmbench: Some("lat_syscall open FILE"),
    prepare: |place| {
        let path = file(place)?;
        Ok(repeated(move || tardy_sys::file::open_and_close(&path)))
    },
};
