//! Tests `tardy doctor` as a user starts it: for copies of other machines' files, for this machine,
//! and for a running program.

use std::fs;
use std::path::Path;

use crate::support::workplace::{Outcome, Workplace};

/// Files of a board in its default state, with four CPUs, none of them isolated. Each line is a
/// file: `path: content`.
const UNTUNED: &str = "
proc/sys/kernel/hostname: board7
proc/sys/kernel/osrelease: 6.1.0
proc/sys/kernel/arch: x86_64
proc/sys/kernel/version: #1 SMP PREEMPT_DYNAMIC Debian
proc/sys/kernel/sched_rt_period_us: 1000000
proc/sys/kernel/sched_rt_runtime_us: 950000
proc/sys/kernel/numa_balancing: 1
proc/sys/kernel/timer_migration: 1
proc/sys/kernel/tainted: 0
proc/sys/vm/stat_interval: 1
proc/cmdline: quiet
proc/cpuinfo: vendor_id : AuthenticAMD
proc/meminfo: SwapTotal: 2048 kB
sys/kernel/debug/sched/preempt: none (voluntary) full
sys/devices/system/cpu/online: 0-3
sys/devices/system/cpu/isolated:
sys/devices/system/cpu/smt/active: 1
sys/devices/system/cpu/cpu1/cpufreq/scaling_governor: powersave
sys/devices/system/cpu/cpu1/cpuidle/state0/name: C6
sys/devices/system/cpu/cpu1/cpuidle/state0/latency: 133
sys/devices/system/cpu/cpu1/cpuidle/state0/disable: 0
";

/// Files that replace those of `UNTUNED`, with values that satisfy the most important checks.
const TUNED: &str = "
proc/sys/kernel/osrelease: 6.1.0-rt
proc/sys/kernel/version: #1 SMP PREEMPT_RT Debian
proc/cmdline: quiet isolcpus=managed_irq,domain,1 rcu_nocbs=1
proc/timer_list:   .hres_active    : 1
proc/sys/kernel/sched_rt_runtime_us: -1
boot/config-6.1.0-rt: CONFIG_PREEMPT_RT=y
sys/kernel/debug/sched/preempt: (full) lazy
sys/devices/system/cpu/isolated: 1
sys/devices/system/cpu/smt/active: 0
sys/devices/system/cpu/cpu1/cpufreq/scaling_governor: performance
sys/devices/system/cpu/cpu1/cpuidle/state0/latency: 2
";

fn write(folder: &Path, text: &str) {
    for line in text.lines().filter(|line| !line.is_empty()) {
        let (path, content) = line.split_once(':').unwrap();
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{}\n", content.trim_start_matches(' '))).unwrap();
    }
}

/// Runs `tardy doctor` on a generated machine, with a screen of the given columns and lines.
fn doctor(texts: &[&str], flags: &str, screen: (&str, Option<&str>)) -> Outcome {
    let place = Workplace::new();
    texts
        .iter()
        .for_each(|text| write(&place.path("board"), text));
    let line = format!("doctor --root board {flags}");
    let mut command = place.command(line.split_whitespace());
    command.env("COLUMNS", screen.0).env_remove("LINES");
    screen.1.map(|lines| command.env("LINES", lines));
    crate::support::workplace::finish(command)
}

/// A screen wide enough for the tests that do not examine the layout.
const WIDE: (&str, Option<&str>) = ("120", None);

#[test]
fn a_screen_of_80_columns_shows_the_worst_in_full_and_the_rest_by_name() {
    let text = doctor(&[UNTUNED], "--cpus 1-3", ("80", Some("24")))
        .ends_with(0)
        .stdout;
    assert!(
        text.lines().count() < 24 && text.lines().all(|line| line.len() <= 80),
        "{text}"
    );
    insta::assert_snapshot!(text);
}

#[test]
fn a_screen_of_120_columns_shows_a_machine_that_is_nearly_ready() {
    let text = doctor(&[UNTUNED, TUNED], "--cpus isolated", ("120", Some("40")))
        .ends_with(0)
        .stdout;
    assert!(
        text.lines().count() < 40 && text.lines().all(|line| line.len() <= 120),
        "{text}"
    );
    insta::assert_snapshot!(text);
}

