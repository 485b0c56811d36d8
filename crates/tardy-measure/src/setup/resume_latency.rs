//! Sets the maximum C-state exit latency of single CPUs through `pm_qos_resume_latency_us`, for the
//! measured CPUs only.
//!
//! Source: Documentation/ABI/testing/sysfs-devices-power. In this file, 0 means no limit, and `n/a`
//! allows no latency at all.

use std::io;

use tardy_core::cpu::CpuList;
use tardy_machine::root::Root;
use tardy_machine::undo::Undo;
use tardy_run::plan::Change;

/// Returns the changes that set the limit of `cpus` to `limit_us`.
///
/// # Errors
/// Returns an error if a CPU lacks this file, or if the file cannot be read. Kernels without this
/// kind of power management do not have it.
pub fn changes(root: &Root, cpus: &CpuList, limit_us: u32) -> io::Result<Vec<Change>> {
    let new = if limit_us == 0 {
        "n/a".to_owned()
    } else {
        limit_us.to_string()
    };
    let change = |cpu| {
        let file = format!("sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us");
        let old = root.read(&file)?.trim().to_owned();
        Ok(Change::ResumeLatency {
            path: root.path(file),
            old,
            new: new.clone(),
        })
    };
    cpus.iter().map(change).collect()
}

/// Returns how to undo the changes in `changes` that limit the latency of a CPU.
#[must_use]
pub fn undo(changes: &[Change]) -> Vec<Undo> {
    let undo = |change: &Change| match change {
        Change::ResumeLatency { path, old, .. } => Some(Undo::Write {
            path: path.clone(),
            value: old.clone(),
            written: None,
        }),
        _ => None,
    };
    changes.iter().filter_map(undo).collect()
}

/// Makes the changes. Stops at the first change that the kernel refuses.
///
/// # Errors
/// Returns the error of the refused change.
pub fn apply(changes: &[Change]) -> io::Result<()> {
    changes.iter().try_for_each(|change| match change {
        Change::ResumeLatency { path, new, .. } => std::fs::write(path, new),
        _ => Ok(()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_measured_cpu_is_limited_and_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let file = |cpu: u32| {
            folder.path().join(format!(
                "sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us"
            ))
        };
        for (cpu, content) in [(0, "0\n"), (1, "n/a\n"), (2, "33\n")] {
            std::fs::create_dir_all(file(cpu).parent().unwrap()).unwrap();
            std::fs::write(file(cpu), content).unwrap();
        }
        let content = |cpu| std::fs::read_to_string(file(cpu)).unwrap();
        let changes = changes(&root, &"1-2".parse().unwrap(), 0).unwrap();
        apply(&changes).unwrap();
        assert_eq!([0, 1, 2].map(content), ["0\n", "n/a", "n/a"]);
        for undo in undo(&changes) {
            undo.run().unwrap();
        }
        assert_eq!([0, 1, 2].map(content), ["0\n", "n/a", "33"]);
        assert!(super::changes(&root, &"3".parse().unwrap(), 10).is_err());
    }
}
