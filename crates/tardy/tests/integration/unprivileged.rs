//! Checks that a user without any privileges gets a useful run, and the run states its limits.

use crate::support;

use std::os::unix::fs::PermissionsExt;

use support::machine;
use support::made_run::MadeRun;
use support::workplace::{Outcome, Workplace, finish};

/// Runs `tardy` as an unprivileged user, in a folder that everyone may write.
fn as_nobody(place: &Workplace, line: &str) -> Outcome {
    as_nobody_with(place, "", line)
}

/// Runs `tardy` as an unprivileged user with only these capabilities, each preceded by a comma, as
/// in ",+sys_nice".
fn as_nobody_with(place: &Workplace, capabilities: &str, line: &str) -> Outcome {
    std::fs::set_permissions(place.folder(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let binary = place.path("tardy");
    if !binary.exists() {
        std::fs::copy(env!("CARGO_BIN_EXE_tardy"), &binary).unwrap();
        std::fs::set_permissions(&binary, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    if !machine::is_root() {
        return finish(place.prepared(std::process::Command::new(binary), line.split(' ')));
    }
    let mut setpriv = place.prepared(
        machine::program("setpriv", "util-linux"),
        ["--reuid=65534", "--regid=65534", "--clear-groups"],
    );
    for set in ["bounding-set", "inh-caps", "ambient-caps"] {
        setpriv.arg(format!("--{set}=-all{capabilities}"));
    }
    setpriv.arg(binary).args(line.split(' '));
    finish(setpriv)
}

#[test]
fn a_run_without_rights_is_made_marked_and_proves_nothing() {
    let place = Workplace::new();
    let outcome = as_nobody(
        &place,
        "run --for 1s --load none --deadline 10s --quiet --out run",
    )
    .ends_with(4);
    let first = outcome.first_warning();
    assert!(
        first.contains("probes ran as ordinary tasks") && first.contains("run as root"),
        "{}",
        outcome.stdout
    );
    assert!(
        outcome.stdout.contains("INCONCLUSIVE: ")
            && outcome.stdout.contains("(inconclusive because "),
        "{}",
        outcome.stdout
    );
    let summary = place.summary("run");
    assert!(
        summary["probes"][0]["counts"]["recorded"].as_u64() > Some(0),
        "{summary}"
    );
    assert_eq!(
        place.tardy("show run").code(),
        4,
        "the mark is stored with the run"
    );
}

#[test]
fn the_stand_in_for_cyclictest_says_nothing_that_is_not_so_and_ends_with_4() {
    let place = Workplace::new();
    let outcome = as_nobody(&place, "cyclictest -q -l 20 -p 95").ends_with(4);
    assert!(
        outcome.stdout.contains(" P: 0 ") && !outcome.stdout.contains("cpu_dma_latency"),
        "{}",
        outcome.stdout
    );
    assert!(
        outcome.stderr.contains("ordinary tasks"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn tune_starts_no_program_where_no_setting_can_be_put_in_force() {
    if !machine::is_root() {
        return machine::left_out(
            "tune_starts_no_program_where_no_setting_can_be_put_in_force",
            "the user may have rights",
        );
    }
    let place = Workplace::new();
    let outcome = as_nobody(&place, "tune --apply -- touch made").ends_with(3);
    assert_eq!(
        outcome.stderr.lines().last(),
        Some("tardy: could not apply any setting: run as root")
    );
    assert!(!place.path("made").exists());
    std::fs::remove_dir_all(place.path("state")).unwrap();
    std::fs::write(place.path("state"), "").unwrap();
    let outcome = as_nobody(&place, "tune --apply -- touch made").ends_with(3);
    assert_eq!(
        outcome
            .stderr
            .matches("tardy changes settings only with a journal")
            .count(),
        1,
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_program_is_not_followed_without_rights_and_the_missing_one_is_named() {
    let place = Workplace::new();
    let error = as_nobody(&place, &format!("attach {}", std::process::id()))
        .ends_with(3)
        .stderr;
    assert!(
        error.contains("tracefs cannot be used") && error.contains("CAP_SYS_ADMIN"),
        "{error}"
    );
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn two_capabilities_are_enough_for_real_time_tasks_in_locked_memory() {
    if !machine::is_root() {
        return machine::left_out(
            "two_capabilities_are_enough_for_real_time_tasks_in_locked_memory",
            "only root can give capabilities to another user",
        );
    }
    let place = Workplace::new();
    let line = "run --for 1s --load none --deadline 10s --cpu-dma-latency leave --quiet --out run";
    let outcome = as_nobody_with(&place, ",+sys_nice,+ipc_lock", line).ends_with(0);
    assert!(
        !outcome.stdout.contains("ordinary tasks")
            && !outcome.stdout.contains("memory was not locked"),
        "{}",
        outcome.stdout
    );
    let one = as_nobody_with(
        &place,
        ",+sys_nice",
        &line.replace("--out run", "--out other"),
    )
    .ends_with(4);
    assert!(
        !one.stdout.contains("ordinary tasks") && one.stdout.contains("memory was not locked"),
        "{}",
        one.stdout
    );
}

#[test]
fn doctor_has_a_row_for_each_right_and_each_changes_with_its_right_alone() {
    let test = "doctor_has_a_row_for_each_right_and_each_changes_with_its_right_alone";
    if !machine::is_root() {
        return machine::left_out(test, "only root can give capabilities to another user");
    }
    let place = Workplace::new();
    let rows = |capabilities: &str| -> Vec<(String, String)> {
        let found = as_nobody_with(&place, capabilities, "doctor --json --watch 0s").json();
        let rows = found["findings"].as_array().unwrap().iter();
        let of_rights = rows.filter(|row| row["check"].as_str().unwrap().starts_with("right-"));
        of_rights
            .map(|row| {
                (
                    row["check"].as_str().unwrap().to_owned(),
                    row["state"].as_str().unwrap().to_owned(),
                )
            })
            .collect()
    };
    let state = |rows: &[(String, String)], name: &str| {
        rows.iter()
            .find(|(check, _)| check == name)
            .unwrap()
            .1
            .clone()
    };
    let none = rows("");
    assert_eq!(none.len(), 4, "{none:?}");
    for (name, capability) in [
        ("right-priority", ",+sys_nice"),
        ("right-memory", ",+ipc_lock"),
        ("right-idle", ",+dac_override"),
        ("right-tracing", ",+dac_override,+sys_admin"),
    ] {
        let given = rows(capability);
        // If the kernel lacks the feature, its row is not applicable. A row may be good even
        // without the capability, because limits or a device of the machine give the same right.
        let expected = if state(&none, name) == "not-applicable" {
            "not-applicable"
        } else {
            "good"
        };
        assert_eq!(
            state(&given, name),
            expected,
            "{name} with {capability}: {given:?}"
        );
        for other in none.iter().filter(|(other, _)| {
            other != name
                && !(capability.contains("dac_override")
                    && ["right-idle", "right-tracing"].contains(&&**other))
        }) {
            assert_eq!(
                state(&given, &other.0),
                other.1,
                "{capability} is not for {}",
                other.0
            );
        }
    }
    let faults = none
        .iter()
        .filter(|(_, state)| state == "improvable")
        .count();
    assert!(
        faults >= 2,
        "a user without rights lacks priority and memory: {none:?}"
    );
    let told = as_nobody(&place, "doctor --json --watch 0s").stdout;
    for line in [
        "no CAP_SYS_NICE, and",
        "no CAP_IPC_LOCK, and",
        "adduser NAME realtime",
        "- rtprio 98",
        "- memlock unlimited",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
}

#[test]
fn without_a_deadline_a_run_without_rights_is_done() {
    let place = Workplace::new();
    let outcome = as_nobody(&place, "run --for 1s --load none --quiet --out run").ends_with(0);
    assert!(
        outcome.first_warning().contains("run as root"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn what_cannot_be_had_is_said_before_the_run_and_by_a_dry_run() {
    let place = Workplace::new();
    let run = as_nobody(&place, "run --for 1s --load none --out run").ends_with(0);
    assert!(
        run.stderr.contains("! probes ran as ordinary tasks") && !run.stderr.contains("changing"),
        "{}",
        run.stderr
    );
    let twice = run.stdout.matches("probes ran as ordinary tasks").count();
    assert_eq!(twice, 1, "{}", run.stdout);
    let dry = as_nobody(&place, "run --dry-run").ends_with(0);
    assert!(
        dry.stdout
            .contains("warning    probes ran as ordinary tasks")
            && dry.stdout.contains("changes    none"),
        "{}",
        dry.stdout
    );
}

#[test]
fn loads_run_without_rights_too() {
    let place = Workplace::new();
    let outcome = as_nobody(
        &place,
        "run --for 3s --load io --load fork --json --out run",
    )
    .ends_with(0);
    let work = outcome.json()["load_work"].clone();
    assert!(
        work.as_array()
            .unwrap()
            .iter()
            .any(|work| work["operations"].as_u64() > Some(0)),
        "{work}"
    );
    place.assert_no_process_is_left();
}

#[test]
fn a_folder_that_may_not_be_written_is_named() {
    if !machine::is_root() {
        return machine::left_out(
            "a_folder_that_may_not_be_written_is_named",
            "only root can make a folder that this user may not write",
        );
    }
    let place = Workplace::new();
    std::fs::create_dir(place.path("closed")).unwrap();
    let outcome = as_nobody(&place, "run --for 1s --load none --out closed/run").ends_with(3);
    assert!(
        outcome.stderr.contains("closed/run") && outcome.stderr.contains("--out"),
        "{}",
        outcome.stderr
    );
}

/// Runs `tardy` as a separate user with a limit of `count` threads and processes.
fn among(count: u32, place: &Workplace, line: &str) -> Outcome {
    // The kernel counts the processes of a user in all namespaces, so the user must have no other
    // process.
    const NOBODY_ELSE: &str = "--reuid=2147000000";
    std::fs::set_permissions(place.folder(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let mut limited = place.prepared(
        machine::program("prlimit", "util-linux"),
        [format!("--nproc={count}")],
    );
    limited.arg(machine::program("setpriv", "util-linux").get_program());
    limited.args([NOBODY_ELSE, "--regid=65534", "--clear-groups"]);
    for set in ["bounding-set", "inh-caps", "ambient-caps"] {
        limited.arg(format!("--{set}=-all"));
    }
    limited.arg(place.path("tardy")).args(line.split(' '));
    finish(limited)
}

#[test]
fn where_no_thread_can_be_had_readers_do_without_and_a_measurement_names_the_limit() {
    if !machine::is_root() {
        return machine::left_out(
            "where_no_thread_can_be_had_readers_do_without_and_a_measurement_names_the_limit",
            "only root can be a user who has no other process",
        );
    }
    let place = Workplace::new();
    let latencies = |seed: i64| {
        (0..20_000)
            .map(|sample| 5_000 + (sample * seed) % 977)
            .collect()
    };
    MadeRun::new((1..9).map(latencies).collect()).write(&place.path("run"));
    MadeRun::new(vec![latencies(3)]).write(&place.path("small"));
    std::fs::copy(env!("CARGO_BIN_EXE_tardy"), place.path("tardy")).unwrap();
    for (line, output) in [
        ("show run", None),
        ("show small --statistics", None),
        ("compare run small", None),
        ("history run small", None),
        ("export run --format csv -o", Some("csv")),
        ("report run small --html", Some("html")),
        ("plot run --kind hist -o", Some("svg")),
    ] {
        let file = |name: &str| output.map(|ending| format!("{name}.{ending}"));
        let line = |name: &str| {
            file(name).map_or_else(|| line.to_owned(), |file| format!("{line} {file}"))
        };
        let alone = among(1, &place, &line("alone"));
        let free = place.tardy(&line("free"));
        assert_eq!(
            (alone.code(), &alone.stdout),
            (free.code(), &free.stdout),
            "{}: {}",
            line("alone"),
            alone.stderr
        );
        if let (Some(alone), Some(free)) = (file("alone"), file("free")) {
            let (written, whole) = (
                std::fs::read(place.path(&alone)).unwrap(),
                std::fs::read(place.path(&free)).unwrap(),
            );
            // A report contains the time of its creation.
            assert!(
                written == whole || alone.ends_with("html") && written.len() == whole.len(),
                "{alone}"
            );
        }
    }
    let (mut refused, mut measured) = (0, 0);
    for count in 1..=12 {
        for line in [
            "run --dry-run",
            "run --for 200ms --load none --quiet --out run-",
            "run --for 200ms --load io --quiet --out loaded-",
        ] {
            let line = if line.ends_with('-') {
                format!("{line}{count}")
            } else {
                line.to_owned()
            };
            let outcome = among(count, &place, &line);
            match outcome.code() {
                3 => {
                    refused += 1;
                    assert!(
                        outcome
                            .stderr
                            .contains(": raise the limit on processes (`ulimit -u`"),
                        "{count} {line}: {}",
                        outcome.stderr
                    );
                    assert!(
                        line.split(' ')
                            .next_back()
                            .is_none_or(|out| !place.path(out).exists()),
                        "{count} {line}"
                    );
                }
                code => {
                    measured += 1;
                    assert!(
                        [0, 4].contains(&code),
                        "{count} {line}: {code} {}",
                        outcome.stderr
                    );
                }
            }
        }
    }
    assert!(
        refused > 2 && measured > 2,
        "{refused} refused, {measured} measured"
    );
    let cost = among(
        1,
        &place,
        "cost --metric open-close --rounds 1 --trials 3 --out cost",
    )
    .ends_with(3);
    assert!(
        cost.stderr
            .contains(": raise the limit on processes (`ulimit -u`"),
        "{}",
        cost.stderr
    );
}
