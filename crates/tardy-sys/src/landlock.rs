//! Permanently restricts writing to named files and folders: landlock(7).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use crate::file;

/// LANDLOCK_CREATE_RULESET_VERSION and LANDLOCK_RULE_PATH_BENEATH of linux/landlock.h.
const VERSION: libc::c_uint = 1;
const PATH_BENEATH: libc::c_uint = 1;
/// The rights to change a file, LANDLOCK_ACCESS_FS_*: WRITE_FILE, and TRUNCATE since version 3.
const WRITE_FILE: u64 = 1 << 1;
const TRUNCATE: u64 = 1 << 14;
/// The rights to change a folder: REMOVE_DIR, REMOVE_FILE, MAKE_CHAR to MAKE_SYM. Since version 2
/// also REFER, which allows renames between folders.
const CHANGE_FOLDER: u64 = (1 << 13) - (1 << 4);
const REFER: u64 = 1 << 13;

/// struct landlock_path_beneath_attr.
#[repr(C, packed)]
struct Beneath {
    allowed: u64,
    parent: libc::c_int,
}

/// Restricts the calling thread, its future children and the programs that they execute: they may
/// change only the files in `paths`, and the contents of folders in `paths`. Files that are already
/// open are not affected. Call this before other threads exist.
///
/// # Errors
/// Returns ENOSYS if the kernel lacks Landlock; EOPNOTSUPP if Landlock is switched off; or the
/// errors of open(2).
pub fn write_only_below<P: AsRef<Path>>(paths: &[P]) -> io::Result<()> {
    // SAFETY: with the flag for the version, the kernel accesses no memory.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u64>(),
            0_usize,
            VERSION,
        )
    };
    let version = crate::check(version as libc::c_int)?;
    let handled = WRITE_FILE
        | CHANGE_FOLDER
        | if version >= 2 { REFER } else { 0 }
        | if version >= 3 { TRUNCATE } else { 0 };
    // SAFETY: the kernel reads `handled`, the first member of struct landlock_ruleset_attr. The
    // call states the size of `handled`.
    let ruleset = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            &raw const handled,
            size_of::<u64>(),
            0,
        )
    };
    let ruleset = crate::check(ruleset as libc::c_int)?;
    // SAFETY: the descriptor was just opened, and nothing else owns it.
    let ruleset = unsafe { OwnedFd::from_raw_fd(ruleset) };
    for path in paths {
        let place = file::open_path(path.as_ref(), 0)?;
        let of_files = if place.metadata()?.is_dir() {
            handled
        } else {
            handled & (WRITE_FILE | TRUNCATE)
        };
        let beneath = Beneath {
            allowed: of_files,
            parent: place.as_raw_fd(),
        };
        // SAFETY: the kernel reads one `Beneath`, which outlives the call.
        let added = unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                ruleset.as_raw_fd(),
                PATH_BENEATH,
                &raw const beneath,
                0,
            )
        };
        crate::check(added as libc::c_int)?;
    }
    let restrict = || {
        // SAFETY: landlock_restrict_self takes a descriptor and flags, and no memory.
        let restricted =
            unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) };
        crate::check(restricted as libc::c_int).map(drop)
    };
    let first = restrict();
    if !matches!(&first, Err(error) if error.raw_os_error() == Some(libc::EPERM)) {
        return first;
    }
    // Without CAP_SYS_ADMIN, the kernel requires this flag.
    // SAFETY: PR_SET_NO_NEW_PRIVS takes integers and no memory.
    crate::check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    restrict()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_are_written_where_it_is_allowed_and_nowhere_else() {
        let place = std::env::temp_dir().join(format!("tardy-landlock-{}", std::process::id()));
        let (own, file) = (place.join("own"), place.join("file"));
        fs::create_dir_all(&own).unwrap();
        fs::write(&file, "").unwrap();
        fs::write(place.join("other"), "kept").unwrap();
        // The file has mode 0200, so nobody can read it, not even root.
        let switch = Path::new("/proc/sys/vm/drop_caches");
        // A restriction belongs to a thread, so the test restricts a new thread.
        let thread = std::thread::spawn({
            let place = place.clone();
            move || {
                match write_only_below(&[&*own, &*file, switch]) {
                    Ok(()) => {}
                    Err(error) => {
                        assert!(
                            matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EOPNOTSUPP)),
                            "{error}"
                        );
                        return;
                    }
                }
                fs::write(own.join("new"), "written").unwrap();
                fs::create_dir(own.join("folder")).unwrap();
                fs::rename(own.join("new"), own.join("folder/new")).unwrap();
                fs::write(&file, "written").unwrap();
                for refused in [
                    fs::write(place.join("other"), "lost").unwrap_err(),
                    fs::write(place.join("new"), "").unwrap_err(),
                    fs::create_dir(place.join("folder")).unwrap_err(),
                    fs::remove_file(place.join("other")).unwrap_err(),
                ] {
                    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
                }
                assert_eq!(fs::read_to_string(place.join("other")).unwrap(), "kept");
            }
        });
        thread.join().unwrap();
        fs::remove_dir_all(&place).unwrap();
    }
}
