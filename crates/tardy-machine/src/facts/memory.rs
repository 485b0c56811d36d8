//! Memory, swap and large pages. Format of /proc/meminfo: Documentation/filesystems/proc.rst. The
//! sizes in this file are in KiB.

use serde::{Deserialize, Serialize};

use super::super::root::Root;

/// Memory at the time of reading.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryFacts {
    /// Memory that the kernel manages.
    pub total_bytes: Option<u64>,
    /// Memory that programs can still get without swapping.
    pub available_bytes: Option<u64>,
    /// Size of the swap space; 0 if there is none.
    pub swap_total_bytes: Option<u64>,
    /// Swap space that is free.
    pub swap_free_bytes: Option<u64>,
    /// Transparent large pages: `always`, `madvise` or `never`.
    pub transparent_hugepages: Option<String>,
}

impl MemoryFacts {
    pub(super) fn read(root: &Root) -> Self {
        let meminfo = root.read("proc/meminfo").unwrap_or_default();
        let bytes = |name: &str| {
            let value = meminfo
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            value
                .trim()
                .strip_suffix("kB")?
                .trim()
                .parse::<u64>()
                .ok()?
                .checked_mul(1024)
        };
        let pages = root.text("sys/kernel/mm/transparent_hugepage/enabled");
        Self {
            total_bytes: bytes("MemTotal"),
            available_bytes: bytes("MemAvailable"),
            swap_total_bytes: bytes("SwapTotal"),
            swap_free_bytes: bytes("SwapFree"),
            transparent_hugepages: pages
                .and_then(|modes| Some(modes.split_once('[')?.1.split_once(']')?.0.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::fake_root::FakeRoot;
    use super::*;

    #[test]
    fn sizes_are_in_bytes_and_no_swap_differs_from_unknown_swap() {
        let fake = FakeRoot::new()
            .with(
                "proc/meminfo",
                "MemTotal:        4015832 kB\nMemFree:  1 kB\nSwapTotal:             0 \
                 kB\nMemAvailable: odd kB\nSwapFree: 5",
            )
            .with(
                "sys/kernel/mm/transparent_hugepage/enabled",
                "always [madvise] never\n",
            );
        let facts = MemoryFacts::read(&fake.root());
        assert_eq!(facts.total_bytes, Some(4_015_832 * 1024));
        assert_eq!(
            (
                facts.swap_total_bytes,
                facts.available_bytes,
                facts.swap_free_bytes
            ),
            (Some(0), None, None)
        );
        assert_eq!(facts.transparent_hugepages.as_deref(), Some("madvise"));
    }
}
