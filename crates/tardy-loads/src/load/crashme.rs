//! `crashme`: executes random bytes as code (williams2002: CRASHME).

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tardy_run::parameter::Parameter;
use tardy_sys::process::{self, WaitResult};
use tardy_sys::sandbox;

use super::Unsupported;
use super::info::{ErrorContext, LoadInfo, Placement, Rights, Run, WorkError};
use super::resolution::{Resolution, Resource};
use super::worker::Worker;

pub const INFO: LoadInfo = LoadInfo {
    name: "crashme",
    does: "executes random bytes in short-lived processes that have no files, no network and no \
           system calls",
    effect: "causes exceptions of every kind, signals and exits in quick succession; \
             `stress-kernel` is the only list with this load, because it also exposes faults in \
             CPUs and kernels",
    source: "williams2002",
    parameters: &[
        Parameter::bytes("size", "bytes of each program", "1KiB", 16, 1 << 20),
        Parameter::count(
            "seed",
            "seed of the random bytes; each worker adds its number",
            "1",
            0,
            u64::MAX,
        ),
    ],
    can_do_harm: true,
    placement: Placement::EachCpu,
    uses_disk: false,
    rights: Rights::NONE,
    resolve,
    run: Run::Plain(run),
};

/// Kernel memory of the short-lived process, in bytes: the same as for `fork`.
const PROCESS_BYTES: u64 = 256 << 10;

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    let workers = resolution.workers();
    let size = resolution.fit("size", 1, Resource::Memory)?;
    resolution.plan.budget.memory = ((size + PROCESS_BYTES) * workers).min(resolution.share.memory);
    resolution.plan.budget.processes = 2 * workers;
    Ok(())
}

fn run(worker: &mut Worker) -> Result<(), WorkError> {
    let mut random =
        Pcg64Mcg::seed_from_u64(worker.number("seed").wrapping_add(worker.plan.index as u64));
    let mut code = vec![0; worker.number("size") as usize];
    while worker.go_on() {
        random.fill_bytes(&mut code);
        sandbox::execute_in_child(&code).map_err(|error| absent(&error))?;
        match process::reap_any(true).doing("reap the process")? {
            WaitResult::Ended(_, status) if status.code() == Some(sandbox::SEAL_FAILED) => {
                return Err(WorkError::Absent(Unsupported::new(
                    "a sandbox (seccomp and close_range)",
                    "use Linux 5.9 or later with CONFIG_SECCOMP",
                )));
            }
            // Nearly all these processes die by a signal, which counts as work.
            WaitResult::Ended(..) => worker.did(1, code.len() as u64),
            WaitResult::NoneYet | WaitResult::NoChildren => worker.failed(),
        }
    }
    Ok(())
}

fn absent(error: &std::io::Error) -> WorkError {
    let missing = format!("the right to execute a memory file ({error})");
    WorkError::Absent(Unsupported::new(
        missing,
        "set sysctl vm.memfd_noexec to 0, or allow executing memory files in the security module",
    ))
}
