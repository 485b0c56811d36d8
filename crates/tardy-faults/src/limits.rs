//! Runs commands with a limit on descriptors that is too low for them, or with so little memory
//! that the kernel's OOM killer acts.

use std::path::{Path, PathBuf};
use std::process::Command;

use xtask::failure::{Result, While};

use crate::fault::{Fault, Form, Ground, Tally};
use crate::folders::{self, Folder};
use crate::place::{Outcome, PATIENCE, Place};

pub(crate) const DESCRIPTORS: Fault = Fault {
    name: "descriptors",
    done: "commands run with every limit of open files from 3 to 64 (`ulimit -n`)",
    demanded: "the command succeeds, or gives a reason in words; an incomplete run never looks \
               complete",
    attempt: descriptors,
};

pub(crate) const OUT_OF_MEMORY: Fault = Fault {
    name: "oom",
    done: "a run in a control group with so little memory that the kernel kills loads or the tool",
    demanded: "the run's folder opens, and the run reports the killed loads, or that the run was \
               cut off; no process is left",
    attempt: out_of_memory,
};

const LINES: &[&str] = &[
    "run --for 500ms --load none --quiet --out run",
    "run --for 500ms --load fork --load io --quiet --out run",
    "export ../base/run --format csv --output output.svg",
    "report ../base/run --html output.svg",
];

fn limited(place: &Place, limit: usize, line: &str) -> Result<Outcome> {
    let script = format!("ulimit -n {limit} && exec \"$0\" \"$@\"");
    let command: Command = place.tardy_behind("sh", &["-c", &script], line);
    place.start(command)?.end(place, PATIENCE)
}

fn descriptors(ground: &Ground) -> Result<Tally> {
    folders::base(ground)?;
    let mut tally = Tally::default();
    let limits: Vec<usize> = match ground.form {
        Form::Brief => vec![8],
        Form::Short => vec![4, 8, 12, 24],
        Form::Full => (3..=64).collect(),
    };
    for line in LINES {
        for &limit in &limits {
            let place = ground.place()?;
            let outcome = limited(&place, limit, line)?;
            let (mut wrong, folder) = folders::after(&place, outcome.disgrace(), "run")?;
            if outcome.code == Some(0) && line.starts_with("run ") && !folder.is_open() {
                wrong.push("success, and no run".to_owned());
            }
            tally.count(
                &format!("ulimit -n {limit}; tardy {line}"),
                outcome.ending(),
                wrong,
            );
        }
    }
    Ok(tally)
}

/// A memory control group of either version, removed on drop.
struct MemoryGroup {
    folder: PathBuf,
    limit: &'static str,
}

impl MemoryGroup {
    fn new(name: &str) -> Option<Self> {
        let candidates = [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
            ("/sys/fs/cgroup/unified", "memory.max"),
        ];
        candidates.into_iter().find_map(|(root, limit)| {
            let folder = Path::new(root).join(name);
            std::fs::create_dir(&folder).ok()?;
            let group = Self { folder, limit };
            group.folder.join(limit).exists().then_some(group)
        })
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.folder);
    }
}

fn out_of_memory(ground: &Ground) -> Result<Tally> {
    let mut tally = Tally::default();
    for number in 0..ground.tries(1, 10) {
        let Some(group) =
            MemoryGroup::new(&format!("tardy-faults-{}-{number}", std::process::id()))
        else {
            tally
                .left_out
                .push("control groups without the memory controller".to_owned());
            return Ok(tally);
        };
        let megabytes = 24 + 16 * number;
        std::fs::write(
            group.folder.join(group.limit),
            (megabytes << 20).to_string(),
        )
        .while_doing(|| "limiting a control group".to_owned())?;
        let place = ground.place()?;
        let script = format!(
            "echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"",
            group.folder.display()
        );
        let line = "run --for 2s --load memory --load hackbench --quiet --out run";
        let outcome = place
            .start(place.tardy_behind("sh", &["-c", &script], line))?
            .end(&place, PATIENCE)?;
        // The OOM killer may end the tool with a signal, so this is not a violation. Leftovers are
        // violations nevertheless.
        let disgrace = outcome
            .disgrace()
            .filter(|_| outcome.code.is_some() || outcome.hung);
        let (wrong, folder) = folders::after(&place, disgrace, "run")?;
        tally.count(
            &format!("{megabytes} MiB"),
            format!("{}, {}", outcome.ending(), what_is_left(&folder)),
            wrong,
        );
    }
    Ok(tally)
}

fn what_is_left(folder: &Folder) -> &'static str {
    match folder {
        Folder::Opens { .. } if folder.warnings_of("not-under-load").next().is_some() => {
            "reports dead loads"
        }
        Folder::Opens { state, .. } if state == "running" => "cut off, opens",
        Folder::Opens { .. } => "opens",
        _ => "no run",
    }
}
