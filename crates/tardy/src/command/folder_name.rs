//! The default name of a run folder.

use std::path::PathBuf;

use tardy_core::units::Nanos;
use tardy_report::report::date::compact;

/// A folder named after the time (UTC), as in `tardy-20261121-031200`; the first that does not
/// exist.
pub(super) fn by_time() -> PathBuf {
    let name = format!("tardy-{}", compact(Nanos(tardy_sys::clock::realtime())));
    let numbered = (2..).map(|number| PathBuf::from(format!("{name}-{number}")));
    std::iter::once(PathBuf::from(&name))
        .chain(numbered)
        .find(|path| !path.exists())
        .unwrap_or_else(|| PathBuf::from(&name))
}
