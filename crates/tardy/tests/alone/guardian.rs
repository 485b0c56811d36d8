//! Tests the supervisor of loads through its own interface: order of events, restarts, limits,
//! containment.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tardy_core::units::Nanos;
use tardy_loads::guardian::{Containment, Guardian, GuardianOptions, LoadEnd, LoadEvent};
use tardy_loads::load::bounds::Bounds;
use tardy_loads::load::{LoadRequest, resolve_all};
use tardy_machine::host::Host;
use tardy_run::plan::LoadPlan;
use tardy_sys::process;

const PATIENCE: Duration = Duration::from_secs(60);

fn options() -> GuardianOptions {
    GuardianOptions {
        program: PathBuf::from(env!("CARGO_BIN_EXE_tardy")),
        ..GuardianOptions::default()
    }
}

fn plans(text: &str) -> Vec<LoadPlan> {
    let requests: Vec<_> = text
        .split(' ')
        .flat_map(|text| LoadRequest::parse(text).unwrap())
        .collect();
    let cpus = tardy_sys::affinity::get(0)
        .unwrap()
        .into_iter()
        .map(tardy_core::cpu::CpuId)
        .collect();
    let host = Host::of_this_machine();
    let bounds = Bounds::of(&host);
    resolve_all(&requests, &cpus, &host, bounds)
        .into_iter()
        .map(|(_, plan)| plan.unwrap())
        .collect()
}

/// Reads events until `done` returns true for an event.
fn events_until(
    guardian: &mut Guardian,
    mut done: impl FnMut(&LoadEvent) -> bool,
) -> Vec<LoadEvent> {
    let start = Instant::now();
    let mut all = Vec::new();
    while start.elapsed() < PATIENCE {
        tardy_sys::signal::wait_readable(&[guardian.as_fd()], 100).unwrap();
        let events = guardian.drain();
        let found = events.iter().any(&mut done);
        all.extend(events);
        if found {
            return all;
        }
    }
    panic!("the event did not come; there were {all:?}");
}

fn has_worked(event: &LoadEvent) -> bool {
    matches!(
        event,
        LoadEvent::Work {
            operations: 1..,
            ..
        }
    )
}

fn has_ended(event: &LoadEvent) -> bool {
    matches!(event, LoadEvent::Ended { .. })
}

fn workers_of(guardian: &Guardian) -> Vec<i32> {
    let stat = |pid: &str, field: usize| -> Option<String> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit(')')
            .next()?
            .split_whitespace()
            .nth(field - 2)
            .map(ToOwned::to_owned)
    };
    let pids: Vec<String> = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    let children = |parent: &str| {
        pids.iter()
            .filter(|pid| stat(pid, 3).as_deref() == Some(parent))
            .cloned()
            .collect::<Vec<_>>()
    };
    let inits = children(&guardian.pid().to_string());
    inits
        .iter()
        .flat_map(|init| children(init))
        .map(|pid| pid.parse().unwrap())
        .collect()
}

#[test]
fn a_load_starts_works_and_ends_by_itself_in_this_order() {
    let _turn = crate::turn();
    let mut guardian = Guardian::start(options()).unwrap();
    guardian.begin(3, &plans("io:size=1MiB")).unwrap();
    let mut events = events_until(&mut guardian, has_worked);
    for worker in workers_of(&guardian) {
        let status = std::fs::read_to_string(format!("/proc/{worker}/status")).unwrap();
        assert!(
            status.contains("\nSigBlk:\t0000000000000000\n"),
            "programs of a load would inherit what is blocked: {status}"
        );
    }
    guardian.finish(3, None).unwrap();
    events.extend(events_until(&mut guardian, has_ended));
    let (
        Some(LoadEvent::Started {
            load,
            phase: 3,
            at: started,
        }),
        Some(LoadEvent::Ended {
            phase: 3,
            at: ended,
            how,
            ..
        }),
    ) = (events.first(), events.last())
    else {
        panic!("{events:?}");
    };
    assert_eq!((load.as_str(), how), ("io:size=1MiB", &LoadEnd::Finished));
    assert!(started < ended);
    let cpus: std::collections::BTreeSet<_> = events
        .iter()
        .filter_map(|event| {
            if let LoadEvent::Work { cpu, .. } = event {
                *cpu
            } else {
                None
            }
        })
        .collect();
    assert_eq!(
        cpus.len(),
        tardy_sys::affinity::get(0).unwrap().len(),
        "each CPU has a worker that tells its work: {events:?}"
    );
    assert_eq!(guardian.shutdown().unwrap(), []);
}

