//! `kcore`: the whole memory through /proc/kcore (abeni2002, sections 3.2 and 4.2.1: a file of 512
//! MB in /proc on a machine of 512 MB).

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use tardy_run::parameter::Parameter;
use tardy_sys::capability;

use super::Unsupported;
use super::info::{ErrorContext, LoadInfo, Placement, Rights, WorkError};
use super::resolution::{Resolution, Resource};
use super::worker::{PASSES, Worker};

pub const INFO: LoadInfo = LoadInfo {
    name: "kcore",
    does: "reads the system's memory through /proc/kcore, over and over",
    effect: "long copies of kernel memory; it is not in any list because it reads what belongs to \
             every process and driver",
    source: "abeni2002",
    parameters: &[
        Parameter::bytes(
            "size",
            "bytes to read from the start, each time",
            "512MiB",
            4 << 10,
            1 << 46,
        ),
        Parameter::bytes("block", "bytes of one read call", "1MiB", 512, 1 << 24),
        PASSES,
    ],
    can_do_harm: true,
    placement: Placement::EachCpu,
    uses_disk: false,
    rights: Rights::Only(&[capability::DAC_OVERRIDE, capability::SYS_RAWIO]),
    resolve,
    run,
};

const KCORE: &str = "/proc/kcore";

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    let kcore = resolution.host.proc.join("kcore");
    if !kcore.exists() {
        return Err(Unsupported::new(
            KCORE,
            "use a kernel with CONFIG_PROC_KCORE",
        ));
    }
    File::open(&kcore).map_err(|error| {
        Unsupported::new(
            format!("the right to read {KCORE} ({error})"),
            "run as root, without kernel lockdown",
        )
    })?;
    resolution.plan.budget.memory =
        resolution.fit("block", 1, Resource::Memory)? * resolution.workers();
    resolution.plan.budget.processes = resolution.workers();
    Ok(())
}

fn run(worker: &mut Worker) -> Result<(), WorkError> {
    let mut file = File::open(KCORE).doing("open /proc/kcore")?;
    let mut block = vec![0; worker.number("block") as usize];
    let size = worker.number("size");
    while worker.begin_pass() {
        file.seek(SeekFrom::Start(0)).doing("rewind /proc/kcore")?;
        let mut read = 0;
        while read < size && worker.go_on() {
            match file.read(&mut block) {
                Ok(0) => break,
                Ok(count) => {
                    read += count as u64;
                    worker.did(1, count as u64);
                }
                Err(_) => {
                    worker.failed();
                    break;
                }
            }
        }
    }
    Ok(())
}
