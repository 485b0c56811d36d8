//! Tests `tardy run --explain` while other CPUs interrupt the measured CPU.

use crate::support;

use support::machine;
use support::workplace::Workplace;
use tardy_machine::root::Root;
use tardy_machine::tracefs::Tracefs;
use tardy_samples::delays::DelayReader;
use tardy_trace::explain::Cause;

#[test]
fn an_interrupt_of_another_cpu_names_its_sender_and_its_function() {
    const TEST: &str = "an_interrupt_of_another_cpu_names_its_sender_and_its_function";
    let tracefs = Tracefs::open(&Root::system());
    let has_event =
        tracefs.is_ok_and(|tracefs| tracefs.path().join("events/csd/csd_queue_cpu").exists());
    if !machine::is_root() || machine::last_cpu() == 0 || !has_event {
        return machine::left_out(TEST, "it needs root, two CPUs and csd:csd_queue_cpu");
    }
    let place = Workplace::new();
    place
        .tardy("run --for 1s --load ipi --explain --quiet --out run")
        .ends_with(0);
    // The load calls membarrier(2) and mprotect(2).
    let mut functions = Vec::new();
    for entry in std::fs::read_dir(place.path("run/trace")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "delays") {
            continue;
        }
        let mut reader = DelayReader::open(&path).unwrap();
        while let Some(chunk) = reader.next_chunk().unwrap() {
            let of_load = chunk.holders.into_iter().filter(|holder| {
                let sender = holder.sender.as_deref().unwrap_or_default();
                sender.starts_with("tardy-load-ipi") && holder.cause == Cause::Interrupt
            });
            functions.extend(of_load.filter_map(|holder| holder.work));
        }
    }
    assert!(functions.contains(&"ipi_mb".to_owned()), "{functions:?}");
}
