//! Equal shares of the processors for loads that run together: the kernel shares them among tasks, and one load has hundreds where another has one.
//!
//! Each load gets a control group of its own where the `cpu` controller is to be had (cgroups(7), version 1 or 2; all groups have the same weight), else a session of
//! its own for each worker where the kernel groups tasks by session (sched(7), autogroup), else nothing can be done.

use std::io;
use std::path::{Path, PathBuf};

use tardy_machine::undo::{FOLDER_PREFIX, Undo};
use tardy_run::plan::{LoadPlan, Share};

use super::surroundings::Surroundings;

/// File of a group of version 2 that says which controllers its children have.
const CHILDREN_HAVE: &str = "cgroup.subtree_control";
/// File of a group of version 1 without which no real-time task may enter it (CONFIG_RT_GROUP_SCHED): new groups have 0.
const REAL_TIME: &str = "cpu.rt_runtime_us";

/// Gives loads that run together equal shares. Says whether that can be had.
pub fn share_equally(loads: &mut [LoadPlan], surroundings: &Surroundings) -> bool {
    if loads.len() < 2 {
        return true;
    }
    let proc = &surroundings.proc;
    let groups = Groups::find(proc).filter(Groups::can_be_made);
    let has_sessions = has_sessions(proc, groups.as_ref());
    for (index, load) in loads.iter_mut().enumerate() {
        match &groups {
            Some(groups) if !(groups.refuses_real_time() && load.parameters.get("priority").is_some()) => {
                let group = groups.name(index);
                load.undo.extend(groups.to_enable().map(|file| Undo::Write { path: file, value: "-cpu".to_owned() }));
                load.undo.push(Undo::RemoveCgroup(group.clone()));
                load.share = Share::Group(group);
            }
            _ if has_sessions => load.share = Share::Session,
            _ => {}
        }
    }
    loads.iter().all(|load| load.share != Share::Tasks)
}

/// Where groups of loads can be made.
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
                let [_, point, this, options, ..] = fields.as_slice() else { return None };
                (*this == kind && option.is_none_or(|option| options.split(',').any(|one| one == option))).then(|| PathBuf::from(point))
            })
        };
        let version_1 = own.lines().filter_map(|line| line.split_once(':')?.1.split_once(":/"));
        if let Some((_, path)) = version_1.clone().find(|(controllers, _)| controllers.split(',').any(|name| name == "cpu")) {
            return Some(Self { parent: mount("cgroup", Some("cpu"))?.join(path), is_version_2: false });
        }
        let root = mount("cgroup2", None)?;
        let path = version_1.clone().find(|(controllers, _)| controllers.is_empty()).map_or("", |(_, path)| path);
        // A group that has processes gives its children no controllers; the root may.
        let places = [root.join(path), root];
        let parent = places
            .iter()
            .find(|place| has_cpu(place, CHILDREN_HAVE))
            .or_else(|| places.last().filter(|root| has_cpu(root, "cgroup.controllers")))?;
        Some(Self { parent: parent.clone(), is_version_2: true })
    }

    /// Only trying tells: groups can be delegated to any user.
    fn can_be_made(&self) -> bool {
        let file = self.parent.join(CHILDREN_HAVE);
        let can_enable = self.to_enable().is_none() || std::fs::OpenOptions::new().write(true).open(file).is_ok();
        let group = self.name(usize::MAX);
        can_enable && std::fs::create_dir(&group).and_then(|()| std::fs::remove_dir(&group)).is_ok()
    }

    fn name(&self, index: usize) -> PathBuf {
        self.parent.join(format!("{FOLDER_PREFIX}share-{}-{}-{index}", std::process::id(), tardy_sys::clock::monotonic()))
    }

    /// The file by which the children get the controller, where they do not have it.
    fn to_enable(&self) -> Option<PathBuf> {
        (self.is_version_2 && !has_cpu(&self.parent, CHILDREN_HAVE)).then(|| self.parent.join(CHILDREN_HAVE))
    }

    fn refuses_real_time(&self) -> bool {
        self.parent.join(REAL_TIME).exists()
    }
}

fn has_cpu(group: &Path, file: &str) -> bool {
    std::fs::read_to_string(group.join(file)).is_ok_and(|text| text.split_whitespace().any(|name| name == "cpu"))
}

/// Whether the kernel groups tasks by session; it does so in the root group alone.
fn has_sessions(proc: &Path, groups: Option<&Groups>) -> bool {
    let is_on = std::fs::read_to_string(proc.join("sys/kernel/sched_autogroup_enabled")).is_ok_and(|text| text.trim() == "1");
    let own = std::fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
    let is_elsewhere = |line: &str| {
        let Some((controllers, path)) = line.split_once(':').and_then(|(_, rest)| rest.split_once(':')) else { return false };
        let is_concerned = if controllers.is_empty() {
            groups.is_some_and(|groups| groups.is_version_2 && groups.to_enable().is_none())
        } else {
            controllers.split(',').any(|name| name == "cpu")
        };
        is_concerned && path != "/"
    };
    is_on && !own.lines().any(is_elsewhere)
}

/// Whether a change concerns the groups of all loads of a run.
#[must_use]
pub fn is_of_all(undo: &Undo) -> bool {
    matches!(undo, Undo::Write { path, .. } if path.ends_with(CHILDREN_HAVE))
}

