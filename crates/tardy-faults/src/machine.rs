//! What other programs do to a run: move its threads, throttle it, take its CPU, measure beside it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use xtask::failure::{Failure, Result, While};
use xtask::program;

use crate::fault::{Fault, Ground, Tally};
use crate::folders::{self, Folder};
use crate::place::{CommandProcess, PATIENCE, Place, last_line};

pub(crate) const MOVED: Fault = Fault {
    name: "moved",
    done: "a measuring thread is moved to another CPU (taskset), or loses its priority (chrt), \
           while it measures",
    demanded: "the run reports it, and gives no verdict (exit code 4)",
    attempt: moved,
};

pub(crate) const QUOTA: Fault = Fault {
    name: "quota",
    done: "while the run measures, its control group gets a CPU quota of 2 %, or a cpuset without \
           the measured CPU",
    demanded: "the run reports the change",
    attempt: quota,
};

pub(crate) const OFFLINE: Fault = Fault {
    name: "offline",
    done: "the measured CPU goes offline for half a second",
    demanded: "the run ends, reports it, and gives no verdict (exit code 4)",
    attempt: offline,
};

pub(crate) const TWO_RUNS: Fault = Fault {
    name: "two-runs",
    done: "a run starts on CPUs that another run measures",
    demanded: "a warning of the new run names the process of the other",
    attempt: two_runs,
};

/// A run on the last CPU with a deadline that holds, once its measuring thread is there; with that
/// thread.
fn measuring(place: &Place, name: &str) -> Result<(CommandProcess, i32)> {
    let line = format!(
        "run --for 3s --load none --deadline 2s --misses 0.5 --cpus {} --quiet --out {name}",
        folders::last_cpu()
    );
    let running = place.start(place.tardy_command(&line))?;
    let pid = running.pid();
    let mut found = None;
    place.wait_until(|| {
        found = measuring_thread(pid);
        found.is_some() && place.path(name).join("run.json").exists()
    });
    let thread = found.ok_or_else(|| Failure::new("the measuring thread did not appear"))?;
    std::thread::sleep(Duration::from_millis(500));
    Ok((running, thread))
}

/// The thread of a process that has a real-time policy and the name of the probe.
fn measuring_thread(pid: i32) -> Option<i32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let ids = threads.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let is_probe = |thread: &i32| {
        std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/comm"))
            .is_ok_and(|comm| comm.starts_with("cyclic"))
    };
    let mut ids = ids.filter(is_probe);
    ids.next()
}

/// Ends the run and demands a warning of one of these kinds.
fn warned(
    tally: &mut Tally,
    place: &Place,
    running: CommandProcess,
    about: &str,
    kinds: &[&str],
    code: Option<i32>,
) -> Result<()> {
    let outcome = running.end(place, PATIENCE)?;
    let mut wrong = folders::wrong(&outcome, place)?;
    let folder = folders::look(place, "run")?;
    wrong.extend(folder.wrong());
    let warnings = folder.warnings();
    if !kinds.iter().any(|kind| warnings.contains(kind)) {
        wrong.push(format!(
            "{}, no warning of {}: {warnings}",
            outcome.ending(),
            kinds.join(" or ")
        ));
    }
    if code.is_some() && outcome.code != code {
        wrong.push(format!(
            "{}: {}",
            outcome.ending(),
            last_line(&outcome.said)
        ));
    }
    tally.count(about, outcome.ending(), wrong);
    Ok(())
}

fn moved(ground: &Ground) -> Result<Tally> {
    let mut tally = Tally::default();
    if folders::last_cpu() == 0 {
        tally
            .left_out
            .push("taskset: this machine has one CPU".to_owned());
    }
    for number in 0..ground.tries(1, 5) {
        let mut ways: Vec<(&str, Vec<&str>)> = vec![("chrt", vec!["-o", "-p", "0"])];
        if folders::last_cpu() > 0 {
            ways.push(("taskset", vec!["-cp", "0"]));
        }
        for (program, words) in ways {
            let place = ground.place()?;
            let (running, thread) = measuring(&place, "run")?;
            program::capture(Command::new(program).args(words).arg(thread.to_string()))?;
            let kinds = ["displaced", "scheduling-changed"];
            warned(
                &mut tally,
                &place,
                running,
                &format!("{program} (try {number})"),
                &kinds,
                Some(4),
            )?;
        }
    }
    Ok(tally)
}

/// A control group of version 1; removed when dropped.
struct Group(PathBuf);

