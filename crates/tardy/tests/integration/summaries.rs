//! Tests the summary as text, for generated runs. The text of such a run is the same on every
//! machine.

use crate::support;

use tardy_run::record::State;

use support::made_run::MadeRun;
use support::workplace::{Workplace, finish};
use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;
use tardy_core::warning::Warning;

/// Returns latencies between 8 and 18 us without a visible pattern, with the values of `late` at
/// their indices.
fn latencies(count: usize, late: &[(usize, i64)]) -> Vec<i64> {
    let mut latencies: Vec<i64> = (0..count as i64)
        .map(|index| 8_000 + index * 7_919 % 10_007)
        .collect();
    late.iter()
        .for_each(|&(index, latency)| latencies[index] = latency);
    latencies
}

fn show(run: &MadeRun, flags: &str) -> String {
    let place = Workplace::new();
    run.write(&place.path("run"));
    let outcome = place.tardy(&format!("show run {flags}"));
    assert!(
        outcome.stdout.lines().count() <= 24,
        "a screen has 24 lines: {}",
        outcome.stdout
    );
    format!("{}(exit code {})\n", outcome.stdout, outcome.code())
}

#[test]
fn two_cpus_in_three_phases_with_a_deadline() {
    let run = MadeRun {
        phases: vec![("idle", 0, 10), ("io", 10, 20), ("fork+io", 20, 30)],
        ..MadeRun::new(vec![
            latencies(30_000, &[(12_000, 95_000), (25_000, 180_500)]),
            latencies(30_000, &[(24_321, 240_000)]),
        ])
    };
    insta::assert_snapshot!(show(&run, "--deadline 200us"));
}

/// A run of ten loads on two CPUs, with long warnings; the last load is the worst.
fn with_many_loads() -> MadeRun {
    let names = [
        "idle",
        "hackbench",
        "memory",
        "fork",
        "io",
        "mmap-lock",
        "timers",
        "procfs",
        "reclaim",
        "together",
    ];
    let phases = names
        .iter()
        .enumerate()
        .map(|(place, name)| (*name, 3 * place as i64, 3 * place as i64 + 3))
        .collect();
    let late: Vec<(usize, i64)> = (0..10)
        .map(|place| (place * 3_000 + 1_500, 100_000 * (place as i64 + 1)))
        .collect();
    let warnings = vec![
        Warning::NoRealTimePolicy {
            policy: "SCHED_FIFO 80".into(),
            error: "Operation not permitted".into(),
        },
        Warning::MemoryNotLocked {
            error: "Operation not permitted".into(),
        },
        Warning::TimeStolen {
            cpu: CpuId(0),
            stolen: Nanos::from_millis(20),
        },
    ];
    let machine = serde_json::json!({"kernel": {"release": "6.1.0-rt"}, "host_name": "board7"});
    MadeRun {
        phases,
        warnings,
        machine,
        ..MadeRun::new(vec![
            latencies(30_000, &late),
            latencies(30_000, &[(29_000, 4_670_000)]),
        ])
    }
}

#[test]
fn a_summary_fits_its_screen_at_every_width() {
    let place = Workplace::new();
    with_many_loads().write(&place.path("run"));
    let shown = |columns: &str, flags: &str| {
        let mut command = place.command(["show", "run"]);
        command
            .args(flags.split_whitespace())
            .env("COLUMNS", columns)
            .env("LINES", "24");
        finish(command).stdout
    };
    for (columns, width) in [
        ("60", 60),
        ("80", 80),
        ("100", 100),
        ("120", 120),
        ("200", 200),
    ] {
        for flags in ["", "--deadline 1ms", "--deadline 500us --misses 1e-3"] {
            let text = shown(columns, flags);
            assert!(
                text.lines().count() < 24,
                "the prompt needs a line, at {columns} with {flags}: {text}"
            );
            assert!(
                text.lines().all(|line| line.chars().count() <= width),
                "{columns}: {text}"
            );
            let worst = if flags.is_empty() {
                "Largest latency: 4.67 ms (CPU 1, under together). Half of"
            } else {
                "worst load: together, 4.67 ms; idle, 100 us\n"
            };
            assert!(text.contains(worst), "{text}");
            assert!(
                text.contains("\nnext: tardy report run --html run.html"),
                "{text}"
            );
        }
        let full = shown(columns, "--full");
        assert!(
            full.lines().all(|line| line.chars().count() <= width),
            "{columns}: {full}"
        );
        for cell in [
            "jitter 99.9 %",
            "99.99 %",
            "memory was not locked",
            "procfs",
            "CPU 1",
        ] {
            assert!(full.contains(cell), "no {cell} at {columns}: {full}");
        }
    }
    insta::assert_snapshot!(shown("80", "--deadline 1ms"));
}

#[test]
fn several_probes_have_a_row_each_and_their_worst_load() {
    let beside = vec![
        ("timerfd", "latency", latencies(30_000, &[(4_000, 900_000)])),
        ("app", "completion", latencies(30_000, &[])),
    ];
    let text = show(
        &MadeRun {
            beside,
            ..with_many_loads()
        },
        "",
    );
    let row = |name: &str| {
        text.lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("no {name}: {text}"))
    };
    assert!(
        row("cyclic ").contains("4.67 ms") && row("cyclic ").contains("together"),
        "{text}"
    );
    assert!(
        row("timerfd ").contains("900 us") && row("timerfd ").contains("hackbench"),
        "{text}"
    );
    assert!(
        row("max under load").ends_with("cyclic  timerfd      app"),
        "{text}"
    );
}

