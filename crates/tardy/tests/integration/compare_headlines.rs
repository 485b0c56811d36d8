//! Tests the first line of `tardy compare`: it takes all rows into account and agrees with the
//! table below it.

use serde_json::Value;

use crate::compare::{compare, latencies};
use crate::support::made_run::MadeRun;
use crate::support::workplace::Workplace;
use tardy_core::series::ClockKind;

/// A simulated run of two phases, like a run in a guest of `tardy lab`.
fn of_two_loads(idle: Vec<i64>, fs: Vec<i64>) -> MadeRun {
    let (from, to) = (
        i64::try_from(idle.len()).unwrap() / 1_000,
        i64::try_from(idle.len() + fs.len()).unwrap() / 1_000,
    );
    MadeRun {
        phases: vec![("idle", 0, from), ("fs", from, to)],
        clock: ClockKind::Virtual,
        ..MadeRun::new(vec![[idle, fs].concat()])
    }
}

/// Returns `count` latencies of about `usual`; every hundredth is `late`.
fn with_late(usual: i64, late: i64, count: i64) -> Vec<i64> {
    (0..count)
        .map(|index| if index % 100 == 50 { late } else { usual } + index % 7)
        .collect()
}

#[test]
fn a_kernel_with_a_far_shorter_maximum_and_a_little_longer_median_is_mixed_and_not_worse() {
    let ordinary = of_two_loads(
        with_late(20_000, 21_000, 10_000),
        with_late(20_000, 10_500_000, 10_000),
    );
    let realtime = of_two_loads(
        with_late(23_000, 24_000, 10_000),
        with_late(20_000, 26_400, 10_000),
    );
    let outcome = compare(&ordinary, &realtime, "").ends_with(1);
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(
        lines[0],
        "new against base: MIXED: better in 1 of 3 rows (fs: maximum 398 times shorter), better \
         and worse in 1 (whole run: maximum 398 times shorter, median +3.00 us), worse in 1 (idle: \
         median +3.00 us) (margin 5 %)",
        "{}",
        outcome.stdout
    );
    let row = |label: &str| {
        *lines
            .iter()
            .find(|line| line.starts_with(label))
            .unwrap_or_else(|| panic!("no {label} in {}", outcome.stdout))
    };
    assert!(row("idle").contains("(+15 %)*") && row("idle").ends_with("worse"));
    assert!(row("fs").contains("(/ 398)*") && row("fs").ends_with("better"));
    assert!(row("* decides").ends_with("the verdict of its row"));
}

#[test]
fn a_row_with_a_better_and_a_worse_number_is_mixed_and_marks_both() {
    let ordinary = of_two_loads(
        with_late(20_000, 10_500_000, 10_000),
        with_late(20_000, 10_500_000, 10_000),
    );
    let realtime = of_two_loads(
        with_late(23_000, 26_400, 10_000),
        with_late(23_000, 26_400, 10_000),
    );
    let found = compare(&ordinary, &realtime, "--format json")
        .ends_with(1)
        .json();
    let candidate = &found["candidates"][0];
    assert_eq!(candidate["verdict"], "mixed");
    assert_eq!(
        candidate["reason"],
        "better and worse in 3 of 3 rows (idle: maximum 398 times shorter, median +3.00 us)"
    );
    for table in candidate["tables"].as_array().unwrap() {
        let verdicts: Vec<&Value> = table["decided_by"]
            .as_array()
            .unwrap()
            .iter()
            .map(|decider| &decider["verdict"])
            .collect();
        assert_eq!(verdicts, ["better", "worse"]);
    }
}

