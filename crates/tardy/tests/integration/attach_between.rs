//! Tests `tardy attach --from --to` with a program that measures the same time itself.

use crate::attach::can_trace;
use crate::support;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use support::machine;
use support::workplace::{RunningCommand, Workplace, finish};
use tardy_machine::root::Root;
use tardy_machine::tracefs::Tracefs;

const ROUNDS: usize = 100;
/// The sleep between the two functions, in ns.
const SLEEP: i64 = 2_000_000;

/// Starts tests/data/functions.c, which waits for a line of input.
fn program(place: &Workplace) -> Child {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/functions.c");
    let mut cc = place.prepared(
        machine::program("cc", "build-essential"),
        ["-O2", "-Wall", "-Wextra", "-Werror"],
    );
    cc.arg("-o").arg("functions").arg(source);
    finish(cc).ends_with(0);
    let words = [ROUNDS.to_string(), (SLEEP / 1000).to_string()];
    let mut command = place.prepared(Command::new(place.path("functions")), words);
    command.stdin(Stdio::piped()).spawn().unwrap()
}

fn start(place: &Workplace, program: &Child) -> RunningCommand {
    let mut attach = place.start(&format!(
        "attach {} --from rx_frame --to tx_frame --deadline 1ms --for 60s --json --out run",
        program.id()
    ));
    attach.until("it records", || {
        place.path("run/samples").is_dir().then_some(())
    });
    attach
}

/// The uprobe events that exist on the machine, as text.
fn uprobes() -> String {
    let tracefs = Tracefs::open(&Root::system()).unwrap();
    fs::read_to_string(tracefs.path().join("uprobe_events")).unwrap()
}

#[test]
fn the_time_between_two_functions_is_that_of_the_program_and_adds_up() {
    if !can_trace("the_time_between_two_functions_is_that_of_the_program_and_adds_up") {
        return;
    }
    let place = Workplace::new();
    let mut program = program(&place);
    let attach = start(&place, &program);
    let own = format!("tardy_{}_", attach.pid());
    assert!(uprobes().contains(&own));
    let mut input = program.stdin.take().unwrap();
    writeln!(input).unwrap();
    let output = BufReader::new(program.stdout.take().unwrap());
    let by_program: Vec<i64> = output
        .lines()
        .take(ROUNDS)
        .map(|line| line.unwrap().parse().unwrap())
        .collect();
    drop(input);
    program.wait().unwrap();

    let found = attach.wait().ends_with(1).json();
    assert_eq!(
        found["functions"],
        serde_json::json!(["rx_frame", "tx_frame"])
    );
    assert_eq!(found["wake_ups"], ROUNDS, "{found}");
    assert_eq!(found["verdict"]["evidence"]["misses"], ROUNDS);
    let marks = &found["cycles"]["marks"];
    assert_eq!(marks["starts"], ROUNDS + ROUNDS / 10);
    assert_eq!(
        (&marks["restarts"], &marks["ends"]),
        (&(ROUNDS / 10).into(), &ROUNDS.into())
    );
    assert_eq!(
        (&marks["ends_without_start"], &found["cycles"]["cut_off"]),
        (&0.into(), &0.into())
    );

    // One of the traced events occurs before the program's first clock read, the other after the
    // second clock read.
    let by_attach = place.tardy("export run --format csv").ends_with(0).stdout;
    let by_attach: Vec<i64> = by_attach
        .lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            cells.get(4)?.parse().ok()
        })
        .collect();
    assert_eq!(by_attach.len(), ROUNDS, "{by_attach:?}");
    for (attach, program) in by_attach.iter().zip(&by_program) {
        assert!(attach >= program && *program >= SLEEP, "{attach} {program}");
    }
    let cycles: serde_json::Value =
        serde_json::from_slice(&fs::read(place.path("run/cycles.json")).unwrap()).unwrap();
    let worst = cycles["worst"].as_array().unwrap();
    assert_eq!(worst.len(), ROUNDS);
    for cycle in worst {
        let part = |name: &str| cycle[name].as_i64().unwrap();
        let parts = ["running_ns", "preempted_ns", "blocked_ns", "wake_up_ns"].map(part);
        assert_eq!(parts.iter().sum::<i64>(), part("response_ns"));
        assert!(parts[2] > SLEEP / 2 && parts[3] == 0, "{cycle}");
    }
    assert!(!uprobes().contains(&own));
}

#[test]
fn events_of_functions_go_with_a_killed_command_and_functions_that_are_not_there_are_refused() {
    if !can_trace(
        "events_of_functions_go_with_a_killed_command_and_functions_that_are_not_there_are_refused",
    ) {
        return;
    }
    let place = Workplace::new();
    let mut program = program(&place);
    let attach = start(&place, &program);
    let group = format!("tardy_{}_", attach.pid());
    assert_eq!(uprobes().matches(&group).count(), 2, "{}", uprobes());
    attach.signal(9);
    attach.wait();
    assert_eq!(uprobes().matches(&group).count(), 2);
    place.tardy("restore").ends_with(0);
    assert_eq!(uprobes().matches(&group).count(), 0, "{}", uprobes());

    let id = program.id();
    let refused = place
        .tardy(&format!("attach {id} --from rx_fram --to tx_frame"))
        .ends_with(2);
    assert!(
        refused.stderr.contains("give one of: rx_frame"),
        "{}",
        refused.stderr
    );
    let stripped = place
        .tardy(&format!(
            "attach {id} --from no_such_function --to tx_frame"
        ))
        .ends_with(2);
    assert!(
        stripped.stderr.contains("has no function"),
        "{}",
        stripped.stderr
    );
    drop(program.stdin.take());
    program.wait().unwrap();
}