/// Makes the group of a load.
///
/// # Errors
/// What the kernel said.
pub fn make(group: &Path) -> io::Result<()> {
    let enable = group.parent().map(|parent| parent.join(CHILDREN_HAVE)).filter(|file| file.exists());
    if let Some(file) = enable {
        std::fs::write(file, "+cpu")?;
    }
    match std::fs::create_dir(group) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Moves this process, and what it will start, into the share of its load. Call it before anything is started. `spans` is on how many processors a load of one worker is.
///
/// # Errors
/// What the kernel said.
pub fn enter(share: &Share, spans: usize) -> io::Result<()> {
    match share {
        Share::Tasks => Ok(()),
        // 0 is the process that writes.
        Share::Group(group) => std::fs::write(group.join("cgroup.procs"), "0"),
        Share::Session => {
            tardy_sys::process::new_session()?;
            // A session that spans many processors has its weight once, the workers of other loads have it on each of theirs. Weights are 1.25 apart
            // (kernel/sched/core.c, sched_prio_to_weight). Without the right to it the load's share is small, which the phase's table says.
            let nice = ((spans.max(1) as f64).ln() / 1.25_f64.ln()).round().min(20.0);
            let _ = std::fs::write("/proc/self/autogroup", format!("-{nice:.0}"));
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with these files below /proc and below its cgroup mount.
    fn machine(own: &str, mounts: &str, autogroup: &str) -> (tempfile::TempDir, Surroundings) {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let point = root.path().join("groups");
        std::fs::create_dir_all(&point).unwrap();
        write("proc/self/cgroup", own);
        write("proc/self/mounts", &mounts.replace("GROUPS", &point.display().to_string()));
        write("proc/sys/kernel/sched_autogroup_enabled", autogroup);
        let surroundings = Surroundings { proc: root.path().join("proc"), ..Surroundings::of_this_machine() };
        (root, surroundings)
    }

    fn loads(texts: &[&str], surroundings: &Surroundings) -> (Vec<LoadPlan>, bool) {
        let requests: Vec<_> = texts.iter().flat_map(|text| crate::load::LoadRequest::parse(text).unwrap()).collect();
        let bounds = crate::load::bounds::Bounds { memory: 1 << 40, disk: 1 << 40, processes: 1_000_000 };
        let real = Surroundings::of_this_machine();
        let mut plans: Vec<LoadPlan> = crate::load::resolve_all(&requests, &"0-1".parse().unwrap(), &real, bounds)
            .into_iter()
            .map(|(_, plan)| plan.unwrap())
            .collect();
        let is_equal = share_equally(&mut plans, surroundings);
        (plans, is_equal)
    }

    #[test]
    fn each_load_gets_a_group_below_the_own_one_of_version_1() {
        let (root, surroundings) = machine("2:cpuacct,cpu:/a\n0::/\n", "cgroup GROUPS cgroup rw,cpu,cpuacct 0 0\n", "1\n");
        std::fs::create_dir(root.path().join("groups/a")).unwrap();
        let (plans, is_equal) = loads(&["io", "fork"], &surroundings);
        assert!(is_equal);
        let groups: Vec<&PathBuf> =
            plans.iter().map(|plan| if let Share::Group(group) = &plan.share { group } else { panic!("{plan:?}") }).collect();
        assert!(groups[0] != groups[1] && groups.iter().all(|group| group.starts_with(root.path().join("groups/a"))), "{groups:?}");
        assert!(plans.iter().all(|plan| matches!(plan.undo.last(), Some(Undo::RemoveCgroup(_)))));
        assert_eq!(loads(&["io"], &surroundings).0[0].share, Share::Tasks, "a load alone has nobody to share with");
    }

    #[test]
    fn a_real_time_load_stays_out_of_a_group_that_would_refuse_it() {
        let (root, surroundings) = machine("2:cpu:/\n", "cgroup GROUPS cgroup rw,cpu 0 0\n", "0\n");
        std::fs::write(root.path().join("groups/cpu.rt_runtime_us"), "950000\n").unwrap();
        let (plans, is_equal) = loads(&["io", "spin:length=1ms:period=10ms:priority=3"], &surroundings);
        assert!(matches!(plans[0].share, Share::Group(_)) && plans[1].share == Share::Tasks && !is_equal, "{plans:?}");
    }

    #[test]
    fn the_root_of_version_2_gives_the_controller_and_takes_it_back() {
        let (root, surroundings) = machine("0::/user.slice\n", "cgroup2 GROUPS cgroup2 rw 0 0\n", "1\n");
        let groups = root.path().join("groups");
        std::fs::write(groups.join("cgroup.controllers"), "cpuset cpu memory\n").unwrap();
        std::fs::write(groups.join(CHILDREN_HAVE), "\n").unwrap();
        let (plans, _) = loads(&["io", "fork"], &surroundings);
        assert!(plans[0].undo.contains(&Undo::Write { path: groups.join(CHILDREN_HAVE), value: "-cpu".into() }), "{:?}", plans[0].undo);
        std::fs::write(groups.join(CHILDREN_HAVE), "cpu\n").unwrap();
        let (plans, _) = loads(&["io", "fork"], &surroundings);
        assert!(!plans[0].undo.iter().any(|undo| matches!(undo, Undo::Write { .. })), "who has given it keeps it: {:?}", plans[0].undo);
    }

    #[test]
    fn sessions_serve_where_there_are_no_groups_and_only_in_the_root_group() {
        let (_root, surroundings) = machine("0::/\n", "", "1\n");
        assert!(loads(&["io", "fork"], &surroundings).0.iter().all(|plan| plan.share == Share::Session));
        for (own, autogroup) in [("3:cpu:/a\n", "1\n"), ("0::/\n", "0\n")] {
            let (_root, surroundings) = machine(own, "", autogroup);
            let (plans, is_equal) = loads(&["io", "fork"], &surroundings);
            assert!(!is_equal && plans.iter().all(|plan| plan.share == Share::Tasks), "{own} {autogroup}");
        }
    }
}
