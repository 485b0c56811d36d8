//! Measures the cost of timers that never fire, with two metrics. `timer-create` makes, arms and
//! deletes a new timer in each repetition. `timer-cancel` arms and cancels the same timer in each
//! repetition.

use tardy_core::units::Nanos;
use tardy_run::cost::{CacheState, Group};
use tardy_sys::silent_timer::SilentTimer;

use crate::metric::{Metric, Unavailable, repeated};

/// An expiry time that is later than the end of any measurement.
const NEVER: Nanos = Nanos::from_secs(365 * 24 * 3600);

/// Makes, arms and deletes a timer each time.
pub(super) const CREATE: Metric = Metric {
    name: "timer-create",
    group: Group::Today,
    operation: "create a timer, arm it, and delete it before it fires (timer_create, \
                timer_settime, timer_delete)",
    bytes: None,
    state: CacheState::Warm,
    lmbench: None,
    prepare: |_| Ok(repeated(|| SilentTimer::new()?.arm(NEVER.get()))),
};

/// Arms and cancels the same timer each time.
pub(super) const CANCEL: Metric = Metric {
    name: "timer-cancel",
    group: Group::Today,
    operation: "arm and cancel a timer (timer_settime twice)",
    bytes: None,
    state: CacheState::Warm,
    lmbench: None,
    prepare: |_| {
        let timer = SilentTimer::new().map_err(Unavailable::system("make a timer"))?;
        Ok(repeated(move || {
            timer.arm(NEVER.get())?;
            timer.arm(0)
        }))
    },
};
