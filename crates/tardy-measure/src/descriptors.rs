//! The limit on open descriptors.
//!
//! Shells set a soft limit of 1024 because of select(2). The tool does not use select(2) with these
//! descriptors. A series takes two descriptors, and a counter of kernel events takes one, so a
//! machine with about fifty CPUs reaches the soft limit. Only the administrator can raise the hard
//! limit.

use std::io;

use tardy_sys::rlimit::{self, Resource};

/// EMFILE (include/uapi/asm-generic/errno-base.h).
const TOO_MANY_OPEN: i32 = 24;

/// Raises the soft limit to the hard limit. If the kernel refuses this, the limit stays the same,
/// and the error of a later call reports it.
pub fn raise_limit() {
    if let Ok((soft, hard)) = rlimit::get(Resource::OpenFiles)
        && soft < hard
    {
        let _ = rlimit::set(Resource::OpenFiles, hard, hard);
    }
}

/// Returns advice for `error` that can be appended to the error's message. The advice is empty
/// unless `error` means that the limit was reached.
#[must_use]
pub fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(TOO_MANY_OPEN) => {
            ": raise the hard limit of open files (`ulimit -Hn`, LimitNOFILE= of systemd), or \
             measure fewer CPUs or probes at a time"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_want_of_descriptors_has_this_remedy() {
        assert!(remedy(&io::Error::from_raw_os_error(TOO_MANY_OPEN)).contains("ulimit -Hn"));
        assert_eq!(remedy(&io::Error::from_raw_os_error(2)), "");
    }
}