#[test]
fn a_quiet_run_without_a_deadline() {
    insta::assert_snapshot!(show(&MadeRun::new(vec![latencies(5_000, &[])]), ""));
}

/// A run in the lab is two levels below the folder of its experiment.
#[test]
fn the_only_run_below_a_folder_is_the_one_that_is_meant() {
    let place = Workplace::new();
    MadeRun::new(vec![latencies(1000, &[])]).write(&place.path("lab/6.1/replica-000"));
    let of_run = |line: &str| place.tardy(&format!("{line} lab/6.1/replica-000"));
    let of_folder = |line: &str| place.tardy(&format!("{line} lab"));
    for line in ["show", "show --json", "explain"] {
        let (run, folder) = (of_run(line), of_folder(line));
        assert_eq!(
            (run.code(), &run.stdout, &run.stderr),
            (folder.code(), &folder.stdout, &folder.stderr)
        );
    }
    MadeRun::new(vec![latencies(1000, &[])]).write(&place.path("lab/6.12/replica-000"));
    let outcome = of_folder("explain");
    assert_eq!(outcome.code(), 2, "{outcome:?}");
    assert!(
        outcome.stderr.contains("lab/6.12/replica-000"),
        "{outcome:?}"
    );
}

#[test]
fn late_wake_ups_that_skip_periods() {
    let run = MadeRun::new(vec![latencies(
        5_000,
        &[(1_000, 5_300_000), (3_000, 12_700_000)],
    )]);
    insta::assert_snapshot!(show(&run, "--deadline 100us --misses 1e-3"));
}

#[test]
fn lost_samples_come_first() {
    let run = MadeRun {
        gaps: vec![(2_500, 41)],
        ..MadeRun::new(vec![latencies(5_000, &[]), latencies(5_000, &[])])
    };
    insta::assert_snapshot!(show(&run, "--deadline 100us"));
}

#[test]
fn a_run_that_was_cut_off() {
    insta::assert_snapshot!(show(
        &MadeRun {
            state: State::Running,
            ..MadeRun::new(vec![latencies(5_000, &[])])
        },
        ""
    ));
}

#[test]
fn more_cpus_than_a_screen_has_lines() {
    let series = (0..40)
        .map(|cpu| latencies(1_000, &[(500, 20_000 + cpu * 1_000)]))
        .collect();
    insta::assert_snapshot!(show(&MadeRun::new(series), ""));
}

/// Shows a run of one CPU, in which each of the given samples is 50 ms late, on a machine with the
/// given throttling and kernel release.
fn stalled(throttling: &serde_json::Value, release: &str, at: &[usize]) -> String {
    let stalls: Vec<_> = at.iter().map(|&index| (index, 50_100_000)).collect();
    let machine = serde_json::json!({"throttling": throttling, "kernel": {"release": release}});
    let place = Workplace::new();
    MadeRun {
        machine,
        ..MadeRun::new(vec![latencies(5_000, &stalls)])
    }
    .write(&place.path("run"));
    place.tardy("show run").stdout
}

#[test]
fn stalls_are_laid_to_the_rule_that_this_kernel_has_and_a_single_one_to_none() {
    let limit = serde_json::json!({"period": 1_000_000_000, "runtime": 950_000_000});
    let before = serde_json::json!({"real_time": limit, "has_fair_server": false});
    let since = serde_json::json!({"real_time": limit, "has_fair_server": true});
    let twice = stalled(&before, "6.1.0", &[1_000, 2_000]);
    assert!(
        twice.contains(
            "! 2 stalls of about 50.0 ms look like real-time throttling \
             (kernel.sched_rt_runtime_us), not "
        ),
        "{twice}"
    );
    let twice = stalled(&since, "6.12.0", &[1_000, 2_000]);
    assert!(
        twice.contains(
            "! 2 stalls of about 50.0 ms look like the fair server, which gives ordinary tasks 50 \
             ms of each"
        ),
        "{twice}"
    );
    for throttling in [before, since] {
        let once = stalled(&throttling, "6.1.0", &[1_000]);
        assert!(!once.contains("stalls"), "{once}");
    }
}

#[test]
fn a_table_of_runs_names_the_run_that_lost_samples() {
    let place = Workplace::new();
    let whole = MadeRun::new(vec![latencies(5_000, &[])]);
    whole.write(&place.path("rack/whole"));
    MadeRun {
        gaps: vec![(500, 3)],
        ..MadeRun::new(vec![latencies(5_000, &[])])
    }
    .write(&place.path("rack/lossy"));
    let shown = place.tardy("show rack").ends_with(4);
    let warnings: Vec<&str> = shown
        .stdout
        .lines()
        .filter(|line| line.starts_with('!'))
        .collect();
    assert!(
        matches!(warnings.as_slice(), [one] if one.starts_with("! lossy: 3 samples of cyclic")),
        "{}",
        shown.stdout
    );
}

#[test]
fn an_overview_says_if_the_largest_latency_is_not_that_of_the_worst_load() {
    let place = Workplace::new();
    for (name, late_at) in [("between", 1_500), ("under", 2_500)] {
        let mut latencies = vec![20_000; 3_000];
        latencies[2_500] = 90_000;
        latencies[late_at] = 900_000;
        // No load runs from 1 s to 2 s.
        let made = MadeRun {
            phases: vec![("idle", 0, 1), ("memory", 2, 3)],
            ..MadeRun::new(vec![latencies])
        };
        made.write(&place.path(name));
    }
    let table = place.tardy("show .").ends_with(0).stdout;
    let row = |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(
        row("between").ends_with("900 us  memory, 90.0 us"),
        "{table}"
    );
    assert!(row("under").ends_with("900 us  memory"), "{table}");
}
