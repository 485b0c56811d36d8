//! `cpu-hotplug`: switches a CPU off and on again.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tardy_core::cpu::{CpuId, CpuList};
use tardy_core::units::Nanos;
use tardy_machine::undo::Undo;
use tardy_run::parameter::{Kind, Parameter, Value};
use tardy_sys::affinity;

use super::Unsupported;
use super::info::{ErrorContext, Job, LoadInfo, Placement, Rights, Run, WorkError};
use super::resolution::Resolution;
use super::worker::Worker;

pub const INFO: LoadInfo = LoadInfo {
    name: "cpu-hotplug",
    does: "repeatedly takes one CPU offline and brings it online again",
    effect: "the kernel stops all CPUs for a moment, and moves every task and timer of the CPU; \
             `all` leaves this load out, because tasks bound to the CPU lose their binding",
    source: "today",
    parameters: &[
        Parameter {
            name: "cpu",
            means: "CPU to take offline; if unset, the last CPU that can go offline",
            kind: Kind::Count { min: 0, max: 8191 },
            default: None,
            needed: false,
        },
        Parameter::duration(
            "pause",
            "pause after each change",
            "100ms",
            Nanos::from_millis(1),
            Nanos::from_secs(60),
        ),
    ],
    can_do_harm: true,
    placement: Placement::Once,
    uses_disk: false,
    rights: Rights::Nobody {
        keeps: &[],
        opens: "the file `online` of its CPU",
    },
    resolve,
    run: Run::Prepared(prepare),
};

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    let cpus = resolution.host.sys.join("devices/system/cpu");
    let candidates = hotpluggable(&cpus);
    let chosen = match resolution.plan.parameters.get("cpu") {
        Some(Value::Count(number)) => candidates
            .into_iter()
            .find(|cpu| u64::from(cpu.0) == *number),
        _ => candidates.into_iter().max(),
    };
    let absent = || {
        let remedy = "choose another CPU with cpu-hotplug:cpu=...; on most machines, CPU 0 cannot \
                      go offline, and the kernel needs CONFIG_HOTPLUG_CPU";
        Unsupported::new("a CPU that is online and can go offline", remedy)
    };
    let cpu = chosen.ok_or_else(absent)?;
    resolution.needs_superuser("take a CPU offline")?;
    let rest = resolution.plan.cpus.minus(&CpuList::from_iter([cpu]));
    if rest.is_empty() {
        return Err(Unsupported::new(
            format!("a CPU to run on besides CPU {cpu}"),
            "give more --load-cpus",
        ));
    }
    resolution.plan.cpus = rest;
    resolution
        .plan
        .parameters
        .insert("cpu".to_owned(), Value::Count(u64::from(cpu.0)));
    resolution.plan.undo.push(Undo::Write {
        path: online_file(&cpus, cpu),
        value: "1".to_owned(),
        written: None,
    });
    resolution.plan.budget.processes = 1;
    Ok(())
}

fn online_file(cpus: &Path, cpu: CpuId) -> PathBuf {
    cpus.join(format!("cpu{cpu}/online"))
}

/// Returns the online CPUs that can be switched off. Returns none if only one CPU is online.
fn hotpluggable(cpus: &Path) -> Vec<CpuId> {
    let online: CpuList = std::fs::read_to_string(cpus.join("online"))
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_default();
    if online.len() < 2 {
        return Vec::new();
    }
    online
        .iter()
        .filter(|cpu| online_file(cpus, *cpu).exists())
        .collect()
}

fn prepare(worker: &mut Worker) -> Result<Job, WorkError> {
    let Some(Undo::Write { path, .. }) = worker.plan.load.undo.first() else {
        return Err(WorkError::Bound("the load's plan names no CPU".to_owned()));
    };
    let switch = File::options()
        .write(true)
        .open(path)
        .doing("open the file that switches the CPU")?;
    Ok(Box::new(move |worker| run(worker, &switch)))
}

fn run(worker: &mut Worker, switch: &File) -> Result<(), WorkError> {
    // The worker binds itself again each time, because the kernel removes the binding when the last
    // CPU in it goes offline.
    let cpus: Vec<u32> = worker.plan.cpus.iter().map(|cpu| cpu.0).collect();
    let pause = worker.plan.load.parameters.duration("pause");
    let mut on = false;
    while worker.rest(pause) {
        match switch.write_all_at(if on { b"1" } else { b"0" }, 0) {
            Ok(()) => worker.did(1, 0),
            Err(_) => worker.failed(),
        }
        on = !on;
        affinity::set(0, &cpus).doing("bind the load to the other CPUs")?;
    }
    switch
        .write_all_at(b"1", 0)
        .or_else(already_there)
        .doing("bring the CPU online again")
}

/// Ignores the error that some kernels return if the CPU is already in the requested state.
fn already_there(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == std::io::ErrorKind::InvalidInput {
        Ok(())
    } else {
        Err(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_cpu_stays() {
        let sys = tempfile::tempdir().unwrap();
        for cpu in [1, 2] {
            std::fs::create_dir_all(sys.path().join(format!("cpu{cpu}"))).unwrap();
            std::fs::write(sys.path().join(format!("cpu{cpu}/online")), "1\n").unwrap();
        }
        std::fs::write(sys.path().join("online"), "0-2\n").unwrap();
        assert_eq!(hotpluggable(sys.path()), [CpuId(1), CpuId(2)]);
        std::fs::write(sys.path().join("online"), "1\n").unwrap();
        assert_eq!(hotpluggable(sys.path()), []);
    }
}