#[test]
fn loads_of_one_phase_end_and_those_of_another_go_on() {
    let _turn = crate::turn();
    let mut guardian = Guardian::start(options()).unwrap();
    guardian.begin(1, &plans("io:size=1MiB")).unwrap();
    guardian.begin(2, &plans("fork:processes=2")).unwrap();
    guardian.finish(1, None).unwrap();
    let events = events_until(&mut guardian, has_ended);
    // Events of phase 2 may have arrived in the same batch.
    assert!(
        events
            .iter()
            .filter(|event| has_ended(event))
            .all(|event| matches!(event, LoadEvent::Ended { phase: 1, .. })),
        "{events:?}"
    );
    events_until(&mut guardian, |event| {
        matches!(event, LoadEvent::Work { phase: 2, .. })
    });
    guardian.finish(2, None).unwrap();
    events_until(&mut guardian, |event| {
        matches!(
            event,
            LoadEvent::Ended {
                phase: 2,
                how: LoadEnd::Finished,
                ..
            }
        )
    });
}

#[test]
fn a_worker_that_dies_is_restarted_and_given_up_in_the_end() {
    let _turn = crate::turn();
    let mut guardian = Guardian::start(options()).unwrap();
    let mut plan = plans("io:size=1MiB").remove(0);
    plan.cpus = plan.cpus.iter().take(1).collect();
    guardian.begin(0, &[plan]).unwrap();
    let (mut restarts, mut end) = (0, None);
    let start = Instant::now();
    while end.is_none() {
        assert!(start.elapsed() < PATIENCE, "{restarts} restarts");
        // A kill may fail because the worker has not started or has ended; the next round kills it.
        for worker in workers_of(&guardian) {
            let _ = process::kill(worker, process::KILL);
        }
        tardy_sys::signal::wait_readable(&[guardian.as_fd()], 20).unwrap();
        for event in guardian.drain() {
            match event {
                LoadEvent::Problem { text, .. } => {
                    restarts += usize::from(text.contains("will be restarted"))
                }
                LoadEvent::Ended { how, .. } => end = Some(how),
                _ => {}
            }
        }
    }
    assert!(
        matches!(&end, Some(LoadEnd::Died { status }) if status.contains("signal: 9")),
        "{end:?}"
    );
    assert_eq!(restarts, 3);
}

#[test]
fn work_before_a_restart_is_not_forgotten() {
    let _turn = crate::turn();
    let mut guardian = Guardian::start(options()).unwrap();
    let mut plan = plans("io:size=1MiB").remove(0);
    plan.cpus = plan.cpus.iter().take(1).collect();
    guardian.begin(0, &[plan]).unwrap();
    let last = |events: &[LoadEvent]| {
        events.iter().rev().find_map(|event| {
            if let LoadEvent::Work { operations, .. } = event {
                Some(*operations)
            } else {
                None
            }
        })
    };
    let before = last(&events_until(&mut guardian, has_worked)).unwrap();
    for worker in workers_of(&guardian) {
        process::kill(worker, process::KILL).unwrap();
    }
    let events = events_until(
        &mut guardian,
        |event| matches!(event, LoadEvent::Work { operations, .. } if *operations >= before),
    );
    assert!(
        events.iter().all(
            |event| !matches!(event, LoadEvent::Work { operations, .. } if *operations < before)
        ),
        "{events:?}"
    );
}

