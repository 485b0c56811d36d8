//! Tests `tardy run` and `tardy show` as a user sees them: counts, stored data, output, and
//! reproduction.

use crate::support;

use serde_json::Value;
use support::machine;
use support::series;
use support::workplace::{Outcome, Workplace, finish, names};
use tardy_core::series::Schedule;
use tardy_core::units::Nanos;

/// Counts of each series, in a fixed order.
fn counts(summary: &Value) -> Vec<[u64; 5]> {
    let of = |series: &Value| {
        ["expected", "recorded", "skipped", "lost", "unstored"]
            .map(|name| series["counts"][name].as_u64().expect("counts are numbers"))
    };
    summary["series"]
        .as_array()
        .unwrap()
        .iter()
        .map(of)
        .collect()
}

#[track_caller]
fn assert_exact(summary: &Value) {
    for [expected, recorded, skipped, lost, unstored] in counts(summary) {
        assert_eq!(expected, recorded + skipped + lost);
        assert!(recorded > 0 && unstored <= recorded);
    }
}

#[test]
fn a_short_run_of_the_default_kind_accounts_for_every_sample_and_shows_the_same_again() {
    let place = Workplace::new();
    let ran = place.tardy("run --for 3s --json --out run").ends_with(0);
    let summary = ran.json();
    assert_exact(&summary);
    assert_eq!(summary["state"], "finished");
    let cpus = machine::cpus();
    assert_eq!(summary["series"].as_array().unwrap().len(), cpus.len());
    let phases = summary["phases"].as_array().unwrap();
    assert_eq!(
        (
            &phases[0]["name"],
            phases[0]["loads"].as_array().unwrap().len()
        ),
        (&Value::from("idle"), 0)
    );
    assert!(
        phases
            .iter()
            .any(|phase| !phase["loads"].as_array().unwrap().is_empty()),
        "a phase has loads: {phases:?}"
    );
    assert!(
        summary["load_work"]
            .as_array()
            .unwrap()
            .iter()
            .any(|work| work["operations"].as_u64() > Some(0)),
        "loads worked"
    );
    let files: Vec<String> = cpus
        .iter()
        .map(|cpu| format!("cyclic.cpu{cpu}.series"))
        .collect();
    assert_eq!(names(&place.path("run").join("samples")), files);
    assert_eq!(
        place.tardy("show --json run").ends_with(0).stdout,
        ran.stdout
    );
    // The files contain as many samples as the summary counts.
    let stored: u64 = series::all(&place.path("run"))
        .iter()
        .map(|series| series.samples.len() as u64)
        .sum();
    assert_eq!(
        stored,
        counts(&summary).iter().map(|counts| counts[1]).sum::<u64>()
    );
}

#[test]
fn run_prints_what_show_prints_and_stderr_has_the_rest() {
    let place = Workplace::new();
    let loud = place
        .tardy("run --for 300ms --load none --out run")
        .ends_with(0);
    assert_eq!(place.tardy("show run").ends_with(0).stdout, loud.stdout);
    assert!(
        loud.stderr.starts_with("measuring into run\n"),
        "{}",
        loud.stderr
    );
    assert_eq!(
        place
            .tardy("run --for 300ms --load none --quiet --out quiet")
            .ends_with(0)
            .stderr,
        ""
    );
    assert!(
        loud.stdout.contains("sampling gap") && loud.stdout.lines().count() <= 24,
        "{}",
        loud.stdout
    );
}

#[test]
fn runs_that_begin_in_the_same_second_have_folders_of_their_own() {
    let place = Workplace::new();
    let started: Vec<_> = (0..4)
        .map(|_| place.start("run --for 300ms --load none --quiet"))
        .collect();
    for run in started {
        run.wait().ends_with(0);
    }
    let folders: Vec<_> = place.names();
    assert_eq!(folders.len(), 4, "{folders:?}");
}

#[test]
fn cycles_are_due_times_of_the_grid_and_sleeps_without_one() {
    let place = Workplace::new();
    let outcome = place
        .tardy("run --cycles 500 --period 1ms --probe cyclic --probe nanosleep --json --out run")
        .ends_with(0);
    let summary = outcome.json();
    assert_exact(&summary);
    for series in summary["series"].as_array().unwrap() {
        assert_eq!(series["counts"]["expected"], 500, "{series}");
        if series["probe"] == "nanosleep" {
            assert_eq!(series["counts"]["recorded"], 500, "{series}");
            assert_eq!(
                series["numbers"]["percentiles_corrected"],
                Value::Null,
                "without a schedule, periods cannot be skipped"
            );
        }
    }
}