#[test]
fn better_loads_beside_an_undecided_whole_run_are_inconclusive_as_a_whole() {
    // With one run per side, chance can explain a change by a quarter. It cannot explain that the
    // maximum becomes far shorter.
    let measured = |run| MadeRun {
        clock: ClockKind::Hardware,
        ..run
    };
    let base = measured(of_two_loads(
        with_late(34_000, 4_000_000, 10_000),
        with_late(34_000, 4_000_000, 10_000),
    ));
    let new = measured(of_two_loads(
        with_late(42_000, 150_000, 10_000),
        with_late(42_000, 4_400_000, 10_000),
    ));
    let outcome = compare(&base, &new, "").ends_with(4);
    assert!(
        outcome.stdout.starts_with(
            "new against base: BETTER: better in 1 of 3 rows (idle: maximum 27 times shorter), \
             undecided in 2, so inconclusive as a whole (margin 5 %)\n"
        ),
        "{}",
        outcome.stdout
    );
}

#[test]
fn the_number_that_leaves_a_comparison_inconclusive_is_in_the_table_and_marked() {
    let measured = |usual: i64| MadeRun {
        clock: ClockKind::Hardware,
        ..MadeRun::new(vec![
            latencies(1, 20_000, 5_000.0)
                .iter()
                .map(|late| late + usual)
                .collect(),
        ])
    };
    for (quantile, headline, cell) in [
        (
            "50%",
            "INCONCLUSIVE: median of cyclic latency: +4.00 us may",
            "13.5 -> 17.5 us (+30 %)*",
        ),
        (
            "0.9",
            "INCONCLUSIVE: 90 % quantile of cyclic latency: +4.00 us may",
            "inconclusive: 90 % 21.4 -> 25.4 us*",
        ),
    ] {
        let options = format!("--quantiles {quantile}");
        let outcome = compare(&measured(0), &measured(4_000), &options).ends_with(4);
        for words in [headline, cell] {
            assert!(
                outcome.stdout.contains(words),
                "{words}: {}",
                outcome.stdout
            );
        }
    }
}

#[test]
fn one_late_sample_is_shown_and_decides_nothing() {
    let usual = || of_two_loads(latencies(1, 10_000, 5_000.0), latencies(2, 10_000, 5_000.0));
    let mut late = usual();
    late.latencies[0][15_000] = 9_000_000;
    let usual = usual();
    for (base, new, from, to) in [
        (&usual, &late, "", " -> 9.00 ms"),
        (&late, &usual, "9.00 ms -> ", ""),
    ] {
        let outcome = compare(base, new, "").ends_with(0);
        assert!(
            outcome.stdout.contains(": EQUIVALENT: "),
            "{}",
            outcome.stdout
        );
        assert!(
            outcome.stdout.contains(from) && outcome.stdout.contains(to),
            "the maximum is shown: {}",
            outcome.stdout
        );
    }
}

#[test]
fn quantiles_that_few_samples_lie_beyond_are_not_compared_in_virtual_time_either() {
    let short =
        |late: i64| of_two_loads(with_late(20_000, late, 200), with_late(20_000, late, 200));
    let found = compare(&short(30_000), &short(90_000), "--format json")
        .ends_with(0)
        .json();
    for table in found["candidates"][0]["tables"].as_array().unwrap() {
        let compared: Vec<f64> = table["rows"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["quantile"].as_f64().unwrap())
            .collect();
        assert!(compared.iter().all(|&quantile| quantile <= 0.9), "{table}");
    }
}

#[test]
fn less_than_a_microsecond_is_no_difference_unless_the_margin_says_so() {
    let of = |usual: i64| {
        of_two_loads(
            with_late(usual, 40_000, 10_000),
            with_late(usual, 40_000, 10_000),
        )
    };
    compare(&of(2_000), &of(2_900), "").ends_with(0);
    compare(&of(2_000), &of(2_900), "--margin 500ns").ends_with(1);
}

#[test]
fn a_run_beside_itself_is_equivalent() {
    let place = Workplace::new();
    MadeRun::new(vec![latencies(1, 3_000, 5_000.0)]).write(&place.path("r"));
    let outcome = place.tardy("compare r r").ends_with(0);
    assert!(
        outcome
            .stdout
            .starts_with("r against r: EQUIVALENT: both sides have the same samples"),
        "{}",
        outcome.stdout
    );
}
