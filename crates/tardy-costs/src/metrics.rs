//! The metrics. Related metrics share a file. A new metric is one new file and its lines in
//! [`METRICS`].

mod big_file;
mod context_switch;
mod copy;
mod epoll;
mod file_create;
mod fork;
mod futex;
mod grace_period;
mod io_uring;
mod memory;
mod mmap;
mod null_call;
mod null_io;
mod open_close;
mod page_fault;
mod protection_fault;
mod reread;
mod round_trip;
mod rpc;
mod select;
mod shared_line;
mod signal;
mod stat;
mod stream;
mod tcp_connect;
mod thread;
mod timer;
mod tiny_program;

use super::metric::Metric;

/// All metrics, in the order of tables.
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
    &context_switch::OF_2_WITH_0K,
    &context_switch::OF_2_WITH_16K,
    &context_switch::OF_2_WITH_64K,
    &context_switch::OF_8_WITH_0K,
    &context_switch::OF_8_WITH_16K,
    &context_switch::OF_8_WITH_64K,
    &context_switch::OF_16_WITH_0K,
    &context_switch::OF_16_WITH_16K,
    &context_switch::OF_16_WITH_64K,
    &round_trip::PIPE,
    &round_trip::UNIX,
    &round_trip::UDP,
    &round_trip::TCP,
    &rpc::UDP,
    &rpc::TCP,
    &tcp_connect::METRIC,
    &file_create::CREATE_0K,
    &file_create::DELETE_0K,
    &file_create::CREATE_10K,
    &file_create::DELETE_10K,
    &mmap::METRIC,
    &protection_fault::METRIC,
    &page_fault::FILE,
    &page_fault::NEW,
    &stream::PIPE,
    &stream::UNIX,
    &stream::TCP,
    &reread::FILE,
    &reread::MAPPED,
    &copy::LIBC,
    &copy::OWN,
    &memory::READ,
    &memory::WRITE,
    &futex::ROUND_TRIP,
    &futex::INHERITING_LOCK,
    &epoll::METRIC,
    &io_uring::METRIC,
    &thread::METRIC,
    &timer::CREATE,
    &timer::CANCEL,
    &grace_period::METRIC,
    &shared_line::METRIC,
];

/// Returns the requested metrics, in the order of tables. Each of `names` is the name of a metric
/// or a group. If there are no names, returns all metrics.
///
/// # Errors
/// Returns the first unknown name as the error.
pub fn chosen(names: &[String]) -> Result<Vec<&'static Metric>, String> {
    let means = |name: &str, metric: &Metric| metric.name == name || metric.group.name() == name;
    if let Some(unknown) = names
        .iter()
        .find(|name| !METRICS.iter().any(|metric| means(name, metric)))
    {
        return Err(unknown.clone());
    }
    Ok(METRICS
        .iter()
        .copied()
        .filter(|metric| names.is_empty() || names.iter().any(|name| means(name, metric)))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_plain_and_no_groups() {
        let mut names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
        assert!(
            names.iter().all(|name| name
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')),
            "{names:?}"
        );
        assert!(
            METRICS
                .iter()
                .all(|metric| !names.contains(&metric.group.name()))
        );
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), METRICS.len());
    }

    #[test]
    fn metrics_are_chosen_by_name_and_by_group_and_stand_in_their_order() {
        let of = |names: &[&str]| {
            chosen(
                &names
                    .iter()
                    .map(|name| (*name).to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(of(&[]).unwrap().len(), METRICS.len());
        let both: Vec<_> = of(&["stat", "null-call"])
            .unwrap()
            .iter()
            .map(|metric| metric.name)
            .collect();
        assert_eq!(both, ["null-call", "stat"]);
        assert!(
            of(&["bandwidth", "bcopy-libc"])
                .unwrap()
                .iter()
                .all(|metric| metric.bytes.is_some())
        );
        assert_eq!(of(&["null-call", "nope"]).unwrap_err(), "nope");
    }
}
