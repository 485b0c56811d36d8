//! Mounts: mount(2), umount2(2).

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Mounts `source` at `target`, with the options that the file system's own documentation names.
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN; ENODEV where the kernel lacks the file system; ENOENT; EINVAL for options that it does not know.
pub fn mount(source: &str, target: &Path, kind: &str, options: &str) -> io::Result<()> {
    call(source, target, kind, libc::MS_NOSUID | libc::MS_NODEV, options)
}

/// Mounts a kernel file system of type `kind` on the folder `target`, without device files or set-user-id programs unless `kind` is devtmpfs, whose
/// purpose they are.
///
/// # Errors
/// As [`mount`].
pub fn mount_kernel_file_system(kind: &str, target: &Path) -> io::Result<()> {
    let flags = if kind == "devtmpfs" { libc::MS_NOSUID } else { libc::MS_NOSUID | libc::MS_NODEV };
    call(kind, target, kind, flags, "")
}

/// Keeps mounts that are made from now on in this mount namespace, and those of other namespaces out of it.
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN.
pub fn make_all_private() -> io::Result<()> {
    call("none", Path::new("/"), "none", libc::MS_REC | libc::MS_PRIVATE, "")
}

fn call(source: &str, target: &Path, kind: &str, flags: libc::c_ulong, options: &str) -> io::Result<()> {
    let source = CString::new(source)?;
    let target = CString::new(target.as_os_str().as_bytes())?;
    let kind = CString::new(kind)?;
    let options = CString::new(options)?;
    // SAFETY: all four are C strings that outlive the call; for the file systems used here, the data is a string of options.
    crate::check(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast()) }).map(drop)
}

/// Takes the mount at `target` away; with `detach`, even while files of it are open, which keep working until they are closed.
///
/// # Errors
/// EINVAL where nothing is mounted there; EBUSY; EPERM; ENOENT.
pub fn unmount(target: &Path, detach: bool) -> io::Result<()> {
    let target = CString::new(target.as_os_str().as_bytes())?;
    let flags = if detach { libc::MNT_DETACH } else { 0 };
    // SAFETY: `target` is a C string that outlives the call.
    crate::check(unsafe { libc::umount2(target.as_ptr(), flags) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::{Namespace, unshare};

    #[test]
    fn a_mount_in_a_namespace_of_its_own_is_seen_by_nobody_else() {
        let folder = std::env::temp_dir().join(format!("tardy-mount-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let inside = folder.clone();
        std::thread::spawn(move || match unshare(Namespace::Mounts) {
            Ok(()) => {
                make_all_private().unwrap();
                mount("none", &inside, "tmpfs", "size=64k").unwrap();
                std::fs::write(inside.join("file"), "").unwrap();
                unmount(&inside, false).unwrap();
                mount("none", &inside, "tmpfs", "size=64k").unwrap();
                std::fs::write(inside.join("file"), "").unwrap();
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EPERM)),
        })
        .join()
        .unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn an_unknown_type_is_reported_by_the_kernel() {
        let error = mount_kernel_file_system("no-such-type", Path::new("/")).unwrap_err();
        assert!(matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EPERM)), "{error}");
    }

    #[test]
    fn what_cannot_be_mounted_is_an_error() {
        assert!(mount("none", Path::new("/no such folder"), "tmpfs", "").is_err());
        assert!(unmount(Path::new("/no such folder"), true).is_err());
    }
}
