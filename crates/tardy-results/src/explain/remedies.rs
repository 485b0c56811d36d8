//! Remedies for interrupts that other CPUs send. The function that an interrupt runs determines the
//! remedy. The names of functions are those of Linux 7.3. If a kernel uses another name for a
//! function, no remedy is found.

use tardy_trace::explain::Cause;

use super::{HolderFacts, HolderRow};

/// A remedy, and the kernel functions whose execution it prevents.
struct Remedy {
    functions: &'static [&'static str],
    remedy: &'static str,
}

/// The comment above each remedy names the kernel's source files that make other CPUs run the
/// functions.
const REMEDIES: [Remedy; 7] = [
    // arch/x86/mm/tlb.c.
    Remedy {
        functions: &["flush_tlb_func"],
        remedy: "memory was unmapped or protected, by another thread of the interrupted process or \
                 by the kernel (for example, to unload a module or a BPF program): do neither \
                 while the loop runs",
    },
    // arch/x86/mm/tlb.c, arch/x86/mm/pat/set_memory.c.
    Remedy {
        functions: &[
            "do_flush_tlb_all",
            "do_kernel_range_flush",
            "__cpa_flush_all",
            "__cpa_flush_tlb",
        ],
        remedy: "the kernel unmapped or protected kernel memory: load modules and BPF programs \
                 before the loop, and unload none while it runs",
    },
    // arch/x86/kernel/alternative.c; kernel/trace/ftrace.c.
    Remedy {
        functions: &["do_sync_core", "ftrace_sync_ipi"],
        remedy: "the kernel changed its own code: start tracing, probes and BPF programs before \
                 the loop, and start or stop none while it runs",
    },
    // kernel/sched/membarrier.c.
    Remedy {
        functions: &["ipi_mb", "ipi_sync_core", "ipi_rseq", "ipi_sync_rq_state"],
        remedy: "a program used the system call membarrier(2): do not run such programs while the \
                 loop runs; the private commands of membarrier interrupt only CPUs that run the \
                 same process",
    },
    // kernel/rcu/tree_exp.h; Documentation/admin-guide/kernel-parameters.txt.
    Remedy {
        functions: &["rcu_exp_handler"],
        remedy: "the kernel ran an expedited RCU grace period: boot with rcupdate.rcu_normal=1, or \
                 write 1 to /sys/kernel/rcu_normal",
    },
    // kernel/events/core.c.
    Remedy {
        functions: &[
            "remote_function",
            "__perf_event_read",
            "__perf_event_exit_context",
        ],
        remedy: "a program used performance counters of this CPU: stop it, or leave this CPU out \
                 (perf -C)",
    },
    // arch/x86/lib/msr-smp.c.
    Remedy {
        functions: &[
            "__rdmsr_on_cpu",
            "__wrmsr_on_cpu",
            "__rdmsr_safe_on_cpu",
            "__wrmsr_safe_on_cpu",
        ],
        remedy: "a program read or wrote model-specific registers (MSRs) of this CPU (turbostat, \
                 for example): stop it, or leave this CPU out",
    },
];

/// Returns the functions in `rows` that have a known remedy, with the remedy. Each remedy occurs
/// once.
#[must_use]
pub fn remedies(rows: &[HolderRow]) -> Vec<(&str, &'static str)> {
    let mut found: Vec<(&str, &'static str)> = Vec::new();
    for (function, remedy) in rows.iter().filter_map(|row| remedy(&row.holder)) {
        if found.iter().all(|&(_, known)| known != remedy) {
            found.push((function, remedy));
        }
    }
    found
}

fn remedy(holder: &HolderFacts) -> Option<(&str, &'static str)> {
    let function = holder
        .work
        .as_deref()
        .filter(|_| holder.cause == Cause::Interrupt)?;
    // Compilers add endings to function names, as in flush_tlb_func.isra.0.
    let name = function.split('.').next()?;
    REMEDIES
        .iter()
        .find(|remedy| remedy.functions.contains(&name))
        .map(|remedy| (function, remedy.remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cause: Cause, function: Option<&str>) -> HolderRow {
        HolderRow {
            holder: HolderFacts {
                cause,
                name: "call_function".to_owned(),
                priority: None,
                work: function.map(str::to_owned),
                sender: Some("motor".to_owned()),
                known: "seen",
                or: None,
            },
            wake_ups: 1,
            sum_ns: 1,
            share: 1.0,
            max_ns: 1,
        }
    }

    #[test]
    fn each_known_function_of_an_interrupt_has_one_remedy() {
        let rows = [
            row(Cause::Interrupt, Some("flush_tlb_func.isra.0")),
            row(Cause::Interrupt, Some("ipi_mb")),
            row(Cause::Interrupt, Some("ipi_rseq")),
            row(Cause::Interrupt, Some("sched_ttwu_pending")),
            row(Cause::Interrupt, None),
            row(Cause::HigherPriority, Some("rcu_exp_handler")),
        ];
        let found: Vec<_> = remedies(&rows).into_iter().map(|(name, _)| name).collect();
        assert_eq!(found, ["flush_tlb_func.isra.0", "ipi_mb"]);
        for remedy in &REMEDIES {
            for function in remedy.functions {
                let rows = [row(Cause::Interrupt, Some(function))];
                assert_eq!(
                    remedies(&rows),
                    [(*function, remedy.remedy)],
                    "one row each"
                );
            }
        }
    }
}
