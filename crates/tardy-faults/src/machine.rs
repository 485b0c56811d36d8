//! Disturbances by other programs. These programs throttle a run, or measure at the same time.
//!
//! The tests `integration/moved.rs` and `alone/moved.rs` of tardy cover threads that are moved,
//! demoted, or lose their CPU.

use std::path::{Path, PathBuf};
use std::time::Duration;

use xtask::failure::{Failure, Result, While};

use crate::fault::{Fault, Ground, Tally};
use crate::folders::{self, Folder};
use crate::place::{CommandProcess, PATIENCE, Place};

pub(crate) const QUOTA: Fault = Fault {
    name: "quota",
    done: "while the run measures, its control group gets a CPU quota of 2 %",
    demanded: "the run reports the change",
    attempt: quota,
};

pub(crate) const TWO_RUNS: Fault = Fault {
    name: "two-runs",
    done: "a run starts on CPUs that another run measures",
    demanded: "a warning of the new run names the process of the other run",
    attempt: two_runs,
};

/// Starts a run, and waits until it measures.
fn begun(place: &Place, line: &str) -> Result<CommandProcess> {
    let running = place.start(place.tardy_command(line))?;
    let name = line.rsplit(' ').next().unwrap_or_default();
    let record = place.path(name).join("run.json");
    if place.wait_until(|| record.exists()) {
        Ok(running)
    } else {
        Err(Failure::new(format!("`tardy {line}` did not begin")))
    }
}

/// A control group of version 1, removed on drop.
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
        // Remaining tasks move to the parent group.
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
        let Some(group) = Group::new("cpu") else {
            let lacking = "control groups of version 1 lack the cpu controller";
            tally.left_out.push(lacking.to_owned());
            return Ok(tally);
        };
        let place = ground.place()?;
        let line = "run --for 3s --load none --policy other --period 100us --quiet --out run";
        let running = begun(&place, line)?;
        group.set("cpu.cfs_period_us", "100000")?;
        group.set("cpu.cfs_quota_us", "2000")?;
        group.set("cgroup.procs", &running.pid().to_string())?;
        let outcome = running.end(&place, PATIENCE)?;
        let mut wrong = folders::wrong(&outcome, &place)?;
        let folder = folders::look(&place, "run")?;
        wrong.extend(folder.wrong());
        let warnings = folder.warnings();
        let kinds = ["cgroup-throttled", "most-periods-skipped", "samples-lost"];
        if !kinds.iter().any(|kind| warnings.contains(kind)) {
            wrong.push(format!(
                "a warning of {} is missing: {warnings}",
                kinds.join(" or ")
            ));
        }
        tally.count(&format!("quota (try {number})"), outcome.ending(), wrong);
    }
    Ok(tally)
}

fn two_runs(ground: &Ground) -> Result<Tally> {
    let mut tally = Tally::default();
    for number in 0..ground.tries(1, 5) {
        let place = ground.place()?;
        let cpu = folders::last_cpu();
        let run = |length: &str, name: &str| {
            format!("run --for {length} --load none --cpus {cpu} --quiet --out {name}")
        };
        let first = begun(&place, &run("3s", "first"))?;
        // The first run must be measuring.
        std::thread::sleep(Duration::from_millis(500));
        let outcome = place.tardy(&run("500ms", "run"))?;
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
