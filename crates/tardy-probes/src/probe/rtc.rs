//! `rtc`: the periodic interrupt of the real-time clock, as realfeel of williams2002 reads it.
//!
//! Since Linux 2.6.38, the kernel emulates this interrupt with a high-resolution timer
//! (drivers/rtc/interface.c, rtc_pie_update_irq). The probe therefore measures how fast that timer
//! and a read of the device are, not how fast the clock's hardware is.

use std::io;
use std::sync::mpsc::Receiver;

use tardy_core::sample::Sample;
use tardy_core::units::Nanos;
use tardy_machine::host::Host;
use tardy_machine::unsupported::Unsupported;
use tardy_run::parameter::Parameter;
use tardy_run::plan::{ProbePlan, ThreadPlan, WaitsFor};
use tardy_sys::clock;
use tardy_sys::rtc::Rtc;
use tardy_sys::{sched, scoped};

use super::info::{Placement, ProbeInfo, Refusal, no_dither};
use super::member::{Member, Run};
use super::schedule::request_of;
use super::series_info::SeriesInfo;
use super::{OpenContext, ProbeInstance};
use crate::recording::control::{Control, Departure};
use crate::recording::ring::Producer;

pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "rtc",
    about: "the real-time clock's periodic interrupt",
    times: "read(2) of /dev/rtc's periodic interrupt: time between two interrupts minus the \
            nominal time; the kernel emulates the interrupts with an hrtimer, so no device \
            interrupt is measured",
    context: "stock kernel: hard interrupt; PREEMPT_RT: softirq thread",
    source: "williams2002 (realfeel)",
    parameters: &[Parameter::count(
        "hz",
        "interrupts per second, a power of two",
        "2048",
        2,
        8192,
    )],
    series: &[SeriesInfo::INTERVAL_ERROR],
    placement: Placement::FirstCpu,
    period: Nanos(1_000_000_000 / 2048),
    is_single: true,
    waits_for: WaitsFor::Event,
    system_calls: &["read"],
    period_of: |values| Some(Nanos((1_000_000_000 / values.number("hz").max(1)) as i64)),
    resolve,
    open,
    ..ProbeInfo::USUAL
};

const DEVICES: [&str; 2] = ["rtc0", "rtc"];

fn resolve(probe: &ProbePlan, host: &Host) -> Result<(), Refusal> {
    let hz = probe.parameters.number("hz");
    if !hz.is_power_of_two() {
        return Err(Refusal::Request(format!(
            "{hz} Hz is not a power of two: use 1024, 2048, 4096 or 8192"
        )));
    }
    let absent =
        |missing: String, remedy: &str| Err(Refusal::Absent(Unsupported::new(missing, remedy)));
    let Some(path) = DEVICES
        .iter()
        .map(|name| host.dev.join(name))
        .find(|path| path.exists())
    else {
        return absent(
            format!(
                "{} (no real-time clock)",
                host.dev.join(DEVICES[0]).display()
            ),
            "load its driver (modprobe rtc-cmos), or use --probe itimer",
        );
    };
    match Rtc::open(&path).and_then(|rtc| rtc.set_rate(hz)) {
        Ok(()) => no_dither(probe),
        Err(error) => absent(
            format!(
                "the periodic interrupt of {} at {hz} Hz ({error})",
                path.display()
            ),
            "run as root, stop the program that has the clock open, or use --probe itimer",
        ),
    }
}

fn open(mut opening: OpenContext<'_>) -> io::Result<ProbeInstance> {
    let dev = Host::of_this_machine().dev;
    let path = DEVICES
        .iter()
        .map(|name| dev.join(name))
        .find(|path| path.exists())
        .unwrap_or_else(|| dev.join(DEVICES[0]));
    let rtc = Rtc::open(&path)?;
    rtc.set_rate(opening.probe.parameters.number("hz"))?;
    let producer = opening.producers.remove(0);
    let thread = opening.thread.clone();
    let run: Run = Box::new(move |ready| {
        // The thread that stops the interrupts is started before the run starts. Starting a thread
        // causes page faults for the new stack, and the tool counts page faults of the current
        // thread as those of a measuring thread.
        std::thread::scope(|scope| {
            let (started, ended) = std::sync::mpsc::sync_channel::<()>(1);
            let rtc = &rtc;
            let stopping =
                std::thread::Builder::new().spawn_scoped(scope, move || stop_after(rtc, &ended));
            let stopping = stopping.map_err(scoped::refused)?;
            let start = ready.wait();
            start.sleep()?;
            rtc.start()?;
            let result = measure(rtc, &thread, producer, start.control);
            drop(started);
            let stopped = stopping.join().unwrap_or_else(|_| {
                Err(io::Error::other(
                    "the thread that stops the clock's interrupts panicked",
                ))
            });
            stopped.and(result)
        })
    });
    let note = "the interrupt of rtc is emulated with an hrtimer, not a device interrupt \
                (drivers/rtc/interface.c)"
        .to_owned();
    Ok(ProbeInstance {
        members: vec![Member::new(opening.probe, opening.thread.cpu, run)],
        notes: vec![note],
        ..ProbeInstance::default()
    })
}

/// Waits until the sender of `ended` is dropped, then stops the interrupts. Must be called on a
/// thread that may lose its real-time priority, because the kernel waits in a loop for the timer's
/// callback. On PREEMPT_RT, the callback runs on this CPU in a thread of low real-time priority. If
/// a measuring thread waited in this loop, it would keep the callback's thread from running.
fn stop_after(rtc: &Rtc, ended: &Receiver<()>) -> io::Result<()> {
    sched::set_policy(0, sched::Policy::Other { nice: 0 })?;
    let _ = ended.recv();
    rtc.stop()
}

fn measure(
    rtc: &Rtc,
    plan: &ThreadPlan,
    mut producer: Producer,
    control: &Control,
) -> io::Result<Departure> {
    let period = request_of(plan)?;
    let stop_above = plan.stop_above.unwrap_or(Nanos::MAX);
    rtc.wait()?;
    let mut due = Nanos(clock::monotonic()) + period;
    for _ in 0..plan.cycles.unwrap_or(u64::MAX) {
        if control.is_past_end(due) {
            break;
        }
        // The device counts its interrupts, so the number of unread interrupts is known. Unread
        // interrupts are recorded as skipped.
        let interrupts = rtc.wait()?;
        let now = Nanos(clock::monotonic());
        (0..interrupts).for_each(|_| producer.begin_cycle());
        let sample = Sample {
            due,
            latency: now - due,
            skipped: u32::try_from(interrupts - 1).unwrap_or(u32::MAX),
        };
        producer.push(sample);
        if sample.latency > stop_above {
            control.stop_because_of(plan.cpu, sample);
            break;
        }
        due = now + period;
    }
    producer.close(due);
    Ok(control.leave())
}
