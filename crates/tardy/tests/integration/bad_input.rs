//! Tests wrong use and bad input: tardy exits with code 2, names the flag and a remedy, and writes
//! nothing.

use crate::support;

use support::machine;
use support::made_run::MadeRun;
use support::workplace::Workplace;

/// Runs `tardy run` with these arguments. Checks that tardy refuses them, that its message contains
/// all of `words`, and that it writes nothing.
#[track_caller]
fn refused(arguments: &[&str], words: &[&str]) {
    let place = Workplace::new();
    let arguments: Vec<&str> = ["run", "--out", "run", "--for", "200ms"]
        .iter()
        .chain(arguments)
        .copied()
        .collect();
    let outcome = place.tardy_with(&arguments).ends_with(2);
    for word in words {
        assert!(
            outcome.stderr.contains(word),
            "{arguments:?}: no `{word}` in: {}",
            outcome.stderr
        );
    }
    assert_eq!(outcome.stdout, "", "{arguments:?}");
    assert_eq!(
        place.names(),
        [""; 0],
        "{arguments:?}: something was written"
    );
}

#[test]
fn a_cpu_that_is_not_there_is_refused_by_name() {
    let absent = machine::absent_cpu().to_string();
    refused(
        &["--cpus", &absent],
        &["--cpus", &absent, &machine::cpus().to_string()],
    );
    refused(&["--cpus", &format!("0,{absent}")], &["--cpus", &absent]);
}

#[test]
fn a_list_of_cpus_that_is_none_is_refused() {
    refused(&["--cpus", ""], &["--cpus"]);
    refused(&["--cpus", "one"], &["--cpus", "one"]);
    refused(&["--cpus", "3-1"], &["--cpus", "3-1"]);
    refused(
        &[
            "--load",
            "io",
            "--load-cpus",
            &machine::absent_cpu().to_string(),
        ],
        &["--load-cpus"],
    );
}

#[test]
fn a_period_of_nothing_or_without_unit_is_refused() {
    refused(&["--period", "0us"], &["--period", "above zero"]);
    refused(&["--period", "-1ms"], &["--period"]);
    refused(&["--period", "1000"], &["--period", "us"]);
}

#[test]
fn a_period_that_leaves_no_time_for_anything_else_is_refused_with_what_would_do() {
    let cpu = machine::last_cpu().to_string();
    refused(
        &["--period", "50ns", "--cpus", &cpu],
        &["--period 50ns", "wake-up costs", "--force"],
    );
}

#[test]
fn force_without_a_cpu_left_idle_is_refused() {
    let all = machine::cpus().to_string();
    refused(
        &["--period", "50ns", "--force", "--cpus", &all],
        &["--force", "--cpus", "idle"],
    );
}

#[test]
fn priorities_of_others_are_refused() {
    refused(&["--priority", "0"], &["--priority", "1..=99"]);
    refused(&["--priority", "100"], &["--priority", "1..=99"]);
    refused(&["--priority", "99"], &["--priority", "--force"]);
}

#[test]
fn a_deadline_that_may_mean_anything_is_refused() {
    refused(&["--deadline", "200"], &["--deadline", "200us"]);
    refused(&["--deadline", "0us"], &["--deadline", "above zero"]);
    refused(&["--deadline", "soon"], &["--deadline", "soon"]);
    refused(&["--deadline", "-1ms"], &["--deadline", "above zero"]);
}

#[test]
fn a_window_that_is_none_is_refused() {
    refused(
        &["--window", "111us..-111us"],
        &["--window", "end lies before its start"],
    );
    refused(&["--window", "111us"], &["--window", "-111us..+111us"]);
    refused(
        &["--window", "-1us..+1us", "--deadline", "1us"],
        &["--window", "--deadline", "cannot be used with"],
    );
}

#[test]
fn a_share_of_misses_that_is_none_is_refused() {
    for share in ["2", "-1e-6", "few", "NaN"] {
        refused(
            &["--deadline", "1ms", "--misses", share],
            &["--misses", share],
        );
    }
}

#[test]
fn a_folder_that_exists_is_refused_and_not_touched() {
    let place = Workplace::new();
    std::fs::create_dir(place.path("run")).unwrap();
    std::fs::write(place.path("run").join("run.json"), "mine").unwrap();
    std::fs::write(place.path("file"), "mine too").unwrap();
    for name in ["run", "file"] {
        let outcome = place
            .tardy(&format!("run --for 100ms --load none --out {name}"))
            .ends_with(2);
        assert!(
            outcome
                .stderr
                .contains(&format!("--out {name} exists already")),
            "{}",
            outcome.stderr
        );
    }
    assert_eq!(
        std::fs::read(place.path("run").join("run.json")).unwrap(),
        b"mine"
    );
    assert_eq!(std::fs::read(place.path("file")).unwrap(), b"mine too");
    assert_eq!(place.names(), ["file", "run"]);
}

