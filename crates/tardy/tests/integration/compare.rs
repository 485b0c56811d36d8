//! Tests `tardy compare` of runs with samples from known distributions, through the real binary and
//! its exit codes.

use crate::support;

use rand::{RngExt, SeedableRng};
use serde_json::json;
use support::made_run::MadeRun;
use support::workplace::{Outcome, Workplace};
use tardy_core::series::ClockKind;
use tardy_core::warning::Warning;

/// Latencies in ns: 10 us plus an exponential variable with the given mean. The same seed always
/// gives the same latencies.
pub(crate) fn latencies(seed: u64, count: usize, mean: f64) -> Vec<i64> {
    let mut random = rand_pcg::Pcg64::seed_from_u64(seed);
    (0..count)
        .map(|_| 10_000 + (-mean * f64::ln(1.0 - random.random::<f64>())) as i64)
        .collect()
}

pub(crate) fn run(seed: u64, mean: f64) -> MadeRun {
    MadeRun::new(vec![
        latencies(seed, 30_000, mean),
        latencies(seed + 1000, 30_000, mean),
    ])
}

/// Writes the runs as `base` and `new`, and compares them.
pub(crate) fn compare(base: &MadeRun, new: &MadeRun, flags: &str) -> Outcome {
    let place = Workplace::new();
    base.write(&place.path("base"));
    new.write(&place.path("new"));
    place.tardy(&format!("compare base new {flags}"))
}

#[test]
fn a_slower_run_is_worse_and_says_where_and_what_else_changed() {
    let machine = |release: &str, command_line: &str| json!({"kernel": {"release": release, "command_line": command_line}, "boot_id": release});
    let base = MadeRun {
        machine: machine("6.1.0", "ro quiet"),
        ..run(1, 5_000.0)
    };
    let new = MadeRun {
        machine: machine("6.12.0", "ro quiet isolcpus=1"),
        ..run(2, 10_000.0)
    };
    let outcome = compare(&base, &new, "").ends_with(1);
    assert!(
        outcome.stdout.lines().count() <= 24,
        "a screen has 24 lines: {}",
        outcome.stdout
    );
    insta::assert_snapshot!(outcome.stdout);
}

