//! Tests the leftovers of a killed command: its journal lists them, messages name them, and the
//! next start or `tardy restore` removes them.

use std::path::Path;

use crate::support;

use support::lab_host;
use support::machine;
use support::made_run::MadeRun;
use support::series;
use support::workplace::{Workplace, finish, names};
use tardy_sys::process;

const SCRATCH: &str = "tardy-scratch-";

/// Names in a folder that begin with `prefix`.
fn of_kind(folder: &Path, prefix: &str) -> Vec<String> {
    names(folder)
        .into_iter()
        .filter(|name| name.starts_with(prefix))
        .collect()
}

/// Kills `tardy cost` while it has files, and returns the name of their folder, which is in `tmp`.
fn killed_cost(place: &Workplace) -> String {
    std::fs::create_dir(place.path("tmp")).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tardy"));
    command.env("TMPDIR", place.path("tmp"));
    let mut running =
        place.start_command(command, "cost --metric file-reread --out cost".split(' '));
    running.until("it has files", || {
        of_kind(&place.path("tmp"), SCRATCH).pop()
    });
    running.signal(process::KILL);
    running.wait();
    of_kind(&place.path("tmp"), SCRATCH).pop().unwrap()
}

#[test]
fn files_of_a_cost_that_was_killed_are_removed_by_restore() {
    let place = Workplace::new();
    let left = killed_cost(&place);
    let dry = place.tardy("restore --dry-run").ends_with(0);
    assert!(
        dry.stdout.contains("would restore: remove the folder ") && dry.stdout.contains(&left),
        "{}",
        dry.stdout
    );
    assert_eq!(
        names(&place.path("tmp")),
        [left.as_str()],
        "--dry-run removes nothing"
    );
    let restored = place.tardy("restore").ends_with(0);
    assert!(
        restored.stdout.contains(&format!("{left}: done")),
        "{}",
        restored.stdout
    );
    assert_eq!(names(&place.path("tmp")), [""; 0]);
    assert_eq!(place.journals(), [""; 0]);
}

#[test]
fn a_responder_removes_files_of_a_cost_that_was_killed_before_it_starts() {
    let place = Workplace::new();
    let left = killed_cost(&place);
    let next = place
        .tardy("respond udp:127.0.0.1:45461 --ordinary --for 1ms --out next")
        .ends_with(0);
    let line = format!("{left}: done");
    assert!(next.stderr.contains(&line), "{}", next.stderr);
    assert_eq!(names(&place.path("tmp")), [""; 0]);
    assert_eq!(place.journals(), [""; 0]);
}