impl Group {
    fn new(controller: &str) -> Option<Self> {
        let folder = Path::new("/sys/fs/cgroup")
            .join(controller)
            .join(format!("tardy-faults-{}", std::process::id()));
        std::fs::create_dir(&folder).ok()?;
        Some(Self(folder))
    }

    fn set(&self, file: &str, value: &str) -> Result<()> {
        std::fs::write(self.0.join(file), value)
            .while_doing(|| format!("writing {value} to {}", self.0.join(file).display()))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Tasks that are left go back to the parent.
        let tasks = std::fs::read_to_string(self.0.join("tasks")).unwrap_or_default();
        let parent = self.0.parent().map(|parent| parent.join("tasks"));
        tasks
            .lines()
            .for_each(|task| drop(parent.as_ref().map(|parent| std::fs::write(parent, task))));
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn quota(ground: &Ground) -> Result<Tally> {
    let mut tally = Tally::default();
    for number in 0..ground.tries(1, 5) {
        match Group::new("cpu") {
            None => tally
                .left_out
                .push("quota: control groups of version 1 lack the cpu controller".to_owned()),
            Some(group) => {
                let place = ground.place()?;
                let line =
                    "run --for 3s --load none --policy other --period 100us --quiet --out run";
                let running = place.start(place.tardy_command(line))?;
                place.wait_until(|| place.path("run/run.json").exists());
                group.set("cpu.cfs_period_us", "100000")?;
                group.set("cpu.cfs_quota_us", "2000")?;
                group.set("cgroup.procs", &running.pid().to_string())?;
                warned(
                    &mut tally,
                    &place,
                    running,
                    &format!("quota (try {number})"),
                    &["cgroup-throttled", "most-periods-skipped", "samples-lost"],
                    None,
                )?;
            }
        }
        match Group::new("cpuset").filter(|_| folders::last_cpu() > 0) {
            None => tally.left_out.push(
                "cpuset: control groups of version 1 lack the cpuset controller, or one CPU"
                    .to_owned(),
            ),
            Some(group) => {
                let place = ground.place()?;
                let (running, thread) = measuring(&place, "run")?;
                group.set("cpuset.cpus", "0")?;
                group.set("cpuset.mems", "0")?;
                group.set("tasks", &thread.to_string())?;
                warned(
                    &mut tally,
                    &place,
                    running,
                    &format!("cpuset (try {number})"),
                    &["displaced", "scheduling-changed"],
                    Some(4),
                )?;
            }
        }
    }
    Ok(tally)
}

fn offline(ground: &Ground) -> Result<Tally> {
    let mut tally = Tally::default();
    let switch = PathBuf::from(format!(
        "/sys/devices/system/cpu/cpu{}/online",
        folders::last_cpu()
    ));
    if folders::last_cpu() == 0 || !switch.exists() {
        tally
            .left_out
            .push("this machine has no CPU that can go offline".to_owned());
        return Ok(tally);
    }
    for number in 0..ground.tries(1, 5) {
        let place = ground.place()?;
        let (running, _) = measuring(&place, "run")?;
        std::fs::write(&switch, "0")
            .while_doing(|| format!("writing 0 to {}", switch.display()))?;
        std::thread::sleep(Duration::from_millis(500));
        std::fs::write(&switch, "1")
            .while_doing(|| format!("writing 1 to {}", switch.display()))?;
        warned(
            &mut tally,
            &place,
            running,
            &format!("offline (try {number})"),
            &["displaced", "scheduling-changed"],
            Some(4),
        )?;
    }
    Ok(tally)
}

fn two_runs(ground: &Ground) -> Result<Tally> {
    let mut tally = Tally::default();
    for number in 0..ground.tries(1, 5) {
        let place = ground.place()?;
        let (first, _) = measuring(&place, "first")?;
        let line = format!(
            "run --for 500ms --load none --cpus {} --quiet --out run",
            folders::last_cpu()
        );
        let outcome = place.tardy(&line)?;
        let mut wrong: Vec<String> = outcome.disgrace().into_iter().collect();
        let folder = folders::look(&place, "run")?;
        wrong.extend(folder.wrong());
        let is_said =
            folder.warnings().contains("another-run") && matches!(folder, Folder::Opens { .. });
        if !is_said || !folder.warnings().contains(&first.pid().to_string()) {
            wrong.push(format!("the other run is not named: {}", folder.warnings()));
        }
        first.end(&place, PATIENCE)?;
        wrong.extend(place.leftovers()?);
        tally.count(&format!("two runs (try {number})"), outcome.ending(), wrong);
    }
    Ok(tally)
}
