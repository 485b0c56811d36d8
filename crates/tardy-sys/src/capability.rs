//! Gives up capabilities and root permanently: capget(2), capset(2), prctl(2) PR_CAPBSET_DROP,
//! PR_CAP_AMBIENT, PR_SET_KEEPCAPS, PR_SET_NO_NEW_PRIVS; setgroups(2), setresuid(2);
//! capabilities(7).

use std::io;

/// A capability: its name in capabilities(7) without CAP_ and in lower case, and its number in
/// linux/capability.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capability {
    /// The name that `setpriv` uses.
    pub name: &'static str,
    number: u32,
}

const fn capability(name: &'static str, number: u32) -> Capability {
    Capability { name, number }
}

/// Change the owner of files.
pub const CHOWN: Capability = capability("chown", 0);
/// Access files regardless of their mode.
pub const DAC_OVERRIDE: Capability = capability("dac_override", 1);
/// Read files regardless of their mode.
pub const DAC_READ_SEARCH: Capability = capability("dac_read_search", 2);
/// Change the modes and times of other users' files.
pub const FOWNER: Capability = capability("fowner", 3);
/// Inspect the processes of other users.
pub const SYS_PTRACE: Capability = capability("sys_ptrace", 19);
/// Set real-time priorities.
pub const SYS_NICE: Capability = capability("sys_nice", 23);
/// Exceed limits of pipes and other resources.
pub const SYS_RESOURCE: Capability = capability("sys_resource", 24);
/// Configure consoles and their keyboards.
pub const SYS_TTY_CONFIG: Capability = capability("sys_tty_config", 26);
/// See the kernel's addresses in /proc.
pub const SYSLOG: Capability = capability("syslog", 34);

impl Capability {
    /// Returns the capability's bit in the sets of /proc/PID/status.
    #[must_use]
    pub const fn bit(self) -> u64 {
        1 << self.number
    }
}

/// _LINUX_CAPABILITY_VERSION_3 of linux/capability.h: each set has two words of 32 bits.
const VERSION_3: u32 = 0x2008_0522;
/// User and group without rights (DEFAULT_OVERFLOWUID in linux/highuid.h): `nobody` and `nogroup`
/// on Debian.
const NOBODY: libc::uid_t = 65534;
/// Number of bits in a set.
const NUMBERS: libc::c_ulong = 64;
/// Value for arguments that prctl(2) ignores. Its type is that of the arguments of prctl(2).
const NONE: libc::c_ulong = 0;

#[repr(C)]
struct Header {
    version: u32,
    pid: libc::c_int,
}

/// One of the 32-bit halves of each set.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Half {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Permanently drops every capability of the calling thread that is not in `kept`. Programs that
/// the thread executes do not get any other capability either, even if they have file capabilities.
/// Call this function before other threads exist, because other threads keep their capabilities.
///
/// # Errors
/// Returns the errors of capget(2), capset(2) and prctl(2); a refused PR_CAPBSET_DROP is no error,
/// because PR_SET_NO_NEW_PRIVS has the same effect.
pub fn keep_only(kept: &[Capability]) -> io::Result<()> {
    let kept = kept
        .iter()
        .fold(0, |set, capability| set | capability.bit());
    for number in (0..NUMBERS).filter(|number| kept >> number & 1 == 0) {
        // SAFETY: PR_CAPBSET_DROP takes an integer and no memory.
        let dropped =
            crate::check(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, NONE, NONE, NONE) });
        match dropped.map_err(|error| error.raw_os_error()) {
            Ok(_) => {}
            // The kernel knows no further capabilities, or refuses to drop them from the bounding
            // set. In the second case, PR_SET_NO_NEW_PRIVS below ensures that exec grants no
            // capability.
            Err(Some(libc::EINVAL | libc::EPERM)) => break,
            Err(_) => return Err(io::Error::last_os_error()),
        }
    }
    change_sets(|half, bits| Half {
        // The ambient set needs no change: the kernel removes each capability from it that is not
        // permitted.
        effective: half.permitted & (kept >> bits) as u32,
        permitted: half.permitted & (kept >> bits) as u32,
        inheritable: half.inheritable & (kept >> bits) as u32,
    })?;
    // This is the last step, so that a reader of /proc/PID/status who sees its effect knows that
    // the rest is done. SAFETY: PR_SET_NO_NEW_PRIVS takes integers and no memory.
    crate::check(unsafe {
        libc::prctl(
            libc::PR_SET_NO_NEW_PRIVS,
            1 as libc::c_ulong,
            NONE,
            NONE,
            NONE,
        )
    })
    .map(drop)
}

