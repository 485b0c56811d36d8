//! `dd`: copies zeros to /dev/null (koolwal2009, Appendix I: dd from /dev/zero to /dev/null).

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};

use tardy_run::parameter::Parameter;

use super::Unsupported;
use super::info::{ErrorContext, LoadInfo, Placement, Rights, Run, WorkError};
use super::resolution::{Resolution, Resource};
use super::worker::Worker;

pub const INFO: LoadInfo = LoadInfo {
    name: "dd",
    does: "reads from /dev/zero and writes to /dev/null in small blocks",
    effect: "keeps the CPU busy with endless system calls; the kernel clears memory for each read",
    source: "koolwal2009, mckenney2009",
    parameters: &[Parameter::bytes(
        "block",
        "bytes per read and write call, like dd's bs",
        "512B",
        1,
        1 << 30,
    )],
    can_do_harm: false,
    placement: Placement::EachCpu,
    uses_disk: false,
    rights: Rights::NONE,
    resolve,
    run: Run::Plain(run),
};

/// Maximum number of blocks copied between two clock reads. For blocks above 4 KiB, the number is
/// smaller.
const BATCH: u64 = 64;

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    resolution.plan.budget.memory =
        resolution.fit("block", 1, Resource::Memory)? * resolution.workers();
    resolution.plan.budget.processes = resolution.workers();
    Ok(())
}

fn run(worker: &mut Worker) -> Result<(), WorkError> {
    let mut zero = File::open("/dev/zero").doing("open /dev/zero")?;
    let mut null = OpenOptions::new()
        .write(true)
        .open("/dev/null")
        .doing("open /dev/null")?;
    let block = worker.block();
    let batch = (BATCH * 4096 / block.len() as u64).clamp(1, BATCH);
    while worker.go_on() {
        for _ in 0..batch {
            zero.read_exact(block).doing("read /dev/zero")?;
            null.write_all(block).doing("write /dev/null")?;
        }
        worker.did(2 * batch, batch * block.len() as u64);
    }
    Ok(())
}
