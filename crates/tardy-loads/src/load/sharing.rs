//! Gives concurrent loads equal shares of the CPUs. The kernel divides CPU time among tasks, and
//! some loads have hundreds of them.
//!
//! Each worker gets a separate session if the kernel groups tasks by session (sched(7), autogroup),
//! otherwise a control group if the `cpu` controller is available (cgroups(7), version 1 or 2). If
//! neither is available, loads with hundreds of tasks get fewer tasks. The journal lists the
//! groups.
//!
//! A load on several CPUs has a group for each worker, not a single group for the load. The kernel
//! divides a group's weight among the CPUs by its estimate of the group's load on each of them.
//! With a single group, a load whose tasks are short-lived or often sleep got three to five times
//! its share.

use std::io;
use std::path::{Path, PathBuf};

use tardy_machine::host::Host;
use tardy_machine::undo::{FOLDER_PREFIX, Undo};
use tardy_run::parameter::Value;
use tardy_run::plan::{LoadPlan, Share};

use super::request::LoadRequest;

/// File of a version 2 group that lists the controllers of its children.
const CHILDREN_HAVE: &str = "cgroup.subtree_control";
/// File of a version 1 group that limits the time of its real-time tasks (CONFIG_RT_GROUP_SCHED).
/// The limit of a new group is 0, so no real-time task may enter it.
const REAL_TIME: &str = "cpu.rt_runtime_us";

/// For versions 1 and 2: the file of a group's weight, the weight of a new group and the maximum
/// weight (kernel/sched/sched.h, MAX_SHARES; cgroups(7), cpu.weight).
const WEIGHTS: [(&str, u64, u64); 2] = [("cpu.shares", 1024, 1 << 18), ("cpu.weight", 100, 10_000)];

/// Loads with hundreds of tasks, and how their tasks are reduced.
const CROWDS: &[Crowd] = &[
    Crowd {
        load: "hackbench",
        parameter: "groups",
        most: |cpus| cpus.div_ceil(2),
    },
    Crowd {
        load: "hackbench",
        parameter: "fds",
        most: |_| 10,
    },
];

/// The maximum of a parameter that determines how many tasks a load has. It applies where the
/// kernel gives shares to tasks, not to loads.
struct Crowd {
    load: &'static str,
    parameter: &'static str,
    most: fn(cpus: u64) -> u64,
}

/// Loads that rest in proportion to the CPU time that they used ([`super::pace`]).
const PACED: &[&str] = &["pi-futex"];

/// Gives concurrent loads equal shares. Returns whether the shares are equal.
pub fn share_equally(loads: &mut [LoadPlan], host: &Host) -> bool {
    if loads.len() < 2 {
        return true;
    }
    let beside = u32::try_from(loads.len() - 1).unwrap_or(u32::MAX);
    loads.iter_mut().for_each(|load| load.beside = beside);
    let proc = &host.proc;
    let groups = Groups::find(proc);
    if has_sessions(proc, groups.as_ref()) {
        loads
            .iter_mut()
            .for_each(|load| load.share = Share::Session);
        return true;
    }
    if let Some(groups) = groups.filter(Groups::can_be_made) {
        let may_have_one = |load: &&mut LoadPlan| {
            !(groups.refuses_real_time() && load.parameters.get("priority").is_some())
        };
        for (index, load) in loads.iter_mut().filter(may_have_one).enumerate() {
            let group = groups.name(index);
            load.undo.extend(groups.to_enable().map(|file| Undo::Write {
                path: file,
                value: "-cpu".to_owned(),
                written: None,
            }));
            load.undo.extend(
                (0..load.worker_count())
                    .map(|worker| Undo::RemoveCgroup(of_worker(&group, worker))),
            );
            load.share = Share::Group(group);
        }
    }
    let without = loads.iter_mut().filter(|load| load.share == Share::Tasks);
    without.for_each(thin_out);
    loads
        .iter()
        .all(|load| load.share != Share::Tasks || PACED.contains(&load.name.as_str()))
}

