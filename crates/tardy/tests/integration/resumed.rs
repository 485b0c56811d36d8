//! Runs with `--disk` that are resumed in their folder: samples of both parts are counted, but the
//! time between the parts is not.

use crate::support;

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use support::machine;
use support::series;
use support::workplace::{RunningCommand, Workplace};
use tardy_samples::hours::{self, Hours};
use tardy_samples::read_series::SeriesFile;
use tardy_sys::{process, signal};

fn line(more: &str) -> String {
    format!(
        "run --until-stopped --period 1ms --cpus {} --deadline 10s --disk 64MiB --json --out week \
         {more}",
        machine::last_cpu()
    )
}

/// Starts a run and waits until it has stored samples.
fn start(place: &Workplace, more: &str) -> RunningCommand {
    let run = place.path("week");
    let has_grown = |folder: &Path| {
        let files = series::files(folder);
        !files.is_empty() && files.iter().all(|file| kept(file) > 200)
    };
    let mut running = place.start(&line(more));
    let id = running.pid();
    running.until("it stored samples", || {
        // The record and the samples may still be those of the previous part.
        let is_its_own = std::fs::read_to_string(run.join("run.json"))
            .is_ok_and(|text| text.contains(&format!("\"process\": {id}")));
        (is_its_own && has_grown(&run)).then_some(())
    });
    running
}

/// Number of single samples, which are not folded into histograms.
fn kept(file: &Path) -> u64 {
    let Ok(open) = SeriesFile::open(file) else {
        return 0;
    };
    let mut samples = 0;
    let read = open
        .read(&mut |chunk| samples += chunk.samples(&open.descriptor().schedule).count() as u64);
    read.map_or(0, |_| samples)
}

fn killed(place: &Workplace, more: &str) {
    let running = start(place, more);
    std::thread::sleep(Duration::from_millis(200));
    running.signal(process::KILL);
    running.wait();
    place.assert_no_process_is_left();
}

fn count(series: &Value, name: &str) -> u64 {
    series["counts"][name].as_u64().unwrap()
}

