//! Tests runs with `--disk`: the folder stays within its bound, and every sample is in it, singly
//! or in an hourly histogram.

use crate::support;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use support::machine;
use support::series;
use support::workplace::{RunningCommand, Workplace};
use tardy_core::histogram::{Budget, Histogram};
use tardy_core::sample::Sample;
use tardy_samples::hours::{self, Hours};
use tardy_samples::read_series::SeriesFile;
use tardy_sys::{process, signal};

/// The CPUs to measure: the last two CPUs, or the only CPU.
fn cpus() -> String {
    let last = machine::last_cpu();
    if last == 0 {
        "0".to_owned()
    } else {
        format!("{},{last}", last - 1)
    }
}

/// The smallest `--disk` that the tool accepts for the run, read from its message when it refuses a
/// smaller one.
fn least(place: &Workplace) -> u64 {
    let refused = place
        .tardy(&format!(
            "run --until-stopped --cpus {} --disk 1MiB --out week",
            cpus()
        ))
        .ends_with(2);
    assert!(
        refused.stderr.contains("--disk 1MiB is too small") && !place.path("week").exists(),
        "{}",
        refused.stderr
    );
    let size = refused
        .stderr
        .split("at least ")
        .nth(1)
        .and_then(|rest| rest.split([',', ' ']).next())
        .unwrap();
    tardy_core::bytes::parse_bytes(size).unwrap_or_else(|| panic!("{}", refused.stderr))
}

fn start(place: &Workplace, disk: u64, more: &str) -> RunningCommand {
    place.start(&format!(
        "run --until-stopped --period 100us --cpus {} --deadline 10s --disk {disk}B --json --out \
         week {more}",
        cpus()
    ))
}

fn bytes(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    let of = |path: PathBuf| {
        if path.is_dir() {
            bytes(&path)
        } else {
            std::fs::metadata(path).map_or(0, |file| file.len())
        }
    };
    entries
        .filter_map(|entry| Some(of(entry.ok()?.path())))
        .sum()
}

/// Returns, for each series, the number of the last segment that was folded into histograms.
fn rotated(run: &Path) -> Vec<u64> {
    series::files(run)
        .iter()
        .map(|file| {
            Hours::read(&hours::path(file))
                .ok()
                .flatten()
                .map_or(0, |hours| hours.through)
        })
        .collect()
}

/// Waits until `least` segments of each series are folded, and checks every 100 ms that the folder
/// is within its bound.
#[track_caller]
fn wait_for_rotations(running: &mut RunningCommand, run: &Path, disk: u64, least: u64) {
    // The test waits for each segment separately: on a shared machine, all segments together may
    // take longer than the time-out of one wait.
    for wanted in 1..=least {
        running.until("segments gave way", || {
            let taken = bytes(run);
            assert!(taken <= disk, "{taken} of {disk} bytes");
            std::thread::sleep(Duration::from_millis(100));
            let rotated = rotated(run);
            (!rotated.is_empty() && rotated.iter().all(|&through| through >= wanted)).then_some(())
        });
    }
}

/// The samples of a series, both single ones and those in histograms.
struct Everything {
    kept: u64,
    earlier: u64,
    latency: Histogram,
    worst: Option<Sample>,
    skipped: u64,
}

fn everything(file: &Path) -> Everything {
    let open = SeriesFile::open(file).unwrap();
    let schedule = open.descriptor().schedule;
    let mut all = Everything {
        kept: 0,
        earlier: 0,
        latency: Histogram::new(Budget::ANALYSIS),
        worst: None,
        skipped: 0,
    };
    let note_worst = |sample: Sample, worst: &mut Option<Sample>| {
        if worst.is_none_or(|worst| sample.latency > worst.latency) {
            *worst = Some(sample);
        }
    };
    for stretch in open.hours().unwrap().stretches() {
        all.earlier += stretch.samples;
        all.latency.merge(&stretch.cell.latency);
        all.skipped += stretch.cell.skipped;
        note_worst(stretch.cell.worst.unwrap(), &mut all.worst);
    }
    let mut due = None;
    let end = open.read(&mut |chunk| {
        for (_, sample) in chunk.samples(&schedule) {
            assert!(
                due.is_none_or(|due| sample.due > due),
                "in order, and each once"
            );
            due = Some(sample.due);
            all.kept += 1;
            all.latency.record(sample.latency.get());
            all.skipped += u64::from(sample.skipped);
            note_worst(sample, &mut all.worst);
        }
    });
    assert_eq!(end.unwrap().damaged_bytes, 0);
    all
}

