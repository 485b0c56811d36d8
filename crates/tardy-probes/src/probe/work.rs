//! `work`: when a timer expires, the probe does a unit of work of known length. A task's deadline
//! applies to the completion of its work, so the probe records both the start and the completion.

use std::io;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

use tardy_core::cpu::CpuId;
use tardy_core::sample::Sample;
use tardy_core::units::Nanos;
use tardy_machine::host::Host;
use tardy_machine::root::Root;
use tardy_run::parameter::Parameter;
use tardy_run::plan::{ProbePlan, ThreadPlan};
use tardy_run::work_kind::WorkKind;
use tardy_sys::sched::Policy;
use tardy_sys::{affinity, clock, sched, scoped};

use super::info::{ProbeInfo, Refusal};
use super::member::{Finish, Member, Run};
use super::schedule::grid_of;
use super::series_info::{SeriesInfo, SeriesKind};
use super::{OpenContext, ProbeInstance};
use crate::recording::control::{Control, Departure};
use crate::recording::ring::Producer;
use crate::work::{Calibration, UnitOfWork};

pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "work",
    about: "a sleep until each due time, then work of known length",
    times: "clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME), then work of known length: in the \
            series work, from the due time to the first clock read after the sleep; in the series \
            work.done, from the due time to the first clock read after the work",
    context: "stock kernel: hard interrupt; PREEMPT_RT: hard interrupt for real-time threads, \
              softirq thread for others",
    source: "mckenney2009 (the end of the work must be in time, not only its start)",
    parameters: &[
        Parameter::duration(
            "length",
            "how long the work takes undisturbed",
            "100us",
            Nanos::from_micros(1),
            Nanos::from_millis(200),
        ),
        Parameter::choice(
            "kind",
            "arithmetic in registers, system calls, or reads that wait for memory",
            &["compute", "syscalls", "memory"],
        ),
        Parameter::bytes(
            "area",
            "bytes that kind=memory reads through, on each CPU",
            "32MiB",
            64 << 10,
            1 << 30,
        ),
    ],
    series: &[
        SeriesInfo::GRID_LATENCY,
        SeriesInfo {
            part: "done",
            quantity: "completion",
            kind: SeriesKind::Work,
            is_outside_verdict: false,
            bins_below_least: false,
        },
    ],
    resolve,
    open,
    ..ProbeInfo::USUAL
};

/// If the relative error of a calibration exceeds this, the run reports it.
const DEVIATION_MAX: f64 = 0.05;
const STACK_BYTES: usize = 256 << 10;

/// Returns the kind of work in the plan.
#[must_use]
pub fn kind(probe: &ProbePlan) -> WorkKind {
    WorkKind::ALL
        .into_iter()
        .find(|kind| kind.name() == probe.parameters.text("kind"))
        .unwrap_or(WorkKind::Compute)
}

fn resolve(probe: &ProbePlan, host: &Host) -> Result<(), Refusal> {
    let (length, period) = (probe.parameters.duration("length"), probe.period);
    // A fifth of the period is left for other tasks on the CPU. The watchdog stops a thread that
    // uses 95 %.
    if length.get() > period.get() / 5 * 4 {
        let longest = Nanos(period.get() / 5 * 4).exact();
        return Err(Refusal::Request(format!(
            "work of {} leaves too little of a period of {}: give at most {longest}, or a longer \
             --period",
            length.exact(),
            period.exact()
        )));
    }
    let area = probe.parameters.number("area");
    if kind(probe) == WorkKind::Memory
        && host
            .memory_available()
            .is_some_and(|available| area > available / 2)
    {
        return Err(Refusal::Request(
            "the area takes more than half of the free memory: give a smaller area=".into(),
        ));
    }
    Ok(())
}

