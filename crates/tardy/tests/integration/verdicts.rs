//! Tests verdicts on runs with known samples, through `tardy show` and its exit code.

use crate::support;

use tardy_core::histogram::{Budget, Histogram};
use tardy_core::warning::Warning;
use tardy_run::record::State;
use tardy_samples::histogram_file;

use support::made_run::MadeRun;
use support::workplace::{Outcome, Workplace};

/// Returns `count` latencies of 10 us, with other values at the indices in `others`.
fn latencies(count: usize, others: &[(usize, i64)]) -> Vec<i64> {
    let mut latencies = vec![10_000; count];
    others
        .iter()
        .for_each(|&(index, latency)| latencies[index] = latency);
    latencies
}

fn show(run: &MadeRun, flags: &str) -> Outcome {
    let place = Workplace::new();
    run.write(&place.path("run"));
    place.tardy(&format!("show run {flags}"))
}

/// A run of `count` samples of 10 us, in which every `each`th sample is 300 us.
fn late_each(count: usize, each: usize) -> MadeRun {
    let late: Vec<(usize, i64)> = (each - 1..count)
        .step_by(each)
        .map(|index| (index, 300_000))
        .collect();
    MadeRun::new(vec![latencies(count, &late)])
}

#[test]
fn no_miss_passes_and_says_how_little_that_shows() {
    let outcome = show(
        &MadeRun::new(vec![latencies(1000, &[]); 2]),
        "--deadline 200us",
    )
    .ends_with(0);
    assert!(
        outcome
            .stdout
            .contains("PASSED: 0 misses in 2000 due times: fewer than "),
        "{}",
        outcome.stdout
    );
    assert!(
        outcome
            .stdout
            .contains("an hour on 2 CPUs together at 95 %")
            && !outcome.stdout.contains("meets"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn one_miss_fails_where_no_share_is_allowed() {
    let run = MadeRun::new(vec![
        latencies(1000, &[]),
        latencies(1000, &[(500, 200_001)]),
    ]);
    let outcome = show(&run, "--deadline 200us").ends_with(1);
    assert!(
        outcome
            .stdout
            .contains("FAILED: 1 of 2000 due times missed the deadline of 200us"),
        "{}",
        outcome.stdout
    );
    show(&run, "--deadline 200001ns").ends_with(0);
    show(&run, "").ends_with(0);
}

/// 60 s with a stall of 5.5 ms in each second. A stall skips due times that are late by 4.5, 3.5,
/// 2.5, 1.5 and 0.5 ms.
fn stalls() -> Vec<i64> {
    let stalls: Vec<(usize, i64)> = (0..60)
        .map(|second| (second * 995 + 200, 5_500_000))
        .collect();
    latencies(60 * 995, &stalls)
}

#[test]
fn a_skipped_due_time_is_as_late_as_the_stall_left_it() {
    let run = MadeRun::new(vec![stalls()]);
    for deadline in ["5.5ms", "6ms", "20ms"] {
        let outcome = show(&run, &format!("--deadline {deadline}")).ends_with(0);
        assert!(
            outcome
                .stdout
                .contains("PASSED: 0 misses in 60000 due times: fewer than "),
            "{}",
            outcome.stdout
        );
        assert!(
            outcome.stdout.contains(
                "; 300 skipped due times would have met the deadline (--skipped limits such \
                 periods)"
            ),
            "{}",
            outcome.stdout
        );
    }
    let outcome = show(&run, "--deadline 3ms").ends_with(1);
    let expected = "FAILED: 180 of 60000 due times missed the deadline of 3ms (120 of them \
                    skipped); 180 skipped due times would have met the deadline";
    assert!(outcome.stdout.contains(expected), "{}", outcome.stdout);
    let json = show(&run, "--deadline 3ms --json").json();
    let numbers = &json["probes"][0]["numbers"];
    assert_eq!(
        (
            &numbers["misses"],
            &numbers["misses_skipped"],
            &numbers["skipped"]
        ),
        (&180.into(), &120.into(), &300.into())
    );
    assert_eq!(
        json["series"][0]["misses_longest_run"]["length"], 3,
        "the stall, and the first two that it skipped"
    );
}

#[test]
fn skipped_periods_are_limited_by_a_number_or_by_a_deadline_up_to_the_period() {
    let run = MadeRun::new(vec![stalls()]);
    let none = show(&run, "--deadline 6ms --skipped 0").ends_with(1);
    assert!(
        none.stdout
            .contains("FAILED: 300 periods were skipped, but --skipped 0 allows none"),
        "{}",
        none.stdout
    );
    let some = show(&run, "--deadline 6ms --skipped 300").ends_with(0);
    assert!(
        some.stdout
            .contains("; 300 periods were skipped, not more than the 300 allowed"),
        "{}",
        some.stdout
    );
    let alone = show(&run, "--skipped 299").ends_with(1);
    assert!(
        alone
            .stdout
            .contains("FAILED: 300 periods were skipped, more than the 299 allowed"),
        "{}",
        alone.stdout
    );
    // A deadline that is at most the period also limits the number of skipped periods: to 0 or, if
    // a share of misses is allowed, to that share.
    let by_deadline = show(&run, "--deadline 1ms").ends_with(1);
    assert!(
        by_deadline.stdout.contains(
            "; 300 periods were skipped, but none may be skipped if the deadline is at most the \
             period"
        ),
        "{}",
        by_deadline.stdout
    );
    show(&run, "--deadline 1ms --misses 0.1").ends_with(0);
    show(&run, "--deadline 1ms --misses 0.1 --skipped 299").ends_with(1);
    show(&run, "--deadline 1ms --misses 1e-3").ends_with(1);
}

#[test]
fn the_limit_of_the_run_is_used_unless_another_one_is_given() {
    let run = MadeRun {
        skipped_allowed: Some(299),
        ..MadeRun::new(vec![stalls()])
    };
    show(&run, "").ends_with(1);
    show(&run, "--skipped 300").ends_with(0);
}

#[test]
fn work_that_was_skipped_was_never_done_whatever_the_deadline() {
    // In old folders, only the names show that the series is about work; in newer folders, a key
    // does.
    for stands_for_work in [false, true] {
        let probe = if stands_for_work {
            ("app", "latency")
        } else {
            ("work.done", "completion")
        };
        let run = MadeRun {
            probe,
            stands_for_work,
            ..MadeRun::new(vec![stalls()])
        };
        let outcome = show(&run, "--deadline 20ms").ends_with(1);
        let expected =
            "FAILED: 300 of 60000 due times missed the deadline of 20ms (all of them skipped)\n";
        assert!(outcome.stdout.contains(expected), "{}", outcome.stdout);
    }
}

#[test]
fn too_early_is_as_bad_as_too_late_in_a_window() {
    let run = MadeRun::new(vec![latencies(1000, &[(500, -112_000)])]);
    show(&run, "--window -111us..+111us").ends_with(1);
    show(&run, "--window -112us..+111us").ends_with(0);
    let outcome = show(&run, "--deadline 111us").ends_with(0);
    assert!(
        outcome.stdout.contains("woke up early 1 times"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn samples_that_were_lost_may_have_missed() {
    let run = MadeRun {
        gaps: vec![(500, 3)],
        ..MadeRun::new(vec![latencies(1000, &[])])
    };
    let outcome = show(&run, "--deadline 200us").ends_with(4);
    assert!(
        outcome
            .first_warning()
            .starts_with("3 samples of cyclic on CPU 0 were lost"),
        "{}",
        outcome.stdout
    );
    assert!(
        outcome.stdout.contains("INCONCLUSIVE"),
        "{}",
        outcome.stdout
    );
    show(&run, "").ends_with(4);
    // Lost samples do not hide a miss that was measured.
    let run = MadeRun {
        gaps: vec![(500, 3)],
        ..MadeRun::new(vec![latencies(1000, &[(20, 300_000)])])
    };
    show(&run, "--deadline 200us").ends_with(1);
}

/// The disk was full, so samples with skipped periods are missing from the file, but are included
/// in the histogram and the counts.
#[test]
fn skipped_periods_of_samples_that_were_not_kept_are_no_misses_of_a_long_deadline() {
    let place = Workplace::new();
    MadeRun::new(vec![latencies(1000, &[])]).write(&place.path("run"));
    let file = place.path("run/samples/cyclic.cpu0.histogram");
    let mut all = Histogram::new(Budget::ANALYSIS);
    all.record_many(10_000, 1000);
    all.record(500_000);
    std::fs::write(&file, histogram_file::encode(&all, &file)).unwrap();
    let mut record = place.record("run");
    record["series"][0]["counts"] = serde_json::json!({
        "expected": 1006, "recorded": 1001, "skipped": 5, "lost": 0, "unstored": 1,
    });
    std::fs::write(place.path("run/run.json"), record.to_string()).unwrap();
    let outcome = place.tardy("show run --deadline 10s --full").ends_with(4);
    let expected = "INCONCLUSIVE: 0 known misses in 1006 due times; 5 of these due times cannot be judged \
                    (inconclusive also because";
    assert!(
        outcome.stdout.contains(expected) && !outcome.stdout.contains("shortest deadline"),
        "{}",
        outcome.stdout
    );
    // A miss that is among the samples counts.
    let missed = place.tardy("show run --deadline 400us").ends_with(1);
    assert!(
        missed
            .stdout
            .contains("FAILED: 1 to 6 of 1006 due times missed the deadline of 400us"),
        "{}",
        missed.stdout
    );
}

#[test]
fn a_share_of_misses_is_decided_by_its_bounds() {
    // With 40 misses of 40,000, the share of misses is between 7.5e-4 and 1.31e-3, each bound at 95
    // % (Clopper-Pearson).
    let run = late_each(40_000, 1_000);
    let failed = show(&run, "--deadline 200us --misses 5e-4").ends_with(1);
    assert!(
        failed.stdout.contains("FAILED: 40 of 40000")
            && failed.stdout.contains("more than the 5e-4 allowed"),
        "{}",
        failed.stdout
    );
    show(&run, "--deadline 200us --misses 2e-3").ends_with(0);
    let open = show(&run, "--deadline 200us --misses 1e-3").ends_with(4);
    assert!(open.stdout.contains("measure longer"), "{}", open.stdout);
}

#[test]
fn a_cpu_that_misses_more_than_its_share_is_not_made_good_by_the_others() {
    let mut run = late_each(100_000, 600);
    run.latencies.push(latencies(100_000, &[]));
    let outcome = show(&run, "--deadline 200us --misses 1e-3").ends_with(1);
    assert!(
        outcome
            .stdout
            .contains("FAILED: cyclic on CPU 0 alone: 166 of 100000 due times missed"),
        "{}",
        outcome.stdout
    );
    // The share of misses is at most the allowed share, for each CPU and for both together.
    show(&run, "--deadline 200us --misses 2e-3").ends_with(0);
}

#[test]
fn samples_that_are_gone_from_their_file_decide_nothing() {
    let place = Workplace::new();
    MadeRun::new(vec![latencies(10_000, &[]); 2]).write(&place.path("run"));
    place.tardy("show run --deadline 1ms").ends_with(0);
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(place.path("run/samples/cyclic.cpu1.series"))
        .unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    let outcome = place.tardy("show run --deadline 1ms").ends_with(4);
    assert!(
        outcome
            .stdout
            .contains("samples that the run stored are missing from"),
        "{}",
        outcome.stdout
    );
    // Due times whose samples could not be read do not count as met.
    let seen = place
        .tardy("show run --deadline 1us --json")
        .ends_with(1)
        .json()["verdict"]["evidence"]
        .clone();
    assert!(
        seen["misses"] == seen["due_times"] && seen["due_times"].as_u64() < Some(20_000),
        "{seen}"
    );
}

#[test]
fn a_share_of_misses_needs_a_deadline() {
    let outcome = show(&MadeRun::new(vec![latencies(100, &[])]), "--misses 1e-3").ends_with(2);
    assert!(
        outcome.stderr.contains("give --deadline or --window"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn too_few_samples_do_not_pass_a_share() {
    show(
        &MadeRun::new(vec![latencies(100, &[])]),
        "--deadline 200us --misses 1e-6",
    )
    .ends_with(4);
}

#[test]
fn what_a_degraded_set_up_shows_decides_nothing() {
    let warnings = vec![Warning::NoRealTimePolicy {
        policy: "SCHED_FIFO 95".into(),
        error: "not permitted".into(),
    }];
    for late in [None, Some((500, 300_000))] {
        let samples = latencies(1000, late.as_slice());
        let run = MadeRun {
            warnings: warnings.clone(),
            ..MadeRun::new(vec![samples])
        };
        let outcome = show(&run, "--deadline 200us").ends_with(4);
        assert!(
            outcome.first_warning().contains("run as root"),
            "{}",
            outcome.stdout
        );
    }
}

#[test]
fn how_a_run_ended_shows_in_the_exit_code() {
    let ended = |state, flags| {
        let run = MadeRun {
            state,
            ..MadeRun::new(vec![latencies(1000, &[(500, 300_000)])])
        };
        show(&run, flags).code()
    };
    assert_eq!(ended(State::Interrupted, ""), 130);
    assert_eq!(ended(State::Interrupted, "--deadline 1ms"), 130);
    assert_eq!(ended(State::Interrupted, "--deadline 200us"), 1);
    assert_eq!(ended(State::Running, ""), 4);
    assert_eq!(ended(State::Running, "--deadline 200us"), 1);
    assert_eq!(ended(State::Stopped, ""), 1);
    assert_eq!(ended(State::EndedByWatchdog, ""), 4);
}

#[test]
fn the_deadline_of_the_run_is_used_unless_another_one_is_given() {
    let window = Some("-1s..200us".parse().unwrap());
    let run = MadeRun {
        window,
        ..MadeRun::new(vec![latencies(1000, &[(500, 300_000)])])
    };
    show(&run, "").ends_with(1);
    show(&run, "--deadline 300us").ends_with(0);
}

#[test]
fn a_period_is_called_too_short_when_wake_ups_skip_as_a_rule_and_not_for_long_stalls() {
    let steadily = show(&MadeRun::new(vec![vec![2_500_000; 500]]), "").ends_with(0);
    assert!(
        steadily
            .first_warning()
            .contains("cyclic on CPU 0 skipped 66.7 % of its periods"),
        "{}",
        steadily.stdout
    );
    for stalls in [
        latencies(500, &[(250, 2_000_000_000)]),
        vec![2_350_000_000],
        vec![300_000_000; 5],
    ] {
        let outcome = show(&MadeRun::new(vec![stalls]), "").ends_with(0).stdout;
        assert!(!outcome.contains("of its periods"), "{outcome}");
    }
}

/// A run of six seconds without load, and six seconds of each of two loads; the samples at the
/// given indices have the given values in ns.
fn loaded(late: &[(usize, i64)]) -> MadeRun {
    MadeRun {
        phases: vec![("idle", 0, 6), ("memory", 6, 12), ("io", 12, 18)],
        ..MadeRun::new(vec![latencies(18_000, late)])
    }
}

#[test]
fn each_load_has_a_verdict_and_a_rate_of_its_own() {
    let outcome = show(
        &loaded(&[(8_000, 300_000), (8_500, 300_000)]),
        "--deadline 200us --json",
    )
    .ends_with(1)
    .json();
    let verdict = |load: &str| {
        outcome["loads"]
            .as_array()
            .unwrap()
            .iter()
            .find(|found| found["name"] == load)
            .unwrap()["verdicts"][0][1]
            .clone()
    };
    let of = |load: &str| {
        (
            verdict(load)["outcome"].as_str().unwrap().to_owned(),
            verdict(load)["evidence"]["misses"].as_u64().unwrap(),
        )
    };
    assert_eq!(
        ["idle", "memory", "io"].map(of),
        [
            ("passed".into(), 0),
            ("failed".into(), 2),
            ("passed".into(), 0)
        ]
    );
    let sentence = |load: &str| verdict(load)["sentence"].as_str().unwrap().to_owned();
    // In a run without a miss, the 95 % limit is three misses: here in 6000 due times, and in 6 s.
    // The seconds of the other loads do not lower this limit.
    assert!(
        sentence("idle").starts_with("0 misses in 6000 due times: fewer than 1800 an hour at 95 %"),
        "{}",
        sentence("idle")
    );
    assert!(
        !sentence("idle").contains("load") && sentence("io").ends_with("under these loads"),
        "{}",
        sentence("io")
    );
    let text = show(
        &loaded(&[(8_000, 300_000), (8_500, 300_000)]),
        "--deadline 200us",
    )
    .stdout;
    assert!(
        text.lines()
            .any(|line| line.starts_with("memory ") && line.ends_with(" failed")),
        "{text}"
    );
    assert!(
        text.lines().any(|line| line.starts_with("io ")
            && line
                .split_whitespace()
                .rev()
                .take(4)
                .eq(["passed", "1800", "<", "0"])),
        "{text}"
    );
}

#[test]
fn a_rate_over_several_loads_is_said_to_be_one_of_a_mixture() {
    let mixture = show(&loaded(&[]), "--deadline 200us").ends_with(0);
    assert!(
        mixture.stdout.contains(", over this mixture of loads\n"),
        "{}",
        mixture.stdout
    );
    let idle = show(
        &MadeRun::new(vec![latencies(1000, &[(3, 20_000)])]),
        "--deadline 200us",
    )
    .ends_with(0);
    assert!(!idle.stdout.contains("loads"), "{}", idle.stdout);
}

#[test]
fn a_load_that_misses_more_than_its_share_is_not_made_good_by_the_others() {
    let late: Vec<(usize, i64)> = (6_000..12_000)
        .step_by(200)
        .map(|index| (index, 300_000))
        .collect();
    let outcome = show(&loaded(&late), "--deadline 200us --misses 2e-3").ends_with(1);
    assert!(
        outcome
            .stdout
            .contains("FAILED: under memory: 30 of 6000 due times missed"),
        "{}",
        outcome.stdout
    );
    show(&loaded(&late), "--deadline 200us --misses 1e-2").ends_with(0);
}

#[test]
fn a_loop_beside_a_probe_has_a_verdict_of_its_own() {
    let run = MadeRun {
        beside: vec![("app", "completion", latencies(6_000, &[(500, 1_500_000)]))],
        ..MadeRun::new(vec![latencies(6_000, &[])])
    };
    let outcome = show(&run, "--deadline 2ms").ends_with(1);
    let lines: Vec<&str> = outcome.stdout.lines().skip(1).take(2).collect();
    assert_eq!(
        lines[0],
        "FAILED: app: 1 of 6001 due times missed the deadline of 2ms (skipped)"
    );
    assert!(
        lines[1].starts_with("PASSED: cyclic: 0 misses in 6000 due times: fewer than "),
        "{}",
        lines[1]
    );
    let json = show(&run, "--deadline 2ms --json").ends_with(1).json();
    assert_eq!(
        (
            &json["verdict"]["evidence"]["due_times"],
            &json["verdict"]["outcome"]
        ),
        (&6_001.into(), &"failed".into())
    );
    let place = Workplace::new();
    run.write(&place.path("run"));
    let junit = place
        .tardy("export run --format junit --deadline 2ms")
        .ends_with(0)
        .stdout;
    assert!(
        junit.contains("name=\"deadline of app\"") && junit.contains("name=\"deadline of cyclic\""),
        "{junit}"
    );
    let lava = place
        .tardy("export run --format lava --deadline 2ms")
        .ends_with(0)
        .stdout;
    for line in [
        "=deadline RESULT=fail>",
        "=deadline-app RESULT=fail>",
        "=deadline-cyclic RESULT=pass>",
    ] {
        assert!(lava.contains(line), "{lava}");
    }
}

#[test]
fn a_run_without_a_deadline_ends_with_a_ladder() {
    let late = [
        (7_000, 60_000),
        (7_500, 150_000),
        (8_000, 3_456_789),
        (13_000, 420_000),
    ];
    let outcome = show(&loaded(&late), "").ends_with(0);
    let after = |title: &str| {
        let line = outcome
            .stdout
            .lines()
            .find(|line| line.starts_with(title))
            .unwrap_or_else(|| panic!("no {title} in {}", outcome.stdout));
        line[title.len()..]
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        after("deadline"),
        ["50us", "100us", "200us", "500us", "1ms"]
    );
    // The due times that the stall skipped are late by 2.46, 1.46 and 0.46 ms.
    assert_eq!(after("misses"), ["7", "6", "5", "3", "3"]);
    assert!(
        outcome
            .stdout
            .contains("Largest latency: 3.46 ms (under memory). Half of all wake-ups within 10.0 us, 99 % within 10.0 us.\n"),
        "{}",
        outcome.stdout
    );
    assert!(
        outcome.stdout.contains(
            "Shortest deadline that held: 3.46 ms.\nA longer run misses this deadline fewer than \
             640 times an hour (upper bound at 95 %, over this mixture of loads).\n"
        ),
        "{}",
        outcome.stdout
    );
    let json = show(&loaded(&late), "--json").ends_with(0).json();
    let ladder = &json["probes"][0]["ladder"];
    assert_eq!(
        (
            &ladder["smallest"]["deadline_ns"],
            &ladder["smallest"]["misses"]
        ),
        (&3_456_789.into(), &0.into())
    );
    // For each deadline, the table of several deadlines has the same number of misses as a run that
    // is shown with that deadline.
    for rung in ladder["rungs"].as_array().unwrap() {
        let asked = show(
            &loaded(&late),
            &format!("--deadline {}ns --json", rung["deadline_ns"]),
        )
        .json();
        assert_eq!(asked["verdict"]["evidence"]["misses"], rung["misses"]);
        assert!(asked["probes"][0].get("ladder").is_none());
    }
}

#[test]
fn no_deadline_holds_where_work_was_skipped() {
    let run = MadeRun {
        probe: ("work.done", "completion"),
        ..MadeRun::new(vec![latencies(1_000, &[(500, 1_500_000)])])
    };
    let outcome = show(&run, "").ends_with(0);
    assert!(
        outcome
            .stdout
            .contains("No deadline held: the work of skipped periods was never done, and so missed every deadline.\n"),
        "{}",
        outcome.stdout
    );
}
