//! `cgroup`: makes, enters, leaves and removes control groups.

use std::path::{Path, PathBuf};

use tardy_machine::groups;
use tardy_machine::undo::{FOLDER_PREFIX, Undo};
use tardy_run::parameter::Parameter;
use tardy_sys::capability;

use super::Unsupported;
use super::info::{ErrorContext, Job, LoadInfo, Placement, Rights, Run, WorkError};
use super::resolution::Resolution;
use super::worker::{Worker, WorkerPlan};

pub const INFO: LoadInfo = LoadInfo {
    name: "cgroup",
    does: "makes control groups, moves itself from group to group, and removes the groups",
    effect: "each move briefly blocks all forks and exits in the system, and the kernel dismantles \
             groups in the background",
    source: "today",
    parameters: &[Parameter::count(
        "groups",
        "number of groups that each worker makes at a time",
        "16",
        1,
        1000,
    )],
    can_do_harm: false,
    placement: Placement::EachCpu,
    uses_disk: false,
    rights: Rights::Confined {
        keeps: &[capability::DAC_OVERRIDE],
        writes: "in its control group and, to leave this group, in the group above",
        paths,
    },
    resolve,
    run: Run::Prepared(prepare),
};

/// Kernel memory that a group and its files take, in bytes, rounded up.
const GROUP_BYTES: u64 = 256 << 10;

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    let workers = resolution.workers();
    let groups = resolution.fit_within(
        "groups",
        resolution.share.memory / workers / GROUP_BYTES,
        "memory",
    )?;
    resolution.plan.budget.memory = workers * groups * GROUP_BYTES;
    resolution.plan.budget.processes = workers;
    let own = own_group(&resolution.host.proc).ok_or_else(|| {
        Unsupported::new(
            "a cgroup2 file system",
            "mount one: mount -t cgroup2 none /sys/fs/cgroup",
        )
    })?;
    let group = own.join(format!(
        "{FOLDER_PREFIX}cgroup-{}-{}",
        std::process::id(),
        tardy_sys::clock::monotonic()
    ));
    groups::check_can_be_made(&group).map_err(|error| {
        let remedy = "run as root, or in a delegated group: systemd-run --user --scope -p \
                          Delegate=yes tardy ...";
        Unsupported::new(
            format!(
                "the right to make control groups in {} ({error})",
                own.display()
            ),
            remedy,
        )
    })?;
    resolution.plan.undo.push(Undo::RemoveCgroup(group.clone()));
    resolution.plan.scratch = Some(group);
    Ok(())
}

/// Returns the folder of this process's group in the version 2 hierarchy.
fn own_group(proc: &Path) -> Option<PathBuf> {
    let mounts = std::fs::read_to_string(proc.join("self/mounts")).ok()?;
    let mount = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (point, kind) = (fields.nth(1)?, fields.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(point))
    })?;
    let groups = std::fs::read_to_string(proc.join("self/cgroup")).ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(mount.join(path))
}

/// Returns the paths that workers write to: the group of all workers, and the file by which they
/// leave it.
fn paths(plan: &WorkerPlan) -> Vec<PathBuf> {
    let top = plan.load.scratch.clone();
    let home = top.as_deref().and_then(Path::parent);
    let home = home.map(|parent| parent.join("cgroup.procs"));
    top.into_iter().chain(home).collect()
}

fn prepare(worker: &mut Worker) -> Result<Job, WorkError> {
    let [top, home] = <[PathBuf; 2]>::try_from(paths(&worker.plan))
        .map_err(|_| WorkError::Bound("the load's plan names no control group".to_owned()))?;
    let own = top.join(format!("{FOLDER_PREFIX}{}", worker.plan.index));
    make(&top).doing("make a group")?;
    make(&own).doing("make a group")?;
    Ok(Box::new(move |worker| run(worker, own, &home)))
}

fn run(worker: &mut Worker, own: PathBuf, home: &Path) -> Result<(), WorkError> {
    let result = work(worker, &own);
    // A group cannot be removed while a process is in it.
    std::fs::write(home, "0").doing("leave the groups")?;
    let removed = Undo::RemoveCgroup(own).run();
    if let Err(error) = removed {
        worker.tell(error.to_string());
    }
    result
}

fn make(group: &Path) -> std::io::Result<()> {
    match std::fs::create_dir(group) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn work(worker: &mut Worker, own: &Path) -> Result<(), WorkError> {
    let groups: Vec<PathBuf> = (0..worker.number("groups"))
        .map(|index| own.join(index.to_string()))
        .collect();
    while worker.go_on() {
        for group in &groups {
            make(group).doing("make a group")?;
            // The kernel interprets 0 as the process that writes it.
            std::fs::write(group.join("cgroup.procs"), "0").doing("move into a group")?;
            worker.did(2, 0);
            if !worker.go_on() {
                break;
            }
        }
        std::fs::write(own.join("cgroup.procs"), "0").doing("move out of the groups")?;
        for group in &groups {
            match std::fs::remove_dir(group) {
                Ok(()) => worker.did(1, 0),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(_) => worker.failed(),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_below_the_mount_of_version_2() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("self")).unwrap();
        assert_eq!(own_group(root.path()), None);
        let mounts = "cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\ncgroup2 /sys/fs/cgroup/unified \
                      cgroup2 rw 0 0\n";
        std::fs::write(root.path().join("self/mounts"), mounts).unwrap();
        std::fs::write(
            root.path().join("self/cgroup"),
            "4:cpu:/x\n0::/user.slice/a\n",
        )
        .unwrap();
        assert_eq!(
            own_group(root.path()),
            Some(PathBuf::from("/sys/fs/cgroup/unified/user.slice/a"))
        );
    }
}