/// Reduces the number of tasks of a load that has hundreds of them. Values that the user gave are
/// not changed.
fn thin_out(load: &mut LoadPlan) {
    let asked = load
        .label
        .split('#')
        .next()
        .and_then(|text| LoadRequest::parse(text).ok())
        .unwrap_or_default();
    let is_given = |name: &str| asked.iter().any(|request| request.given.contains_key(name));
    for crowd in CROWDS
        .iter()
        .filter(|crowd| crowd.load == load.name && !is_given(crowd.parameter))
    {
        let most = (crowd.most)(load.cpus.len() as u64).max(1);
        if load.parameters.number(crowd.parameter) > most {
            load.parameters
                .insert(crowd.parameter.to_owned(), Value::Count(most));
        }
    }
}

/// Returns the group of a worker.
#[must_use]
pub fn of_worker(group: &Path, index: usize) -> PathBuf {
    let mut name = group.as_os_str().to_owned();
    name.push(format!("-{index}"));
    PathBuf::from(name)
}

/// The group in which the groups of workers are made.
#[derive(Debug)]
struct Groups {
    parent: PathBuf,
    is_version_2: bool,
}

impl Groups {
    fn find(proc: &Path) -> Option<Self> {
        let mounts = std::fs::read_to_string(proc.join("self/mounts")).ok()?;
        let own = std::fs::read_to_string(proc.join("self/cgroup")).ok()?;
        let mount = |kind: &str, option: Option<&str>| {
            mounts.lines().find_map(|line| {
                let fields: Vec<&str> = line.split(' ').collect();
                let [_, point, this, options, ..] = fields.as_slice() else {
                    return None;
                };
                (*this == kind
                    && option.is_none_or(|option| options.split(',').any(|one| one == option)))
                .then(|| PathBuf::from(point))
            })
        };
        let version_1 = own
            .lines()
            .filter_map(|line| line.split_once(':')?.1.split_once(":/"));
        if let Some((_, path)) = version_1
            .clone()
            .find(|(controllers, _)| controllers.split(',').any(|name| name == "cpu"))
        {
            return Some(Self {
                parent: mount("cgroup", Some("cpu"))?.join(path),
                is_version_2: false,
            });
        }
        let root = mount("cgroup2", None)?;
        let path = version_1
            .clone()
            .find(|(controllers, _)| controllers.is_empty())
            .map_or("", |(_, path)| path);
        // A group that contains processes cannot give controllers to its children, except for the
        // root group.
        let places = [root.join(path), root];
        let parent = places
            .iter()
            .find(|place| has_cpu(place, CHILDREN_HAVE))
            .or_else(|| {
                places
                    .last()
                    .filter(|root| has_cpu(root, "cgroup.controllers"))
            })?;
        Some(Self {
            parent: parent.clone(),
            is_version_2: true,
        })
    }

    /// Returns whether groups can be made. Only an attempt shows this, because groups can be
    /// delegated to any user.
    fn can_be_made(&self) -> bool {
        let file = self.parent.join(CHILDREN_HAVE);
        let can_enable = self.to_enable().is_none()
            || std::fs::OpenOptions::new().write(true).open(file).is_ok();
        let group = self.name(usize::MAX);
        can_enable && tardy_machine::groups::check_can_be_made(&group).is_ok()
    }

    fn name(&self, index: usize) -> PathBuf {
        self.parent.join(format!(
            "{FOLDER_PREFIX}share-{}-{}-{index}",
            std::process::id(),
            tardy_sys::clock::monotonic()
        ))
    }

    /// Returns the file through which the children get the controller, if they do not have it yet.
    fn to_enable(&self) -> Option<PathBuf> {
        (self.is_version_2 && !has_cpu(&self.parent, CHILDREN_HAVE))
            .then(|| self.parent.join(CHILDREN_HAVE))
    }

    fn refuses_real_time(&self) -> bool {
        self.parent.join(REAL_TIME).exists()
    }
}

