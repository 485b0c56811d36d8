//! Tests `tardy attach` when it cannot keep up with the kernel's trace: it loses and counts
//! explanations, but loses no wake-up.

use crate::attach::can_trace;
use crate::support;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use support::machine;
use support::workplace::{Workplace, finish};
use tardy_sys::process;

/// Page faults of the program; each is an event of more than 32 bytes, and the buffer of
/// explanations has 4 MiB for each CPU.
const PAGES_OF_CPU: usize = 200_000;

#[test]
fn an_observer_that_is_stopped_during_a_flood_loses_explanations_and_no_wake_up() {
    if !can_trace("an_observer_that_is_stopped_during_a_flood_loses_explanations") {
        return;
    }
    let place = Workplace::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/flood.c");
    let mut cc = place.prepared(
        machine::program("cc", "build-essential"),
        ["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"],
    );
    cc.arg("flood").arg(source);
    finish(cc).ends_with(0);
    let cpus = std::thread::available_parallelism().unwrap().get();
    let pages = (PAGES_OF_CPU * cpus).to_string();
    let mut command = place.prepared(Command::new(place.path("flood")), ["200", "2000", &pages]);
    let mut program = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut attach = place.start(&format!(
        "attach {} --for 300s --json --deadline 1h --out run",
        program.id()
    ));
    attach.until("it records", || {
        place.path("run/samples").is_dir().then_some(())
    });
    let mut output = BufReader::new(program.stdout.take().unwrap());
    attach.signal(process::STOP);
    writeln!(program.stdin.take().unwrap()).unwrap();
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "over\n");
    attach.signal(process::CONTINUE);
    program.wait().unwrap();
    let found = attach.wait().ends_with(0).json();
    let trace = &found["trace"];
    assert!(trace["lost_explanations"].as_u64().unwrap() > 0, "{trace}");
    assert_eq!(
        (&trace["losses"], &trace["lost_events"]),
        (&0.into(), &0.into())
    );
    assert_eq!(found["verdict"]["outcome"], "passed");
    let wakings = &found["wakings"];
    assert_eq!(wakings["lost"], 0, "{wakings}");
    let sleeps = found["timers"].as_array().unwrap().iter();
    let sleeps = sleeps.clone().find(|row| row["timer"] == "sleep").unwrap();
    assert_eq!(sleeps["lost"], 0, "{sleeps}");
    let woke = sleeps["wake_ups"].as_u64().unwrap();
    assert!(
        woke > 200 && woke + 1 >= sleeps["started"].as_u64().unwrap(),
        "{sleeps}"
    );
    let notes = found["notes"].to_string();
    assert!(notes.contains("events that explain cycles, at"), "{notes}");
    // Cycles are cut off at unknown sleeps, instead of being joined across them. If every sleep is
    // known, every wake-up except the first and the last has a cycle.
    let cycles = &found["cycles"];
    let threads = cycles["threads"].as_array().unwrap().iter();
    let whole: u64 = threads.map(|row| row["cycles"].as_u64().unwrap()).sum();
    // If the machine stops the program for longer than a period, the program sets its next timer
    // after the timer's due time. This timer expires before the thread sleeps, so no cycle ends.
    let worst = found["worst"].as_array().unwrap().iter();
    let without_sleep = worst
        .filter(|row| row["parts"]["armed"].as_u64().unwrap_or(0) > 0)
        .count() as u64;
    assert!(
        cycles["cut_off"].as_u64().unwrap() > 0 || whole + 2 + without_sleep >= woke,
        "{found}"
    );
}
