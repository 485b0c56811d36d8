//! Checks that commands refuse files of the wrong kind, names that lead elsewhere, and texts that
//! would control a terminal, with a message of one line and without damage.

use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::machine;
use crate::support::workplace::{Workplace, finish};

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn run(place: &Workplace) {
    place.tardy("run --cycles 50 --load none --quiet --out run");
}

const WRITERS: [&str; 4] = [
    "export run --format csv -o",
    "report run --html",
    "plot run --kind hist --output",
    "export run --format json -o",
];

/// The command line by which `writer` writes a file with this name. Figures get the ending `.svg`.
fn writing(writer: &str, name: &str) -> String {
    let ending = if writer.starts_with("plot") {
        ".svg"
    } else {
        ""
    };
    format!("{writer} {name}{ending}")
}

#[test]
fn nothing_but_a_file_gives_way_to_an_output() {
    let place = Workplace::new();
    run(&place);
    std::fs::write(place.path("target"), "kept").unwrap();
    for ending in ["", ".svg"] {
        fifo(&place.path(&format!("fifo{ending}")));
        symlink(place.path("target"), place.path(&format!("link{ending}"))).unwrap();
        std::fs::create_dir(place.path(&format!("folder{ending}"))).unwrap();
    }
    for writer in WRITERS {
        for (name, kind) in [
            ("fifo", "a FIFO"),
            ("link", "a symbolic link"),
            ("folder", "a folder"),
        ] {
            let ended = place.tardy(&writing(writer, name)).ends_with(3);
            assert!(
                ended.stderr.contains(kind),
                "{writer} {name}: {}",
                ended.stderr
            );
        }
    }
    assert!(
        std::fs::symlink_metadata(place.path("fifo"))
            .unwrap()
            .file_type()
            .is_fifo()
    );
    assert_eq!(std::fs::read(place.path("target")).unwrap(), b"kept");
    assert!(
        place.names().iter().all(|name| !name.contains(".part")),
        "{:?}",
        place.names()
    );
}

#[test]
fn no_output_takes_the_place_of_what_a_run_consists_of() {
    let place = Workplace::new();
    run(&place);
    std::fs::create_dir(place.path("run/kept")).unwrap();
    std::fs::create_dir(place.path("run/outside")).unwrap();
    let before = std::fs::read(place.path("run/run.json")).unwrap();
    for writer in WRITERS.iter().filter(|writer| !writer.starts_with("plot")) {
        for own in [
            "run/run.json",
            "run/state.jsonl",
            "run/samples/cyclic.cpu0.series",
            "run/outside/sections",
            "run/kept/../run.json",
        ] {
            place.tardy(&format!("{writer} {own}")).ends_with(3);
        }
    }
    place
        .tardy("plot run --kind hist --output run/samples/new.svg")
        .ends_with(3);
    assert_eq!(std::fs::read(place.path("run/run.json")).unwrap(), before);
    place
        .tardy("report run --html run/report.html")
        .ends_with(0);
    place.tardy("show run").ends_with(0);
}

#[test]
fn files_of_fixed_names_give_way_to_files_only() {
    let place = Workplace::new();
    std::fs::write(place.path("target"), "kept").unwrap();
    for (command, names) in [
        (
            "reproduce abeni2002 --report-only --out folder",
            ["reproduce.json", "reproduce.html"],
        ),
        ("man --all folder", ["tardy.1", "tardy-run.1"]),
    ] {
        for name in names {
            for kind in ["a FIFO", "a symbolic link"] {
                let _ = std::fs::remove_dir_all(place.path("folder"));
                std::fs::create_dir(place.path("folder")).unwrap();
                let file = place.path("folder").join(name);
                if kind == "a FIFO" {
                    fifo(&file);
                } else {
                    symlink(place.path("target"), &file).unwrap();
                }
                let ended = place.tardy(command).ends_with(3);
                assert!(
                    ended.stderr.contains(kind) && ended.stderr.contains(name),
                    "{command}: {}",
                    ended.stderr
                );
                assert!(
                    !std::fs::symlink_metadata(&file).unwrap().is_file(),
                    "{command} {kind}"
                );
            }
        }
        std::fs::remove_dir_all(place.path("folder")).unwrap();
        std::fs::create_dir(place.path("folder")).unwrap();
        place.tardy(command).ends_with(0);
        assert!(
            names
                .iter()
                .all(|name| place.path("folder").join(name).is_file()),
            "{command}"
        );
    }
    assert_eq!(std::fs::read(place.path("target")).unwrap(), b"kept");
}