fn has_cpu(group: &Path, file: &str) -> bool {
    std::fs::read_to_string(group.join(file))
        .is_ok_and(|text| text.split_whitespace().any(|name| name == "cpu"))
}

/// Returns whether the kernel groups this process's tasks by session, which it does only for tasks
/// in the root group.
fn has_sessions(proc: &Path, groups: Option<&Groups>) -> bool {
    let is_on = std::fs::read_to_string(proc.join("sys/kernel/sched_autogroup_enabled"))
        .is_ok_and(|text| text.trim() == "1");
    let own = std::fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
    let is_elsewhere = |line: &str| {
        let Some((controllers, path)) = line
            .split_once(':')
            .and_then(|(_, rest)| rest.split_once(':'))
        else {
            return false;
        };
        let is_concerned = if controllers.is_empty() {
            groups.is_some_and(|groups| groups.is_version_2 && groups.to_enable().is_none())
        } else {
            controllers.split(',').any(|name| name == "cpu")
        };
        is_concerned && path != "/"
    };
    is_on && !own.lines().any(is_elsewhere)
}

/// Returns whether a change concerns the groups of all loads of a run.
#[must_use]
pub fn is_of_all(undo: &Undo) -> bool {
    matches!(undo, Undo::Write { path, .. } if path.ends_with(CHILDREN_HAVE))
}

/// Returns the weight of a worker relative to a worker on a single CPU. If a load has one worker
/// for all CPUs, its weight is divided among the CPUs. If it has a worker on each CPU, its weight
/// counts fully on each CPU.
///
/// The kernel's division among CPUs favours a load with many tasks on each CPU. When the kernel
/// computes how to divide the weight, more of such a load's tasks are waiting for the CPU than on
/// average (kernel/sched/fair.c, calc_group_shares). On two CPUs, such a load got twice the share
/// of each other load when nine others ran, and 1.3 times the share when 23 others ran.
#[must_use]
pub fn weight(load: &LoadPlan) -> f64 {
    const FAVOUR: f64 = 1.5;
    let is_crowd = CROWDS.iter().any(|crowd| crowd.load == load.name);
    match load.cpus.len() as f64 {
        _ if load.each_cpu => 1.0,
        cpus if is_crowd => (cpus / FAVOUR).max(1.0),
        cpus => cpus.max(1.0),
    }
}

/// Makes a worker's group with this weight.
///
/// # Errors
/// Returns the kernel's error if the group cannot be made.
pub fn make(group: &Path, weight: f64) -> io::Result<()> {
    let enable = group
        .parent()
        .map(|parent| parent.join(CHILDREN_HAVE))
        .filter(|file| file.exists());
    if let Some(file) = enable {
        std::fs::write(file, "+cpu")?;
    }
    match std::fs::create_dir(group) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    for (file, one, most) in WEIGHTS
        .iter()
        .filter(|(file, ..)| group.join(file).exists())
    {
        std::fs::write(
            group.join(file),
            ((*one as f64 * weight) as u64).min(*most).to_string(),
        )?;
    }
    Ok(())
}