#[test]
fn samples_in_the_spool_of_a_run_that_was_killed_are_moved_to_the_run() {
    let place = Workplace::new();
    std::fs::create_dir(place.path("spool")).unwrap();
    let mut running = place.start("run --for 60s --load none --quiet --spool spool --out run");
    let file = running.until("it stored samples", || {
        let folder = place
            .path("spool")
            .join(of_kind(&place.path("spool"), "tardy-spool-").pop()?);
        let files: Vec<_> = names(&folder)
            .into_iter()
            .map(|name| folder.join(name))
            .collect();
        files
            .into_iter()
            .find(|file| std::fs::metadata(file).is_ok_and(|data| data.len() > 400))
    });
    running.signal(process::KILL);
    running.wait();
    let samples = std::fs::read(file).unwrap();
    let before = place.summary("run");
    let restored = place.tardy("restore").ends_with(0);
    assert!(
        restored.stdout.starts_with("move samples from "),
        "{}",
        restored.stdout
    );
    assert_eq!(names(&place.path("spool")), [""; 0]);
    assert!(
        series::files(&place.path("run"))
            .iter()
            .any(|file| std::fs::read(file).unwrap() == samples)
    );
    assert_eq!(
        place.summary("run")["series"],
        before["series"],
        "all samples are kept"
    );
    let until = before["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|warning| warning["warning"] == "cut-off")
        .unwrap();
    assert!(until["stored_until"].as_i64() > Some(0), "{until}");
}

#[test]
fn the_next_start_removes_what_an_import_left_and_says_so() {
    let place = Workplace::new();
    let mut text = String::from("# /dev/cpu_dma_latency set to 0us\n");
    for cycle in 0..2_000_000 {
        text.push_str(&format!("       0:{cycle:8}:{:8}\n", cycle % 97));
    }
    std::fs::write(place.path("verbose.txt"), text).unwrap();
    let mut running = place.start("import verbose.txt --unit us --period 1ms --out run");
    running.until("it began", || of_kind(place.folder(), SCRATCH).pop());
    running.signal(process::KILL);
    running.wait();
    let left = of_kind(place.folder(), SCRATCH);
    assert_eq!((left.len(), place.path("run").exists()), (1, false));
    place
        .tardy("run --for 1s --dry-run --load none --out next")
        .ends_with(0);
    assert_eq!(
        of_kind(place.folder(), SCRATCH),
        left,
        "--dry-run changes nothing"
    );
    let next = place
        .tardy("run --cycles 20 --load none --out next")
        .ends_with(0);
    assert!(
        next.stderr
            .contains("tardy: cleaning up after a killed command: remove the folder "),
        "{}",
        next.stderr
    );
    assert_eq!(place.names(), ["next", "verbose.txt"]);
}

#[test]
fn folders_of_a_lab_that_was_killed_are_removed_by_restore_and_by_the_next_start() {
    let place = Workplace::new();
    lab_host::prepare(&place);
    // The tool's own binary stands in for busybox, because the guest's shell must be a static
    // program, and the tool is one.
    let line = format!(
        "lab shell --kernel kernel --busybox {}",
        env!("CARGO_BIN_EXE_tardy")
    );
    let kept = place.path("cache/tardy/shell");
    let killed = || {
        let _ = std::fs::remove_file(place.path("booted"));
        let mut running = place.start_command(lab_host::tardy(&place), line.split(' '));
        running.until("it boots", || place.path("booted").exists().then_some(()));
        running.signal(process::KILL);
        running.wait();
        let left = names(&kept);
        assert_eq!(left.len(), 1, "{left:?}");
        assert!(left[0].starts_with(SCRATCH), "{left:?}");
        left[0].clone()
    };
    let left = killed();
    std::fs::create_dir(kept.join("tardy-scratch-of-somebody-else")).unwrap();
    let restored = place.tardy("restore").ends_with(0);
    assert!(
        restored.stdout.contains(&format!("{left}: done")),
        "{}",
        restored.stdout
    );
    assert_eq!(
        names(&kept),
        ["tardy-scratch-of-somebody-else"],
        "a folder without a journal stays"
    );
    std::fs::remove_dir(kept.join("tardy-scratch-of-somebody-else")).unwrap();
    let left = killed();
    let next = finish(place.prepared(
        lab_host::tardy(&place),
        ["lab", "run", "--kernel", "nosuch", "--out", "runs"],
    ))
    .ends_with(2);
    assert!(
        next.stderr
            .contains("tardy: cleaning up after a killed command: remove the folder ")
            && next.stderr.contains(&left),
        "{}",
        next.stderr
    );
    assert_eq!(names(&kept), [""; 0]);
    assert_eq!(place.journals(), [""; 0]);
}

#[test]
fn an_export_that_is_killed_leaves_nothing_beside_its_output() {
    let place = Workplace::new();
    MadeRun::new(vec![
        (0..50_000).map(|sample| 5_000 + sample % 977).collect(),
    ])
    .write(&place.path("run"));
    let whole = place
        .tardy("export run --format csv -o whole.csv")
        .ends_with(0);
    assert!(whole.stderr.is_empty(), "{}", whole.stderr);
    let whole = std::fs::read(place.path("whole.csv")).unwrap();
    if tardy_sys::unnamed_file::create(place.folder()).is_err() {
        return support::machine::left_out(
            "an_export_that_is_killed_leaves_nothing_beside_its_output",
            "O_TMPFILE on this file system",
        );
    }
    for moment in 0..20 {
        let running = place.start("export run --format csv -o out.csv");
        std::thread::sleep(std::time::Duration::from_millis(2 * moment));
        running.signal(process::KILL);
        running.wait();
        let out = std::fs::read(place.path("out.csv")).ok();
        assert!(
            out.as_ref().is_none_or(|out| *out == whole),
            "half a file at {moment}"
        );
        let expected: &[&str] = if out.is_some() {
            &["out.csv", "run", "whole.csv"]
        } else {
            &["run", "whole.csv"]
        };
        assert_eq!(place.names(), expected, "{moment}");
        let _ = std::fs::remove_file(place.path("out.csv"));
    }
}

#[test]
fn a_journal_that_cannot_be_synced_is_not_left() {
    for fsync in 1..=2 {
        let place = Workplace::new();
        let line = format!(
            "-f -qq -o /dev/null -e trace=fsync -e inject=fsync:error=EIO:when={fsync} {} cost \
             --metric open-close --rounds 1 --trials 1 --out cost",
            env!("CARGO_BIN_EXE_tardy")
        );
        finish(place.prepared(machine::program("strace", "strace"), line.split(' ')));
        assert_eq!(place.journals(), [""; 0], "fsync number {fsync}");
    }
}

/// Control groups whose name contains this text.
fn groups_of(folder: &Path, text: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let name = entry.file_name().to_string_lossy().into_owned();
            found.extend(name.contains(text).then_some(name));
            groups_of(&entry.path(), text, found);
        }
    }
}

