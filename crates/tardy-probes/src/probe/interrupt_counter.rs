//! Counts the interrupts of a CPU with the kernel's tracepoints: device handlers, all other vectors
//! (timer, calls from other CPUs, deferred work), and non-maskable interrupts.

use tardy_machine::root::Root;
use tardy_sys::tracepoint_counter::TracepointCounter;

/// Folders where tracefs may be mounted.
const TRACEFS: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];
/// Folders of tracepoints, each with the suffix of the tracepoints to count. Each interrupt passes
/// exactly one of these tracepoints, once. x86 has `irq_vectors`. Other architectures have `ipi`;
/// their timers are device interrupts.
const TRACEPOINTS: [(&str, &str); 4] = [
    ("irq", "irq_handler_entry"),
    ("irq_vectors", "_entry"),
    ("ipi", "ipi_entry"),
    ("nmi", "nmi_handler"),
];

/// Returns the IDs of the tracepoints.
///
/// # Errors
/// Returns the missing requirement, as a sentence fragment that ends with the remedy.
pub(super) fn tracepoints(root: &Root) -> Result<Vec<u64>, String> {
    for tracefs in TRACEFS {
        let of_folder = |(folder, ending): (&str, &str)| {
            let names = root
                .names(format!("{tracefs}/events/{folder}"))
                .into_iter()
                .filter(move |name| name.ends_with(ending));
            names
                .map(|name| format!("{tracefs}/events/{folder}/{name}/id"))
                .collect::<Vec<String>>()
        };
        let found: Vec<u64> = TRACEPOINTS
            .into_iter()
            .flat_map(of_folder)
            .filter_map(|path| root.number(path))
            .collect();
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Err(
        "the kernel's tracepoints of interrupts cannot be read: run as root, with tracefs mounted \
         on /sys/kernel/tracing"
            .to_owned(),
    )
}

/// Starts counting the interrupts of `cpu`.
///
/// # Errors
/// Fails as [`tracepoints`] does, or if the kernel refuses to count.
pub(super) fn open(root: &Root, cpu: u32) -> Result<TracepointCounter, String> {
    let refused = |error| {
        format!(
            "the kernel cannot count tracepoints for tardy ({error}): run as root, or with \
             CAP_PERFMON"
        )
    };
    TracepointCounter::open(cpu, &tracepoints(root)?).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_interrupt_passes_one_of_the_tracepoints_found() {
        let folder = tempfile::tempdir().unwrap();
        let events = folder.path().join("sys/kernel/tracing/events");
        let names = [
            "irq/irq_handler_entry",
            "irq/irq_handler_exit",
            "irq/softirq_entry",
            "irq_vectors/local_timer_entry",
        ];
        for (id, name) in names.iter().enumerate() {
            std::fs::create_dir_all(events.join(name)).unwrap();
            std::fs::write(events.join(name).join("id"), format!("{}\n", id + 10)).unwrap();
        }
        assert_eq!(tracepoints(&Root::at(folder.path())), Ok(vec![10, 13]));
        let missing = tracepoints(&Root::at(folder.path().join("sys"))).unwrap_err();
        assert!(missing.contains("/sys/kernel/tracing"), "{missing}");
    }
}
