//! The user who runs the process.

/// Returns whether the effective user of the process is root.
#[must_use]
pub fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Returns the effective user number and group number.
#[must_use]
pub fn user_and_group() -> (u32, u32) {
    // SAFETY: geteuid has no preconditions and cannot fail.
    let user = unsafe { libc::geteuid() };
    // SAFETY: getegid has no preconditions and cannot fail.
    let group = unsafe { libc::getegid() };
    (user, group)
}