#[test]
fn a_group_that_cannot_be_removed_at_once_is_not_left() {
    if !machine::is_root() {
        return machine::left_out(
            "a_group_that_cannot_be_removed_at_once_is_not_left",
            "it needs root",
        );
    }
    for load in ["cgroup", "reclaim"] {
        let place = Workplace::new();
        // With -D, strace traces from a separate process, so the tool has the ID of the process
        // that is started here.
        let line = format!(
            "-D -f -qq -o /dev/null -e trace=rmdir -e inject=rmdir:error=EBUSY:when=1 {} load \
             {load} --for 100ms",
            env!("CARGO_BIN_EXE_tardy")
        );
        let running = place.start_command(machine::program("strace", "strace"), line.split(' '));
        let of_process = format!("-{}-", running.pid());
        running.wait();
        place.assert_no_process_is_left();
        let mut left = Vec::new();
        groups_of(Path::new("/sys/fs/cgroup"), &of_process, &mut left);
        assert_eq!((left, place.journals()), (vec![], vec![]), "{load}");
    }
}

#[test]
fn restore_ends_with_0_only_if_it_read_the_journal() {
    for number in 1..=4 {
        let place = Workplace::new();
        std::fs::create_dir_all(place.path("state")).unwrap();
        std::fs::create_dir(place.path("tardy-scratch-x")).unwrap();
        let journal = place.path("state/journal-2-0.json");
        let text = format!(
            r#"{{"boot_id":null,"process":4194304,"process_start":1,"loads":[{{"remove-folder":"{}"}}]}}"#,
            place.path("tardy-scratch-x").display()
        );
        std::fs::write(&journal, text).unwrap();
        let line = format!(
            "-qq -o /dev/null -P {} -e trace=openat -e inject=openat:error=EMFILE:when={number} \
             {} restore",
            journal.display(),
            env!("CARGO_BIN_EXE_tardy")
        );
        let outcome = finish(place.prepared(machine::program("strace", "strace"), line.split(' ')));
        let is_back = !place.path("tardy-scratch-x").exists();
        let is_named = outcome.stdout.contains("journal-2-0.json: NOT ");
        assert_eq!(
            (outcome.code() == 0, is_named),
            (is_back, !is_back),
            "open number {number}: {outcome:?}"
        );
    }
}

#[test]
fn a_command_on_a_board_that_nobody_could_stop_is_ended() {
    let place = Workplace::new();
    std::fs::create_dir(place.path("job")).unwrap();
    let line = format!(
        "-qq -o /dev/null -e trace=fsync -e inject=fsync:error=EIO:when=1 {} on-board supervise . \
         -- run --for 10m --load none --quiet --out out",
        env!("CARGO_BIN_EXE_tardy")
    );
    let outcome = finish(place.prepared(machine::program("strace", "strace"), line.split(' ')));
    assert_ne!(outcome.code(), 0, "{outcome:?}");
    place.assert_no_process_is_left();
}

