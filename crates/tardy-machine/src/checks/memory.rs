//! Checks whether memory management delays tasks when they access memory.

use super::{Check, CheckInput, Importance, State, Weight, either, number_is};

pub(super) const COMPACTION: Check = Check {
    name: "compaction",
    weight: Weight::of(Importance::Low),
    reads: &["proc/sys/vm/compaction_proactiveness"],
    why: "the kernel moves pages of all processes in the background; a task that touches such a \
          page meanwhile must wait",
    source: "Documentation/admin-guide/sysctl/vm.rst, compaction_proactiveness",
    look: |examined| {
        number_is(
            examined,
            "proc/sys/vm/compaction_proactiveness",
            |value| value == 0,
            "0",
            "sysctl vm.compaction_proactiveness=0",
        )
    },
};

pub(super) const LOCKED_COMPACTION: Check = Check {
    name: "locked-page-compaction",
    weight: Weight::of(Importance::Medium),
    reads: &["proc/sys/vm/compact_unevictable_allowed"],
    why: "the kernel may still move locked pages, and the next access to such a page causes a \
          page fault",
    source: "Documentation/admin-guide/sysctl/vm.rst, compact_unevictable_allowed (0 by default \
             with PREEMPT_RT)",
    look: |examined| {
        let path = "proc/sys/vm/compact_unevictable_allowed";
        number_is(
            examined,
            path,
            |value| value == 0,
            "0",
            "sysctl vm.compact_unevictable_allowed=0",
        )
    },
};

pub(super) const HUGEPAGE_DEFRAGMENTATION: Check = Check {
    name: "hugepage-defragmentation",
    weight: Weight::of(Importance::Low),
    reads: &[
        "sys/kernel/mm/transparent_hugepage/defrag",
        "sys/kernel/mm/transparent_hugepage/enabled",
    ],
    why: "a task that takes a page fault compacts memory itself to get a huge page",
    source: "Documentation/admin-guide/mm/transhuge.rst, defrag",
    look: |examined| either(hugepage_defragmentation(examined)),
};

pub(super) const WRITE_BACK: Check = Check {
    name: "write-back",
    weight: Weight::of(Importance::Low),
    reads: &[
        "proc/sys/vm/dirty_ratio",
        "proc/sys/vm/dirty_bytes",
        "proc/sys/vm/dirty_background_ratio",
    ],
    why: "once the data not yet written to the disk reaches this limit, a task that writes a file \
          waits for the disk, which stays busy for a long time",
    source: "Documentation/admin-guide/sysctl/vm.rst, dirty_ratio; TuneD, realtime \
             (vm.dirty_ratio=10)",
    look: |examined| either(write_back(examined)),
};

pub(super) const ACCESS_TIMES: Check = Check {
    name: "access-times",
    weight: Weight::of(Importance::Low),
    reads: &["proc/mounts"],
    why: "each read of a file writes the file's access time to the disk",
    source: "mount(8), strictatime; rtcqs",
    look: |examined| either(access_times(examined)),
};

pub(super) const PARTIAL_SLABS: Check = Check {
    name: "partial-slabs",
    weight: Weight::of(Importance::Low),
    reads: &["sys/kernel/slab/*/cpu_partial"],
    why: "a CPU that frees an object may first have to return a long list of slabs",
    source: "init/Kconfig, SLUB_CPU_PARTIAL; realtime-setup, slub_cpu_partial_off",
    look: |examined| either(partial_slabs(examined)),
};

/// When this percentage of memory is dirty, writers must wait. The check accepts settings up to
/// this value, which is from TuneD's real-time profile. The kernel's default is 20.
const DIRTY_PERCENT_MAX: i64 = 10;

fn hugepage_defragmentation(examined: &CheckInput<'_>) -> Result<State, State> {
    if examined.facts.memory.transparent_hugepages.as_deref() == Some("never") {
        return Ok(State::good("there are no transparent huge pages"));
    }
    let modes = examined.text("sys/kernel/mm/transparent_hugepage/defrag")?;
    let mode = modes
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map(|(mode, _)| mode.to_owned());
    Ok(match mode.as_deref() {
        None => State::unknown("/sys/kernel/mm/transparent_hugepage/defrag shows no mode"),
        Some(mode @ ("never" | "defer" | "madvise" | "defer+madvise")) => State::good(mode),
        Some(mode) => State::improvable(
            mode,
            "never",
            "echo never > /sys/kernel/mm/transparent_hugepage/defrag",
        ),
    })
}

fn write_back(examined: &CheckInput<'_>) -> Result<State, State> {
    let ratio = examined.number("proc/sys/vm/dirty_ratio")?;
    if ratio == 0 {
        let bytes = examined.number("proc/sys/vm/dirty_bytes")?;
        let bytes = u64::try_from(bytes).unwrap_or(0);
        return Ok(State::good(format!(
            "up to {} of dirty memory",
            tardy_core::bytes::format_bytes(bytes)
        )));
    }
    let current = format!("up to {ratio} % of memory may be dirty");
    Ok(if ratio <= DIRTY_PERCENT_MAX {
        State::good(current)
    } else {
        State::improvable(
            current,
            "10 % or less",
            "sysctl vm.dirty_ratio=10 vm.dirty_background_ratio=3",
        )
    })
}

fn access_times(examined: &CheckInput<'_>) -> Result<State, State> {
    let mounts = examined.text("proc/mounts")?;
    // Only file systems on a device are checked, because on other file systems, updates of access
    // times cause no writes to a device.
    let on_device = mounts.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (device, point, _, options) =
            (words.next()?, words.next()?, words.next()?, words.next()?);
        (device.starts_with("/dev/") && options.split(',').any(|option| option == "rw"))
            .then_some((point, options))
    });
    let strict: Vec<&str> = on_device
        .filter(|(_, options)| {
            !options
                .split(',')
                .any(|option| option == "noatime" || option == "relatime")
        })
        .map(|(point, _)| point)
        .collect();
    Ok(match strict.first() {
        None => State::good("access times are written rarely or never (noatime, relatime)"),
        Some(first) => State::improvable(
            format!(
                "file systems that write the time of every access: {}",
                strict.join(", ")
            ),
            "mounted with noatime or relatime",
            format!("mount -o remount,noatime {first}, and the same in /etc/fstab"),
        ),
    })
}

fn partial_slabs(examined: &CheckInput<'_>) -> Result<State, State> {
    let caches = examined.texts("sys/kernel/slab/*/cpu_partial")?;
    if caches.is_empty() {
        return Ok(State::none(
            "the kernel keeps no partial slabs, or does not show them",
        ));
    }
    let kept = caches.iter().filter(|(_, objects)| objects != "0").count();
    Ok(if kept == 0 {
        State::good("caches keep no partial slabs")
    } else {
        State::improvable(
            format!(
                "{kept} of {} caches keep partial slabs for each CPU",
                caches.len()
            ),
            "none, if each microsecond counts",
            "for f in /sys/kernel/slab/*/cpu_partial; do echo 0 > $f; done, or a kernel with \
             CONFIG_SLUB_CPU_PARTIAL=n",
        )
    })
}
