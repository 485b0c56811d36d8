//! Verdicts of runs whose samples are known exactly, through `tardy show` and its exit code.
#![allow(clippy::unwrap_used, reason = "a test ends where something is not as expected")]

use crate::support;

use tardy_core::warning::Warning;
use tardy_run::record::State;

use support::made_run::MadeRun;
use support::workplace::{Outcome, Workplace};

/// 10 us, but for samples at these indices.
fn latencies(count: usize, others: &[(usize, i64)]) -> Vec<i64> {
    let mut latencies = vec![10_000; count];
    others.iter().for_each(|&(index, latency)| latencies[index] = latency);
    latencies
}

fn show(run: &MadeRun, flags: &str) -> Outcome {
    let place = Workplace::new();
    run.write(&place.path("run"));
    place.tardy(&format!("show run {flags}"))
}

/// `count` samples of 10 us, every `each`th of 300 us.
fn late_each(count: usize, each: usize) -> MadeRun {
    let late: Vec<(usize, i64)> = (each - 1..count).step_by(each).map(|index| (index, 300_000)).collect();
    MadeRun::new(vec![latencies(count, &late)])
}

#[test]
fn no_miss_passes_and_says_how_little_that_shows() {
    let outcome = show(&MadeRun::new(vec![latencies(1000, &[]); 2]), "--deadline 200us").ends_with(0);
    assert!(outcome.stdout.contains("PASSED: no miss in 2000 samples: fewer than "), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("an hour at 95 %") && !outcome.stdout.contains("meets"), "{}", outcome.stdout);
}

#[test]
fn one_miss_fails_where_no_share_is_allowed() {
    let run = MadeRun::new(vec![latencies(1000, &[]), latencies(1000, &[(500, 200_001)])]);
    let outcome = show(&run, "--deadline 200us").ends_with(1);
    assert!(outcome.stdout.contains("FAILED: 1 of 2000 due times missed the deadline of 200.000 us"), "{}", outcome.stdout);
    show(&run, "--deadline 200001ns").ends_with(0);
    show(&run, "").ends_with(0);
}

#[test]
fn a_missed_period_is_a_miss_however_late_the_deadline() {
    let run = MadeRun::new(vec![latencies(1000, &[(500, 1_500_000)])]);
    let outcome = show(&run, "--deadline 2ms").ends_with(1);
    assert!(outcome.stdout.contains("FAILED: 1 of 1001 due times missed the deadline of 2000.000 us (skipped)"), "{}", outcome.stdout);
}

#[test]
fn too_early_is_as_bad_as_too_late_in_a_window() {
    let run = MadeRun::new(vec![latencies(1000, &[(500, -112_000)])]);
    show(&run, "--window -111us..+111us").ends_with(1);
    show(&run, "--window -112us..+111us").ends_with(0);
    let outcome = show(&run, "--deadline 111us").ends_with(0);
    assert!(outcome.stdout.contains("woke up early 1 times"), "{}", outcome.stdout);
}