fn open(mut opening: OpenContext<'_>) -> io::Result<ProbeInstance> {
    let (Some(done), Some(started)) = (opening.producers.pop(), opening.producers.pop()) else {
        return Err(io::Error::other("work was opened without its two series"));
    };
    let thread = opening.thread.clone();
    let (probe, cpu) = (opening.probe.clone(), thread.cpu);
    let policy = probe.policy.policy(probe.priority);
    // All CPUs calibrate at the same time, unless they share a core or memory bandwidth. CPUs that
    // share one calibrate one after another, because they would slow each other down.
    let under_way = has_its_own(&probe, cpu)
        .then(|| calibrate(&probe, cpu, policy))
        .transpose()?;
    let (unit, calibrated) = sync_channel(1);
    let finish = Finish::new(move || {
        let running = under_way.map_or_else(|| calibrate(&probe, cpu, policy), Ok)?;
        let (made, calibration) = running
            .join()
            .map_err(|_| io::Error::other("the calibration ended unexpectedly"))??;
        unit.send(made).map_err(io::Error::other)?;
        Ok(vec![note(&probe, cpu, calibration)])
    });
    let run: Run = Box::new(move |ready| {
        let unit = calibrated.recv().map_err(io::Error::other)?;
        let start = ready.wait();
        measure(&thread.at(start.at), unit, started, done, start.control)
    });
    Ok(ProbeInstance {
        members: vec![Member::new(opening.probe, cpu, run)],
        finish: Some(finish),
        ..ProbeInstance::default()
    })
}

/// Returns whether the calibration on `cpu` can run at the same time as the others: no earlier CPU
/// may share the core, and the work must not use memory bandwidth.
fn has_its_own(probe: &ProbePlan, cpu: Option<CpuId>) -> bool {
    let Some(cpu) = cpu.filter(|_| kind(probe) != WorkKind::Memory) else {
        return false;
    };
    let siblings = Root::system().cpu_list(format!(
        "sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
    ));
    siblings
        .and_then(|siblings| siblings.iter().next())
        .is_none_or(|first| first == cpu)
}

/// The thread of a running calibration.
type CalibrationThread = JoinHandle<io::Result<(UnitOfWork, Calibration)>>;

/// Starts the calibration on the CPU of the work, under the policy of the work.
fn calibrate(
    probe: &ProbePlan,
    cpu: Option<CpuId>,
    policy: Policy,
) -> io::Result<CalibrationThread> {
    let (kind, length, area) = (
        kind(probe),
        probe.parameters.duration("length"),
        probe.parameters.number("area"),
    );
    let thread = std::thread::Builder::new()
        .name("tardy-calibrate".into())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            if let Some(cpu) = cpu {
                let _ = affinity::set(0, &[cpu.0]);
            }
            let _ = sched::set_policy(0, policy);
            UnitOfWork::calibrated(kind, length, area)
        });
    thread.map_err(scoped::refused)
}

fn note(probe: &ProbePlan, cpu: Option<CpuId>, calibration: Calibration) -> String {
    let (kind, length) = (kind(probe), probe.parameters.duration("length"));
    let place = cpu.map_or_else(String::new, |cpu| format!(" on CPU {cpu}"));
    let Calibration { steps, measured } = calibration;
    if calibration.deviation(length).abs() <= DEVIATION_MAX {
        return format!(
            "work{place}: {steps} steps of {kind} take {measured} undisturbed, {} were requested",
            length.exact()
        );
    }
    format!(
        "work{place}: {steps} steps of {kind} take at least {measured}, not {} as requested: {}",
        length.exact(),
        if steps == 1 {
            "a single step takes longer than requested"
        } else {
            "every calibration was disturbed"
        }
    )
}