#[test]
fn a_run_of_cycles_waits_for_sleeps_that_take_longer_than_so_many_periods() {
    let place = Workplace::new();
    // Each sleep ends some microseconds late. The sum of these delays is larger than the time by
    // which threads start early.
    let summary = place
        .tardy("run --cycles 20000 --period 100us --probe nanosleep --json --out run")
        .json();
    assert_exact(&summary);
    for series in summary["series"].as_array().unwrap() {
        assert_eq!(series["counts"]["expected"], 20_000, "{series}");
    }
    let phase = &place.record("run")["phases"][0];
    assert!(
        phase["end_ns"].as_i64().unwrap() - phase["begin_ns"].as_i64().unwrap() > 2_000_000_000,
        "{phase}"
    );
}

#[test]
fn a_dry_run_says_what_would_be_done_and_writes_nothing() {
    let place = Workplace::new();
    let text = place
        .tardy("run --dry-run --deadline 200us --seed 7 --out run")
        .ends_with(0)
        .stdout;
    for word in [
        "cyclic every ",
        "SCHED_FIFO 95",
        "deadline",
        "seed       7",
        "/dev/cpu_dma_latency: 0 us",
    ] {
        assert!(text.contains(word), "no `{word}` in {text}");
    }
    let plan = place
        .tardy("run --dry-run --json --out run")
        .ends_with(0)
        .json();
    assert_eq!(plan["probes"][0]["name"], "cyclic");
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let place = Workplace::new();
    place
        .tardy("run --cycles 20 --quiet --out run")
        .ends_with(0);
    for line in [
        "run --cycles 20 --out other",
        "show run",
        "show --json run",
        "list probes",
        "list loads",
        "list links",
        "restore",
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = place.command(line.split(' '));
        command.stdout(writer);
        let outcome: Outcome = finish(command);
        assert_eq!(outcome.code(), 0, "{line}: {}", outcome.stderr);
        assert!(
            !outcome.stderr.contains("panicked"),
            "{line}: {}",
            outcome.stderr
        );
    }
}

