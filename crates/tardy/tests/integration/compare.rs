//! `tardy compare` of runs whose samples are drawn from known distributions, through the real binary and its exit codes.
#![allow(clippy::unwrap_used, reason = "a test ends where something is not as expected")]

use crate::support;

use rand::{RngExt, SeedableRng};
use serde_json::json;
use support::made_run::MadeRun;
use support::workplace::{Outcome, Workplace};
use tardy_core::series::ClockKind;
use tardy_core::warning::Warning;

/// Exponential latencies of this mean above a least one of 10 us, in ns; the same for ever for a seed.
fn latencies(seed: u64, count: usize, mean: f64) -> Vec<i64> {
    let mut random = rand_pcg::Pcg64::seed_from_u64(seed);
    (0..count).map(|_| 10_000 + (-mean * f64::ln(1.0 - random.random::<f64>())) as i64).collect()
}

fn run(seed: u64, mean: f64) -> MadeRun {
    MadeRun::new(vec![latencies(seed, 30_000, mean), latencies(seed + 1000, 30_000, mean)])
}

/// Both runs as `base` and `new`, compared.
fn compare(base: &MadeRun, new: &MadeRun, flags: &str) -> Outcome {
    let place = Workplace::new();
    base.write(&place.path("base"));
    new.write(&place.path("new"));
    place.tardy(&format!("compare base new {flags}"))
}

#[test]
fn a_slower_run_is_worse_and_says_where_and_what_else_changed() {
    let machine =
        |release: &str, command_line: &str| json!({"kernel": {"release": release, "command_line": command_line}, "boot_id": release});
    let base = MadeRun { machine: machine("6.1.0", "ro quiet"), ..run(1, 5_000.0) };
    let new = MadeRun { machine: machine("6.12.0", "ro quiet isolcpus=1"), ..run(2, 6_000.0) };
    let outcome = compare(&base, &new, "").ends_with(1);
    assert!(outcome.stdout.lines().count() <= 24, "a screen has 24 lines: {}", outcome.stdout);
    insta::assert_snapshot!(outcome.stdout);
}

#[test]
fn the_faster_run_is_better() {
    let outcome = compare(&run(1, 7_000.0), &run(2, 5_000.0), "--quantiles 0.5,0.9,0.99").ends_with(0);
    assert!(outcome.stdout.starts_with("new against base: BETTER"), "{}", outcome.stdout);
}

#[test]
fn runs_of_one_distribution_are_equivalent_within_a_margin_that_the_samples_can_resolve() {
    let outcome = compare(&run(1, 5_000.0), &run(2, 5_000.0), "--quantiles 0.5,0.9,0.99 --margin 1us").ends_with(0);
    assert!(outcome.stdout.contains("EQUIVALENT: no quantile differs by more than the margin (margin 1us)"), "{}", outcome.stdout);
    // Nothing is equivalent within nothing.
    let open = compare(&run(1, 5_000.0), &run(2, 5_000.0), "--quantiles 0.5 --margin 0").ends_with(4);
    assert!(open.stdout.contains("INCONCLUSIVE"), "{}", open.stdout);
}

#[test]
fn too_few_samples_are_inconclusive_and_say_how_many_would_do() {
    let short = |seed, mean| MadeRun::new(vec![latencies(seed, 2_000, mean)]);
    let outcome = compare(&short(1, 5_000.0), &short(2, 5_100.0), "--quantiles 0.99,0.99999").ends_with(4);
    assert!(outcome.stdout.contains("times the data"), "{}", outcome.stdout);
    let last = outcome.stdout.lines().find(|line| line.starts_with("99.999 %")).unwrap();
    assert!(last.contains("needs 184 times the data") && last.trim_end().ends_with('-'), "{last}");
}

#[test]
fn virtual_and_real_time_are_refused_unless_told_otherwise() {
    let new = MadeRun { clock: ClockKind::Virtual, ..run(2, 5_000.0) };
    let refused = compare(&run(1, 5_000.0), &new, "").ends_with(2);
    assert!(refused.stdout.is_empty() && refused.stderr.contains("--across-clocks"), "{refused:?}");
    let told = compare(&run(1, 5_000.0), &new, "--across-clocks --margin 100us").ends_with(0);
    assert!(told.stdout.contains("! one side is in virtual time"), "{}", told.stdout);
}

#[test]
fn interval_errors_and_latencies_never_stand_in_one_table() {
    let new = MadeRun { probe: ("cyclic", "interval error"), ..run(2, 5_000.0) };
    let refused = compare(&run(1, 5_000.0), &new, "").ends_with(2);
    assert!(refused.stderr.contains("cyclic latency") && refused.stderr.contains("cyclic interval error"), "{refused:?}");
}

