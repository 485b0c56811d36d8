//! Starts a thread, lets it end, and joins it.

use tardy_run::cost::{CacheState, Group};

use crate::metric::{Metric, repeated};

pub(super) const METRIC: Metric = Metric {
    name: "thread-create",
    group: Group::Today,
    operation: "create a thread that exits, and join it",
    bytes: None,
    state: CacheState::Warm,
    lmbench: None,
    prepare: |_| {
        Ok(repeated(|| {
            let thread = std::thread::Builder::new().spawn(|| ())?;
            thread
                .join()
                .map_err(|_| std::io::Error::other("a thread that does nothing panicked"))
        }))
    },
};
