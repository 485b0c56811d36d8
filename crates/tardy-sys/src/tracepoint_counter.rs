//! Counts how often the kernel passes tracepoints on a CPU: perf_event_open(2).

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `struct perf_event_attr` as of its first version (PERF_ATTR_SIZE_VER0,
/// include/uapi/linux/perf_event.h), which every later kernel accepts.
#[repr(C)]
#[derive(Debug, Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// PERF_TYPE_TRACEPOINT.
const TRACEPOINT: u32 = 2;
/// PERF_FORMAT_GROUP: a read returns the counts of the whole group.
const FORMAT_GROUP: u64 = 8;
/// PERF_FLAG_FD_CLOEXEC.
const CLOSE_ON_EXEC: libc::c_ulong = 8;
/// Maximum number of members of a group; a CPU's interrupts have about a dozen tracepoints.
const MEMBERS_MAX: usize = 31;

/// Counts how often a CPU passes one of the given tracepoints, whichever task it executes.
#[derive(Debug)]
pub struct TracepointCounter {
    leader: File,
    /// The other counters of the group; each counts until its descriptor is closed.
    _members: Vec<OwnedFd>,
}

impl TracepointCounter {
    /// Starts to count. `tracepoints` are at most 31 numbers, from `events/SYSTEM/NAME/id` of
    /// tracefs.
    ///
    /// # Errors
    /// Returns EACCES or EPERM without CAP_PERFMON (kernel.perf_event_paranoid), ENOSYS without
    /// perf events, ENODEV for a CPU that is not online, EINVAL for a number that is no tracepoint;
    /// `InvalidInput` if there are no numbers, or more than 31.
    pub fn open(cpu: u32, tracepoints: &[u64]) -> io::Result<Self> {
        let (first, others) = tracepoints
            .split_first()
            .ok_or(io::ErrorKind::InvalidInput)?;
        if tracepoints.len() > MEMBERS_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let leader = File::from(open(cpu, *first, -1)?);
        let members = others
            .iter()
            .map(|id| open(cpu, *id, leader.as_raw_fd()))
            .collect::<io::Result<_>>()?;
        Ok(Self {
            leader,
            _members: members,
        })
    }

    /// Returns how often the kernel passed any of the tracepoints since the counter was opened.
    /// Makes one system call and allocates nothing.
    ///
    /// # Errors
    /// Returns the errors of read(2).
    #[inline]
    pub fn read(&mut self) -> io::Result<u64> {
        // The read returns the number of counters, then each count.
        let mut bytes = [0_u8; 8 * (1 + MEMBERS_MAX)];
        let length = self.leader.read(&mut bytes)?;
        let counts = bytes[..length].as_chunks::<8>().0.iter().skip(1);
        Ok(counts
            .map(|count| u64::from_ne_bytes(*count))
            .fold(0, u64::wrapping_add))
    }
}

fn open(cpu: u32, tracepoint: u64, leader: i32) -> io::Result<OwnedFd> {
    let size = u32::try_from(size_of::<Attributes>()).expect("64 bytes");
    let attributes = Attributes {
        kind: TRACEPOINT,
        size,
        config: tracepoint,
        read_format: FORMAT_GROUP,
        ..Attributes::default()
    };
    let cpu = libc::c_int::try_from(cpu).map_err(|_| io::ErrorKind::InvalidInput)?;
    let any_task: libc::pid_t = -1;
    // SAFETY: the attributes are valid for the call and have the size that they state; all other
    // arguments are integers.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            any_task,
            cpu,
            leader,
            CLOSE_ON_EXEC,
        )
    };
    let fd = crate::check(fd as libc::c_int)?;
    // SAFETY: the descriptor was just opened, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_tracepoint_is_refused_and_none_too() {
        assert!(TracepointCounter::open(0, &[u64::MAX]).is_err());
        assert_eq!(
            TracepointCounter::open(0, &[]).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
        assert_eq!(
            TracepointCounter::open(0, &[1; 32]).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
    }

    #[test]
    fn passing_a_tracepoint_counts_it_where_this_user_may_count() {
        let path = "/sys/kernel/tracing/events/sched/sched_switch/id";
        let Ok(text) = std::fs::read_to_string(path) else {
            println!("left out: {path} cannot be read");
            return;
        };
        crate::affinity::set(0, &crate::affinity::get(0).unwrap()[..1]).unwrap();
        let cpu = crate::affinity::get(0).unwrap()[0];
        let mut counter = match TracepointCounter::open(cpu, &[text.trim().parse().unwrap()]) {
            Ok(counter) => counter,
            Err(error) => {
                println!("left out: {error}");
                return;
            }
        };
        let before = counter.read().unwrap();
        for _ in 0..5 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(
            counter.read().unwrap() >= before + 5,
            "each sleep switches to another task"
        );
    }
}