#[test]
fn two_ways_of_measuring_the_same_stand_beside_each_other_with_a_warning() {
    let other = MadeRun { probe: ("cyclictest", "latency"), ..run(3, 20_000.0) };
    let outcome = compare(&other, &run(4, 20_000.0), "");
    assert!(outcome.stdout.contains("cyclic stands beside cyclictest"), "{}{}", outcome.stdout, outcome.stderr);
}

#[test]
fn the_same_runs_and_seed_give_the_same_bytes() {
    let json = |flags: &str| {
        let outcome = compare(&run(1, 5_000.0), &run(2, 5_050.0), &format!("--format json {flags}"));
        let mut json = outcome.json();
        json["settings"]["seed"].take();
        json
    };
    assert_eq!(json("--seed 7"), json("--seed 7"));
    assert_ne!(json("--seed 7"), json("--seed 8"));
}

#[test]
fn the_interval_of_a_known_shift_holds_the_shift() {
    let shifted =
        MadeRun::new(run(2, 5_000.0).latencies.into_iter().map(|cpu| cpu.into_iter().map(|latency| latency + 2_000).collect()).collect());
    let json = compare(&run(1, 5_000.0), &shifted, "--format json").ends_with(1).json();
    let rows = json["candidates"][0]["tables"][0]["rows"].as_array().unwrap();
    for row in rows.iter().filter(|row| !row["interval_ns"].is_null()) {
        let (lower, upper) = (row["interval_ns"]["lower"].as_f64().unwrap(), row["interval_ns"]["upper"].as_f64().unwrap());
        assert!(lower <= 2_000.0 && 2_000.0 <= upper, "{row}");
    }
    assert_eq!(rows.iter().filter(|row| !row["interval_ns"].is_null()).count(), 5, "the highest quantile has no upper bound here");
}

#[test]
fn a_deadline_missed_more_often_is_worse_whatever_the_quantiles_say() {
    let late = |each: usize| {
        let mut run = run(1, 5_000.0);
        for latencies in &mut run.latencies {
            (0..latencies.len()).step_by(each).for_each(|index| latencies[index] = 200_000);
        }
        run
    };
    let outcome = compare(&late(3_000), &late(600), "--deadline 150us --margin 1ms").ends_with(1);
    assert!(
        outcome.stdout.contains("WORSE: cyclic latency: 100 of 60000 due times missed the deadline, 20 of 60000 in the baseline"),
        "{}",
        outcome.stdout
    );
    let row = outcome.stdout.lines().find(|line| line.starts_with("deadline missed")).unwrap();
    assert!(row.contains("20/60000") && row.contains("100/60000") && row.contains("x 5.00"), "{row}");
    compare(&late(600), &late(600), "--deadline 1ms --margin 1ms").ends_with(0);
}

#[test]
fn repeated_runs_are_compared_run_by_run() {
    let place = Workplace::new();
    // Runs of one side differ by more than samples of one run do: as boots of a machine.
    for (side, shift, levels) in [("base", 0, [0, 900, 2_000, 2_900, 4_000]), ("new", 90_000, [100, 1_000, 2_100, 3_000, 4_100])] {
        std::fs::create_dir(place.path(side)).unwrap();
        for (index, level) in levels.into_iter().enumerate() {
            let latencies = latencies(index as u64, 5_000, 5_000.0).into_iter().map(|latency| latency + level + shift).collect();
            MadeRun::new(vec![latencies]).write(&place.path(&format!("{side}/run-{index}")));
        }
    }
    let json = place.tardy("compare base new --format json").ends_with(1).json();
    let table = &json["candidates"][0]["tables"][0];
    assert_eq!(table["method"]["method"], "runs");
    assert_eq!(table["rows"][0]["probability"].as_f64().unwrap(), 2.0 / 252.0);
    assert_eq!(table["maxima"]["all_above_by_chance"].as_f64().unwrap(), 1.0 / 252.0);
    // The same level in another order: nothing to see, and no claim of equality within less than the levels' spread.
    let same = place.tardy("compare base base --format json --margin 0").ends_with(4).json();
    assert_eq!(same["candidates"][0]["tables"][0]["rows"][0]["difference_ns"], 0.0);
}

#[test]
fn a_degraded_run_decides_nothing_in_favour() {
    let warnings = vec![Warning::NoRealTimePolicy { policy: "SCHED_FIFO 95".into(), error: "not permitted".into() }];
    let degraded = |mean| MadeRun { warnings: warnings.clone(), ..run(3, mean) };
    let better = compare(&run(1, 9_000.0), &degraded(5_000.0), "--quantiles 0.5").ends_with(4);
    assert!(better.stdout.contains("decides nothing in favour"), "{}", better.stdout);
    compare(&run(1, 5_000.0), &degraded(9_000.0), "--quantiles 0.5").ends_with(4);
    let both = MadeRun { warnings: warnings.clone(), ..run(1, 5_000.0) };
    compare(&both, &degraded(9_000.0), "--quantiles 0.5").ends_with(1);
}