/// Moves this process, which is worker `index` of its load, and its future children into the
/// worker's control group or into a new session, as `share` requires. Must be called before
/// anything is started.
///
/// # Errors
/// Returns the kernel's error if the process cannot be moved.
pub fn enter(share: &Share, index: usize, weight: f64) -> io::Result<()> {
    match share {
        Share::Tasks => Ok(()),
        // The kernel interprets 0 as the process that writes it.
        Share::Group(group) => std::fs::write(of_worker(group, index).join("cgroup.procs"), "0"),
        Share::Session => {
            tardy_sys::process::new_session()?;
            // Weights of neighbouring nice values differ by a factor of 1.25 (kernel/sched/core.c,
            // sched_prio_to_weight). If the worker may not raise its weight, the load's share stays
            // small. The phase's table shows this.
            let nice = (weight.ln() / 1.25_f64.ln()).round().clamp(0.0, 20.0);
            let _ = std::fs::write("/proc/self/autogroup", format!("-{nice:.0}"));
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a machine with these texts in files below /proc and below its cgroup mount.
    fn machine(own: &str, mounts: &str, autogroup: &str) -> (tempfile::TempDir, Host) {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let point = root.path().join("groups");
        std::fs::create_dir_all(&point).unwrap();
        write("proc/self/cgroup", own);
        write(
            "proc/self/mounts",
            &mounts.replace("GROUPS", &point.display().to_string()),
        );
        write("proc/sys/kernel/sched_autogroup_enabled", autogroup);
        let host = Host {
            proc: root.path().join("proc"),
            ..Host::of_this_machine()
        };
        (root, host)
    }

    fn loads(texts: &[&str], host: &Host) -> (Vec<LoadPlan>, bool) {
        let requests: Vec<_> = texts
            .iter()
            .flat_map(|text| crate::load::LoadRequest::parse(text).unwrap())
            .collect();
        let bounds = crate::load::bounds::Bounds {
            memory: 1 << 40,
            disk: 1 << 40,
            processes: 1_000_000,
        };
        let real = Host::of_this_machine();
        let mut plans: Vec<LoadPlan> =
            crate::load::resolve_all(&requests, &"0-1".parse().unwrap(), &real, bounds)
                .into_iter()
                .map(|(_, plan)| plan.unwrap())
                .collect();
        let is_equal = share_equally(&mut plans, host);
        (plans, is_equal)
    }

    #[test]
    fn each_load_gets_a_group_below_the_own_one_of_version_1() {
        let (root, host) = machine(
            "2:cpuacct,cpu:/a\n0::/\n",
            "cgroup GROUPS cgroup rw,cpu,cpuacct 0 0\n",
            "1\n",
        );
        std::fs::create_dir(root.path().join("groups/a")).unwrap();
        let (plans, is_equal) = loads(&["io", "fork"], &host);
        assert!(is_equal);
        let groups: Vec<&PathBuf> = plans
            .iter()
            .map(|plan| {
                if let Share::Group(group) = &plan.share {
                    group
                } else {
                    panic!("{plan:?}")
                }
            })
            .collect();
        assert!(
            groups[0] != groups[1]
                && groups
                    .iter()
                    .all(|group| group.starts_with(root.path().join("groups/a"))),
            "{groups:?}"
        );
        let removed = |plan: &LoadPlan| {
            plan.undo
                .iter()
                .filter(|undo| matches!(undo, Undo::RemoveCgroup(_)))
                .count()
        };
        assert!(
            plans
                .iter()
                .all(|plan| removed(plan) == plan.worker_count()),
            "{plans:?}"
        );
        assert!(plans.iter().all(|plan| plan.beside == 1));
        let group = of_worker(groups[0], 1);
        make(&group, 3.0).unwrap();
        assert!(
            group
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .ends_with("-0-1"),
            "{group:?}"
        );
        assert_eq!(
            loads(&["io"], &host).0[0].share,
            Share::Tasks,
            "a load alone has nobody to share with"
        );
    }

    #[test]
    fn a_real_time_load_stays_out_of_a_group_that_would_refuse_it() {
        let (root, host) = machine("2:cpu:/\n", "cgroup GROUPS cgroup rw,cpu 0 0\n", "0\n");
        std::fs::write(root.path().join("groups/cpu.rt_runtime_us"), "950000\n").unwrap();
        let (plans, is_equal) = loads(&["io", "busy:length=1ms:period=10ms:priority=3"], &host);
        assert!(
            matches!(plans[0].share, Share::Group(_))
                && plans[1].share == Share::Tasks
                && !is_equal,
            "{plans:?}"
        );
        let (plans, is_equal) = loads(&["io", "pi-futex"], &host);
        assert!(
            plans[1].share == Share::Tasks && is_equal,
            "it sees to its share itself: {plans:?}"
        );
    }

    #[test]
    fn the_root_of_version_2_gives_the_controller_and_takes_it_back() {
        let (root, host) = machine("0::/user.slice\n", "cgroup2 GROUPS cgroup2 rw 0 0\n", "0\n");
        let groups = root.path().join("groups");
        std::fs::write(groups.join("cgroup.controllers"), "cpuset cpu memory\n").unwrap();
        std::fs::write(groups.join(CHILDREN_HAVE), "\n").unwrap();
        let (plans, _) = loads(&["io", "fork"], &host);
        assert!(
            plans[0].undo.contains(&Undo::Write {
                path: groups.join(CHILDREN_HAVE),
                value: "-cpu".into(),
                written: None
            }),
            "{:?}",
            plans[0].undo
        );
        std::fs::write(groups.join(CHILDREN_HAVE), "cpu\n").unwrap();
        let (plans, _) = loads(&["io", "fork"], &host);
        assert!(
            !plans[0]
                .undo
                .iter()
                .any(|undo| matches!(undo, Undo::Write { .. })),
            "a controller that was already given stays: {:?}",
            plans[0].undo
        );
    }

    #[test]
    fn the_weight_of_a_group_is_that_of_one_on_each_cpu() {
        let root = tempfile::tempdir().unwrap();
        for (file, weight, written) in [
            ("cpu.shares", 4.0, "4096"),
            ("cpu.weight", 4.0, "400"),
            ("cpu.weight", 1000.0, "10000"),
        ] {
            let group = root.path().join(format!("{file}-{weight}"));
            std::fs::create_dir(&group).unwrap();
            std::fs::write(group.join(file), "").unwrap();
            make(&group, weight).unwrap();
            assert_eq!(std::fs::read_to_string(group.join(file)).unwrap(), written);
        }
        let (plans, _) = loads(
            &["io", "mmap-lock", "hackbench"],
            &machine("0::/\n", "", "1\n").1,
        );
        assert_eq!(
            plans.iter().map(weight).collect::<Vec<_>>(),
            [1.0, 2.0, 2.0 / 1.5]
        );
    }

    #[test]
    fn a_load_of_hundreds_of_tasks_has_fewer_where_only_tasks_have_shares() {
        let (_root, host) = machine("3:cpu:/a\n", "", "0\n");
        let size = |plan: &LoadPlan| {
            (
                plan.parameters.number("groups"),
                plan.parameters.number("fds"),
            )
        };
        let (plans, _) = loads(
            &["io", "hackbench", "hackbench", "hackbench:groups=3"],
            &host,
        );
        assert_eq!(
            plans[1..].iter().map(size).collect::<Vec<_>>(),
            [(1, 10), (1, 10), (3, 10)]
        );
        assert_eq!(
            size(&loads(&["hackbench:fds=20"], &host).0[0]),
            (10, 20),
            "alone it is what it is called"
        );
        let (_root, host) = machine("0::/\n", "", "1\n");
        assert_eq!(
            size(&loads(&["io", "hackbench:fds=20"], &host).0[1]),
            (10, 20),
            "the kernel sees to it"
        );
    }

    #[test]
    fn sessions_come_before_groups_and_only_in_the_root_group() {
        let (root, host) = machine("2:cpu:/\n", "cgroup GROUPS cgroup rw,cpu 0 0\n", "1\n");
        std::fs::write(root.path().join("groups/cpu.rt_runtime_us"), "950000\n").unwrap();
        assert!(
            loads(&["io", "pi-futex"], &host)
                .0
                .iter()
                .all(|plan| plan.share == Share::Session)
        );
        for (own, autogroup) in [("3:cpu:/a\n", "1\n"), ("0::/\n", "0\n")] {
            let (_root, host) = machine(own, "", autogroup);
            let (plans, is_equal) = loads(&["io", "fork"], &host);
            assert!(
                !is_equal && plans.iter().all(|plan| plan.share == Share::Tasks),
                "{own} {autogroup}"
            );
        }
    }
}
