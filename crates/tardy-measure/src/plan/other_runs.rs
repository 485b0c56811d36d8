//! Finds runs of other processes that measure the same CPUs.

use std::collections::BTreeMap;

use tardy_core::cpu::CpuList;
use tardy_core::warning::Warning;
use tardy_machine::root::Root;
use tardy_machine::tasks::{self, Task};

/// Name of the recorder's thread, by which a tardy process finds the runs of others.
pub(crate) const RECORDER: &str = "tardy-recorder";

/// Returns a warning for each other process whose threads show that it measures one of the CPUs
/// `measured`. Processes in other PID namespaces are not found.
pub(super) fn warnings(measured: &CpuList, root: &Root) -> Vec<Warning> {
    let own = std::process::id();
    let mut processes: BTreeMap<u32, Vec<Task>> = BTreeMap::new();
    for task in tasks::read(root)
        .into_iter()
        .filter(|task| task.process != own && !task.is_of_kernel)
    {
        processes.entry(task.process).or_default().push(task);
    }
    let shared = |threads: &[Task]| -> CpuList {
        let is_bound = |task: &&Task| {
            !task.name.starts_with("tardy")
                && task
                    .allowed
                    .as_ref()
                    .is_some_and(|allowed| allowed.len() == 1)
        };
        let cpus = threads
            .iter()
            .filter(is_bound)
            .filter_map(|task| task.allowed.as_ref()?.iter().next());
        cpus.filter(|&cpu| measured.contains(cpu)).collect()
    };
    let is_run = |threads: &[Task]| threads.iter().any(|task| task.name == RECORDER);
    let runs = processes
        .into_iter()
        .filter(|(_, threads)| is_run(threads))
        .map(|(process, threads)| (process, shared(&threads)));
    runs.filter(|(_, cpus)| !cpus.is_empty())
        .map(|(process, cpus)| Warning::AnotherRun { process, cpus })
        .collect()
}
