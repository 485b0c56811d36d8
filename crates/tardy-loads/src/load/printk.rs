//! `printk`: writes messages into the kernel's log.

use std::fs::{File, OpenOptions};
use std::io::Write;

use tardy_core::units::Nanos;
use tardy_machine::undo::Undo;
use tardy_run::parameter::Parameter;

use super::Unsupported;
use super::info::{ErrorContext, Job, LoadInfo, Placement, Rights, Run, WorkError};
use super::resolution::Resolution;
use super::worker::Worker;

pub const INFO: LoadInfo = LoadInfo {
    name: "printk",
    does: "writes messages to the kernel's log at a bounded rate",
    effect: "if the level reaches a console, the kernel prints each character with interrupts or \
             preemption off; the messages also fill the kernel's log, which other programs need",
    source: "today",
    parameters: &[
        Parameter::count("rate", "messages a second", "100", 1, 10_000),
        Parameter::count(
            "level",
            "level of the messages, from 7 (debugging) to 0 (emergency); a console shows messages \
             with a level below its own (dmesg -n)",
            "7",
            0,
            7,
        ),
    ],
    can_do_harm: true,
    placement: Placement::Once,
    uses_disk: false,
    rights: Rights::Nobody {
        keeps: &[],
        opens: "/dev/kmsg",
    },
    resolve,
    run: Run::Prepared(prepare),
};

/// The file for messages of user programs (`LOG`), and the setting that drops most of them:
/// `ratelimit` lets 10 messages pass in 5 s (kernel/printk/printk.c).
const LOG: &str = "kmsg";
const LIMIT: &str = "sys/kernel/printk_devkmsg";
/// The facility of user programs, shifted to its position in the kernel's encoding
/// (include/linux/syslog.h).
const FACILITY_USER: u64 = 1 << 3;

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    let log = resolution.host.dev.join(LOG);
    open(&log)?;
    let limit = resolution.host.proc.join(LIMIT);
    // Kernels before 4.9 have no such setting and drop no message.
    if let Ok(value) = std::fs::read_to_string(&limit) {
        if value.trim() == "off" {
            return Err(Unsupported::new(
                "permission for user programs to write to the kernel's log",
                format!("echo on > {}", limit.display()),
            ));
        }
        if value.trim() != "on" {
            OpenOptions::new()
                .write(true)
                .open(&limit)
                .map_err(|error| {
                    Unsupported::new(
                        format!(
                            "the right to lift the rate limit on kernel messages ({}: {error})",
                            limit.display()
                        ),
                        "run as root",
                    )
                })?;
            // The kernel accepts the value only if a line break follows.
            resolution.plan.undo.push(Undo::Write {
                path: limit,
                value,
                written: None,
            });
        }
    }
    resolution.plan.budget.processes = 1;
    Ok(())
}

fn open(log: &std::path::Path) -> Result<File, Unsupported> {
    let absent = |error| {
        Unsupported::new(
            format!("the kernel's log ({}: {error})", log.display()),
            "run as root, on a kernel with CONFIG_PRINTK",
        )
    };
    OpenOptions::new().write(true).open(log).map_err(absent)
}

fn prepare(worker: &mut Worker) -> Result<Job, WorkError> {
    let log = open(&std::path::Path::new("/dev").join(LOG)).map_err(WorkError::Absent)?;
    for undo in &worker.plan.load.undo {
        if let Undo::Write { path, .. } = undo {
            std::fs::write(path, "on\n").doing("lift the rate limit on kernel messages")?;
        }
    }
    Ok(Box::new(|worker| run(worker, log)))
}

fn run(worker: &mut Worker, mut log: File) -> Result<(), WorkError> {
    let pause = Nanos::from_secs(1).get() / worker.number("rate") as i64;
    let priority = FACILITY_USER + worker.number("level");
    let mut number = 0_u64;
    while worker.rest(Nanos(pause)) {
        number += 1;
        // One write makes one message.
        match log.write(format!("<{priority}>tardy: load printk, message {number}\n").as_bytes()) {
            Ok(bytes) => worker.did(1, bytes as u64),
            Err(_) => worker.failed(),
        }
    }
    Ok(())
}