#[test]
fn a_minus_sign_is_standard_output() {
    let place = Workplace::new();
    run(&place);
    // The report contains the time of its creation, so the test checks only its beginning and its
    // end.
    let begin = "<!DOCTYPE html>";
    let page = place.tardy("report run --html -").ends_with(0);
    assert!(
        page.stdout.starts_with(begin) && page.stdout.trim_end().ends_with("</html>"),
        "{:.100}",
        page.stdout
    );
    let history = place.tardy("history run --html -");
    assert!(
        history.stdout.starts_with(begin) && history.stdout.trim_end().ends_with("</html>"),
        "{:.100}",
        history.stdout
    );
    place
        .tardy("plot run --kind hist --output file.svg")
        .ends_with(0);
    let picture = place.tardy("plot run --kind hist --output -").ends_with(0);
    assert_eq!(
        picture.stdout,
        std::fs::read_to_string(place.path("file.svg")).unwrap()
    );
    assert_eq!(place.names(), ["file.svg", "run"]);
}

#[test]
fn what_is_said_to_a_full_disk_is_lost_and_the_command_ends_as_ever() {
    let place = Workplace::new();
    run(&place);
    let full = || {
        std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap()
    };
    for (line, code) in [
        ("show nothing", 2),
        ("export run --format json --output run.json", 0),
        ("run --cycles 50 --load none --out second", 0),
    ] {
        let mut command = place.command(line.split(" "));
        let ended = command
            .stderr(full())
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap()
            .code();
        assert!(
            ended == Some(code) || (code == 0 && ended == Some(4)),
            "{line}: {ended:?}"
        );
    }
    assert!(place.path("second/run.json").exists());
    // A requested output, in contrast to messages, must not be lost silently.
    let shown = place
        .command(["show", "run", "--json"])
        .stdout(full())
        .output()
        .unwrap();
    assert_eq!(
        shown.status.code(),
        Some(3),
        "{}",
        String::from_utf8_lossy(&shown.stderr)
    );
    assert!(
        String::from_utf8_lossy(&shown.stderr).contains("No space left"),
        "{}",
        String::from_utf8_lossy(&shown.stderr)
    );
}

#[test]
fn an_input_that_never_ends_is_refused_at_once() {
    let place = Workplace::new();
    run(&place);
    fifo(&place.path("fifo"));
    for (input, kind) in [
        ("fifo", "a FIFO"),
        ("/dev/zero", "a device"),
        ("run", "a folder"),
    ] {
        for command in [
            "run --dry-run --scenario",
            "scenarios check",
            "import",
            "explain --task a",
        ] {
            // `explain` treats a folder as a run.
            if command.starts_with("explain") && kind == "a folder" {
                continue;
            }
            let ended = place.tardy(&format!("{command} {input}")).ends_with(2);
            assert!(
                ended.stderr.contains(kind),
                "{command} {input}: {}",
                ended.stderr
            );
        }
    }
    for own in ["run.json", "samples/cyclic.cpu0.series"] {
        let path = place.path("run").join(own);
        let content = std::fs::read(&path).unwrap();
        for kind in ["a FIFO", "a device"] {
            std::fs::remove_file(&path).unwrap();
            if kind == "a FIFO" {
                fifo(&path)
            } else {
                symlink("/dev/zero", &path).unwrap()
            }
            for command in [
                "show run",
                "report run --html page.html",
                "export run --format csv",
                "compare run run",
            ] {
                let ended = place.tardy(command).ends_with(2);
                assert!(
                    ended.stderr.contains(kind),
                    "{command} with {kind} as {own}: {}",
                    ended.stderr
                );
            }
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, content).unwrap();
    }
}

