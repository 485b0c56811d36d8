//! The name of a run folder where none is given.

use std::path::PathBuf;

use tardy_report::report::date::civil_from_days;

/// A folder named after the time (UTC), as in `tardy-20261121-031200`; the first that does not exist.
pub(super) fn by_time() -> PathBuf {
    let seconds = tardy_sys::clock::realtime() / 1_000_000_000;
    let (year, month, day) = civil_from_days(seconds.div_euclid(86_400));
    let of_day = seconds.rem_euclid(86_400);
    let name = format!("tardy-{year:04}{month:02}{day:02}-{:02}{:02}{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60);
    let numbered = (2..).map(|number| PathBuf::from(format!("{name}-{number}")));
    std::iter::once(PathBuf::from(&name)).chain(numbered).find(|path| !path.exists()).unwrap_or_else(|| PathBuf::from(&name))
}
