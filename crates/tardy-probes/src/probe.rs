//! Probes: the ways to cause a wake-up and time it. One file each; a new probe is one new file and one line in [`PROBES`].
//!
//! A probe describes itself ([`ProbeInfo`]), says whether the machine has what it needs, and opens once for each of its places ([`Placement`]):
//! it gives [`Member`]s, each of which becomes a thread, and hands them the producers of its series. One thread and one series is the usual
//! case ([`member::one_thread`]); a pair of threads, or several series of one thread, are as good.

pub mod app;
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
mod occupying;
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
pub use member::{DetectedGrid, Member, OpenContext, ProbeInstance, Ready};
pub use request::ProbeSpec;
pub use series_info::{SeriesInfo, SeriesKind};

/// Every probe that there is, in the order in which they are listed.
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

/// Names that probes had before, with those that they have: found for one minor version more.
pub const RENAMED: &[(&str, &str)] = &[("spin", "oslat"), ("deadline", "sched-deadline")];

/// The probe of that name, or that had it before.
#[must_use]
pub fn find(name: &str) -> Option<&'static ProbeInfo> {
    let name = RENAMED.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new);
    PROBES.iter().copied().find(|probe| probe.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_probe_says_what_it_times() {
        for (index, info) in PROBES.iter().enumerate() {
            assert!(PROBES[..index].iter().all(|other| other.name != info.name), "{} twice", info.name);
            assert!(RENAMED.iter().all(|(old, _)| *old != info.name), "{}: the name of another before", info.name);
            assert!(info.name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'), "{}", info.name);
            for text in [info.times, info.context, info.source] {
                assert!(!text.is_empty(), "{}", info.name);
            }
            assert!(info.context.contains("stock: ") && info.context.contains("RT: "), "{}: {}", info.name, info.context);
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
            assert!(!info.series.is_empty() && info.series[0].part.is_empty(), "{}: the first series has the probe's name", info.name);
            for (index, series) in info.series.iter().enumerate() {
                assert!(info.series[..index].iter().all(|other| other.part != series.part), "{}: {} twice", info.name, series.part);
            }
            for parameter in info.parameters {
                assert!(request::COMMON.iter().all(|common| common.name != parameter.name), "{}: {}", info.name, parameter.name);
                if let Some(default) = parameter.default {
                    assert!(parameter.parse(default).is_ok(), "{}: {}={default}", info.name, parameter.name);
                }
            }
        }
    }
}
