//! `cache`: evicts all other data from the shared cache.

use std::path::Path;

use tardy_run::parameter::{Kind, Parameter, Value};
use tardy_sys::mapping::Mapping;

use super::Unsupported;
use super::info::{ErrorContext, LoadInfo, Placement, Rights, Run, WorkError};
use super::resolution::Resolution;
use super::worker::Worker;

pub const INFO: LoadInfo = LoadInfo {
    name: "cache",
    does: "writes to every cache line of an area larger than the last-level cache, in order and \
           in jumps",
    effect: "a task that wakes up has to fetch its code and data from memory, over a busy bus",
    source: "today",
    parameters: &[Parameter {
        name: "size",
        means: "bytes of each worker's area; if unset, twice the size of the largest cache",
        kind: Kind::Bytes {
            min: 64 << 10,
            max: 1 << 36,
        },
        default: None,
        needed: false,
    }],
    can_do_harm: false,
    placement: Placement::EachCpu,
    uses_disk: false,
    rights: Rights::NONE,
    resolve,
    run: Run::Plain(run),
};

/// Assumed size of the cache if the kernel does not report it, in bytes. Most boards have a smaller
/// cache.
const CACHE_UNKNOWN: u64 = 8 << 20;
/// Bytes between two writes of the second walk. The distance is too large for any prefetcher.
const JUMP: usize = 17 * tardy_sys::mapping::PAGE_BYTES;

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    let workers = resolution.workers();
    let room = resolution.share.memory / workers;
    if !resolution.plan.parameters.contains_key("size") {
        let size = 2 * largest_cache(&resolution.host.sys).unwrap_or(CACHE_UNKNOWN);
        resolution
            .plan
            .parameters
            .insert("size".to_owned(), Value::Bytes(size));
    }
    let size = resolution.fit_within("size", room, "memory")?;
    resolution.plan.budget.memory = workers * size;
    resolution.plan.budget.processes = workers;
    Ok(())
}

/// Returns the size of CPU 0's largest cache in bytes
/// (Documentation/ABI/testing/sysfs-devices-system-cpu: `size`, in KiB as `512K`).
fn largest_cache(sys: &Path) -> Option<u64> {
    let indexes = std::fs::read_dir(sys.join("devices/system/cpu/cpu0/cache"))
        .ok()?
        .filter_map(Result::ok);
    let sizes = indexes.filter_map(|index| std::fs::read_to_string(index.path().join("size")).ok());
    sizes
        .filter_map(|size| tardy_core::bytes::parse_bytes(size.trim()))
        .max()
}

fn run(worker: &mut Worker) -> Result<(), WorkError> {
    let size = worker.number("size") as usize;
    let mut area = Mapping::anonymous(size).doing("map the area")?;
    area.touch(0, size);
    /// Bytes written between two clock reads.
    const PART: usize = 1 << 20;
    while worker.go_on() {
        for from in (0..size).step_by(PART) {
            let to = (from + PART).min(size);
            let lines = area.touch_lines(from, to);
            worker.did(lines as u64, (to - from) as u64);
            if !worker.go_on() {
                return Ok(());
            }
        }
        for start in (0..JUMP.min(size)).step_by(tardy_sys::mapping::PAGE_BYTES) {
            let touched = area.touch_every(start, size, JUMP);
            worker.did(touched as u64, 64 * touched as u64);
            if !worker.go_on() {
                return Ok(());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_cache_is_found() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(largest_cache(root.path()), None);
        for (index, size) in [
            ("index0", "32K\n"),
            ("index3", "32768K\n"),
            ("index2", "1024K\n"),
        ] {
            let folder = root
                .path()
                .join("devices/system/cpu/cpu0/cache")
                .join(index);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("size"), size).unwrap();
        }
        assert_eq!(largest_cache(root.path()), Some(32 << 20));
    }
}