#[test]
fn a_record_of_the_lab_that_never_ends_holds_up_nobody() {
    let place = Workplace::new();
    run(&place);
    let without = place.tardy("compare run run");
    fifo(&place.path("run/lab.json"));
    let with = place.tardy("compare run run");
    assert_eq!((with.code(), with.stdout), (without.code(), without.stdout));
}

#[test]
fn a_list_of_accepted_builds_that_never_ends_is_neither_read_nor_written() {
    let place = Workplace::new();
    std::fs::create_dir(place.path("nightly")).unwrap();
    place.tardy(
        "run --cycles 50 --load none --label build=b1 --label board=one --quiet --out nightly/b1",
    );
    let list = place.path("nightly/accepted.json");
    for kind in ["a FIFO", "a device"] {
        if kind == "a FIFO" {
            fifo(&list)
        } else {
            symlink("/dev/zero", &list).unwrap()
        }
        for command in ["history nightly", "history nightly --accept b1"] {
            let ended = place.tardy(command).ends_with(2);
            assert!(ended.stderr.contains(kind), "{command}: {}", ended.stderr);
        }
        assert!(
            !std::fs::symlink_metadata(&list).unwrap().is_file(),
            "{kind} is gone"
        );
        std::fs::remove_file(&list).unwrap();
    }
}

#[test]
fn texts_of_a_run_do_not_act_on_a_terminal() {
    let place = Workplace::new();
    run(&place);
    let path = place.path("run/run.json");
    let mut record: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    record["phases"][0]["name"] = "idle\n\u{1b}[32mPASSED\u{7}\u{9b}2J".into();
    record["machine"]["hostname"] = "board\u{1b}]52;c;AAAA\u{7}".into();
    std::fs::write(&path, record.to_string()).unwrap();
    for command in [
        "show run",
        "show run --json",
        "compare run run",
        "export run --format csv",
        "export run --format openmetrics",
        "export run --format markdown",
    ] {
        let ended = place.tardy(command);
        let text = ended.stdout.clone() + &ended.stderr;
        let acting: String = text
            .chars()
            .filter(|character| character.is_control() && *character != '\n')
            .collect();
        assert!(
            acting.is_empty() && !text.contains("\n\u{fffd}[32mPASSED"),
            "{command}: {acting:?} in {text}"
        );
    }
}

#[test]
fn what_cannot_be_is_said_before_a_run() {
    let place = Workplace::new();
    place.tardy("run --dry-run --period 1ms1ms").ends_with(2);
    let long = place
        .tardy(&format!("run --dry-run --out {}", "a".repeat(300)))
        .ends_with(2);
    assert!(
        long.stderr.contains("too long") && long.stderr.contains("--out"),
        "{}",
        long.stderr
    );
    std::fs::create_dir(place.path("there")).unwrap();
    let there = place.tardy("run --dry-run --out there").ends_with(2);
    assert!(there.stderr.contains("exists already"), "{}", there.stderr);
}

#[test]
fn what_stands_in_the_place_of_cpu_dma_latency_is_not_written_to() {
    let test = "what_stands_in_the_place_of_cpu_dma_latency_is_not_written_to";
    let device = "/dev/cpu_dma_latency";
    if !machine::is_root() || !Path::new(device).exists() {
        return machine::left_out(test, "it needs root and a kernel with this device");
    }
    let place = Workplace::new();
    std::fs::write(place.path("plain"), "kept").unwrap();
    fifo(&place.path("fifo"));
    for name in ["plain", "fifo"] {
        let line = format!(
            "mount --bind {name} {device} && exec {} run --cycles 50 --load none --deadline 1h \
             --out run-{name}",
            env!("CARGO_BIN_EXE_tardy")
        );
        // If the tool opened a FIFO without a reader, it would wait forever.
        let words = ["-sKILL", "60", "unshare", "--mount", "sh", "-c", &line];
        let ran = finish(place.prepared(Command::new("timeout"), words)).ends_with(4);
        let why = format!("{device} is not a device");
        assert!(
            ran.stdout.contains("INCONCLUSIVE") && ran.stdout.contains(&why),
            "{name}: {}",
            ran.stdout
        );
    }
    assert_eq!(std::fs::read(place.path("plain")).unwrap(), b"kept");
}
