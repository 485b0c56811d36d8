//! Tests runs that a service manager starts: the messages that the manager gets, and the units.

use crate::support;

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::time::Duration;

use support::machine;
use support::workplace::Workplace;
use tardy_sys::{process, signal};

/// A test fails if its manager gets no message for this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the next message of the run.
#[track_caller]
fn next(manager: &UnixDatagram) -> String {
    let mut bytes = [0; 4096];
    let length = manager.recv(&mut bytes).expect("the run says something");
    String::from_utf8(bytes[..length].to_vec()).unwrap()
}

/// Returns all messages that have arrived.
fn heard(manager: &UnixDatagram) -> Vec<String> {
    manager.set_nonblocking(true).unwrap();
    let mut bytes = [0; 4096];
    let mut all = Vec::new();
    loop {
        match manager.recv(&mut bytes) {
            Ok(length) => all.push(String::from_utf8(bytes[..length].to_vec()).unwrap()),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                manager.set_nonblocking(false).unwrap();
                return all;
            }
        }
    }
}

#[test]
fn a_service_manager_hears_that_the_run_measures_goes_on_and_ends() {
    let place = Workplace::new();
    let manager = UnixDatagram::bind(place.path("notify")).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let line = format!(
        "run --quiet --until-stopped --cpus {} --out week",
        machine::last_cpu()
    );
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tardy"));
    command
        .env("NOTIFY_SOCKET", place.path("notify"))
        .env("WATCHDOG_USEC", "400000")
        .env_remove("WATCHDOG_PID");
    let running = place.start_command(command, line.split(' '));
    assert_eq!(next(&manager), "READY=1\nSTATUS=Measuring into week");
    (0..3).for_each(|_| assert_eq!(next(&manager), "WATCHDOG=1"));
    running.signal(process::STOP);
    // The signal takes a moment to arrive. A stopped process sends nothing, however long it is
    // stopped.
    std::thread::sleep(Duration::from_millis(500));
    heard(&manager);
    std::thread::sleep(Duration::from_millis(1000));
    assert_eq!(heard(&manager), [""; 0]);
    running.signal(process::CONTINUE);
    (0..3).for_each(|_| assert_eq!(next(&manager), "WATCHDOG=1"));
    running.signal(signal::TERMINATE);
    let outcome = running.wait();
    assert!([0, 4].contains(&outcome.code()), "{outcome:?}");
    let rest = heard(&manager);
    assert!(
        rest.last().is_some_and(|last| last == "STOPPING=1"),
        "{rest:?}"
    );
    assert!(
        rest[..rest.len() - 1]
            .iter()
            .all(|word| word == "WATCHDOG=1"),
        "{rest:?}"
    );
    assert_eq!(place.summary("week")["state"], "finished");
}

#[test]
fn a_manager_that_does_not_watch_or_means_another_process_hears_no_signs_of_life() {
    let place = Workplace::new();
    // An abstract socket, as in a container.
    let name = format!(
        "tardy-test-{}-{}",
        std::process::id(),
        place.folder().display()
    );
    let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let line = format!(
        "run --quiet --for 1s --load none --cpus {} --out run",
        machine::last_cpu()
    );
    for (number, variables) in [
        vec![],
        vec![("WATCHDOG_USEC", "100000"), ("WATCHDOG_PID", "1")],
    ]
    .into_iter()
    .enumerate()
    {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tardy"));
        command
            .env("NOTIFY_SOCKET", format!("@{name}"))
            .env_remove("WATCHDOG_USEC")
            .env_remove("WATCHDOG_PID")
            .envs(variables);
        let outcome = place
            .start_command(command, format!("{line}{number}").split(' '))
            .wait();
        assert!([0, 4].contains(&outcome.code()), "{outcome:?}");
        assert_eq!(
            heard(&manager),
            [
                format!("READY=1\nSTATUS=Measuring into run{number}"),
                "STOPPING=1".to_owned()
            ]
        );
    }
}

#[test]
fn a_manager_that_is_gone_is_no_reason_not_to_measure() {
    let place = Workplace::new();
    let line = format!(
        "run --quiet --for 100ms --load none --cpus {} --out run",
        machine::last_cpu()
    );
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tardy"));
    command
        .env("NOTIFY_SOCKET", place.path("not-there"))
        .env("WATCHDOG_USEC", "1");
    let outcome = place.start_command(command, line.split(' ')).wait();
    assert!([0, 4].contains(&outcome.code()), "{outcome:?}");
}

#[test]
fn systemd_takes_the_unit_and_its_command_is_one_that_the_tool_knows() {
    let place = Workplace::new();
    let unit = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/tardy-watch.service"),
    )
    .unwrap();
    let value = |key: &str| {
        unit.lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
            .unwrap_or_else(|| panic!("{key}"))
    };
    assert_eq!(value("Type"), "notify");
    let words: Vec<&str> = value("ExecStart").split(' ').collect();
    assert_eq!(
        (words[0], &words[words.len() - 2..]),
        ("/usr/bin/tardy", &["$TARDY_WATCH_RUN", "$TARDY_WATCH"][..])
    );
    let disk = value("Environment")
        .trim_matches('"')
        .strip_prefix("TARDY_WATCH_RUN=")
        .unwrap()
        .to_owned();
    let arguments = format!("{} {disk}", words[1..words.len() - 2].join(" "));
    let plan = place
        .tardy(&format!("{arguments} --dry-run --json"))
        .ends_with(0)
        .json();
    assert_eq!(plan["until_stopped"], true);
    assert_eq!(plan["disk"], 2_u64 << 30);
    // /bin/true replaces the tool, which is not installed here at the package's path.
    std::fs::write(
        place.path("tardy-watch.service"),
        unit.replace(words[0], "/bin/true"),
    )
    .unwrap();
    let checked = place.prepared(
        machine::program("systemd-analyze", "systemd"),
        ["verify", "--man=no", "./tardy-watch.service"],
    );
    let checked = support::workplace::finish(checked);
    assert!(
        checked.status.success() && checked.stderr.is_empty(),
        "{checked:?}"
    );
}

/// Limit, in tenths, of the exposure level that systemd-analyze(1) computes. The level must be
/// below 4.0.
const EXPOSURE_MAX: &str = "39";

#[test]
fn the_units_are_exposed_little_and_each_capability_has_its_reason() {
    let place = Workplace::new();
    for (name, unit) in [
        (
            "tardy-watch.service",
            include_str!("../../../../packaging/tardy-watch.service"),
        ),
        (
            "tardy@.service",
            include_str!("../../../../packaging/tardy@.service"),
        ),
        (
            "tardy-record.service",
            include_str!("../../../../packaging/tardy-record.service"),
        ),
    ] {
        let (comments, lines): (Vec<&str>, Vec<&str>) =
            unit.lines().partition(|line| line.starts_with('#'));
        let set = lines
            .iter()
            .find_map(|line| line.strip_prefix("CapabilityBoundingSet="))
            .unwrap();
        for capability in set.split(' ') {
            assert!(
                comments.iter().any(|line| line.contains(capability)),
                "{name}: {capability} has no reason"
            );
        }
        std::fs::write(place.path(name), unit).unwrap();
        let checked = place.prepared(
            machine::program("systemd-analyze", "systemd"),
            [
                "security",
                "--offline=true",
                &format!("--threshold={EXPOSURE_MAX}"),
                &format!("./{name}"),
            ],
        );
        let checked = support::workplace::finish(checked);
        assert!(
            checked.status.success() && checked.stdout.contains("Overall exposure level"),
            "{checked:?}"
        );
    }
}
