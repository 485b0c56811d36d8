//! Times an RCU grace period, which is the time until no CPU can still be reading data that is
//! about to be freed (membarrier(2)).

use tardy_run::cost::{CacheState, Group};
use tardy_sys::membarrier;

use crate::metric::{Metric, Unavailable, repeated};

pub(super) const METRIC: Metric = Metric {
    name: "rcu-grace-period",
    group: Group::Today,
    operation: "call membarrier for all processes (the call waits for an RCU grace period)",
    bytes: None,
    state: CacheState::Warm,
    lmbench: None,
    prepare: |_| {
        let missing = |what: &str, remedy| Unavailable::Missing {
            what: what.to_owned(),
            remedy,
        };
        // With a single CPU online, the kernel has nothing to wait for and returns at once.
        if std::fs::read_to_string("/sys/devices/system/cpu/online")
            .is_ok_and(|online| online.trim() == "0")
        {
            return Err(missing(
                "with only one CPU, the kernel does not wait for a grace period",
                "measure on two CPUs",
            ));
        }
        match membarrier::has_global() {
            Ok(true) => Ok(repeated(membarrier::global)),
            Ok(false) => Err(missing(
                "the kernel has no global membarrier on nohz_full CPUs",
                "boot without nohz_full",
            )),
            Err(error) => Err(Unavailable::system("call membarrier")(error)),
        }
    },
};
