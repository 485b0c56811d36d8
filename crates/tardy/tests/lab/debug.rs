//! Tests `tardy lab debug`: the guest of a finished run is opened in gdb, stopped at a moment of a
//! late sample.

use std::path::Path;

use super::support::terminal::InTerminal;
use super::support::workplace::Workplace;
use super::{STOCK, lab, lab_is_there, support};

/// Runs `tardy lab debug` and returns its exit code, its result and its messages.
fn debug(run: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = lab(&[&["debug", run.to_str().unwrap()][..], arguments].concat());
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// Finds the line of the output that starts with `head`, and returns the rest of this line.
fn line<'a>(output: &'a str, head: &str) -> &'a str {
    let found = output.lines().find_map(|line| line.strip_prefix(head));
    found
        .unwrap_or_else(|| panic!("no {head}: {output}"))
        .trim()
}

/// Returns the function in a line of gdb's `info symbol`.
fn function(output: &str) -> &str {
    output
        .lines()
        .find_map(|line| line.strip_suffix(" in section .text"))
        .and_then(|line| line.split(' ').next())
        .unwrap_or_else(|| panic!("{output}"))
}

#[test]
fn the_same_moment_comes_again_with_the_same_registers() {
    if !lab_is_there("a late moment in gdb", false) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("runs");
    let arguments = [
        "run",
        "--kernel",
        STOCK,
        "--preempt",
        "none",
        "--load",
        "memory",
        "--for",
        "2s",
        "--watch",
        "--out",
    ];
    let output = lab(&[&arguments[..], &[out.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{output:?}");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_tardy"))
        .args(["explain", "--json"])
        .arg(&out)
        .output()
        .unwrap();
    let explained = support::document::read(&String::from_utf8_lossy(&output.stdout));
    let worst = &explained["worst"][0];
    let executed: Vec<&str> = worst["executed"]["functions"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|row| row["function"].as_str())
        .collect();

    let commands = ["--batch", "info registers", "--batch", "info symbol $pc"];
    let (code, first, said) = debug(&out, &commands);
    assert_eq!(code, Some(0), "{said}");
    let (_, second, _) = debug(&out, &commands);
    assert_eq!(first, second);
    // The holder comes first, then the registers.
    assert!(first.starts_with("Worst 1: cyclic"), "{first}");
    assert!(line(&first, "rip").starts_with("0xffffffff"), "{first}");
    // The code at the due time is part of what the plugin saw between the due time and the clock
    // read.
    let at_due = function(&first);
    assert!(executed.contains(&at_due), "{at_due}: {executed:?}");

    // With `--end`, the debugger stops at the end of the sample, which is the clock read. There,
    // the instruction rdtsc (0f 31) has just been executed, or is among the next instructions.
    let before = [
        "--end",
        "--batch",
        "x/24xb $pc - 2",
        "--batch",
        "print $cs & 3",
    ];
    let (code, end, said) = debug(&out, &before);
    assert_eq!(code, Some(0), "{said}");
    let bytes: Vec<&str> = end
        .split_whitespace()
        .filter(|word| word.len() == 4 && word.starts_with("0x"))
        .collect();
    let has_rdtsc = bytes.windows(2).any(|pair| pair == ["0x0f", "0x31"]);
    assert!(has_rdtsc, "{end}");
    assert_eq!(line(&end, "$1 ="), "3", "{end}");

    let without_gdb = std::process::Command::new(env!("CARGO_BIN_EXE_tardy"))
        .args(["lab", "debug"])
        .arg(&out)
        .env("PATH", folder.path())
        .output()
        .unwrap();
    assert_eq!(without_gdb.status.code(), Some(3), "{without_gdb:?}");
    let said = String::from_utf8_lossy(&without_gdb.stderr);
    assert!(said.contains("install the package gdb"), "{said}");

    for (arguments, reason) in [
        (["--worst", "1000000"], "choose a smaller --worst"),
        (["--sample", "nosuch:0"], "cyclic.cpu0 ("),
        (["--before", "1h"], "choose a shorter --before"),
    ] {
        let (code, _, said) = debug(&out, &arguments);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(reason), "{said}");
    }
}

/// In a terminal, gdb shows its prompt, and Ctrl-C stops the guest but no program of the host.
#[test]
fn a_guest_from_a_snapshot_is_debugged_in_a_terminal_with_ctrl_c() {
    if !lab_is_there("gdb in a terminal", false) {
        return;
    }
    let place = Workplace::new();
    let run = format!(
        "lab run --kernel {STOCK} --preempt none --load memory --for 2s --snapshots --out two"
    );
    place.tardy(&run).ends_with(0);
    // After this sample, the guest runs for more than a second under load.
    let line = "lab debug two --sample cyclic.cpu0:100";
    let mut terminal = InTerminal::start(&place, line, (100, 50));
    let start = terminal.until("(gdb)");
    assert!(
        start.contains("cyclic.cpu0:100: ") && start.contains("The holder of the CPU is unknown"),
        "{start}"
    );
    terminal.type_keys("info symbol $pc\n");
    terminal.until("in section .text");
    terminal.type_keys("continue\n");
    terminal.until("Continuing.");
    terminal.type_keys("\x03");
    terminal.until("received signal SIGINT");
    terminal.type_keys("print $cs & 3\n");
    terminal.until("$1 = ");
    terminal.type_keys("quit\n");
    let (status, text) = terminal.end();
    assert!(status.success(), "{status}: {text}");
}

#[test]
fn only_a_run_of_the_lab_is_booted_again() {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1/cyclic");
    let (code, _, said) = debug(&run, &[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("is not a run of the lab"), "{said}");
}
