//! Giving up capabilities and root for good: capget(2), capset(2), prctl(2) PR_CAPBSET_DROP,
//! PR_CAP_AMBIENT, PR_SET_KEEPCAPS, PR_SET_NO_NEW_PRIVS; setgroups(2), setresuid(2); capabilities(7).

use std::io;

/// A right of root that a process can have alone: the name of capabilities(7) without CAP_, in
/// lower case, and its number in linux/capability.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capability {
    /// Its name in `setpriv`.
    pub name: &'static str,
    number: u32,
}

const fn capability(name: &'static str, number: u32) -> Capability {
    Capability { name, number }
}

/// Giving files to others.
pub const CHOWN: Capability = capability("chown", 0);
/// Access to files regardless of their mode.
pub const DAC_OVERRIDE: Capability = capability("dac_override", 1);
/// Reading files regardless of their mode.
pub const DAC_READ_SEARCH: Capability = capability("dac_read_search", 2);
/// Changing modes and times of others' files.
pub const FOWNER: Capability = capability("fowner", 3);
/// Looking into others' processes.
pub const SYS_PTRACE: Capability = capability("sys_ptrace", 19);
/// Real-time priorities.
pub const SYS_NICE: Capability = capability("sys_nice", 23);
/// Limits of pipes and other resources.
pub const SYS_RESOURCE: Capability = capability("sys_resource", 24);
/// Consoles and their keyboards.
pub const SYS_TTY_CONFIG: Capability = capability("sys_tty_config", 26);
/// Addresses of the kernel in /proc.
pub const SYSLOG: Capability = capability("syslog", 34);

impl Capability {
    /// Returns its bit in the sets of /proc/PID/status.
    #[must_use]
    pub const fn bit(self) -> u64 {
        1 << self.number
    }
}

/// _LINUX_CAPABILITY_VERSION_3 of linux/capability.h: sets of two words of 32 bits.
const VERSION_3: u32 = 0x2008_0522;
/// The user and the group without rights (DEFAULT_OVERFLOWUID in linux/highuid.h): `nobody` and
/// `nogroup` on Debian.
const NOBODY: libc::uid_t = 65534;
/// Bits of the sets.
const NUMBERS: libc::c_ulong = 64;
/// Value of arguments that prctl(2) does not use: as wide as those that it reads.
const NONE: libc::c_ulong = 0;

#[repr(C)]
struct Header {
    version: u32,
    pid: libc::c_int,
}

/// Half of each set.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Half {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Permanently drops every capability of the calling thread that is not in `kept`: programs that it
/// executes get no more, even with file capabilities. Call it before there are other threads, which
/// keep theirs.
///
/// # Errors
/// Returns errors of capget(2), capset(2) and prctl(2); a refused PR_CAPBSET_DROP is no error:
/// nothing can be gained without it either.
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
            // The kernel has fewer capabilities, or refuses to drop those gained by exec;
            // PR_SET_NO_NEW_PRIVS below prevents exec from granting any.
            Err(Some(libc::EINVAL | libc::EPERM)) => break,
            Err(_) => return Err(io::Error::last_os_error()),
        }
    }
    change_sets(|half, bits| Half {
        // The kernel also removes from the ambient set each capability that is not permitted.
        effective: half.permitted & (kept >> bits) as u32,
        permitted: half.permitted & (kept >> bits) as u32,
        inheritable: half.inheritable & (kept >> bits) as u32,
    })?;
    // This comes last, so that a reader of /proc/PID/status knows that the rest is done.
    // SAFETY: PR_SET_NO_NEW_PRIVS takes integers and no memory.
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

/// Changes the user of the calling process to `nobody` permanently, with no other groups. Its
/// capabilities stay; the signal for its parent's death does not. Call it before there are other
/// threads.
///
/// # Errors
/// Returns EPERM without CAP_SETUID and CAP_SETGID; EINVAL in a user namespace that has no such
/// user.
pub fn become_nobody() -> io::Result<()> {
    // SAFETY: PR_SET_KEEPCAPS takes integers and no memory.
    crate::check(unsafe {
        libc::prctl(libc::PR_SET_KEEPCAPS, 1 as libc::c_ulong, NONE, NONE, NONE)
    })?;
    // The user last, because it takes the right to change the groups. SAFETY: the list has length
    // 0, so the null pointer is not read.
    crate::check(unsafe { libc::setgroups(0, std::ptr::null()) })?;
    // SAFETY: setresgid takes three integers.
    crate::check(unsafe { libc::setresgid(NOBODY, NOBODY, NOBODY) })?;
    // SAFETY: setresuid takes three integers.
    crate::check(unsafe { libc::setresuid(NOBODY, NOBODY, NOBODY) })?;
    // The change of user cleared the effective set, and only that.
    change_sets(|half, _| Half {
        effective: half.permitted,
        ..half
    })
}

/// Replaces both halves of the calling thread's sets; `change` is also given the number of each
/// half's first bit.
fn change_sets(change: impl Fn(Half, u32) -> Half) -> io::Result<()> {
    let mut header = Header {
        version: VERSION_3,
        pid: 0,
    };
    let mut halves = [Half::default(); 2];
    // SAFETY: capget writes two halves, which is what version 3 has, behind the second pointer.
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

    /// Reads the set of the calling thread from the kernel.
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
        // A thread's capabilities are its own.
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
        // capabilities(7) and linux/capability.h: CAP_SYS_NICE is 23, and CAP_SYSLOG is in the
        // second word.
        assert_eq!((SYS_NICE.bit(), SYSLOG.bit()), (0x80_0000, 0x4_0000_0000));
    }
}
