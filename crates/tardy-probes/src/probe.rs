//! Probes: the ways to cause a wake-up and time it. Each probe is one file and one line in
//! [`PROBES`].
//!
//! A probe's [`ProbeInfo`] describes the timed operation, the context in which the probe's timer
//! expires, its parameters, and its series. It also states where the probe runs ([`Placement`]),
//! what it waits for, which system calls its loop makes, and what starts its cycles. A probe's
//! description lists only its differences from `ProbeInfo::USUAL`. Every probe also has the
//! parameters of `request::COMMON`, such as `period` and `priority`. The types of parameters are in
//! [`tardy_run::parameter`]. Each probe has two functions:
//!
//! - `resolve` checks the request (exit code 2) and the machine (3). `resolve` changes nothing.
//! - `open` acquires the resources of one instance. `open` runs on the main thread before any
//!   thread of the run exists, and returns [`ProbeInstance`]: the [`Member`]s, notes for the
//!   reader, and the error of the probe's clock.
//!
//! **Threads.** A [`Member`] describes one thread: its CPUs, its policy, and the closure that it
//! executes. [`StartGate::wait`] separates the preparation from the loop, and returns the start
//! time and the stop signal. Most probes have one thread and one series ([`member::one_thread`];
//! start from `cyclic.rs`). For a pair of threads, one call of `open` returns two members. The two
//! members share the resources that `open` made, such as an `Arc` or the two ends of a pipe. In
//! reports, the second member is named by its `role`. After its loop, and before it closes or frees
//! anything, each thread calls [`Control::leave`](crate::recording::control::Control::leave), and
//! returns the value of this call.
//!
//! **Series.** `open` receives a producer for each series, in the order of [`ProbeInfo::series`].
//! The thread that takes a producer must close it. The first series has the probe's name, the
//! others are called `PROBE.PART`. Each series has its own file, row and comparison. [`SeriesKind`]
//! defines when samples are due and the meaning of values. If the values are not latencies,
//! `is_outside_verdict` excludes them from verdicts. On a grid, the number of expected samples
//! follows from the clock; without a grid, `begin_cycle` counts them.
//!
//! **Gaps.** A probe of gaps has the parameter `least`. Shorter gaps are too frequent to pass on
//! one by one, so the ring counts them in bins (`bins_below_least`, `Producer::count`). Such gaps
//! are counted as recorded and are in the histogram, but they are not stored as samples.
//! `Producer::observed` adds the time during which the probe looked for gaps. The summary relates
//! the gaps to this time.
//!
//! **Tests.** Kernel calls of the loop are in `tardy-sys`. `tests/alone/hot_loop.rs` checks for
//! each of [`PROBES`] that its loop does not allocate, and makes only the system calls that its
//! description names. Tests of one probe's behaviour belong in `tests/integration/probes.rs`.
//!
//! Some probes block signals. Probes are opened before any thread starts, so that every thread
//! inherits the blocked signals. If one thread did not block such a signal, the signal would kill
//! the process.

pub mod app;
mod busy_loop;
pub mod cyclic;
pub mod epoll;
pub mod eventfd;
pub mod futex;
mod grid_loop;
pub mod gtod;
pub mod info;
mod interrupt_counter;
pub mod io_uring;
pub mod itimer;
pub mod media;
pub mod member;
pub mod mqueue;
pub mod nanosleep;
pub mod oslat;
mod pair;
pub mod parallel;
pub mod pipe;
pub mod posix_timer;
pub mod request;
pub mod response;
pub mod rtc;
pub mod sched_deadline;
pub mod schedule;
pub mod series_info;
pub mod signal;
mod timer_clock;
pub mod timerfd;
pub mod usleep;
pub mod work;

pub use info::{Cycles, Placement, ProbeInfo, Refusal};
pub use member::{DetectedGrid, Member, OpenContext, ProbeInstance, StartGate};
pub use request::ProbeSpec;
pub use series_info::{SeriesInfo, SeriesKind};

/// All probes, in the order of listing.
pub const PROBES: &[&ProbeInfo] = &[
    &cyclic::INFO,
    &nanosleep::INFO,
    &usleep::INFO,
    &timerfd::INFO,
    &posix_timer::INFO,
    &epoll::INFO,
    &io_uring::INFO,
    &itimer::INFO,
    &rtc::INFO,
    &gtod::INFO,
    &oslat::INFO,
    &parallel::INFO,
    &sched_deadline::INFO,
    &futex::INFO,
    &eventfd::INFO,
    &pipe::INFO,
    &signal::INFO,
    &mqueue::INFO,
    &work::INFO,
    &app::INFO,
    &response::INFO,
    &media::INFO,
];

/// Old names of probes, each with the new name. Requests may use the old names for one more minor
/// version.
pub const RENAMED: &[(&str, &str)] = &[("spin", "oslat"), ("deadline", "sched-deadline")];

/// Returns the probe with this name or old name.
#[must_use]
pub fn find(name: &str) -> Option<&'static ProbeInfo> {
    let name = RENAMED
        .iter()
        .find(|(old, _)| *old == name)
        .map_or(name, |(_, new)| new);
    PROBES.iter().copied().find(|probe| probe.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_probe_says_what_it_times() {
        for (index, info) in PROBES.iter().enumerate() {
            assert!(
                PROBES[..index].iter().all(|other| other.name != info.name),
                "{} twice",
                info.name
            );
            assert!(
                RENAMED.iter().all(|(old, _)| *old != info.name),
                "{}: the name of another before",
                info.name
            );
            assert!(
                info.name
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'),
                "{}",
                info.name
            );
            for text in [info.times, info.context, info.source] {
                assert!(!text.is_empty(), "{}", info.name);
            }
            assert!(
                info.context.contains("stock kernel: ") && info.context.contains("PREEMPT_RT: "),
                "{}: {}",
                info.name,
                info.context
            );
        }
    }

    #[test]
    fn what_was_renamed_is_found_by_its_old_name() {
        for (old, new) in RENAMED {
            assert_eq!(find(old).map(|info| info.name), Some(*new), "{old}");
        }
    }

    #[test]
    fn series_of_a_probe_have_names_of_their_own_and_parameters_pass_their_limits() {
        for info in PROBES {
            assert!(
                !info.series.is_empty() && info.series[0].part.is_empty(),
                "{}: the first series has the probe's name",
                info.name
            );
            for (index, series) in info.series.iter().enumerate() {
                assert!(
                    info.series[..index]
                        .iter()
                        .all(|other| other.part != series.part),
                    "{}: {} twice",
                    info.name,
                    series.part
                );
            }
            for parameter in info.parameters {
                assert!(
                    request::COMMON
                        .iter()
                        .all(|common| common.name != parameter.name),
                    "{}: {}",
                    info.name,
                    parameter.name
                );
                if let Some(default) = parameter.default {
                    assert!(
                        parameter.parse(default).is_ok(),
                        "{}: {}={default}",
                        info.name,
                        parameter.name
                    );
                }
            }
        }
    }
}