#[test]
fn a_bad_journal_is_named_and_keeps_no_other_from_being_put_back() {
    let place = Workplace::new();
    std::fs::create_dir_all(place.path("state")).unwrap();
    std::fs::create_dir(place.path("tardy-scratch-x")).unwrap();
    std::fs::create_dir(place.path("precious")).unwrap();
    let journal =
        |name: &str, text: &str| std::fs::write(place.path("state").join(name), text).unwrap();
    let undo = |folder: &str| {
        let folder = place.path(folder).display().to_string();
        format!(
            r#"{{"boot_id":null,"process":4194304,"process_start":1,"loads":[{{"remove-folder":"{folder}"}}]}}"#
        )
    };
    journal("journal-1-0.json", "");
    journal("journal-2-0.json", &undo("tardy-scratch-x"));
    journal("journal-3-0.json", &undo("precious"));
    std::fs::write(place.path("state/notes.txt"), "mine").unwrap();
    let restored = finish(place.command(["restore"])).ends_with(3);
    assert!(
        restored.stdout.contains("journal-1-0.json: NOT read: "),
        "{}",
        restored.stdout
    );
    assert!(
        restored.stdout.contains("tardy-scratch-x: done"),
        "{}",
        restored.stdout
    );
    assert!(
        restored.stdout.contains("precious: NOT restored: "),
        "{}",
        restored.stdout
    );
    assert_eq!(place.names(), ["precious", "state"]);
    assert_eq!(
        place.journals(),
        ["journal-1-0.json", "journal-3-0.json", "notes.txt"]
    );
}

#[test]
fn a_forged_journal_writes_to_no_file_but_settings_of_the_kernel() {
    let place = Workplace::new();
    let path = |name: &str| place.path(name).display().to_string();
    std::fs::write(place.path("precious"), "kept").unwrap();
    std::fs::write(place.path("cpus"), "3").unwrap();
    std::os::unix::fs::symlink("/proc/sys/vm/swappiness", place.path("link")).unwrap();
    let fifo = finish(place.prepared(std::process::Command::new("mkfifo"), ["fifo"]));
    assert!(fifo.status.success());
    // A setting that belongs to other programs. The journal contains its present value, so the test
    // changes nothing in any case.
    let setting = "/proc/sys/vm/swappiness";
    let swappiness = std::fs::read_to_string(setting).unwrap();
    let write =
        |path: &str, value: &str| serde_json::json!({"write": {"path": path, "value": value}});
    let loads = [
        write(&path("precious"), "pwned"),
        write(&path("missing"), "pwned"),
        write(&path("link"), "pwned"),
        write(&path("fifo"), "pwned"),
        write(setting, &swappiness),
    ];
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let journal = serde_json::json!({
        "boot_id": boot.trim(),
        // The number is larger than any process ID.
        "process": 2_000_000_000,
        "interrupts": [{"irq": 5, "path": path("cpus"), "old": "0", "new": "3"}],
        "loads": loads,
    });
    std::fs::create_dir(place.path("state")).unwrap();
    let file = place.path("state").join("journal-2000000000-1.json");
    std::fs::write(&file, journal.to_string()).unwrap();
    let restored = place.tardy("restore").ends_with(3);
    for (name, why) in [
        ("precious", "is not a setting of the kernel"),
        ("cpus", "is not a setting of the kernel"),
        ("link", "it is a symbolic link, not a file"),
        ("fifo", "it is a FIFO, not a file"),
    ] {
        let path = path(name);
        assert!(
            restored.stdout.lines().any(|line| line.contains(&path)
                && line.contains("NOT restored")
                && line.contains(why)),
            "{name}: {}",
            restored.stdout
        );
    }
    assert!(
        restored.stdout.contains(&format!("{setting}: done")),
        "{}",
        restored.stdout
    );
    assert_eq!(std::fs::read(place.path("precious")).unwrap(), b"kept");
    assert_eq!(std::fs::read(place.path("cpus")).unwrap(), b"3");
    assert!(!place.path("missing").exists());
}