#[test]
fn a_load_that_does_not_end_is_killed_and_the_run_told_so() {
    let _turn = crate::turn();
    let mut guardian = Guardian::start(options()).unwrap();
    let mut plan = plans("io:size=1MiB").remove(0);
    plan.finish_limit = Nanos::from_millis(300);
    guardian.begin(0, &[plan]).unwrap();
    events_until(&mut guardian, has_worked);
    for worker in workers_of(&guardian) {
        process::kill(worker, process::STOP).unwrap();
    }
    guardian.finish(0, None).unwrap();
    let events = events_until(&mut guardian, has_ended);
    assert!(
        matches!(
            events.last().unwrap(),
            LoadEvent::Ended {
                how: LoadEnd::Killed,
                ..
            }
        ),
        "{events:?}"
    );
    assert!(
        events.iter().any(
            |event| matches!(event, LoadEvent::Problem { text, .. } if text.contains("was killed"))
        ),
        "{events:?}"
    );
}

#[test]
fn processes_of_a_killed_worker_are_ended_before_the_load_has_ended() {
    let _turn = crate::turn();
    for strongest in [Containment::PidNamespace, Containment::ParentSignals] {
        let mut guardian = Guardian::start(GuardianOptions {
            strongest,
            ..options()
        })
        .unwrap();
        let mut plan = plans("fork:processes=64").remove(0);
        plan.finish_limit = Nanos::from_millis(200);
        guardian.begin(0, &[plan]).unwrap();
        events_until(&mut guardian, has_worked);
        for worker in workers_of(&guardian) {
            process::kill(worker, process::STOP).unwrap();
        }
        guardian.finish(0, None).unwrap();
        events_until(&mut guardian, has_ended);
        assert_eq!(workers_of(&guardian), [0; 0], "{strongest:?}");
    }
}

#[test]
fn every_containment_leaves_nothing_when_the_tool_lets_go() {
    let _turn = crate::turn();
    for strongest in [
        Containment::PidNamespace,
        Containment::UserNamespace,
        Containment::ParentSignals,
    ] {
        let mut guardian = Guardian::start(GuardianOptions {
            strongest,
            ..options()
        })
        .unwrap();
        assert!(guardian.containment() >= strongest);
        guardian
            .begin(0, &plans("fork:processes=32 io:size=1MiB"))
            .unwrap();
        events_until(&mut guardian, has_worked);
        let workers = workers_of(&guardian);
        assert!(!workers.is_empty());
        guardian.shutdown().unwrap();
        for worker in workers {
            assert_eq!(
                process::kill(worker, 0).unwrap_err().raw_os_error(),
                Some(3),
                "{strongest:?}: the process still exists"
            );
        }
    }
}

#[test]
fn a_guardian_that_is_killed_is_noticed() {
    let _turn = crate::turn();
    let mut guardian = Guardian::start(options()).unwrap();
    guardian.begin(0, &plans("io:size=1MiB")).unwrap();
    process::kill(i32::try_from(guardian.pid()).unwrap(), process::KILL).unwrap();
    let events = events_until(&mut guardian, |event| {
        matches!(event, LoadEvent::Problem { load: None, .. })
    });
    assert!(guardian.is_gone(), "{events:?}");
    assert!(guardian.begin(1, &plans("io")).is_err());
}

#[test]
fn a_program_that_is_no_guardian_is_refused() {
    let _turn = crate::turn();
    let error = Guardian::start(GuardianOptions {
        program: PathBuf::from("/bin/true"),
        ..options()
    })
    .unwrap_err();
    assert!(error.to_string().contains("not ready"), "{error}");
    let error = Guardian::start(GuardianOptions {
        program: PathBuf::from("/absent/program"),
        ..options()
    })
    .unwrap_err();
    assert!(error.to_string().contains("cannot be started"), "{error}");
}