/// The warnings about resumptions.
fn resumptions(summary: &Value) -> Vec<&Value> {
    summary["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|warning| warning["warning"] == "resumed")
        .collect()
}

#[test]
fn a_run_that_was_killed_goes_on_with_all_its_counts() {
    let place = Workplace::new();
    let run = place.path("week");
    // If there was no previous run, `--resume` starts a new one.
    killed(&place, "--resume");
    let before = place.summary("week");
    std::fs::write(run.join("samples/notes.txt"), "mine").unwrap();
    killed(&place, "--resume");
    let between = place.summary("week");
    assert!(
        between["warnings"].to_string().contains("cut-off"),
        "{}",
        between["warnings"]
    );
    let running = start(&place, "--resume");
    let meanwhile = place.tardy("show week").ends_with(4).stdout;
    assert!(meanwhile.contains("UNDER WAY"), "{meanwhile}");
    let refused = place.tardy(&line("--resume")).ends_with(2).stderr;
    assert!(refused.contains("is still writing the run"), "{refused}");
    running.signal(signal::TERMINATE);
    let summary = running.wait().json();
    let record = place.record("week");
    assert_eq!(
        (summary["state"].as_str(), resumptions(&summary).len()),
        (Some("finished"), 2),
        "{}",
        summary["warnings"]
    );
    assert!(
        !summary["warnings"].to_string().contains("cut-off"),
        "{}",
        summary["warnings"]
    );
    assert_eq!(record["interruptions"].as_array().unwrap().len(), 2);
    assert!(
        resumptions(&summary)
            .iter()
            .all(|warning| warning["is_reboot"] == false && warning["away"].as_i64() > Some(0))
    );
    assert_eq!(
        std::fs::read_to_string(run.join("samples/notes.txt")).unwrap(),
        "mine"
    );
    let file = &series::files(&run)[0];
    // All files except notes.txt are files of the run, and the first segment is folded. The segment
    // numbers of this part continue after the last folded segment.
    let all = support::workplace::names(&run.join("samples"));
    let own = all
        .iter()
        .filter(|name| name.starts_with("cyclic.cpu"))
        .count();
    assert!(
        own + 1 == all.len()
            && all
                .iter()
                .all(|name| !name.ends_with(".new") && !name.ends_with(".series.1")),
        "{all:?}"
    );
    let earlier = Hours::read(&hours::path(file)).unwrap().unwrap();
    let (series, first, second) = (
        &summary["series"][0],
        &before["series"][0],
        &between["series"][0],
    );
    assert!(
        count(first, "recorded") > 200
            && count(second, "recorded") > count(first, "recorded") + 200
    );
    assert_eq!(
        earlier.samples,
        count(second, "recorded"),
        "all that was there gave way"
    );
    assert_eq!(count(series, "recorded"), earlier.samples + kept(file));
    assert_eq!(count(series, "unstored"), earlier.samples);
    assert_eq!(
        count(series, "expected"),
        count(series, "recorded") + count(series, "skipped") + count(series, "lost"),
        "{series}"
    );
    assert_eq!(series["numbers"]["samples"], count(series, "recorded"));
    // The time in between is not part of the measured time.
    let began = record["started"]["monotonic_ns"].as_i64().unwrap();
    let away: i64 = record["interruptions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|away| away["to_ns"].as_i64().unwrap() - away["from_ns"].as_i64().unwrap())
        .sum();
    let whole = record["ended_ns"].as_i64().unwrap() - began;
    let measured = summary["measured_ns"].as_i64().unwrap();
    assert!(
        away > 0 && measured + away <= whole,
        "{measured} + {away} is more than {whole}"
    );
    assert_eq!(record["phases"].as_array().unwrap().len(), 1);
    assert!(
        record["phases"][0]["begin_ns"].as_i64() < record["interruptions"][0]["from_ns"].as_i64(),
        "{}",
        record["phases"]
    );
    for line in [
        "report week --html week.html",
        "plot week --kind timeline -o time.svg",
        "export week --format hgrm --output week.hgrm",
    ] {
        let read = place.tardy(line);
        assert!([0, 4].contains(&read.code()), "{line}: {read:?}");
    }
    let shown = place.tardy("show --full week").stdout;
    assert!(
        shown.contains("note: the run was interrupted ")
            && shown.contains("individual samples exist only from "),
        "{shown}"
    );
    assert_eq!(
        place
            .names()
            .iter()
            .filter(|name| name.contains("resuming"))
            .count(),
        0
    );
}

#[test]
fn a_resumption_that_is_killed_at_any_moment_loses_no_sample() {
    let place = Workplace::new();
    killed(&place, "");
    let mut recorded = count(&place.summary("week")["series"][0], "recorded");
    for wait in [5, 10, 15, 20, 30, 40, 50, 70, 90, 120] {
        let running = place.start(&line("--resume"));
        std::thread::sleep(Duration::from_millis(wait));
        running.signal(process::KILL);
        running.wait();
        let summary = place.summary("week");
        let now = count(&summary["series"][0], "recorded");
        assert!(now >= recorded, "after {wait} ms {now} of {recorded}");
        assert_eq!(summary["series"][0]["numbers"]["samples"], now);
        recorded = now;
    }
    killed(&place, "--resume");
    assert!(count(&place.summary("week")["series"][0], "recorded") > recorded);
    assert_eq!(
        place
            .names()
            .iter()
            .filter(|name| name.contains("resuming"))
            .count(),
        0
    );
    place.assert_no_process_is_left();
}

#[test]
fn a_run_that_was_killed_before_its_first_sample_goes_on() {
    let place = Workplace::new();
    let slow = line("--resume").replace("--period 1ms", "--period 2s");
    // The first due time is one period after the start, so no sample is stored before the kill.
    for _ in 0..2 {
        let running = place.start(&slow);
        let run = place.path("week");
        let id = running.pid();
        let mut running = running;
        running.until("its run began", || {
            let text = std::fs::read_to_string(run.join("run.json")).ok()?;
            text.contains(&format!("\"process\": {id}")).then_some(())
        });
        running.signal(process::KILL);
        running.wait();
    }
    let before = place.summary("week");
    assert_eq!(
        before["series"].as_array().map_or(0, |series| series
            .iter()
            .map(|series| count(series, "recorded"))
            .sum()),
        0,
        "{before}"
    );
    let mut running = place.start(&slow);
    let run = place.path("week");
    running.until("it stored a sample", || {
        let files = series::files(&run);
        (!files.is_empty() && files.iter().all(|file| kept(file) > 0)).then_some(())
    });
    running.signal(signal::TERMINATE);
    let summary = running.wait().json();
    assert_eq!(summary["state"], "finished", "{}", summary["warnings"]);
    let series = &summary["series"][0];
    assert!(count(series, "recorded") > 0, "{series}");
    assert_eq!(
        count(series, "expected"),
        count(series, "recorded") + count(series, "skipped") + count(series, "lost"),
        "{series}"
    );
    assert_eq!(
        resumptions(&summary).len(),
        place.record("week")["interruptions"]
            .as_array()
            .unwrap()
            .len()
    );
    place.assert_no_process_is_left();
}

/// Changes the run's record so that the run started `before` its real start, in another boot.
fn of_another_boot(place: &Workplace, before: Duration) {
    let mut record = place.record("week");
    let realtime = record["started"]["realtime_ns"].as_i64().unwrap()
        - i64::try_from(before.as_nanos()).unwrap();
    record["started"]["realtime_ns"] = realtime.into();
    record["machine"]["boot_id"] = "00000000-0000-4000-8000-000000000000".into();
    std::fs::write(place.path("week/run.json"), record.to_string()).unwrap();
}

#[test]
fn a_run_goes_on_after_a_reboot_and_tells_the_gap() {
    let place = Workplace::new();
    killed(&place, "");
    let first_before = first_due(&place);
    of_another_boot(&place, Duration::from_secs(7200));
    let running = start(&place, "--resume");
    running.signal(signal::TERMINATE);
    let summary = running.wait().json();
    let told = resumptions(&summary);
    assert_eq!(
        (told.len(), told[0]["is_reboot"].as_bool()),
        (1, Some(true)),
        "{}",
        summary["warnings"]
    );
    let away = told[0]["away"].as_i64().unwrap();
    assert!(
        away > 7_190_000_000_000 && away < 10_000_000_000_000,
        "{away}"
    );
    // The earlier samples keep their times relative to the start of the run.
    let record = place.record("week");
    let began = record["started"]["monotonic_ns"].as_i64().unwrap();
    let earlier = Hours::read(&hours::path(&series::files(&place.path("week"))[0]))
        .unwrap()
        .unwrap();
    let first = earlier.stretches().next().unwrap();
    assert_eq!(first.first_due.get() - began, first_before);
    assert!(
        summary["measured_ns"].as_i64().unwrap() < 3_600_000_000_000,
        "{}",
        summary["measured_ns"]
    );
    assert!(
        count(&summary["series"][0], "expected") < 3_600_000,
        "{}",
        summary["series"][0]
    );
    assert!(
        place
            .tardy("show week")
            .stdout
            .contains("the machine rebooted")
    );
}

/// Due time of the first sample, relative to the start.
fn first_due(place: &Workplace) -> i64 {
    let file = SeriesFile::open(&series::files(&place.path("week"))[0]).unwrap();
    let mut first = None;
    file.read(&mut |chunk| {
        first = first.or(chunk
            .samples(&file.descriptor().schedule)
            .next()
            .map(|(_, sample)| sample.due.get()))
    })
    .unwrap();
    first.unwrap()
        - place.record("week")["started"]["monotonic_ns"]
            .as_i64()
            .unwrap()
}

#[test]
fn what_is_no_such_run_is_refused_and_not_touched() {
    let place = Workplace::new();
    killed(&place, "");
    let files = || {
        (
            place.record("week"),
            support::workplace::names(&place.path("week/samples")),
        )
    };
    let before = files();
    let refused = place
        .tardy(&line("--resume").replace("--period 1ms", "--period 2ms"))
        .ends_with(2)
        .stderr;
    assert!(
        refused.contains("its probes are others") || refused.contains("because its probes"),
        "{refused}"
    );
    let refused = place
        .tardy(&line("--resume").replace("--deadline 10s", "--deadline 1s"))
        .ends_with(2)
        .stderr;
    assert!(refused.contains("its deadlines"), "{refused}");
    let refused = place.tardy(&line("")).ends_with(2).stderr;
    assert!(refused.contains("exists already"), "{refused}");
    assert_eq!(files(), before);
    let record = place.record("week");
    let mut other = record.clone();
    other["machine"]["kernel"]["release"] = "6.1.0-0-rt".into();
    std::fs::write(place.path("week/run.json"), other.to_string()).unwrap();
    let refused = place.tardy(&line("--resume")).ends_with(2).stderr;
    assert!(
        refused.contains("was measured on kernel 6.1.0-0-rt"),
        "{refused}"
    );
    assert_eq!(
        (
            place.record("week"),
            support::workplace::names(&place.path("week/samples"))
        ),
        (other, before.1.clone())
    );
    std::fs::write(place.path("week/run.json"), record.to_string()).unwrap();
    let short = place.tardy("run --for 200ms --cpus 0 --out short");
    assert!([0, 4].contains(&short.code()), "{short:?}");
    let refused = place
        .tardy(&line("--resume").replace("--out week", "--out short"))
        .ends_with(2)
        .stderr;
    assert!(
        refused.contains("--resume needs a run with --until-stopped and --disk"),
        "{refused}"
    );
    for without in ["--until-stopped", "--disk 64MiB", "--out week"] {
        assert!(
            place
                .tardy(&line("--resume").replace(without, ""))
                .ends_with(2)
                .stderr
                .contains("required"),
            "{without}"
        );
    }
}