fn measure(
    plan: &ThreadPlan,
    mut unit: UnitOfWork,
    mut started: Producer,
    mut done: Producer,
    control: &Control,
) -> io::Result<Departure> {
    let (mut walk, end) = grid_of(plan)?;
    let stop_above = plan.stop_above.unwrap_or(Nanos::MAX);
    // From here to `close`, the thread makes only these system calls: the sleep, those of the work
    // and, if the vDSO cannot read the clock, the clock read.
    while walk.base() < end && !control.is_past_end(walk.base()) {
        clock::sleep_until(walk.due())?;
        let begin = Nanos(clock::monotonic());
        unit.run()?;
        let finished = clock::monotonic();
        let due = Nanos(walk.due().to_nanos());
        // Due times that pass during the work are recorded as skipped in both series.
        let skipped = walk.advance_past(finished, || end.min(control.end()));
        started.push(Sample {
            due,
            latency: begin - due,
            skipped,
        });
        let sample = Sample {
            due,
            latency: Nanos(finished) - due,
            skipped,
        };
        done.push(sample);
        if sample.latency > stop_above {
            control.stop_because_of(plan.cpu, sample);
            break;
        }
    }
    started.close(walk.base());
    done.close(walk.base());
    Ok(control.leave())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::ProbeSpec;
    use crate::recording::ring::ring;
    use tardy_core::sample::Record;
    use tardy_core::series::Schedule;
    use tardy_run::plan::PolicyName;
    use tardy_run::system_clock::{ProbeClocks, ThreadClocks};

    fn plan(text: &str) -> ProbePlan {
        let asked = ProbeSpec::parse(text).unwrap();
        let period = asked.duration("period").unwrap_or(INFO.period);
        ProbePlan {
            name: "work".into(),
            kind: None,
            offset: None,
            cpus: None,
            clocks: ProbeClocks::default(),
            period,
            dither: Nanos::ZERO,
            policy: PolicyName::Fifo,
            priority: Some(95),
            waits_for: INFO.waits_for,
            parameters: asked.parameters(),
        }
    }

    #[test]
    fn work_that_leaves_nothing_of_its_period_is_refused_with_the_longest() {
        let resolved = |text: &str| resolve(&plan(text), &Host::of_this_machine());
        assert_eq!(resolved("work:length=800us"), Ok(()));
        assert!(
            matches!(resolved("work:length=801us"), Err(Refusal::Request(reason)) if reason.contains("at most 800us"))
        );
        assert_eq!(
            resolved("work:length=10ms:period=20ms:kind=syscalls"),
            Ok(())
        );
        assert_eq!(kind(&plan("work:kind=memory")), WorkKind::Memory);
    }

    #[test]
    fn a_calibration_that_is_off_is_said_to_be() {
        let note = |measured: i64, steps| {
            note(
                &plan("work"),
                Some(CpuId(1)),
                Calibration {
                    steps,
                    measured: Nanos(measured),
                },
            )
        };
        assert!(
            note(101_000, 9).contains("work on CPU 1: 9 steps of compute take 101 us undisturbed"),
            "{}",
            note(101_000, 9)
        );
        assert!(
            note(180_000, 9).contains("not 100us as requested: every calibration was disturbed"),
            "{}",
            note(180_000, 9)
        );
        assert!(
            note(180_000, 1).contains("a single step takes longer than requested"),
            "{}",
            note(180_000, 1)
        );
    }

    #[test]
    fn each_period_is_in_both_series_and_work_is_done_after_it_began() {
        let schedule = Schedule::Grid {
            period: Nanos::from_micros(500),
            start: Nanos(clock::monotonic()),
            dither: Nanos::ZERO,
        };
        let thread = ThreadPlan {
            cpu: None,
            copy: None,
            schedule,
            seed: 1,
            cycles: Some(40),
            stop_above: None,
            clocks: ThreadClocks::default(),
        };
        let (unit, _) =
            UnitOfWork::calibrated(WorkKind::Syscalls, Nanos::from_micros(20), 0).unwrap();
        let ((started, mut started_out), (done, mut done_out)) = (ring(64), ring(64));
        measure(&thread, unit, started, done, &Control::new(None, None)).unwrap();
        let drained = |consumer: &mut crate::recording::ring::Consumer| {
            let mut samples = Vec::new();
            consumer.drain_up_to(u64::MAX, |record| {
                if let Record::Sample(sample) = record {
                    samples.push(sample);
                }
            });
            samples
        };
        let (started, done) = (drained(&mut started_out), drained(&mut done_out));
        assert_eq!(started.len(), done.len());
        assert!(started.iter().map(|sample| 1 + sample.skipped).sum::<u32>() >= 40);
        for (start, done) in started.iter().zip(&done) {
            assert_eq!((start.due, start.skipped), (done.due, done.skipped));
            assert!(done.latency > start.latency, "{start:?} {done:?}");
        }
        assert_eq!(
            started_out.closing_statement(),
            done_out.closing_statement()
        );
    }
}
