//! The limit on open descriptors.
//!
//! Shells set a soft limit of 1024, because of select(2), which the tool does not use with them. A
//! series takes two, a counter of the kernel's events one each: machines of some fifty CPUs reach
//! it. The hard limit is the administrator's.

use std::io;

use tardy_sys::rlimit::{self, Resource};

/// EMFILE (include/uapi/asm-generic/errno-base.h).
const TOO_MANY_OPEN: i32 = 24;

/// Raises the soft limit to the hard one. If that is refused the limit stays, and a later error
/// reports it.
pub fn raise_limit() {
    if let Ok((soft, hard)) = rlimit::get(Resource::OpenFiles)
        && soft < hard
    {
        let _ = rlimit::set(Resource::OpenFiles, hard, hard);
    }
}

/// Returns the remedy against `error`, to be appended to it; empty for other errors.
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