#[test]
fn everything_is_shown_with_what_was_read_where_there_is_no_screen() {
    let text = doctor(&[UNTUNED], "--cpus 1-3 --all", WIDE)
        .ends_with(0)
        .stdout;
    insta::assert_snapshot!(text);
}

#[test]
fn the_exit_code_follows_the_severity_that_was_asked_for() {
    let ends = |texts: &[&str], flags: &str, code| {
        doctor(texts, flags, WIDE).ends_with(code);
    };
    ends(&[UNTUNED], "--cpus 1", 0);
    ends(&[UNTUNED], "--cpus 1 --fail-on high", 1);
    // No known result is a fatal fault, but some results are unknown.
    ends(&[UNTUNED], "--cpus 1 --fail-on fatal", 4);
    // The results of all rows that could be fatal are known, and none of them is a fault.
    ends(&[UNTUNED, TUNED], "--cpus 1 --fail-on fatal", 0);
    // No known result is a fault of high severity. But some results are unknown, so there is no
    // answer.
    ends(
        &[UNTUNED, TUNED, "boot/config-6.1.0-rt: CONFIG_CPU_FREQ=y"],
        "--cpus 1 --fail-on high",
        4,
    );
    ends(&[UNTUNED], "--fail-on dreadful", 2);
}

#[test]
fn profiles_disagree_about_the_same_machine() {
    let nohz = "sys/devices/system/cpu/nohz_full: 1";
    let state = |profile: &str| {
        let json = doctor(
            &[UNTUNED, TUNED, nohz],
            &format!("--cpus 1 --json --profile {profile}"),
            WIDE,
        )
        .ends_with(0)
        .json();
        let findings = json["findings"].as_array().unwrap().clone();
        let finding = findings
            .iter()
            .find(|finding| finding["check"] == "full-dynticks")
            .unwrap()
            .clone();
        assert_eq!(
            (&json["profile"], &json["cpus"]),
            (&serde_json::json!(profile), &serde_json::json!("1"))
        );
        (
            finding["state"].as_str().unwrap().to_owned(),
            finding["importance"].as_str().unwrap().to_owned(),
        )
    };
    assert_eq!(state("periodic"), ("improvable".into(), "medium".into()));
    assert_eq!(state("polling"), ("good".into(), "high".into()));
}

#[test]
fn what_cannot_be_looked_at_is_refused_with_what_to_name_instead() {
    let place = Workplace::new();
    fs::create_dir(place.path("empty")).unwrap();
    for (line, word) in [
        ("doctor --root empty", "copies of /proc and /sys"),
        ("doctor --cpus 8000 --watch 0s", "not online"),
        (
            "doctor --pid 4194304 --watch 0s",
            "there is no process 4194304",
        ),
        ("doctor --watch 2h", "0s to 1h"),
        ("doctor --profile desktop", "possible values"),
    ] {
        let refused = place.tardy(line).ends_with(2);
        assert!(
            refused.stdout.is_empty() && refused.stderr.contains(word),
            "{line}: {refused:?}"
        );
    }
}

#[test]
fn every_row_is_looked_at_on_the_machine_that_the_tests_run_on() {
    let place = Workplace::new();
    for profile in ["periodic", "polling", "audio", "vm-guest", "vm-host"] {
        let json = place
            .tardy(&format!("doctor --watch 10ms --json --profile {profile}"))
            .ends_with(0)
            .json();
        let findings = json["findings"].as_array().unwrap();
        let rows = tardy_machine::checks::CHECKS.len();
        assert_eq!(findings.len(), rows);
        for finding in findings {
            let state = finding["state"].as_str().unwrap();
            assert!(
                ["good", "improvable", "noted", "not-applicable", "unknown"].contains(&state),
                "{finding}"
            );
            assert!(
                !finding["reads"].as_array().unwrap().is_empty()
                    && !finding["source"].as_str().unwrap().is_empty(),
                "{finding}"
            );
        }
    }
}

