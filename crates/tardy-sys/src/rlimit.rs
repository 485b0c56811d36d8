//! Limits of the process: setrlimit(2).

use std::io;

/// The limits that tardy reads or sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Time that a real-time thread may run without blocking, in us.
    RealTimeMicros,
    /// Highest real-time priority that is allowed without CAP_SYS_NICE.
    RealTimePriority,
    /// Bytes of memory that may be locked without CAP_IPC_LOCK.
    LockedBytes,
    /// Size of a core dump in bytes.
    CoreBytes,
    AddressSpaceBytes,
    /// CPU time in seconds.
    CpuSeconds,
    FileBytes,
    /// Number of the user's processes.
    Processes,
    /// Number of the process's open descriptors.
    OpenFiles,
    /// Number of the user's queued signals, and of timers that send signals.
    PendingSignals,
}

/// No limit.
pub const UNLIMITED: u64 = u64::MAX;

impl Resource {
    fn number(self) -> u32 {
        #[allow(
            clippy::unnecessary_cast,
            reason = "the type differs between C libraries"
        )]
        match self {
            Self::RealTimeMicros => libc::RLIMIT_RTTIME as u32,
            Self::RealTimePriority => libc::RLIMIT_RTPRIO as u32,
            Self::LockedBytes => libc::RLIMIT_MEMLOCK as u32,
            Self::CoreBytes => libc::RLIMIT_CORE as u32,
            Self::AddressSpaceBytes => libc::RLIMIT_AS as u32,
            Self::CpuSeconds => libc::RLIMIT_CPU as u32,
            Self::FileBytes => libc::RLIMIT_FSIZE as u32,
            Self::Processes => libc::RLIMIT_NPROC as u32,
            Self::OpenFiles => libc::RLIMIT_NOFILE as u32,
            Self::PendingSignals => libc::RLIMIT_SIGPENDING as u32,
        }
    }
}

/// Returns the soft and the hard limit; [`UNLIMITED`] means that there is no limit.
///
/// # Errors
/// Returns the errors of getrlimit(2).
pub fn get(resource: Resource) -> io::Result<(u64, u64)> {
    let mut limit = libc::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid rlimit64 for the kernel to fill.
    crate::check(unsafe { libc::getrlimit64(resource.number() as _, &mut limit) })?;
    Ok((limit.rlim_cur, limit.rlim_max))
}

/// Sets both limits.
///
/// # Errors
/// Returns EPERM if the process may not raise the hard limit because it lacks CAP_SYS_RESOURCE;
/// EINVAL if the soft limit is above the hard one.
pub fn set(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    let limit = libc::rlimit64 {
        rlim_cur: soft,
        rlim_max: hard,
    };
    // SAFETY: `limit` is a valid rlimit64 for the kernel to read.
    crate::check(unsafe { libc::setrlimit64(resource.number() as _, &limit) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_can_be_set_to_what_it_is() {
        let (soft, hard) = get(Resource::RealTimePriority).unwrap();
        set(Resource::RealTimePriority, soft, hard).unwrap();
        assert_eq!(get(Resource::RealTimePriority).unwrap(), (soft, hard));
    }

    #[test]
    fn a_soft_limit_above_the_hard_one_is_an_error() {
        assert_eq!(
            set(Resource::RealTimePriority, 2, 1)
                .unwrap_err()
                .raw_os_error(),
            Some(libc::EINVAL)
        );
    }
}