/// Returns the number of samples of a CPU that could not be stored because the machine was busy:
/// the sum over the run's warnings, one for each chunk.
fn warned_not_stored(summary: &Value, cpu: u32) -> u64 {
    summary["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|warning| warning["warning"] == "samples-not-stored" && warning["cpu"] == cpu)
        .map(|warning| warning["samples"].as_u64().unwrap())
        .sum()
}

/// Checks that each series has all its samples and that the summary has the largest of them with
/// its time.
#[track_caller]
fn assert_all_is_there(place: &Workplace, summary: &Value) {
    let record = place.record("week");
    let start = record["started"]["monotonic_ns"].as_i64().unwrap();
    let of = summary["series"].as_array().unwrap();
    let files = series::files(&place.path("week"));
    assert_eq!(of.len(), files.len());
    for file in files {
        let all = everything(&file);
        let cpu = SeriesFile::open(&file).unwrap().descriptor().cpu.unwrap().0;
        let series = of.iter().find(|series| series["cpu"] == cpu).unwrap();
        let count = |name: &str| series["counts"][name].as_u64().unwrap();
        assert_eq!(
            count("expected"),
            count("recorded") + count("skipped") + count("lost"),
            "{series}"
        );
        assert_eq!(count("recorded"), all.kept + count("unstored"), "{series}");
        let not_stored = count("unstored").checked_sub(all.earlier).unwrap();
        // An interrupted run has no time to warn about the last chunks.
        if summary["state"] == "finished" {
            assert_eq!(not_stored, warned_not_stored(summary, cpu), "{series}");
        }
        assert!(
            all.earlier > 0 && all.kept > 0,
            "{} {}",
            all.earlier,
            all.kept
        );
        assert!(count("skipped") >= all.skipped, "{series}");
        assert_eq!(series["from_histogram"], true);
        if not_stored > 0 {
            continue;
        }
        let worst = all.worst.unwrap();
        let number = |name: &str| series["numbers"][name].as_i64().unwrap();
        assert_eq!(
            number("samples").unsigned_abs(),
            all.kept + all.earlier,
            "{series}"
        );
        assert_eq!(
            (number("max_ns"), number("max_at_ns")),
            (worst.latency.get(), worst.due.get() - start),
            "{series}"
        );
        assert_eq!(all.latency.max(), Some(worst.latency.get()));
    }
}

#[test]
fn the_folder_stays_below_its_bound_and_every_sample_is_counted() {
    let place = Workplace::new();
    let (disk, run) = (least(&place), place.path("week"));
    let mut running = start(&place, disk, "");
    wait_for_rotations(&mut running, &run, disk, 6);
    let meanwhile = place.tardy("show week").ends_with(4);
    assert!(
        meanwhile.stdout.contains("UNDER WAY"),
        "{}",
        meanwhile.stdout
    );
    running.signal(signal::TERMINATE);
    let outcome = running.wait();
    assert!(bytes(&run) <= disk);
    let summary = outcome.json();
    assert_eq!(summary["state"], "finished");
    assert!([0, 4].contains(&outcome.code()), "{outcome:?}");
    assert_all_is_there(&place, &summary);
    let record = place.record("week");
    assert_eq!(record["plan"]["disk"], disk);
    let shown = place.tardy("show --full week").stdout;
    assert!(
        shown.contains("individual samples exist only from ")
            && shown.contains("hourly histograms"),
        "{shown}"
    );
    // The other commands that read runs accept the folder.
    for line in [
        "report week --html report.html",
        "plot week --kind hist -o hist.csv",
        "plot week --kind timeline -o time.svg",
        "export week --format hgrm --output week.hgrm",
        "export week --format csv --output week.csv",
    ] {
        let read = place.tardy(line);
        assert!([0, 4].contains(&read.code()), "{line}: {read:?}");
    }
    place.tardy("compare week week");
    let left = support::workplace::names(&run.join("samples"));
    assert!(
        left.iter()
            .all(|name| !name.ends_with(".new") && !name.ends_with(".reserved")),
        "{left:?}"
    );
    place.assert_no_process_is_left();
}

#[test]
fn a_bounded_run_that_is_killed_at_any_moment_has_counts_that_add_up() {
    for wait in [0, 70, 190] {
        let place = Workplace::new();
        let (disk, run) = (least(&place), place.path("week"));
        let mut running = start(&place, disk, "");
        wait_for_rotations(&mut running, &run, disk, 1);
        std::thread::sleep(Duration::from_millis(wait));
        running.signal(process::KILL);
        running.wait();
        place.assert_no_process_is_left();
        let summary = place.summary("week");
        assert_eq!(summary["state"], "running");
        assert!(
            summary["warnings"].to_string().contains("cut-off"),
            "{}",
            summary["warnings"]
        );
        assert_all_is_there(&place, &summary);
    }
}

#[test]
fn what_has_no_bound_is_not_also_bounded() {
    let place = Workplace::new();
    for with in [
        "--keep histogram",
        "--spool .",
        "--explain --keep-trace",
        "-b 500",
        "--explain --until-stopped --resume",
    ] {
        let refused = place
            .tardy(&format!("run --disk 2GiB {with} --out week"))
            .ends_with(2);
        assert!(
            refused.stderr.contains("cannot be used with"),
            "{}",
            refused.stderr
        );
    }
    let refused = place
        .tardy("run --for 1s --disk 2000 --out week")
        .ends_with(2);
    assert!(
        refused.stderr.contains("with its unit"),
        "{}",
        refused.stderr
    );
    let refused = place
        .tardy("run --until-stopped --disk 10MiB --explain --out week")
        .ends_with(2);
    assert!(
        refused.stderr.contains("give at least "),
        "{}",
        refused.stderr
    );
    let plan = place
        .tardy("run --until-stopped --disk 2GiB --dry-run --out week")
        .ends_with(0)
        .stdout;
    assert!(plan.contains("at most 2GiB"), "{plan}");
    assert!(!place.path("week").exists());
}

#[test]
fn a_run_is_under_way_whatever_its_program_is_called() {
    let place = Workplace::new();
    let (run, program) = (place.path("week"), place.path("watcher"));
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tardy"), &program).unwrap();
    let line = [
        "run",
        "--until-stopped",
        "--period",
        "1ms",
        "--cpus",
        &machine::last_cpu().to_string(),
        "--out",
        "week",
    ]
    .map(str::to_owned);
    let mut running = place.start_command(std::process::Command::new(&program), &line);
    running.until("it stored samples", || {
        let has_head = series::files(&run)
            .iter()
            .all(|file| std::fs::metadata(file).is_ok_and(|data| data.len() > 1_000));
        (!series::files(&run).is_empty() && has_head).then_some(())
    });
    let meanwhile = place.tardy("show week").ends_with(4);
    assert!(
        meanwhile.stdout.contains("UNDER WAY"),
        "{}",
        meanwhile.stdout
    );
    running.signal(process::KILL);
    running.wait();
    let afterwards = place.tardy("show week").ends_with(4);
    assert!(
        afterwards.stdout.contains("CUT OFF"),
        "{}",
        afterwards.stdout
    );
    place.assert_no_process_is_left();
}
