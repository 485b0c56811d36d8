//! `ipi`: sends interrupts from CPU to CPU.

use tardy_core::cpu::CpuId;
use tardy_run::parameter::Parameter;
use tardy_sys::mapping::{Mapping, PAGE_BYTES};
use tardy_sys::membarrier::{self, Reach};

use super::Unsupported;
use super::info::{LoadInfo, Placement, Rights, Run, WorkError};
use super::resolution::Resolution;
use super::threads::{self, RoundWork};
use super::worker::Worker;

pub const INFO: LoadInfo = LoadInfo {
    name: "ipi",
    does: "a thread on each load CPU interrupts all other load CPUs, with memory barriers and \
           with page-protection changes",
    effect: "each interrupt arrives immediately, even during a real-time task; the sender waits \
             for every answer",
    source: "today",
    parameters: &[Parameter::choice(
        "by",
        "cause of the interrupts: memory barriers, page protections, or both in turn",
        &["both", "barriers", "protections"],
    )],
    can_do_harm: false,
    placement: Placement::Once,
    uses_disk: false,
    rights: Rights::NONE,
    resolve,
    run: Run::Plain(run),
};

/// Number of pages that each thread maps. In each round, a thread also issues this number of
/// barriers of each type, and changes the protection of its pages this number of times.
const PAGES: usize = 16;
/// Memory that a thread takes (stack, kernel memory and pages), in bytes, rounded up.
const THREAD_BYTES: u64 = 256 << 10;

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    let threads = resolution.plan.cpus.len().max(1) as u64;
    if threads < 2 {
        return Err(Unsupported::new(
            "a second CPU",
            "load at least two CPUs (--load-cpus), because ipi interrupts other CPUs",
        ));
    }
    resolution.plan.budget.memory = threads * THREAD_BYTES;
    resolution.plan.budget.processes = threads + 1;
    Ok(())
}

fn run(worker: &mut Worker) -> Result<(), WorkError> {
    let by = worker.plan.load.parameters.text("by").to_owned();
    let cpus: Vec<CpuId> = worker.plan.cpus.iter().collect();
    let reaches = if by == "protections" {
        Vec::new()
    } else {
        registered()
    };
    if reaches.is_empty() && by == "barriers" {
        return Err(WorkError::Absent(Unsupported::new(
            "membarrier(2) with expedited barriers",
            "use Linux 4.14 or newer with CONFIG_MEMBARRIER",
        )));
    }
    let protects = by != "barriers";
    threads::repeat(worker, &cpus, "interrupt the other CPUs", |_| {
        let mut pages = Mapping::anonymous(PAGES * PAGE_BYTES)?;
        let reaches = &reaches;
        Ok(move || {
            for _ in 0..PAGES {
                reaches
                    .iter()
                    .try_for_each(|reach| membarrier::expedited(*reach))?;
            }
            let mut operations = (PAGES * reaches.len()) as u64;
            if protects {
                operations += protect(&mut pages)?;
            }
            Ok(RoundWork {
                operations,
                bytes: 0,
            })
        })
    })
}

/// Returns the types of barriers that this kernel supports.
fn registered() -> Vec<Reach> {
    [Reach::Process, Reach::Registered]
        .into_iter()
        .filter(|reach| membarrier::register(*reach).is_ok())
        .collect()
}

/// Changes the protection of one page after the other. Every CPU that runs a thread of the process
/// must then drop its cached translation of the page.
fn protect(pages: &mut Mapping) -> std::io::Result<u64> {
    for page in 0..PAGES {
        pages.touch(0, pages.len());
        pages.set_writable(page * PAGE_BYTES, (page + 1) * PAGE_BYTES, false)?;
        pages.set_writable(0, pages.len(), true)?;
    }
    Ok(PAGES as u64)
}