/// Permanently changes the user and the group of the calling process to `nobody` and `nogroup`, and
/// removes all its other groups. The process keeps its capabilities, but the kernel removes its
/// parent-death signal. Call this before other threads exist.
///
/// # Errors
/// Returns EPERM without CAP_SETUID and CAP_SETGID; EINVAL in a user namespace without this user.
pub fn become_nobody() -> io::Result<()> {
    // SAFETY: PR_SET_KEEPCAPS takes integers and no memory.
    crate::check(unsafe {
        libc::prctl(libc::PR_SET_KEEPCAPS, 1 as libc::c_ulong, NONE, NONE, NONE)
    })?;
    // The user is changed last, because the process then loses the right to change groups. SAFETY:
    // the list has length 0, so the null pointer is not read.
    crate::check(unsafe { libc::setgroups(0, std::ptr::null()) })?;
    // SAFETY: setresgid takes three integers.
    crate::check(unsafe { libc::setresgid(NOBODY, NOBODY, NOBODY) })?;
    // SAFETY: setresuid takes three integers.
    crate::check(unsafe { libc::setresuid(NOBODY, NOBODY, NOBODY) })?;
    // Changing the user cleared the effective set, but not the permitted set. The effective set is
    // therefore filled again from the permitted set.
    change_sets(|half, _| Half {
        effective: half.permitted,
        ..half
    })
}

/// Replaces the capability sets of the calling thread. `change` is called for each 32-bit half of
/// the sets, with this half and the number of its first bit.
fn change_sets(change: impl Fn(Half, u32) -> Half) -> io::Result<()> {
    let mut header = Header {
        version: VERSION_3,
        pid: 0,
    };
    let mut halves = [Half::default(); 2];
    // SAFETY: capget writes two halves at the second pointer, as version 3 of the interface
    // specifies.
    let got = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, halves.as_mut_ptr()) };
    crate::check(got as libc::c_int)?;
    let halves = [change(halves[0], 0), change(halves[1], 32)];
    // SAFETY: capset reads two halves, as above.
    let set = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, halves.as_ptr()) };
    crate::check(set as libc::c_int).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a capability set of the calling thread, as /proc/thread-self/status shows it.
    fn set(name: &str) -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    }

    #[test]
    fn what_is_not_kept_is_gone_from_every_set_and_from_what_is_executed() {
        // Capabilities belong to a thread, so the test uses a new thread and drops the capabilities
        // there.
        let thread = std::thread::spawn(|| {
            let before = set("CapPrm:");
            keep_only(&[SYS_NICE, SYSLOG]).unwrap();
            let kept = before & (SYS_NICE.bit() | SYSLOG.bit());
            assert_eq!(
                (
                    set("CapEff:"),
                    set("CapPrm:"),
                    set("CapAmb:"),
                    set("NoNewPrivs:")
                ),
                (kept, kept, 0, 1)
            );
            let child = std::process::Command::new("grep")
                .args(["CapEff", "/proc/self/status"])
                .output()
                .unwrap();
            let text = String::from_utf8(child.stdout).unwrap();
            let executed =
                u64::from_str_radix(text.trim_start_matches("CapEff:").trim(), 16).unwrap();
            assert_eq!(executed & !kept, 0, "{text}");
            keep_only(&[]).unwrap();
            assert_eq!((set("CapEff:"), set("CapInh:")), (0, 0));
        });
        thread.join().unwrap();
    }

    #[test]
    fn the_kernel_numbers_them_so() {
        // In capabilities(7) and linux/capability.h, CAP_SYS_NICE is 23, and CAP_SYSLOG is in the
        // second word.
        assert_eq!((SYS_NICE.bit(), SYSLOG.bit()), (0x80_0000, 0x4_0000_0000));
    }
}