#[test]
fn the_faster_run_is_better() {
    let outcome = compare(
        &run(1, 20_000.0),
        &run(2, 5_000.0),
        "--quantiles 0.5,0.9,0.99",
    )
    .ends_with(0);
    assert!(
        outcome.stdout.starts_with("new against base: BETTER"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn runs_of_one_distribution_are_equivalent_within_a_margin_that_the_samples_can_resolve() {
    let outcome = compare(
        &run(1, 5_000.0),
        &run(2, 5_000.0),
        "--quantiles 0.5,0.9,0.99 --margin 2us --between-runs 0",
    )
    .ends_with(0);
    assert!(
        outcome.stdout.contains(
            "EQUIVALENT: all compared quantiles up to 99 % are equal within the margin (margin \
             2us)"
        ),
        "{}",
        outcome.stdout
    );
    // With a margin of zero, no difference is small enough to call the runs equivalent.
    let open = compare(
        &run(1, 5_000.0),
        &run(2, 5_000.0),
        "--quantiles 0.5 --margin 0",
    )
    .ends_with(4);
    assert!(open.stdout.contains("INCONCLUSIVE"), "{}", open.stdout);
}

#[test]
fn quantiles_that_a_side_does_not_bound_are_listed_and_not_compared() {
    let short = |seed, mean| MadeRun::new(vec![latencies(seed, 2_000, mean)]);
    let outcome = compare(
        &short(1, 5_000.0),
        &short(2, 5_100.0),
        "--full --quantiles 0.9,0.99,0.999,0.99999",
    )
    .ends_with(4);
    let line = outcome
        .stdout
        .lines()
        .find(|line| line.starts_with("not compared"))
        .unwrap();
    assert!(
        line.contains("99.9 % (needs 3.0 times the data)") && line.ends_with("99.999 %"),
        "184 times the data is no advice: {line}"
    );
    assert!(
        !outcome.stdout.lines().any(|line| line.starts_with("99.9")),
        "{}",
        outcome.stdout
    );
    // Without --quantiles, a quantile is compared only if more samples lie beyond it than its bound
    // requires.
    let json = compare(&short(1, 5_000.0), &short(2, 5_100.0), "--format json").json();
    let of = |list: &str| -> Vec<f64> {
        json["candidates"][0]["tables"][0][list]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["quantile"].as_f64().unwrap())
            .collect()
    };
    assert_eq!(
        (of("rows"), of("not_compared")),
        (vec![0.5, 0.9], vec![0.99, 0.999, 0.9999, 0.999_99])
    );
}

/// A run whose latencies are multiplied by `level`.
fn at_level(seed: u64, level: f64) -> MadeRun {
    MadeRun::new(vec![
        latencies(seed, 20_000, 5_000.0)
            .into_iter()
            .map(|latency| (latency as f64 * level) as i64)
            .collect(),
    ])
}

#[test]
fn one_run_a_side_is_not_called_worse_for_what_runs_differ_by_anyway() {
    // The first levels are typical of runs that differ by 5 %, and the last levels are typical of
    // runs that differ by 10 %.
    for (index, (base, new)) in [
        (0.97, 1.05),
        (1.06, 0.96),
        (1.0, 1.11),
        (0.93, 1.04),
        (0.9, 1.1),
    ]
    .into_iter()
    .enumerate()
    {
        let seed = 10 * index as u64;
        let outcome = compare(&at_level(seed, base), &at_level(seed + 1, new), "").ends_with(4);
        assert!(
            outcome.stdout.contains("4 runs per side"),
            "{}",
            outcome.stdout
        );
    }
    compare(&at_level(1, 0.96), &at_level(2, 1.55), "").ends_with(1);
    compare(&at_level(1, 1.5), &at_level(2, 1.0), "").ends_with(0);
    // A user can state that runs do not differ.
    compare(&at_level(1, 0.97), &at_level(2, 1.05), "--between-runs 0").ends_with(1);
    compare(
        &at_level(1, 1.0),
        &at_level(2, 1.0),
        "--between-runs 0% --margin 10% --quantiles 0.5,0.9",
    )
    .ends_with(0);
    for wrong in ["-5", "half", "5us"] {
        compare(
            &at_level(1, 1.0),
            &at_level(2, 1.0),
            &format!("--between-runs {wrong}"),
        )
        .ends_with(2);
    }
}

#[test]
fn a_row_says_what_its_interval_says_and_an_open_table_says_why() {
    let drifting = |seed: u64| {
        let wave = |index: usize| (12_000.0 * (index as f64 / 3_000.0).sin()) as i64 + 12_000;
        MadeRun::new(vec![
            latencies(seed, 20_000, 5_000.0)
                .into_iter()
                .enumerate()
                .map(|(index, latency)| latency + wave(index))
                .collect(),
        ])
    };
    let shifted = MadeRun::new(vec![
        drifting(3).latencies[0]
            .iter()
            .map(|latency| latency * 2)
            .collect(),
    ]);
    for (base, new) in [
        (drifting(1), drifting(2)),
        (drifting(1), shifted),
        (at_level(1, 1.0), at_level(2, 1.7)),
        (run(1, 5_000.0), run(2, 5_050.0)),
    ] {
        for flags in ["", "--between-runs 0"] {
            let json = compare(&base, &new, &format!("{flags} --format json")).json();
            let table = &json["candidates"][0]["tables"][0];
            for row in table["rows"].as_array().unwrap() {
                let margin = row["margin_ns"].as_f64().unwrap();
                let end = |which: &str| row["interval_ns"][which].as_f64();
                let expected =
                    end("lower")
                        .zip(end("upper"))
                        .map(|(lower, upper)| match (lower, upper) {
                            _ if lower > margin => "worse",
                            _ if upper < -margin => "better",
                            _ if lower >= -margin && upper <= margin => "equivalent",
                            _ => "inconclusive",
                        });
                assert_eq!(row["verdict"].as_str(), expected, "{row}");
                assert!(
                    row["data_needed"]
                        .as_f64()
                        .is_none_or(|factor| factor <= 20.0),
                    "{row}"
                );
            }
            assert_eq!(
                table["rows"][0]["verdict"].is_null(),
                !table["undecided"].is_null(),
                "{table}"
            );
        }
    }
    let open = compare(&drifting(1), &drifting(2), "--full").ends_with(4);
    assert!(
        open.stdout
            .contains("not decided: samples are correlated over more than one block"),
        "{}",
        open.stdout
    );
}

#[test]
fn runs_that_do_not_repeat_one_measurement_are_no_side() {
    let place = Workplace::new();
    for (folder, load) in [("mixed", "idle"), ("mixed", "memory"), ("alike", "idle")] {
        std::fs::create_dir_all(place.path(folder)).unwrap();
        let made = MadeRun {
            phases: vec![(load, 0, 1_000_000)],
            ..run(1, 5_000.0)
        };
        made.write(&place.path(&format!("{folder}/{load}")));
    }
    for (sides, side) in [
        ("mixed alike", "mixed"),
        ("alike mixed", "mixed"),
        ("alike .", "."),
        ("--over-time mixed", "mixed"),
    ] {
        let refused = place.tardy(&format!("compare {sides}")).ends_with(2);
        assert!(
            refused.stdout.is_empty()
                && refused.stderr.contains(&format!(
                    "the runs of {side} are not repeats of one measurement: the loads"
                )),
            "{}",
            refused.stderr
        );
        assert!(refused.stderr.len() < 500, "{}", refused.stderr);
    }
    let kernel = MadeRun {
        machine: json!({"kernel": {"release": "6.12.0"}}),
        ..run(2, 5_000.0)
    };
    kernel.write(&place.path("alike/other"));
    let refused = place.tardy("compare mixed/idle alike").ends_with(2);
    assert!(
        refused.stderr.contains("the kernel of"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_folder_alone_is_compared_across_its_kernels_and_what_measured_something_else_is_left_out() {
    let place = Workplace::new();
    let made = |release: &str, load: &'static str, seed: u64, mean: f64, started: i64| MadeRun {
        machine: json!({"kernel": {"release": release}}),
        phases: vec![(load, 0, 1_000_000)],
        started: 1_700_000_000 + started,
        ..run(seed, mean)
    };
    std::fs::create_dir_all(place.path("all")).unwrap();
    made("6.1.0", "idle", 1, 5_000.0, 0).write(&place.path("all/z-first"));
    made("6.12.0-rt", "idle", 2, 20_000.0, 10).write(&place.path("all/a-second"));
    made("6.12.0-rt", "memory", 3, 5_000.0, 20).write(&place.path("all/b-third"));
    let outcome = place.tardy("compare all").ends_with(1);
    assert!(
        outcome
            .stdout
            .starts_with("6.12.0-rt (all/a-second) against 6.1.0 (all/z-first): WORSE"),
        "{}",
        outcome.stdout
    );
    assert!(
        outcome.stdout.ends_with("next: tardy compare all --full\n"),
        "{}",
        outcome.stdout
    );
    assert!(
        outcome
            .stderr
            .contains("6.12.0-rt (all/b-third) is left out, because its measurement differs from"),
        "{}",
        outcome.stderr
    );
    assert!(
        place
            .tardy("compare all/z-first")
            .ends_with(2)
            .stderr
            .contains("only one side: name the run")
    );
    std::fs::remove_dir_all(place.path("all/a-second")).unwrap();
    let refused = place.tardy("compare all").ends_with(2);
    assert!(
        refused.stdout.is_empty()
            && refused
                .stderr
                .contains("has no measurement that was run on two kernels"),
        "{}",
        refused.stderr
    );
}

#[test]
fn the_first_table_has_a_row_for_each_load_and_facts_come_last() {
    let names = ["idle", "io", "memory", "fork", "procfs"];
    let phases: Vec<_> = names
        .iter()
        .zip(0..)
        .map(|(name, index)| (*name, 8 * index, 8 * (index + 1)))
        .collect();
    let made = |seed: u64, memory: f64| {
        let level = |index: usize| {
            if names[(index / 8_000).min(4)] == "memory" {
                memory
            } else {
                1.0
            }
        };
        let latencies = latencies(seed, 40_000, 5_000.0).into_iter().enumerate();
        let latencies = latencies
            .map(|(index, latency)| (latency as f64 * level(index)) as i64)
            .collect();
        MadeRun {
            phases: phases.clone(),
            ..MadeRun::new(vec![latencies])
        }
    };
    let facts: serde_json::Map<String, serde_json::Value> = (0..20)
        .map(|index| (format!("{index}"), json!("x")))
        .collect();
    let imported = MadeRun {
        machine: json!({"kernel": {"release": "6.12.0"}, "host_name": "board7", "settings": facts}),
        ..made(2, 4.0)
    };
    let outcome = compare(&made(1, 1.0), &imported, "").ends_with(1);
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    let head = lines
        .iter()
        .position(|line| {
            line.contains("median") && line.contains("99.9 %") && line.contains("verdict")
        })
        .unwrap();
    assert!(head <= 2, "{}", outcome.stdout);
    assert!(
        lines[head + 1].starts_with("memory")
            && lines[head + 1].contains("(x 4")
            && lines[head + 1].ends_with("worse"),
        "{}",
        outcome.stdout
    );
    let rows: Vec<&str> = lines[head + 1..head + 7]
        .iter()
        .map(|line| line.split("  ").next().unwrap())
        .collect();
    assert!(
        names.iter().all(|name| rows.contains(name)) && rows.contains(&"whole run"),
        "{rows:?}"
    );
    assert!(
        !outcome.stdout.contains("(unknown)")
            && lines[lines.len() - 2].contains(" facts are known for one side only: "),
        "{}",
        outcome.stdout
    );
    assert!(
        lines.len() < 24 && *lines.last().unwrap() == "next: tardy compare base new --full",
        "{}",
        outcome.stdout
    );
}

#[test]
fn the_same_runs_and_seed_give_the_same_bytes() {
    let json = |flags: &str| {
        let outcome = compare(
            &run(1, 5_000.0),
            &run(2, 5_050.0),
            &format!("--format json {flags}"),
        );
        let mut json = outcome.json();
        json["settings"]["seed"].take();
        json
    };
    assert_eq!(json("--seed 7"), json("--seed 7"));
    assert_ne!(json("--seed 7"), json("--seed 8"));
}

#[test]
fn the_interval_of_a_known_shift_holds_the_shift() {
    let shifted = MadeRun::new(
        run(2, 5_000.0)
            .latencies
            .into_iter()
            .map(|cpu| cpu.into_iter().map(|latency| latency + 2_000).collect())
            .collect(),
    );
    let json = compare(&run(1, 5_000.0), &shifted, "--between-runs 0 --format json")
        .ends_with(1)
        .json();
    let rows = json["candidates"][0]["tables"][0]["rows"]
        .as_array()
        .unwrap();
    for row in rows.iter().filter(|row| !row["interval_ns"].is_null()) {
        let (lower, upper) = (
            row["interval_ns"]["lower"].as_f64().unwrap(),
            row["interval_ns"]["upper"].as_f64().unwrap(),
        );
        assert!(lower <= 2_000.0 && 2_000.0 <= upper, "{row}");
    }
    assert_eq!(
        rows.iter()
            .filter(|row| !row["interval_ns"].is_null())
            .count(),
        4,
        "the highest quantiles have too few samples beyond them here"
    );
}

#[test]
fn a_deadline_missed_more_often_is_worse_whatever_the_quantiles_say() {
    let late = |each: usize| {
        let mut run = run(1, 5_000.0);
        for latencies in &mut run.latencies {
            (0..latencies.len())
                .step_by(each)
                .for_each(|index| latencies[index] = 200_000);
        }
        run
    };
    let outcome = compare(
        &late(3_000),
        &late(600),
        "--deadline 150us --margin 1ms --full",
    )
    .ends_with(1);
    assert!(
        outcome.stdout.contains(
            "WORSE: cyclic latency: 100 of 60000 due times missed the deadline, 20 of 60000 in \
             the baseline"
        ),
        "{}",
        outcome.stdout
    );
    let row = outcome
        .stdout
        .lines()
        .find(|line| line.starts_with("deadline missed"))
        .unwrap();
    assert!(
        row.contains("20/60000") && row.contains("100/60000") && row.contains("x 5.00"),
        "{row}"
    );
    compare(&late(600), &late(600), "--deadline 1ms --margin 1ms").ends_with(0);
}

#[test]
fn repeated_runs_are_compared_run_by_run() {
    let place = Workplace::new();
    // The runs of one side differ from one another by more than the scatter within each run
    // explains, as runs after different boots of a machine do.
    for (side, shift, levels) in [
        ("base", 0, [0, 900, 2_000, 2_900, 4_000]),
        ("new", 90_000, [100, 1_000, 2_100, 3_000, 4_100]),
    ] {
        std::fs::create_dir(place.path(side)).unwrap();
        for (index, level) in levels.into_iter().enumerate() {
            let latencies = latencies(index as u64, 5_000, 5_000.0)
                .into_iter()
                .map(|latency| latency + level + shift)
                .collect();
            MadeRun::new(vec![latencies]).write(&place.path(&format!("{side}/run-{index}")));
        }
    }
    let json = place
        .tardy("compare base new --format json")
        .ends_with(1)
        .json();
    let table = &json["candidates"][0]["tables"][0];
    assert_eq!(table["method"]["method"], "runs");
    assert_eq!(
        table["rows"][0]["probability"].as_f64().unwrap(),
        2.0 / 252.0
    );
    assert_eq!(
        table["maxima"]["all_above_by_chance"].as_f64().unwrap(),
        1.0 / 252.0
    );
    // With the same runs on both sides, the difference is 0; but if the margin is smaller than the
    // runs' spread, the runs are not called equal.
    let same = place
        .tardy("compare base base --format json --margin 0")
        .ends_with(4)
        .json();
    assert_eq!(
        same["candidates"][0]["tables"][0]["rows"][0]["difference_ns"],
        0.0
    );
}

#[test]
fn a_degraded_run_decides_nothing_in_favour() {
    let warnings = vec![Warning::NoRealTimePolicy {
        policy: "SCHED_FIFO 95".into(),
        error: "not permitted".into(),
    }];
    let degraded = |mean| MadeRun {
        warnings: warnings.clone(),
        ..run(3, mean)
    };
    let better = compare(
        &run(1, 9_000.0),
        &degraded(5_000.0),
        "--quantiles 0.5 --between-runs 0",
    )
    .ends_with(4);
    assert!(
        better.stdout.contains("cannot support this verdict"),
        "{}",
        better.stdout
    );
    compare(
        &run(1, 5_000.0),
        &degraded(9_000.0),
        "--quantiles 0.5 --between-runs 0",
    )
    .ends_with(4);
    let both = MadeRun {
        warnings: warnings.clone(),
        ..run(1, 5_000.0)
    };
    compare(
        &both,
        &degraded(9_000.0),
        "--quantiles 0.5 --between-runs 0",
    )
    .ends_with(1);
}

#[test]
fn a_load_that_got_worse_is_not_hidden_by_the_others() {
    let phases = vec![("idle", 0, 20), ("io", 20, 30)];
    let with_io = |seed: u64, io: f64| {
        let mut latencies = latencies(seed, 20_000, 5_000.0);
        latencies.extend(self::latencies(seed + 500, 10_000, io));
        MadeRun {
            phases: phases.clone(),
            ..MadeRun::new(vec![latencies])
        }
    };
    let outcome = compare(
        &with_io(1, 5_000.0),
        &with_io(2, 12_000.0),
        "--quantiles 0.5 --margin 2us --between-runs 0",
    )
    .ends_with(1);
    assert!(
        outcome
            .stdout
            .starts_with("new against base: WORSE: worse in 1 of 3 rows (io: median +"),
        "{}",
        outcome.stdout
    );
    let io = compare(
        &with_io(1, 5_000.0),
        &with_io(2, 12_000.0),
        "--phase idle --quantiles 0.5 --margin 2us --between-runs 0",
    )
    .ends_with(0);
    assert!(!io.stdout.contains("under io"), "{}", io.stdout);
    let refused = compare(&with_io(1, 5_000.0), &with_io(2, 12_000.0), "--phase fork").ends_with(2);
    assert!(
        refused
            .stderr
            .contains("has no phase `fork`: it has idle, io"),
        "{}",
        refused.stderr
    );
}

#[test]
fn markdown_and_junit_say_the_same_and_keep_foreign_text_inert() {
    let machine =
        json!({"host_name": "<script>alert(1)</script>|`x`", "kernel": {"release": "a\"><b>"}});
    let new = MadeRun {
        machine,
        ..run(2, 10_000.0)
    };
    let markdown = compare(&run(1, 5_000.0), &new, "--format markdown").ends_with(1);
    assert!(
        !markdown.stdout.contains("<script") && !markdown.stdout.contains("<b>"),
        "{}",
        markdown.stdout
    );
    insta::assert_snapshot!("markdown", markdown.stdout);
    let junit = compare(&run(1, 5_000.0), &new, "--format junit").ends_with(1);
    let document = roxmltree::Document::parse(&junit.stdout).unwrap();
    let failures = document
        .descendants()
        .filter(|node| node.has_tag_name("failure"))
        .count();
    assert!(
        failures >= 2,
        "the verdict and the rows behind it: {}",
        junit.stdout
    );
    insta::assert_snapshot!("junit", junit.stdout);
}

#[test]
fn what_is_no_run_is_refused() {
    let place = Workplace::new();
    run(1, 5_000.0).write(&place.path("base"));
    std::fs::create_dir(place.path("empty")).unwrap();
    for new in ["empty", "missing"] {
        let refused = place.tardy(&format!("compare base {new}")).ends_with(2);
        assert!(
            refused
                .stderr
                .contains(&format!("{new} is not a run folder")),
            "{}",
            refused.stderr
        );
    }
    for flags in [
        "--margin 5",
        "--quantiles 1",
        "--quantiles 0",
        "--confidence 95",
        "--resamples 0",
        "--format xml",
    ] {
        place
            .tardy(&format!("compare base base {flags}"))
            .ends_with(2);
    }
}

#[test]
fn a_change_over_time_is_found_with_what_changed_there() {
    let place = Workplace::new();
    for index in 0..14_u64 {
        let (mean, release) = if index < 8 {
            (5_000.0, "6.1.0")
        } else {
            (6_500.0, "6.12.0")
        };
        let made = MadeRun {
            // The names of the runs are not in the order of their times.
            started: 1_700_000_000 + index as i64 * 86_400,
            machine: json!({"kernel": {"release": release}}),
            ..MadeRun::new(vec![latencies(index, 5_000, mean)])
        };
        made.write(&place.path(&format!("run-{:02}", (index * 5) % 14)));
    }
    let runs: Vec<String> = (0..14).map(|index| format!("run-{index:02}")).collect();
    let outcome = place
        .tardy(&format!("compare --over-time {}", runs.join(" ")))
        .ends_with(1);
    insta::assert_snapshot!(outcome.stdout);
    // Naming the folder of all runs gives the same result.
    for folders in [".", ". run-03 ./run-03"] {
        let json = place
            .tardy(&format!("compare --over-time {folders} --format json"))
            .ends_with(1)
            .json();
        assert_eq!(
            (
                &json["changes"][0]["run"],
                json["runs"].as_array().unwrap().len()
            ),
            (&json!(8), 14),
            "a run counts once"
        );
    }
    for (runs, count) in [("run-00 run-05 run-10", "3 runs"), ("run-00", "1 run")] {
        let few = place
            .tardy(&format!("compare --over-time {runs}"))
            .ends_with(4);
        let headline = format!("{count}: INCONCLUSIVE: too few to show a change: at least 8 runs");
        assert!(few.stdout.starts_with(&headline), "{}", few.stdout);
    }
    // Each of these runs has one phase, so the phase is the whole run.
    let of_phase = place
        .tardy("compare --over-time . --phase idle")
        .ends_with(1);
    assert_eq!(
        of_phase.stdout.lines().next(),
        outcome.stdout.lines().next()
    );
    let refused = place
        .tardy("compare --over-time . --phase memory")
        .ends_with(2);
    assert!(
        refused
            .stderr
            .contains(". has no phase `memory`: it has idle"),
        "{}",
        refused.stderr
    );
    for format in ["junit", "markdown"] {
        let outcome = place
            .tardy(&format!("compare --over-time . --format {format}"))
            .ends_with(1);
        assert!(outcome.stdout.contains("32.7 us -"), "{}", outcome.stdout);
    }
    // Times of different clocks do not form a series.
    MadeRun {
        clock: ClockKind::Virtual,
        ..run(99, 5_000.0)
    }
    .write(&place.path("virtual"));
    let refused = place.tardy("compare --over-time .").ends_with(2);
    assert!(
        refused.stderr.contains("--across-clocks"),
        "{}",
        refused.stderr
    );
}
