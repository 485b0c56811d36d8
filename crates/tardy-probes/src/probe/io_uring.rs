//! `io-uring`: submits a timeout request to a ring and waits for it, with one system call.

use std::io;

use tardy_machine::host::Host;
use tardy_machine::unsupported::Unsupported;
use tardy_run::plan::ProbePlan;
use tardy_sys::clock;
use tardy_sys::io_uring::Ring;

use super::grid_loop::by_due_times;
use super::info::{ProbeInfo, Refusal};
use super::member::{Member, Run};
use super::{OpenContext, ProbeInstance};

pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "io-uring",
    about: "an io_uring timeout at each due time",
    times: "IORING_OP_TIMEOUT (CLOCK_MONOTONIC, absolute) by io_uring_enter(2): from the due time \
            to the first clock read after the call",
    context: "stock kernel: hard interrupt; PREEMPT_RT: softirq thread, for any policy of the \
              probe",
    source: "today",
    resolve,
    open,
    system_calls: &["io_uring_enter"],
    ..ProbeInfo::USUAL
};

fn resolve(_: &ProbePlan, _: &Host) -> Result<(), Refusal> {
    match Ring::new() {
        Ok(_) => Ok(()),
        Err(error) => {
            let missing = format!("io_uring ({error})");
            Err(Refusal::Absent(Unsupported::new(
                missing,
                "set kernel.io_uring_disabled to 0, or use a kernel built with CONFIG_IO_URING",
            )))
        }
    }
}

fn open(mut opening: OpenContext<'_>) -> io::Result<ProbeInstance> {
    let producer = opening.producers.remove(0);
    let thread = opening.thread.clone();
    let run: Run = Box::new(move |ready| {
        // The ring is made on this thread, because the kernel ties a ring's state to the thread
        // that uses it.
        let mut ring = Ring::new()?;
        let start = ready.wait();
        by_due_times(&thread.at(start.at), producer, start.control, |due| {
            ring.sleep_until(due).map(|()| clock::monotonic())
        })
    });
    Ok(ProbeInstance {
        members: vec![Member::new(opening.probe, opening.thread.cpu, run)],
        ..ProbeInstance::default()
    })
}
