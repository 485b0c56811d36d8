//! Commands read and print text from other sources. The tests feed hostile text into each such
//! input and check that nothing in the output can control a terminal.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::workplace::{Outcome, Workplace, finish};

/// Sets the terminal's title, colours a verdict, sends a C1 sequence and reverses the direction of
/// writing. The word `hostile` shows whether the text was printed.
const TEXT: &str = "\u{1b}]2;t\u{7}\u{1b}[31mPASSED\u{1b}[0m hostile\u{202e}\u{9b}2J";

/// Fails if the output contains anything that controls a terminal, or does not quote the text.
fn check(ended: &Outcome, what: &str) {
    let text = ended.stdout.clone() + &ended.stderr;
    let steers = |character: &char| {
        (character.is_control() && !matches!(character, '\n' | '\t'))
            || ('\u{202a}'..='\u{202e}').contains(character)
    };
    let found: Vec<char> = text.chars().filter(steers).collect();
    assert!(found.is_empty(), "{what}: {found:?} in {text}");
    assert!(text.contains("hostile"), "{what} is not quoted: {text}");
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// The hostile text as a TOML string.
fn quoted() -> String {
    let escaped = TEXT.chars().map(|character| match character {
        ' '..='~' => character.to_string(),
        _ => format!("\\u{:04x}", u32::from(character)),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

#[test]
fn names_in_a_scenario_do_not_steer_a_terminal() {
    let place = Workplace::new();
    let of_phase = |name: &str, length: &str, load: &str| {
        format!(
            "name = \"x\"\nabout = \"x\"\n[[probe]]\nname = \"cyclic\"\n[[phase]]\nname = {name}\nlength = {length}\nloads = [{load}]\n"
        )
    };
    let names = [
        of_phase(&quoted(), "\"1s\"", ""),
        of_phase("\"a\"", &quoted(), ""),
        of_phase("\"a\"", "\"1s\"", &quoted()),
        format!("name = \"x\"\n{} = 1\n", quoted()),
    ];
    for text in names {
        write(&place.path("s.toml"), &text);
        check(&place.tardy("run --dry-run --scenario s.toml"), &text);
    }
}

#[test]
fn the_configuration_does_not_steer_a_terminal() {
    let place = Workplace::new();
    for text in [
        format!("{} = 1\n", quoted()),
        format!("cpus = {}\n", quoted()),
        format!("deadline = {}\n", quoted()),
    ] {
        write(&place.path("tardy.toml"), &text);
        let mut command = place.command(["run", "--dry-run"]);
        command.env("TARDY_CONFIG", place.path("tardy.toml"));
        check(&finish(command), &text);
    }
}

#[test]
fn columns_of_an_imported_table_do_not_steer_a_terminal() {
    let place = Workplace::new();
    write(
        &place.path("t.csv"),
        &format!("time,{TEXT},other\n1,12.5,3\n2,13.5,4\n3,11.5,5\n"),
    );
    check(
        &place.tardy("import t.csv --unit us --out a"),
        "the list of columns",
    );
    let chosen = [
        "import", "t.csv", "--unit", "us", "--column", TEXT, "--out", "b",
    ];
    check(&place.tardy_with(&chosen), "the chosen column");
}

#[test]
fn facts_of_a_machine_do_not_steer_a_terminal() {
    let place = Workplace::new();
    for path in [
        "proc/sys/kernel/hostname",
        "proc/sys/kernel/osrelease",
        "sys/devices/system/clocksource/clocksource0/current_clocksource",
    ] {
        write(&place.path("board").join(path), TEXT);
    }
    write(&place.path("board/proc/cmdline"), "quiet");
    write(&place.path("board/sys/devices/system/cpu/online"), "0-1\n");
    for format in ["", "--all", "--html -"] {
        check(
            &place.tardy(&format!("doctor --root board {format}")),
            format,
        );
    }
}

#[test]
fn the_answer_of_a_board_does_not_steer_a_terminal() {
    let place = Workplace::new();
    let script =
        format!("#!/bin/sh\nprintf '%s\\n' '{TEXT}'; printf '%s\\n' '{TEXT}' >&2; exit 1\n");
    write(&place.path("bin/ssh"), &script);
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(place.path("bin/ssh"), executable).unwrap();
    let mut command = place.command(["doctor", "--on", "ssh://board"]);
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", place.path("bin").display()));
    check(&finish(command), "the answer of a board");
}

#[test]
fn the_name_of_a_process_does_not_steer_a_terminal() {
    let place = Workplace::new();
    // The kernel stores only 15 bytes of a process name.
    let script = "printf '\\033[31mhostile' > /proc/$$/comm; echo ready; read line; true";
    let mut process = Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 6];
    std::io::Read::read_exact(process.stdout.as_mut().unwrap(), &mut ready).unwrap();
    let ended = place.tardy(&format!("doctor --pid {}", process.id()));
    drop(process.stdin.take());
    process.wait().unwrap();
    check(&ended, "the name of a process");
}
