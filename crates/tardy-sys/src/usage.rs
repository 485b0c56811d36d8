//! Resource usage of the calling thread or the process: getrusage(2).

use std::io;
use std::mem::MaybeUninit;

/// Whose usage is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageScope {
    /// The calling thread.
    Thread,
    /// The whole process.
    Process,
    /// Children that have ended and were waited for.
    Children,
}

/// Resource usage since the start of the thread or process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// CPU time in ns, in user mode.
    pub user: i64,
    /// CPU time in ns, in the kernel.
    pub system: i64,
    /// Page faults without disk access.
    pub faults_minor: u64,
    /// Page faults with disk access.
    pub faults_major: u64,
    /// Context switches because the thread waited.
    pub switches_voluntary: u64,
    /// Context switches because the kernel preempted the thread.
    pub switches_involuntary: u64,
    /// Largest resident size of the process so far, in bytes.
    pub resident_bytes_max: u64,
}

/// Reads the counts.
///
/// # Errors
/// Returns the errors of getrusage(2).
pub fn usage(scope: UsageScope) -> io::Result<Usage> {
    let who = match scope {
        UsageScope::Thread => libc::RUSAGE_THREAD,
        UsageScope::Process => libc::RUSAGE_SELF,
        UsageScope::Children => libc::RUSAGE_CHILDREN,
    };
    let mut raw = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the kernel fills one rusage at the pointer, which is valid for writing.
    crate::check(unsafe { libc::getrusage(who, raw.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so it filled `raw`.
    Ok(Usage::from_raw(&unsafe { raw.assume_init() }))
}

impl Usage {
    pub(crate) fn from_raw(raw: &libc::rusage) -> Self {
        #[allow(
            clippy::unnecessary_cast,
            reason = "time_t has 32 bits on some targets"
        )]
        let nanos =
            |time: libc::timeval| time.tv_sec as i64 * 1_000_000_000 + time.tv_usec as i64 * 1000;
        Self {
            user: nanos(raw.ru_utime),
            system: nanos(raw.ru_stime),
            faults_minor: raw.ru_minflt as u64,
            faults_major: raw.ru_majflt as u64,
            switches_voluntary: raw.ru_nvcsw as u64,
            switches_involuntary: raw.ru_nivcsw as u64,
            resident_bytes_max: raw.ru_maxrss as u64 * 1024,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_touched_page_is_counted_as_a_fault() {
        let before = usage(UsageScope::Thread).unwrap();
        let fresh = std::hint::black_box(vec![1_u8; 8 << 20]);
        let after = usage(UsageScope::Thread).unwrap();
        assert!(
            after.faults_minor + after.faults_major > before.faults_minor + before.faults_major,
            "{}",
            fresh.len()
        );
        assert!(usage(UsageScope::Process).unwrap().resident_bytes_max >= 8 << 20);
    }
}
