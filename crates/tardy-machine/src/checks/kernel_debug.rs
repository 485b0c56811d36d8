//! Whether the kernel was built to look for its own faults.

use std::io::Read;

use super::{Check, Examined, Importance, NOT_HERE, State};
use crate::root::Root;

pub(super) const CHECK: Check = Check {
    name: "kernel-debug",
    importance: Importance::High,
    why: "these options lengthen locks, allocations and sections without preemption, also when nothing is looked at",
    source: "kernel-configuration.rst, options that should be off",
    look,
};

/// Those that kernel-configuration.rst wants off, and the allocation checkers, which cost more than any of them.
const OPTIONS: [&str; 9] = [
    "PROVE_LOCKING",
    "LOCK_STAT",
    "DEBUG_LOCK_ALLOC",
    "IRQSOFF_TRACER",
    "PREEMPT_TRACER",
    "DEBUG_PREEMPT",
    "KASAN",
    "DEBUG_PAGEALLOC_ENABLE_DEFAULT",
    "SLUB_DEBUG_ON",
];
/// A configuration has about 300 KiB.
const BYTES_MAX: u64 = 16 << 20;

fn look(examined: &Examined<'_>) -> State {
    let Some(root) = examined.root else { return State::unknown(NOT_HERE) };
    let Some(text) = configuration(root, examined.facts.kernel.release.as_deref()) else {
        return State::unknown("the kernel's configuration (/boot/config-*, /proc/config.gz)");
    };
    let is_on =
        |option: &&str| text.lines().any(|line| line.strip_prefix("CONFIG_").and_then(|line| line.strip_suffix("=y")) == Some(option));
    let on: Vec<&str> = OPTIONS.iter().filter(|option| is_on(option)).copied().collect();
    if on.is_empty() {
        return State::good("none is on");
    }
    State::improvable_at_start(
        on.join(", "),
        "none of them",
        "use a kernel built without them; distributions name theirs with them -debug or -dbg",
    )
}

fn configuration(root: &Root, release: Option<&str>) -> Option<String> {
    let built = release.and_then(|release| {
        let places = [format!("boot/config-{release}"), format!("lib/modules/{release}/config")];
        places.iter().find_map(|path| root.read(path).ok())
    });
    built.or_else(|| {
        let mut text = String::new();
        flate2::read::GzDecoder::new(root.open("proc/config.gz").ok()?).take(BYTES_MAX).read_to_string(&mut text).ok()?;
        Some(text)
    })
}
