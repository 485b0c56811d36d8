//! Checks whether this user has the rights that a run needs, with one check per right. If a check
//! fails, its remedy grants the right. docs/rights.md describes runs without these rights.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{Check, CheckInput, Importance, Profile, State, Weight, either};

pub(super) const PRIORITY: Check = Check {
    name: "right-priority",
    weight: Weight::of(Importance::Medium),
    reads: &["proc/self/limits", "proc/self/status"],
    why: "a task without the right to a real-time priority still starts, but runs late",
    source: "getrlimit(2), RLIMIT_RTPRIO; capabilities(7), CAP_SYS_NICE; rtcqs",
    look: |examined| either(priority(examined)),
};

pub(super) const MEMORY: Check = Check {
    name: "right-memory",
    weight: Weight::of(Importance::Medium),
    reads: &["proc/self/limits", "proc/self/status"],
    why: "a task that cannot lock its memory waits for reclaimed pages",
    source: "getrlimit(2), RLIMIT_MEMLOCK; capabilities(7), CAP_IPC_LOCK; rtcqs",
    look: |examined| either(memory(examined)),
};

pub(super) const IDLE: Check = Check {
    name: "right-idle",
    weight: Weight::of(Importance::Low).but(&[(Profile::Audio, Importance::Medium)]),
    reads: &["proc/self/status", "dev/cpu_dma_latency"],
    why: "a program that cannot write /dev/cpu_dma_latency cannot keep idle CPUs out of deep \
          C-states",
    source: "Documentation/power/pm_qos_interface.rst; rtcqs, power management",
    look: |examined| either(idle(examined)),
};

pub(super) const TRACING: Check = Check {
    name: "right-tracing",
    weight: Weight::of(Importance::Low),
    reads: &["proc/self/status", "proc/filesystems"],
    why: "finding the cause of a late sample needs a kernel trace (`tardy run --explain`)",
    source: "Documentation/trace/ftrace.rst, instances; capabilities(7), CAP_SYS_ADMIN and \
             CAP_DAC_OVERRIDE",
    look: |examined| either(tracing(examined)),
};

/// From linux/capability.h.
const DAC_OVERRIDE: u32 = 1;
const IPC_LOCK: u32 = 14;
const SYS_ADMIN: u32 = 21;
const SYS_NICE: u32 = 23;
/// The highest priority that a probe may have without --force.
const PRIORITY_MAX: u32 = 98;
/// Possible mount points of the tracing file system.
const TRACING_PLACES: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

/// The credentials of this process, from /proc/PID/status (proc(5)).
struct Holder {
    capabilities: u64,
    user: Option<u32>,
    groups: Vec<u32>,
}

impl Holder {
    fn read(examined: &CheckInput<'_>) -> Result<Self, State> {
        let status = examined.text("proc/self/status")?;
        let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let numbers = |name: &str| {
            line(name)
                .unwrap_or_default()
                .split_whitespace()
                .filter_map(|number| number.parse().ok())
                .collect()
        };
        let capabilities = line("CapEff:").and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
        let (users, mut groups): (Vec<u32>, Vec<u32>) = (numbers("Uid:"), numbers("Groups:"));
        // Each of the lines Uid and Gid has four numbers: the real, effective, saved and file
        // system ID. The last one decides access to files.
        groups.extend(numbers("Gid:").into_iter().nth(3));
        let capabilities = capabilities
            .ok_or_else(|| State::unknown("/proc/self/status lists no capabilities"))?;
        Ok(Self {
            capabilities,
            user: users.get(3).copied(),
            groups,
        })
    }

    fn has(&self, capability: u32) -> bool {
        self.capabilities >> capability & 1 == 1
    }

    /// Returns whether the process may write to `path`, by owner, group and mode; `None` if
    /// unknown.
    fn may_write(&self, path: &Path) -> Option<bool> {
        if self.has(DAC_OVERRIDE) {
            return Some(true);
        }
        let (file, user) = (std::fs::metadata(path).ok()?, self.user?);
        let bit = match file.uid() == user {
            true => 0o200,
            false if self.groups.contains(&file.gid()) => 0o020,
            false => 0o002,
        };
        Some(file.mode() & bit != 0)
    }
}

/// Returns a soft limit of this process; its name is the one in /proc/self/limits.
fn limit(examined: &CheckInput<'_>, name: &str) -> Result<String, State> {
    let limits = examined.text("proc/self/limits")?;
    let soft = limits.lines().find_map(|line| {
        line.strip_prefix(name)?
            .split_whitespace()
            .next()
            .map(str::to_owned)
    });
    soft.ok_or_else(|| State::unknown(format!("/proc/self/limits has no line `{name}`")))
}

