//! The metrics: one file each, or one for several sizes of the same; a new one is one new file and its lines in [`METRICS`].

mod copy;
mod fork;
mod memory;
mod null_call;
mod null_io;
mod open_close;
mod select;
mod signal;
mod stat;
mod tiny_program;

use super::metric::Metric;

/// Every metric that there is, in the order of tables.
pub const METRICS: &[&Metric] = &[
    &null_call::METRIC,
    &null_io::METRIC,
    &stat::METRIC,
    &open_close::METRIC,
    &select::FILES,
    &select::TCP,
    &signal::INSTALL,
    &signal::HANDLE,
    &fork::FORK,
    &fork::EXECUTE,
    &fork::SHELL,
    &copy::LIBC,
    &copy::OWN,
    &memory::READ,
    &memory::WRITE,
];

/// The metrics that `names` mean, in the order of tables: each a metric's name or a group's; all where there is none.
///
/// # Errors
/// The first name that means nothing.
pub fn chosen(names: &[String]) -> Result<Vec<&'static Metric>, String> {
    let means = |name: &str, metric: &Metric| metric.name == name || metric.group.name() == name;
    if let Some(unknown) = names.iter().find(|name| !METRICS.iter().any(|metric| means(name, metric))) {
        return Err(unknown.clone());
    }
    Ok(METRICS.iter().copied().filter(|metric| names.is_empty() || names.iter().any(|name| means(name, metric))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_plain_and_no_groups() {
        let mut names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
        assert!(names.iter().all(|name| name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')), "{names:?}");
        assert!(METRICS.iter().all(|metric| !names.contains(&metric.group.name())));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), METRICS.len());
    }

    #[test]
    fn metrics_are_chosen_by_name_and_by_group_and_stand_in_their_order() {
        let of = |names: &[&str]| chosen(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&[]).unwrap().len(), METRICS.len());
        let both: Vec<_> = of(&["stat", "null-call"]).unwrap().iter().map(|metric| metric.name).collect();
        assert_eq!(both, ["null-call", "stat"]);
        assert!(of(&["bandwidth", "bcopy-libc"]).unwrap().iter().all(|metric| metric.bytes.is_some()));
        assert_eq!(of(&["null-call", "nope"]).unwrap_err(), "nope");
    }
}
