//! Mounts: mount(2), umount2(2), fsopen(2), fsmount(2).

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Mounts `source`, a file system of type `kind`, at `target`. In the mounted file system,
/// set-user-ID bits and device files have no effect. The file system's documentation lists its
/// options.
///
/// # Errors
/// Returns EPERM without CAP_SYS_ADMIN; ENODEV if the kernel lacks the file system; ENOENT; EINVAL
/// for unknown options.
pub fn mount(source: &str, target: &Path, kind: &str, options: &str) -> io::Result<()> {
    call(
        source,
        target,
        kind,
        libc::MS_NOSUID | libc::MS_NODEV,
        options,
    )
}

/// Mounts a kernel file system of type `kind` on the folder `target`. In it, set-user-ID bits have
/// no effect, and device files work only if `kind` is devtmpfs.
///
/// # Errors
/// Fails as [`mount`] does.
pub fn mount_kernel_file_system(kind: &str, target: &Path) -> io::Result<()> {
    let flags = if kind == "devtmpfs" {
        libc::MS_NOSUID
    } else {
        libc::MS_NOSUID | libc::MS_NODEV
    };
    call(kind, target, kind, flags, "")
}

/// Flags of include/uapi/linux/mount.h.
const FSOPEN_CLOEXEC: libc::c_uint = 1;
const FSCONFIG_CMD_CREATE: libc::c_uint = 6;
const FSMOUNT_CLOEXEC: libc::c_uint = 1;
const MOUNT_ATTR_NOSUID: libc::c_uint = 2;
const MOUNT_ATTR_NODEV: libc::c_uint = 4;
const MOUNT_ATTR_NOEXEC: libc::c_uint = 8;

/// Mounts a kernel file system of type `kind` without attaching it to a folder (Linux 5.2). Only
/// this process reaches its files, through `/proc/self/fd/N` of the returned descriptor. The mount
/// disappears when the descriptor is closed, which also happens if the process is killed.
///
/// # Errors
/// Returns EPERM without CAP_SYS_ADMIN; ENODEV if the kernel lacks the file system; ENOSYS on older
/// kernels.
pub fn detached(kind: &str) -> io::Result<OwnedFd> {
    let kind = CString::new(kind)?;
    // SAFETY: the name is a C string that outlives the call.
    let context = unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), FSOPEN_CLOEXEC) };
    let context = owned(context)?;
    let nothing = std::ptr::null::<libc::c_char>();
    // SAFETY: this command needs neither key nor value, and the descriptor is open.
    let created = unsafe {
        libc::syscall(
            libc::SYS_fsconfig,
            context.as_raw_fd(),
            FSCONFIG_CMD_CREATE,
            nothing,
            nothing,
            0,
        )
    };
    crate::check(created as libc::c_int)?;
    let attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    // SAFETY: the call takes an open descriptor and flags.
    owned(unsafe {
        libc::syscall(
            libc::SYS_fsmount,
            context.as_raw_fd(),
            FSMOUNT_CLOEXEC,
            attributes,
        )
    })
}

/// Returns the descriptor that a system call created.
fn owned(made: libc::c_long) -> io::Result<OwnedFd> {
    let descriptor = crate::check(made as libc::c_int)?;
    // SAFETY: the call created the descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Stops mounts from propagating between this mount namespace and others, in both directions.
///
/// # Errors
/// Returns EPERM without CAP_SYS_ADMIN.
pub fn make_all_private() -> io::Result<()> {
    call(
        "none",
        Path::new("/"),
        "none",
        libc::MS_REC | libc::MS_PRIVATE,
        "",
    )
}

fn call(
    source: &str,
    target: &Path,
    kind: &str,
    flags: libc::c_ulong,
    options: &str,
) -> io::Result<()> {
    let source = CString::new(source)?;
    let target = CString::new(target.as_os_str().as_bytes())?;
    let kind = CString::new(kind)?;
    let options = CString::new(options)?;
    // SAFETY: all four are C strings that outlive the call; for the file systems used here, the
    // data is a string of options.
    crate::check(unsafe {
        libc::mount(
            source.as_ptr(),
            target.as_ptr(),
            kind.as_ptr(),
            flags,
            options.as_ptr().cast(),
        )
    })
    .map(drop)
}

/// Unmounts `target`. With `detach`, this works even while files are open; processes can use these
/// files until they close them.
///
/// # Errors
/// Returns EINVAL if nothing is mounted there, and the other errors of umount2(2), such as EBUSY,
/// EPERM and ENOENT.
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
    fn a_detached_mount_is_reached_by_its_descriptor_and_by_nothing_else() {
        let mounts = || {
            std::fs::read_to_string("/proc/self/mountinfo")
                .unwrap()
                .lines()
                .count()
        };
        let before = mounts();
        match detached("tmpfs") {
            Ok(mount) => {
                let file = format!("/proc/self/fd/{}/file", mount.as_raw_fd());
                std::fs::write(&file, "text").unwrap();
                assert_eq!(std::fs::read_to_string(&file).unwrap(), "text");
                assert_eq!(mounts(), before);
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EPERM)),
        }
        assert!(detached("no-such-type").is_err());
    }

    #[test]
    fn an_unknown_type_is_reported_by_the_kernel() {
        let error = mount_kernel_file_system("no-such-type", Path::new("/")).unwrap_err();
        assert!(
            matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EPERM)),
            "{error}"
        );
    }

    #[test]
    fn what_cannot_be_mounted_is_an_error() {
        assert!(mount("none", Path::new("/absent folder"), "tmpfs", "").is_err());
        assert!(unmount(Path::new("/absent folder"), true).is_err());
    }
}