fn priority(examined: &CheckInput<'_>) -> Result<State, State> {
    let (limit, holder) = (
        limit(examined, "Max realtime priority")?,
        Holder::read(examined)?,
    );
    Ok(if holder.has(SYS_NICE) {
        State::good("any priority (CAP_SYS_NICE)")
    } else if limit == "unlimited"
        || limit
            .parse::<u32>()
            .is_ok_and(|priority| priority >= PRIORITY_MAX)
    {
        State::good(format!("priorities up to {limit} (rtprio)"))
    } else {
        State::improvable(
            format!("this user has no CAP_SYS_NICE, and may use priorities up to {limit} (rtprio)"),
            "allowed to use priority 98, through CAP_SYS_NICE or an rtprio limit",
            "`- rtprio 98` for a group of this user in /etc/security/limits.d (the package sets \
             it for the group `realtime`: adduser NAME realtime); or \
             AmbientCapabilities=CAP_SYS_NICE; or run as root",
        )
    })
}

fn memory(examined: &CheckInput<'_>) -> Result<State, State> {
    let (limit, holder) = (
        limit(examined, "Max locked memory")?,
        Holder::read(examined)?,
    );
    Ok(if holder.has(IPC_LOCK) {
        State::good("all memory may be locked (CAP_IPC_LOCK)")
    } else if limit == "unlimited" {
        State::good("all memory may be locked (memlock)")
    } else {
        State::improvable(
            format!("this user has no CAP_IPC_LOCK, and may lock {limit} bytes (memlock)"),
            "allowed to lock all memory, through CAP_IPC_LOCK or memlock",
            "`- memlock unlimited` for a group of this user in /etc/security/limits.d (the \
             package sets it for the group `realtime`: adduser NAME realtime); or \
             AmbientCapabilities=CAP_IPC_LOCK; or run as root",
        )
    })
}

fn idle(examined: &CheckInput<'_>) -> Result<State, State> {
    let holder = Holder::read(examined)?;
    let path = examined.root()?.path("dev/cpu_dma_latency");
    if !path.exists() {
        return Ok(State::none("there is no /dev/cpu_dma_latency"));
    }
    Ok(match holder.may_write(&path) {
        None => State::unknown("the access rights of /dev/cpu_dma_latency cannot be read"),
        Some(true) => State::good("/dev/cpu_dma_latency is writable"),
        Some(false) => State::improvable(
            "/dev/cpu_dma_latency is not writable",
            "writable for this user, through a group or CAP_DAC_OVERRIDE",
            "a udev rule, KERNEL==\"cpu_dma_latency\", GROUP=\"realtime\", MODE=\"0660\" (the \
             package installs it: adduser NAME realtime); or run as root",
        ),
    })
}

fn tracing(examined: &CheckInput<'_>) -> Result<State, State> {
    let (holder, root) = (Holder::read(examined)?, examined.root()?);
    // If access to the folder is denied, the file system is mounted but not writable.
    let mounted = TRACING_PLACES.iter().find_map(|place| {
        match std::fs::metadata(root.path(place).join("instances")) {
            Ok(_) => Some((
                *place,
                holder
                    .may_write(&root.path(place).join("instances"))
                    .unwrap_or(false),
            )),
            Err(error) => {
                (error.kind() == std::io::ErrorKind::PermissionDenied).then_some((*place, false))
            }
        }
    });
    let filesystems = examined.optional("proc/filesystems")?;
    Ok(match mounted {
        Some((place, true)) => State::good(format!("/{place} is writable")),
        Some((place, false)) => State::improvable(
            format!("/{place} is not writable"),
            "writable for this user, through a group or CAP_DAC_OVERRIDE",
            "run as root, or AmbientCapabilities=CAP_DAC_OVERRIDE; or mount -o \
             remount,gid=realtime,mode=770 /sys/kernel/tracing before anything else uses it",
        ),
        None if filesystems.is_some_and(|kinds| {
            !kinds
                .lines()
                .any(|kind| kind.trim_end().ends_with("tracefs"))
        }) =>
        {
            State::none("the kernel has no tracing file system (CONFIG_TRACING)")
        }
        None if holder.has(SYS_ADMIN) => {
            State::good("the tracing file system is not mounted, but can be (CAP_SYS_ADMIN)")
        }
        None => State::improvable(
            "the tracing file system is not mounted, and this user cannot mount it",
            "mounted, or mountable by this user (CAP_SYS_ADMIN)",
            "mount -t tracefs none /sys/kernel/tracing as root; then run as root, or \
             AmbientCapabilities=CAP_DAC_OVERRIDE",
        ),
    })
}