#[test]
fn an_ordinary_program_is_told_what_it_did_not_ask_for() {
    let place = Workplace::new();
    let mut sleeper = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .unwrap();
    let json = place.tardy(&format!(
        "doctor --watch 10ms --json --pid {}",
        sleeper.id()
    ));
    let slack = place.tardy(&format!("doctor --watch 10ms --all --pid {}", sleeper.id()));
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    let json = json.ends_with(0).json();
    assert!(json["program"].as_str().unwrap().starts_with("sleep ("));
    let finding = |name: &str| {
        json["findings"]
            .as_array()
            .unwrap()
            .iter()
            .find(|finding| finding["check"] == name)
            .unwrap()
            .clone()
    };
    assert_eq!(finding("program-policy")["state"], "improvable");
    assert!(
        finding("program-memory")["current"]
            .as_str()
            .unwrap()
            .starts_with("0 KiB locked")
    );
    // Rules for real-time threads do not apply to a program without such threads.
    assert_eq!(finding("program-faults")["state"], "not-applicable");
    let text = slack.ends_with(0).stdout;
    assert!(
        text.contains("program-policy: the 1 threads of sleep have no real-time policy"),
        "{text}"
    );
}

#[test]
fn a_run_keeps_what_was_found_and_a_comparison_lists_what_differs() {
    let place = Workplace::new();
    let made = place
        .tardy("run --for 300ms --load none --quiet --out one")
        .code();
    assert!([0, 4].contains(&made));
    let path = place.path("one/run.json");
    let mut record: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let rows = record["doctor"].as_array().unwrap();
    assert!(
        rows.len() > 40 && rows.iter().all(|row| row["state"] != "not-applicable"),
        "{rows:?}"
    );
    let timers = rows
        .iter()
        .position(|row| row["check"] == "high-resolution-timers")
        .unwrap();
    assert_eq!(
        rows[timers]["state"], "good",
        "a machine that runs tests has them"
    );

    // A copy of the same run, edited so that it comes from a machine whose timers wait for the
    // tick.
    let copied = std::process::Command::new("cp")
        .arg("-r")
        .args([place.path("one"), place.path("two")])
        .status()
        .unwrap();
    assert!(copied.success());
    record["doctor"][timers]["state"] = "improvable".into();
    record["doctor"][timers]["current"] = "off".into();
    std::fs::write(place.path("two/run.json"), record.to_string()).unwrap();
    let shown = place.tardy("show two --full").stdout;
    let line = shown
        .lines()
        .find(|line| line.contains("bad for real time (fatal or high in tardy doctor):"))
        .unwrap();
    assert!(line.contains("high-resolution-timers"), "{line}");
    let compared = place.tardy("compare one two --format json").json();
    let changed = compared.to_string();
    assert!(
        changed
            .contains(r#"{"base":"on","candidate":"off","fact":"doctor.high-resolution-timers"}"#),
        "{changed}"
    );
    place.tardy("report one two --html both.html");
    let page = std::fs::read_to_string(place.path("both.html")).unwrap();
    assert!(
        page.contains("Settings, as tardy doctor found them") && page.contains("FATAL: off"),
        "the report has both"
    );
}

#[test]
fn findings_are_printed_as_a_page_that_fetches_nothing() {
    let place = Workplace::new();
    let page = place
        .tardy("doctor --watch 0s --html -")
        .ends_with(0)
        .stdout;
    assert!(
        page.starts_with("<!DOCTYPE html>") && page.contains("default-src 'none'"),
        "{page}"
    );
    assert!(
        page.contains("Is this machine set up for real time?") && page.contains("clock-source"),
        "{page}"
    );
    place.tardy("doctor --html page.html --json").ends_with(2);
    let text = place
        .tardy("doctor --watch 0s --html page.html")
        .ends_with(0);
    assert!(!text.stdout.contains("<!DOCTYPE"), "{}", text.stdout);
    assert!(
        std::fs::read_to_string(place.path("page.html"))
            .unwrap()
            .starts_with("<!DOCTYPE html>")
    );
    // The option's former name.
    let former = place.tardy("doctor --watch 0s --as-html").ends_with(0);
    assert!(former.stdout.starts_with("<!DOCTYPE html>"));
    // JSON contains all rows even without `--all`.
    place
        .tardy("doctor --watch 0s --json --all")
        .ends_with(0)
        .json();
}

#[test]
fn a_fifo_in_a_copied_root_is_no_reason_to_wait() {
    let place = Workplace::new();
    for name in [
        "proc/cmdline",
        "etc/os-release",
        "proc/sys/kernel/osrelease",
    ] {
        let path = place.path(&format!("copy/{name}"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
    }
    let found = place.tardy("doctor --root copy");
    assert!(found.code() < 2, "{found:?}");
}
