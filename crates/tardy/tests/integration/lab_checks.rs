//! Tests faults on the host that `tardy lab` finds before it boots a guest. The exit code is 2.
//! If `tardy lab` did not find them first, `git bisect run` would meet them in every guest.

use crate::support;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use support::lab_host;
use support::workplace::{Workplace, finish};

/// Faulty options, each with text that the message must contain.
const WRONG: &[(&str, &str)] = &[
    (
        "--preempt lazyy",
        "`lazyy` is not a preemption model: write none, voluntary, full or lazy",
    ),
    ("--preempt none,ful", "`ful` is not a preemption model"),
    (
        "--program /bin/nothere",
        "the guest has no /bin/nothere: copy it there with --add FILE:/bin/nothere",
    ),
    (
        "--add nosuch:/bin/mine --program /bin/mine",
        "there is no file nosuch",
    ),
    ("--load nosuch", "nosuch"),
    ("--scenario nosuch", "nosuch"),
];

#[test]
fn mistakes_are_found_before_the_first_boot() {
    let place = Workplace::new();
    // A stand-in for QEMU that leaves a file when it is started.
    let qemu = place.path("bin/qemu-system-x86_64");
    fs::create_dir(place.path("bin")).unwrap();
    fs::write(
        &qemu,
        format!(
            "#!/bin/sh\necho booted >> {}\n",
            place.path("booted").display()
        ),
    )
    .unwrap();
    fs::set_permissions(&qemu, fs::Permissions::from_mode(0o755)).unwrap();
    for (words, reason) in WRONG {
        for command in ["lab run --out runs", "lab check --limit 1ms --replicas 1"] {
            let line = format!("{command} --kernel debian:6.1 {words}");
            let path = format!("{}:/usr/bin:/bin", place.path("bin").display());
            let output = place
                .command(line.split_whitespace())
                .env("PATH", path)
                .output()
                .unwrap();
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
            assert!(stderr.contains(reason), "{line}: {stderr}");
        }
    }
    assert!(!place.path("booted").exists() && !place.path("runs").exists());
}

/// Faulty commands of `lab app`, each with text that the message must contain.
const WRONG_APPS: &[(&str, &str)] = &[
    (
        "nosuch --kernel kernel",
        "there is no program `nosuch` in PATH",
    ),
    ("./nosuch --kernel kernel", "nosuch: No such file"),
    ("./text --kernel kernel", "nor a script that starts with #!"),
    ("./other --kernel kernel", "for another architecture"),
    ("true", "name the kernels with --kernel"),
    ("true --kernel kernel --load nosuch", "nosuch"),
    ("true --kernel kernel --file nosuch", "nosuch: No such file"),
    (
        "true --kernel kernel --memory 64",
        "too much for a guest with 64 MiB of memory",
    ),
];

#[test]
fn a_program_that_cannot_be_packed_is_refused_before_the_first_boot() {
    let place = Workplace::new();
    lab_host::prepare(&place);
    fs::write(place.path("text"), "no program").unwrap();
    let mut elf = fs::read("/bin/true").unwrap();
    elf[18] = 243;
    fs::write(place.path("other"), elf).unwrap();
    for (words, reason) in WRONG_APPS {
        let line = format!("lab app --deadline 1ms --out app {words}");
        let mut command = lab_host::tardy(&place);
        let output = command
            .args(line.split_whitespace())
            .current_dir(place.path("."))
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert!(stderr.contains(reason), "{line}: {stderr}");
    }
    assert!(!place.path("booted").exists() && !place.path("app").exists());
}

#[test]
fn a_missing_library_is_named_before_the_first_boot() {
    let place = Workplace::new();
    lab_host::prepare(&place);
    fs::write(place.path("gone.c"), "int gone(void) { return 0; }").unwrap();
    let needy = "int gone(void); int main(void) { return gone(); }";
    fs::write(place.path("needy.c"), needy).unwrap();
    for line in [
        "-shared -fPIC gone.c -o libgone.so",
        "needy.c -o needy -L. -lgone",
    ] {
        let mut command = std::process::Command::new("cc");
        let status = command
            .args(line.split_whitespace())
            .current_dir(place.path("."))
            .status();
        assert!(status.unwrap().success(), "{line}");
    }
    let words = "lab app ./needy --deadline 1ms --kernel kernel --out app";
    let output = lab_host::tardy(&place)
        .args(words.split_whitespace())
        .current_dir(place.path("."))
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("does not find the libraries of") && stderr.contains("libgone.so"),
        "{stderr}"
    );
    assert!(!place.path("booted").exists());
}

#[test]
fn an_input_that_never_ends_is_refused_before_the_first_boot() {
    let place = Workplace::new();
    lab_host::prepare(&place);
    for ending in ["", ".deb", ".ko"] {
        let fifo = place.path(&format!("fifo{ending}"));
        assert!(
            std::process::Command::new("mkfifo")
                .arg(fifo)
                .status()
                .unwrap()
                .success()
        );
        std::os::unix::fs::symlink("/dev/zero", place.path(&format!("zero{ending}"))).unwrap();
    }
    for (name, kind) in [("fifo", "a FIFO"), ("zero", "a device")] {
        for (words, code) in [
            (format!("run --out runs --kernel {name}"), 2),
            (format!("run --out runs --kernel {name}.deb"), 2),
            (
                format!("run --out runs --kernel kernel --module {name}.ko"),
                2,
            ),
            (
                format!("run --out runs --kernel kernel --guest-binary {name}"),
                3,
            ),
            (format!("shell --kernel kernel --busybox {name}"), 3),
        ] {
            let line = format!("lab {words}");
            let ended =
                finish(place.prepared(lab_host::tardy(&place), line.split(' '))).ends_with(code);
            assert!(
                ended
                    .stderr
                    .contains(&format!("this is {kind}, not a file")),
                "{line}: {}",
                ended.stderr
            );
            assert_eq!(ended.stderr.lines().count(), 1, "{line}: {}", ended.stderr);
        }
    }
    assert!(!place.path("booted").exists() && !place.path("runs").exists());
}
