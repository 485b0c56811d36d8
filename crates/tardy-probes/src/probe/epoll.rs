//! `epoll`: waits on an empty set with a time limit, as event loops wait for their next timer.

use std::io;

use tardy_machine::host::Host;
use tardy_machine::unsupported::Unsupported;
use tardy_run::plan::ProbePlan;
use tardy_sys::clock;
use tardy_sys::epoll::Epoll;

use super::grid_loop::by_due_times;
use super::info::{ProbeInfo, Refusal};
use super::member::{Member, Run};
use super::{OpenContext, ProbeInstance};

pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "epoll",
    about: "epoll_pwait2 with a time-out at each due time",
    times: "epoll_pwait2(2), with the time left until the due time as its time-out: from the due \
            time to the first clock read after the call",
    context: "stock kernel: hard interrupt; PREEMPT_RT: hard interrupt for real-time threads, \
              softirq thread for others",
    source: "today (event loops)",
    resolve,
    open,
    system_calls: &["epoll_pwait2"],
    ..ProbeInfo::USUAL
};

fn resolve(_: &ProbePlan, _: &Host) -> Result<(), Refusal> {
    match Epoll::new().and_then(|set| set.wait(Some(0))) {
        Ok(_) => Ok(()),
        Err(error) => {
            let missing = format!("epoll_pwait2(2) ({error})");
            Err(Refusal::Absent(Unsupported::new(
                missing,
                "measure on Linux 5.11 or newer, or use --probe cyclic",
            )))
        }
    }
}

fn open(mut opening: OpenContext<'_>) -> io::Result<ProbeInstance> {
    let set = Epoll::new()?;
    let producer = opening.producers.remove(0);
    let thread = opening.thread.clone();
    let run: Run = Box::new(move |ready| {
        let start = ready.wait();
        by_due_times(&thread.at(start.at), producer, start.control, |due| {
            sleep_until(&set, due).map(|()| clock::monotonic())
        })
    });
    Ok(ProbeInstance {
        members: vec![Member::new(opening.probe, opening.thread.cpu, run)],
        ..ProbeInstance::default()
    })
}

/// Waits as an event loop does: for the time until `due`, and again if a signal interrupted the
/// wait.
fn sleep_until(set: &Epoll, due: i64) -> io::Result<()> {
    loop {
        let left = due - clock::monotonic();
        if left <= 0 {
            return Ok(());
        }
        match set.wait(Some(left)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
}
