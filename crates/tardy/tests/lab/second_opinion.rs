//! Compares two measurements of the same wake-ups, which one tracefs instance records: by the
//! kernel's tracer timerlat, and from trace events that stock kernels have.

use serde_json::Value;

use super::{REAL_TIME, compared, lab_is_there};

#[test]
fn timerlat_and_events_agree_on_the_same_wake_ups() {
    if !lab_is_there("timerlat's second opinion", false) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("lab");
    // At 1 ns per instruction, recording an event adds little time between the event's time stamp
    // and timerlat's clock read.
    let arguments = [
        "--kernel",
        REAL_TIME,
        "--for",
        "1300ms",
        "--load",
        "none",
        "--instruction-time",
        "1ns",
        "--",
        "--explain=timerlat",
    ];
    let variants = compared(&out, &arguments);
    let run = out
        .join(variants.keys().next().unwrap())
        .join("replica-000");
    let record: Value =
        serde_json::from_slice(&std::fs::read(run.join("run.json")).unwrap()).unwrap();
    let tracing = &record["tracing"];
    assert_eq!(
        (&tracing["level"], &tracing["no_second_opinion"]),
        (&3.into(), &Value::Null),
        "{}",
        record["warnings"]
    );
    let opinion = &tracing["second_opinion"];
    println!("second opinion: {opinion}");
    assert!(opinion["wake_ups"].as_u64() > Some(500), "{opinion}");
    for figure in ["interrupt", "thread"] {
        let agreement = &opinion[figure];
        assert!(agreement["compared"].as_u64() > Some(500), "{opinion}");
        assert_eq!(agreement["agreeing"], agreement["compared"], "{opinion}");
    }
}
