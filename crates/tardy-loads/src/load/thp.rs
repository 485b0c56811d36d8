//! `thp`: makes the kernel create huge pages, split them and merge them again.

use tardy_core::units::Nanos;
use tardy_run::parameter::Parameter;
use tardy_sys::clock;
use tardy_sys::mapping::{Mapping, PAGE_BYTES};

use super::Unsupported;
use super::info::{ErrorContext, LoadInfo, Placement, Rights, Run, WorkError};
use super::resolution::{Resolution, Resource};
use super::worker::Worker;

pub const INFO: LoadInfo = LoadInfo {
    name: "thp",
    does: "touches new huge pages, splits each of them by freeing one of its small pages, and \
           merges the small pages again; leaves an area of small pages for khugepaged to merge",
    effect: "the kernel clears or copies 2 MiB at once, every CPU flushes its TLB, and the address \
             space stays locked meanwhile",
    source: "today",
    parameters: &[Parameter::bytes(
        "size",
        "bytes of each worker's area",
        "32MiB",
        4 << 20,
        1 << 34,
    )],
    can_do_harm: false,
    placement: Placement::EachCpu,
    uses_disk: false,
    rights: Rights::NONE,
    resolve,
    run: Run::Plain(run),
};

/// Size of a huge page on CPUs with pages of 4 KiB, in bytes. If huge pages are larger, fewer of
/// them are split.
const HUGE_BYTES: usize = 2 << 20;
/// Size of the area of small pages that is left to khugepaged. An area of this size contains a
/// whole huge page at any alignment.
const LEFT_BYTES: usize = 2 * HUGE_BYTES;
/// How long the area of small pages is left to khugepaged. khugepaged scans the system's areas
/// every 10 s (scan_sleep_millisecs).
const LEFT_TO_KHUGEPAGED: Nanos = Nanos::from_secs(20);

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    let setting = resolution
        .host
        .sys
        .join("kernel/mm/transparent_hugepage/enabled");
    let enabled = std::fs::read_to_string(&setting).map_err(|_| {
        Unsupported::new(
            "support for transparent huge pages",
            "use a kernel with CONFIG_TRANSPARENT_HUGEPAGE",
        )
    })?;
    if enabled.contains("[never]") {
        return Err(Unsupported::new(
            "support for transparent huge pages (it is switched off)",
            format!("echo madvise > {}", setting.display()),
        ));
    }
    // A worker needs memory for two areas. It works on one of them, and leaves the other to
    // khugepaged. The second area is not larger than the first.
    let size = resolution.fit("size", 2, Resource::Memory)?;
    resolution.plan.budget.memory = (size + LEFT_BYTES as u64) * resolution.workers();
    resolution.plan.budget.processes = resolution.workers();
    Ok(())
}

fn run(worker: &mut Worker) -> Result<(), WorkError> {
    let size = worker.number("size") as usize;
    let mut left = small().doing("map an area of small pages")?;
    let mut left_until = clock::monotonic() + LEFT_TO_KHUGEPAGED.get();
    while worker.go_on() {
        let mut area = Mapping::anonymous(size).doing("map the area")?;
        area.ask_for_huge_pages().doing("ask for huge pages")?;
        // Touches one huge page after the other. Checks for the stop request in between.
        for from in (0..size).step_by(HUGE_BYTES) {
            if !worker.go_on() {
                return Ok(());
            }
            let to = (from + HUGE_BYTES).min(size);
            area.touch(from, to);
            worker.did(1, (to - from) as u64);
        }
        split(worker, &mut area)?;
        match area.collapse() {
            Ok(()) => worker.did(1, size as u64),
            // Only Linux 6.1 and newer support this call; in older kernels, only khugepaged merges
            // pages.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => {}
            Err(_) => worker.failed(),
        }
        if clock::monotonic() >= left_until {
            left = small().doing("map an area of small pages")?;
            left_until = clock::monotonic() + LEFT_TO_KHUGEPAGED.get();
        }
    }
    drop(left);
    Ok(())
}

/// Maps an area of small pages that khugepaged may merge into huge pages.
fn small() -> std::io::Result<Mapping> {
    let mut area = Mapping::anonymous(LEFT_BYTES)?;
    area.forbid_huge_pages()?;
    area.touch(0, LEFT_BYTES);
    area.ask_for_huge_pages()?;
    Ok(area)
}

/// Splits each huge page by discarding its first small page. The kernel then maps the rest with
/// small pages. The next fault fills the hole.
fn split(worker: &mut Worker, area: &mut Mapping) -> Result<(), WorkError> {
    for from in (0..area.len()).step_by(HUGE_BYTES) {
        let hole = from..(from + PAGE_BYTES).min(area.len());
        area.discard(hole.start, hole.end)
            .doing("split a huge page")?;
        area.touch(hole.start, hole.end);
        worker.did(1, 0);
    }
    Ok(())
}
