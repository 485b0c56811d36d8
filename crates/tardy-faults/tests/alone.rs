//! Runs the brief form of the faults that every change must survive, with the binary that the tests
//! use.
#![allow(
    clippy::unwrap_used,
    reason = "a test ends where something is not as expected"
)]

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../tardy/tests/support/machine.rs"]
mod machine;

use std::path::Path;
use std::process::Command;

#[test]
fn nothing_is_left_of_a_start_that_fails() {
    survives("starts");
}

#[test]
fn results_of_other_boards_arrive_when_boards_fail() {
    survives("fleet");
}

fn survives(fault: &str) {
    if !machine::is_root() {
        return machine::left_out(fault, "it needs root");
    }
    let faults = env!("CARGO_BIN_EXE_tardy-faults");
    let mut command = Command::new(faults);
    command.args([fault, "--brief"]);
    // The environment may name a binary of the tool, or one may be in the folder of tardy-faults.
    // Otherwise tardy-faults builds the tool.
    let built = Path::new(faults).with_file_name("tardy");
    let tardy = std::env::var_os("TARDY_TEST_RELEASE")
        .map(Into::into)
        .or_else(|| built.exists().then_some(built));
    if let Some(tardy) = tardy {
        command.arg("--tardy").arg(tardy);
    }
    let output = command.output().unwrap();
    let (printed, said) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{printed}{said}");
    assert!(
        printed.starts_with(&format!("| `{fault}` |")) && printed.trim_end().ends_with("| 0 |"),
        "{printed}"
    );
}