#[test]
fn probes_that_are_not_there_or_given_twice_are_refused() {
    refused(
        &["--probe", "cyclik"],
        &[
            "--probe cyclik",
            "did you mean `cyclic`?",
            "tardy list probes",
        ],
    );
    refused(
        &["--probe", "itimer", "--probe", "itimer"],
        &["--probe itimer", "twice"],
    );
}

#[test]
fn loads_and_scenarios_that_are_not_there_are_refused() {
    refused(&["--load", "hurricane"], &["--load", "hurricane"]);
    refused(&["--load", "io:size=a-lot"], &["--load", "size"]);
    refused(
        &["--scenario", "no-such-scenario"],
        &["--scenario", "no-such-scenario"],
    );
}

#[test]
fn values_that_are_none_are_refused() {
    refused(&["--keep", "some"], &["--keep", "tail:TIME"]);
    refused(&["--keep", "tail:100"], &["--keep", "100", "no unit"]);
    refused(&["--cpu-dma-latency", "-1"], &["--cpu-dma-latency"]);
    refused(
        &["--cpu-dma-latency", "low"],
        &["--cpu-dma-latency", "leave"],
    );
    refused(&["--stop-above", "0us"], &["--stop-above"]);
    refused(&["--tracing-off"], &["--stop-above"]);
    refused(&["--seed", "x"], &["--seed"]);
    refused(&["--policy", "batch"], &["--policy", "fifo"]);
}

#[test]
fn more_dither_than_half_a_period_is_refused() {
    refused(&["--dither", "501us"], &["--dither", "--period", "half"]);
}

#[test]
fn a_period_longer_than_the_run_is_refused() {
    refused(
        &["--period", "1s", "--load", "none"],
        &["--period", "longer than the run", "--for"],
    );
}

#[test]
fn a_spool_that_is_no_folder_is_refused() {
    refused(
        &["--spool", "not-there", "--load", "none"],
        &["--spool not-there", "not a folder"],
    );
}

#[test]
fn a_run_that_would_not_fit_on_the_disk_is_refused_with_the_estimate() {
    let place = Workplace::new();
    let outcome = place
        .tardy("run --for 1000000h --load none --out run")
        .ends_with(3);
    assert!(
        outcome.stderr.contains("--out: the run needs about ") && outcome.stderr.contains(" MB"),
        "{}",
        outcome.stderr
    );
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn show_of_something_else_than_a_run_names_it() {
    let place = Workplace::new();
    std::fs::create_dir(place.path("foreign")).unwrap();
    std::fs::write(place.path("foreign").join("run.json"), "{}").unwrap();
    std::fs::create_dir(place.path("empty")).unwrap();
    std::fs::write(place.path("text"), "text").unwrap();
    for name in ["foreign", "empty", "text", "not-there"] {
        let outcome = place.tardy(&format!("show {name}")).ends_with(2);
        assert!(
            outcome.stderr.contains(name) && outcome.stdout.is_empty(),
            "{outcome:?}"
        );
    }
}

#[test]
fn show_of_a_later_format_asks_for_a_newer_tool() {
    let place = Workplace::new();
    support::made_run::MadeRun::new(vec![vec![5_000; 10]]).write(&place.path("run"));
    let json = place.path("run").join("run.json");
    let text =
        std::fs::read_to_string(&json)
            .unwrap()
            .replacen("\"format\": 1", "\"format\": 2", 1);
    std::fs::write(&json, text).unwrap();
    let outcome = place.tardy("show run").ends_with(2);
    assert!(
        outcome.stderr.contains("has format 2") && outcome.stderr.contains("use a newer tardy"),
        "{}",
        outcome.stderr
    );
}

/// Even root cannot create a file in /proc.
#[test]
fn a_place_that_cannot_be_written_has_one_exit_code_in_every_command() {
    let place = Workplace::new();
    MadeRun::new(vec![vec![10_000; 100]]).write(&place.path("run"));
    std::fs::write(place.path("rt-tests.txt"), "       0:       0:      12\n").unwrap();
    for arguments in [
        "run --for 1s --load none --out /proc/x",
        "cyclictest -D 1 -q --tardy-out /proc/x",
        "cost --out /proc/x -- true",
        "import rt-tests.txt --as cyclictest-verbose --out /proc/x",
        "export run --format csv --output /proc/x",
        "report run --html /proc/x",
        "plot run --kind hist --output /proc/x.png",
        "history run --html /proc/x",
        "doctor --html /proc/x",
        "man --all /proc/x",
    ] {
        let outcome = place.tardy(arguments);
        assert_eq!(outcome.code(), 3, "{arguments}: {}", outcome.stderr);
        assert_eq!(outcome.stdout, "", "{arguments}");
    }
}