#[test]
fn a_load_that_got_worse_is_not_hidden_by_the_others() {
    let phases = vec![("idle", 0, 20), ("io", 20, 30)];
    let with_io = |seed: u64, io: f64| {
        let mut latencies = latencies(seed, 20_000, 5_000.0);
        latencies.extend(self::latencies(seed + 500, 10_000, io));
        MadeRun { phases: phases.clone(), ..MadeRun::new(vec![latencies]) }
    };
    let outcome = compare(&with_io(1, 5_000.0), &with_io(2, 12_000.0), "--quantiles 0.5 --margin 2us").ends_with(1);
    assert!(outcome.stdout.contains("50 % quantile of cyclic latency under io"), "{}", outcome.stdout);
    let io = compare(&with_io(1, 5_000.0), &with_io(2, 12_000.0), "--phase idle --quantiles 0.5 --margin 2us").ends_with(0);
    assert!(!io.stdout.contains("under io"), "{}", io.stdout);
    let refused = compare(&with_io(1, 5_000.0), &with_io(2, 12_000.0), "--phase fork").ends_with(2);
    assert!(refused.stderr.contains("has no phase `fork`: it has idle, io"), "{}", refused.stderr);
}

#[test]
fn markdown_and_junit_say_the_same_and_keep_foreign_text_inert() {
    let machine = json!({"host_name": "<script>alert(1)</script>|`x`", "kernel": {"release": "a\"><b>"}});
    let new = MadeRun { machine, ..run(2, 6_000.0) };
    let markdown = compare(&run(1, 5_000.0), &new, "--format markdown").ends_with(1);
    assert!(!markdown.stdout.contains("<script") && !markdown.stdout.contains("<b>"), "{}", markdown.stdout);
    insta::assert_snapshot!("markdown", markdown.stdout);
    let junit = compare(&run(1, 5_000.0), &new, "--format junit").ends_with(1);
    let document = roxmltree::Document::parse(&junit.stdout).unwrap();
    let failures = document.descendants().filter(|node| node.has_tag_name("failure")).count();
    assert!(failures >= 2, "the verdict and the rows behind it: {}", junit.stdout);
    insta::assert_snapshot!("junit", junit.stdout);
}

#[test]
fn what_is_no_run_is_refused() {
    let place = Workplace::new();
    run(1, 5_000.0).write(&place.path("base"));
    std::fs::create_dir(place.path("empty")).unwrap();
    for new in ["empty", "missing"] {
        let refused = place.tardy(&format!("compare base {new}")).ends_with(2);
        assert!(refused.stderr.contains(&format!("{new} is not a run folder")), "{}", refused.stderr);
    }
    for flags in ["--margin 5", "--quantiles 1", "--quantiles 0", "--confidence 95", "--resamples 0", "--format xml"] {
        place.tardy(&format!("compare base base {flags}")).ends_with(2);
    }
}

#[test]
fn a_change_over_time_is_found_with_what_changed_there() {
    let place = Workplace::new();
    for index in 0..14_u64 {
        let (mean, release) = if index < 8 { (5_000.0, "6.1.0") } else { (6_500.0, "6.12.0") };
        let made = MadeRun {
            // Names in another order than time.
            started: 1_700_000_000 + index as i64 * 86_400,
            machine: json!({"kernel": {"release": release}}),
            ..MadeRun::new(vec![latencies(index, 5_000, mean)])
        };
        made.write(&place.path(&format!("run-{:02}", (index * 5) % 14)));
    }
    let runs: Vec<String> = (0..14).map(|index| format!("run-{index:02}")).collect();
    let outcome = place.tardy(&format!("compare --over-time {}", runs.join(" "))).ends_with(1);
    insta::assert_snapshot!(outcome.stdout);
    // The folder that holds them all is the same.
    for folders in [".", ". run-03 ./run-03"] {
        let json = place.tardy(&format!("compare --over-time {folders} --format json")).ends_with(1).json();
        assert_eq!((&json["changes"][0]["run"], json["runs"].as_array().unwrap().len()), (&json!(8), 14), "a run counts once");
    }
    let few = place.tardy("compare --over-time run-00 run-05 run-10").ends_with(4);
    assert!(few.stdout.contains("too few"), "{}", few.stdout);
    for format in ["junit", "markdown"] {
        let outcome = place.tardy(&format!("compare --over-time . --format {format}")).ends_with(1);
        assert!(outcome.stdout.contains("32.7 us -"), "{}", outcome.stdout);
    }
    // Times of different clocks are in no series.
    MadeRun { clock: ClockKind::Virtual, ..run(99, 5_000.0) }.write(&place.path("virtual"));
    let refused = place.tardy("compare --over-time .").ends_with(2);
    assert!(refused.stderr.contains("--across-clocks"), "{}", refused.stderr);
}