#[test]
fn samples_that_were_lost_may_have_missed() {
    let run = MadeRun { gaps: vec![(500, 3)], ..MadeRun::new(vec![latencies(1000, &[])]) };
    let outcome = show(&run, "--deadline 200us").ends_with(4);
    assert!(outcome.first_warning().starts_with("3 samples of cyclic on cpu 0 were lost"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("INCONCLUSIVE"), "{}", outcome.stdout);
    show(&run, "").ends_with(4);
    // A miss that was seen stays seen.
    let run = MadeRun { gaps: vec![(500, 3)], ..MadeRun::new(vec![latencies(1000, &[(20, 300_000)])]) };
    show(&run, "--deadline 200us").ends_with(1);
}

#[test]
fn a_share_of_misses_is_decided_by_its_bounds() {
    // 40 of 40,000: between 7.5e-4 and 1.31e-3 at 95 % each (Clopper-Pearson).
    let run = late_each(40_000, 1_000);
    let failed = show(&run, "--deadline 200us --misses 5e-4").ends_with(1);
    assert!(failed.stdout.contains("FAILED: 40 of 40000") && failed.stdout.contains("more than the 5e-4 allowed"), "{}", failed.stdout);
    show(&run, "--deadline 200us --misses 2e-3").ends_with(0);
    let open = show(&run, "--deadline 200us --misses 1e-3").ends_with(4);
    assert!(open.stdout.contains("measure longer"), "{}", open.stdout);
}

#[test]
fn a_processor_that_misses_more_than_its_share_is_not_made_good_by_the_others() {
    let mut run = late_each(100_000, 600);
    run.latencies.push(latencies(100_000, &[]));
    let outcome = show(&run, "--deadline 200us --misses 1e-3").ends_with(1);
    assert!(outcome.stdout.contains("FAILED: cyclic on cpu 0 alone: 166 of 100000 due times missed"), "{}", outcome.stdout);
    // Of both together the share is within what is allowed, of each alone too.
    show(&run, "--deadline 200us --misses 2e-3").ends_with(0);
}

#[test]
fn samples_that_are_gone_from_their_file_decide_nothing() {
    let place = Workplace::new();
    MadeRun::new(vec![latencies(10_000, &[]); 2]).write(&place.path("run"));
    place.tardy("show run --deadline 1ms").ends_with(0);
    let file = std::fs::OpenOptions::new().write(true).open(place.path("run/samples/cyclic.cpu1.series")).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    let outcome = place.tardy("show run --deadline 1ms").ends_with(4);
    assert!(outcome.stdout.contains("samples that the run stored are not in"), "{}", outcome.stdout);
}

#[test]
fn a_share_of_misses_needs_a_deadline() {
    let outcome = show(&MadeRun::new(vec![latencies(100, &[])]), "--misses 1e-3").ends_with(2);
    assert!(outcome.stderr.contains("give --deadline or --window"), "{}", outcome.stderr);
}

#[test]
fn too_few_samples_do_not_pass_a_share() {
    show(&MadeRun::new(vec![latencies(100, &[])]), "--deadline 200us --misses 1e-6").ends_with(4);
}

#[test]
fn what_a_degraded_set_up_shows_decides_nothing() {
    let warnings = vec![Warning::NoRealTimePolicy { policy: "SCHED_FIFO 95".into(), error: "not permitted".into() }];
    for late in [None, Some((500, 300_000))] {
        let samples = latencies(1000, late.as_slice());
        let run = MadeRun { warnings: warnings.clone(), ..MadeRun::new(vec![samples]) };
        let outcome = show(&run, "--deadline 200us").ends_with(4);
        assert!(outcome.first_warning().contains("run as root"), "{}", outcome.stdout);
    }
}

#[test]
fn how_a_run_ended_shows_in_the_exit_code() {
    let ended = |state, flags| {
        let run = MadeRun { state, ..MadeRun::new(vec![latencies(1000, &[(500, 300_000)])]) };
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
    let run = MadeRun { window, ..MadeRun::new(vec![latencies(1000, &[(500, 300_000)])]) };
    show(&run, "").ends_with(1);
    show(&run, "--deadline 300us").ends_with(0);
}

#[test]
fn a_period_is_called_too_short_when_wake_ups_skip_as_a_rule_and_not_for_one_long_stall() {
    let steadily = show(&MadeRun::new(vec![vec![2_500_000; 500]]), "").ends_with(0);
    assert!(steadily.first_warning().contains("cyclic on cpu 0 missed 66.7 % of its periods"), "{}", steadily.stdout);
    let stall = show(&MadeRun::new(vec![latencies(500, &[(250, 2_000_000_000)])]), "").ends_with(0);
    assert_eq!(stall.first_warning(), "", "{}", stall.stdout);
}