fn start_offsets(plan: &Value) -> Vec<i64> {
    plan["threads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|thread| thread["schedule"]["start_ns"].as_i64().unwrap())
        .collect()
}

#[test]
fn a_seed_reproduces_the_start_of_each_thread() {
    let place = Workplace::new();
    let plan = |seed: &str| {
        place
            .tardy(&format!("run --dry-run --json --seed {seed} --out run"))
            .ends_with(0)
            .json()
    };
    let (first, again, other) = (plan("7"), plan("7"), plan("8"));
    assert_eq!(first["threads"], again["threads"]);
    assert_ne!(first["threads"], other["threads"]);
    place
        .tardy("run --cycles 20 --seed 7 --quiet --out run")
        .ends_with(0);
    let record = place.record("run");
    assert_eq!(
        (start_offsets(&record["plan"]), &record["plan"]["seed"]),
        (start_offsets(&first), &Value::from(7))
    );
    let start = record["started"]["monotonic_ns"].as_i64().unwrap();
    let found: Vec<i64> = series::all(&place.path("run"))
        .iter()
        .map(|series| grid_start(&series.descriptor.schedule) - start)
        .collect();
    assert_eq!(
        found,
        start_offsets(&first),
        "the samples are due where the plan says"
    );
}

fn grid_start(schedule: &Schedule) -> i64 {
    let Schedule::Grid { start, .. } = schedule else {
        panic!("{schedule:?}")
    };
    start.get()
}

#[test]
fn starts_are_staggered_unless_they_are_to_coincide() {
    if machine::cpus().len() < 2 {
        return machine::left_out(
            "starts_are_staggered_unless_they_are_to_coincide",
            "there is one CPU only",
        );
    }
    let place = Workplace::new();
    let offsets = |flags: &str| {
        start_offsets(
            &place
                .tardy(&format!("run --dry-run --json --seed 3 {flags} --out run"))
                .ends_with(0)
                .json(),
        )
    };
    let mut staggered = offsets("");
    staggered.dedup();
    assert_eq!(staggered.len(), machine::cpus().len(), "{staggered:?}");
    assert!(offsets("--aligned").iter().all(|&offset| offset == 0));
    place
        .tardy("run --cycles 20 --aligned --quiet --out run")
        .ends_with(0);
    let starts: Vec<i64> = series::all(&place.path("run"))
        .iter()
        .map(|series| grid_start(&series.descriptor.schedule))
        .collect();
    assert!(
        starts.windows(2).all(|pair| pair[0] == pair[1]),
        "{starts:?}"
    );
}

#[test]
fn dither_moves_due_times_within_its_width_and_the_accounting_stays_exact() {
    let place = Workplace::new();
    let summary = place
        .tardy("run --cycles 300 --dither 400us --seed 5 --json --out run")
        .ends_with(0)
        .json();
    assert_exact(&summary);
    for series in series::all(&place.path("run")) {
        let start = grid_start(&series.descriptor.schedule);
        let moved = |due: Nanos| (due.get() - start).rem_euclid(1_000_000);
        let mut moves: Vec<i64> = series
            .samples
            .iter()
            .map(|sample| moved(sample.due))
            .collect();
        assert!(
            moves.iter().all(|moved| (0..400_000).contains(moved)),
            "{moves:?}"
        );
        moves.sort_unstable();
        moves.dedup();
        assert!(moves.len() > series.samples.len() / 2, "due times vary");
    }
}

#[test]
fn a_tail_stores_late_samples_only_and_counts_all() {
    let place = Workplace::new();
    let summary = place
        .tardy("run --cycles 500 --keep tail:20us --json --out run")
        .ends_with(0)
        .json();
    assert_exact(&summary);
    for series in series::all(&place.path("run")) {
        assert!(
            series
                .samples
                .iter()
                .all(|sample| sample.latency >= Nanos::from_micros(20) || sample.skipped > 0)
        );
        assert_eq!(series.counts.stored(), series.samples.len() as u64);
    }
    let numbers = &summary["probes"][0]["numbers"];
    assert_eq!(
        numbers["samples"], summary["probes"][0]["counts"]["recorded"],
        "the numbers are those of all samples"
    );
}

#[test]
fn a_histogram_stores_no_sample_and_has_them_all() {
    let place = Workplace::new();
    let summary = place
        .tardy("run --cycles 500 --keep histogram --deadline 1h --json --out run")
        .json();
    assert_exact(&summary);
    for [_, recorded, _, _, unstored] in counts(&summary) {
        assert_eq!(unstored, recorded);
    }
    let stored: usize = series::all(&place.path("run"))
        .iter()
        .map(|series| series.samples.len())
        .sum();
    assert_eq!(stored, 0);
    let numbers = &summary["probes"][0]["numbers"];
    assert_eq!(
        numbers["samples"],
        summary["probes"][0]["counts"]["recorded"]
    );
    // All samples are less than an hour late. A skipped period counts as a miss if the histogram
    // cannot show how late it was.
    assert!(
        numbers["misses"].as_u64() <= summary["probes"][0]["counts"]["skipped"].as_u64(),
        "{numbers}"
    );
}

#[test]
fn a_spool_is_left_empty_and_the_samples_are_in_the_run() {
    let place = Workplace::new();
    std::fs::create_dir(place.path("spool")).unwrap();
    let outcome = place
        .tardy("run --cycles 100 --spool spool --json --out run")
        .ends_with(0);
    assert_exact(&outcome.json());
    assert_eq!(names(&place.path("spool")), [""; 0]);
    assert_eq!(
        series::files(&place.path("run")).len(),
        machine::cpus().len()
    );
    std::fs::remove_dir(place.path("spool")).unwrap();
    assert_eq!(
        place.tardy("show --json run").ends_with(0).stdout,
        outcome.stdout
    );
}

#[test]
fn nothing_but_the_run_is_left_in_its_folder() {
    let place = Workplace::new();
    place
        .tardy("run --cycles 50 --keep tail:1us --quiet --out run")
        .ends_with(0);
    assert_eq!(place.names(), ["run"]);
    let left = names(&place.path("run"));
    assert!(
        left.iter()
            .all(|name| !name.ends_with(".reserved") && !name.ends_with(".new")),
        "{left:?}"
    );
    let samples = names(&place.path("run").join("samples"));
    assert!(
        samples
            .iter()
            .all(|name| name.ends_with(".series") || name.ends_with(".histogram")),
        "{samples:?}"
    );
}

#[test]
fn colour_is_for_terminals_whose_user_wants_it() {
    let place = Workplace::new();
    support::made_run::MadeRun::new(vec![vec![5_000; 1000]]).write(&place.path("run"));
    let on_terminal = |no_color: Option<&str>| {
        let line = format!("{} show run --deadline 1ms", env!("CARGO_BIN_EXE_tardy"));
        let mut script = place.prepared(
            machine::program("script", "bsdutils"),
            ["-qec", &line, "/dev/null"],
        );
        script.envs(no_color.map(|value| ("NO_COLOR", value)));
        finish(script).ends_with(0).stdout
    };
    assert!(
        on_terminal(None).contains("\x1b[1;32mPASSED"),
        "a terminal has colours"
    );
    assert!(
        on_terminal(Some("")).contains("\x1b["),
        "an empty NO_COLOR is none"
    );
    assert!(!on_terminal(Some("1")).contains('\x1b'));
    assert!(
        !place
            .tardy("show run --deadline 1ms")
            .ends_with(0)
            .stdout
            .contains('\x1b')
    );
}

#[test]
fn a_latency_above_the_limit_stops_the_run_and_fails() {
    let place = Workplace::new();
    // Every wake-up takes longer than 1 ns, so the first one stops the run.
    let outcome = place
        .tardy("run --for 600s --load none --stop-above 1ns --json --out run")
        .ends_with(1);
    let summary = outcome.json();
    assert_eq!(summary["state"], "stopped");
    assert_exact(&summary);
    assert!(
        summary["warnings"]
            .to_string()
            .contains("\"stopped-above\""),
        "{}",
        summary["warnings"]
    );
}
