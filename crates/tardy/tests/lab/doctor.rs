//! Tests `tardy doctor` in a guest with two CPUs. One test checks that options on the kernel's
//! command line change the states of the corresponding rows. The other test checks that the
//! kernel's detector of hardware latency runs.

use std::collections::BTreeMap;

use tardy_lab::guest_job::Ending;

use crate::several_cpus::boot;
use crate::support::document;
use crate::{REAL_TIME, STOCK, lab_is_there};

const WORDS: &str =
    "isolcpus=managed_irq,domain,1 nohz_full=1 rcu_nocbs=1 threadirqs preempt=full nowatchdog";
/// Rows that are `improvable` without these options and `good` with them.
const TURNED: [&str; 7] = [
    "high-resolution-timers",
    "isolation",
    "full-dynticks",
    "rcu-callbacks",
    "threaded-interrupts",
    "preemption-mode",
    "watchdog",
];

/// Boots a guest with the options `words` and runs `tardy doctor` with the flags `more`. Returns
/// the state and the text of every row for the second CPU.
fn rows(source: &str, words: &str, more: &[&str]) -> BTreeMap<String, (String, String)> {
    let left = boot(
        source,
        words,
        &[
            &["doctor", "--json", "--profile", "polling", "--cpus", "1"],
            more,
        ]
        .concat(),
    );
    assert!(
        matches!(left.report.ending, Ending::Exited(0)),
        "{:?}: {}",
        left.report.ending,
        left.text("stderr.log")
    );
    let report = document::read_as(&left.text("stdout.log"), "doctor");
    let row = |finding: &serde_json::Value| {
        let text = |key: &str| finding[key].as_str().unwrap_or_default().to_owned();
        (
            text("check"),
            (text("state"), text("current") + &text("missing")),
        )
    };
    report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(row)
        .collect()
}

#[test]
fn each_word_of_the_command_line_turns_its_row() {
    if !lab_is_there("rows of doctor", false) {
        return;
    }
    let (without, with) = (
        rows(STOCK, "highres=off preempt=none", &[]),
        rows(STOCK, WORDS, &[]),
    );
    let states =
        |rows: &BTreeMap<String, (String, String)>| TURNED.map(|row| (row, rows[row].0.clone()));
    assert_eq!(
        states(&without),
        TURNED.map(|row| (row, "improvable".to_owned()))
    );
    assert_eq!(states(&with), TURNED.map(|row| (row, "good".to_owned())));
    // The options do not change these rows.
    for row in ["real-time-kernel", "virtual-machine"] {
        assert_eq!(without[row].0, with[row].0, "{row}");
    }
}

#[test]
fn the_kernels_detector_of_hardware_latency_runs_where_it_is_built_in() {
    if !lab_is_there("the detector of hardware latency", false) {
        return;
    }
    let flags = ["--hardware-latency", "2s"];
    // The result depends on the host, so the test only requires that the detector runs.
    let (state, current) = &rows(REAL_TIME, "", &flags)["hardware-latency"];
    assert!(
        ["good", "improvable"].contains(&state.as_str()) && current.contains("in 2.00 s"),
        "{state}: {current}"
    );
    let (state, missing) = &rows(STOCK, "", &flags)["hardware-latency"];
    assert!(
        state == "unknown" && missing.contains("CONFIG_HWLAT_TRACER"),
        "{state}: {missing}"
    );
}
