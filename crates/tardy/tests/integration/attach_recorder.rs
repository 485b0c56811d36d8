//! Tests `tardy attach` as a recorder: it follows every real-time thread until it is stopped, in a
//! folder that is bounded and survives a kill.

use crate::support;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use support::machine;
use support::series;
use support::terminal::InTerminal;
use support::workplace::{RunningCommand, Workplace, finish};
use tardy_samples::cycles::Cycles;
use tardy_samples::read_series::SeriesFile;
use tardy_sys::sched::{self, Policy};
use tardy_sys::{clock, process, signal};
use tardy_trace::file::TraceFile;

use crate::attach::{Timers, can_trace};
use crate::metrics::{free_port, get, sum};

const FIFO: Policy = Policy::Fifo { priority: 10 };
const RECORDER: &str = "--realtime --until-stopped --json --out machine";

fn make_real_time(program: &Timers) {
    sched::set_policy(i32::try_from(program.id()).unwrap(), FIFO).unwrap();
}

/// Starts a recording of all real-time threads, and waits until it records their timers.
fn record(place: &Workplace, flags: &str) -> RunningCommand {
    let mut recorder = place.start(&format!("attach {RECORDER} {flags}"));
    recorder.until("it records", || {
        place.path("machine/samples").is_dir().then_some(())
    });
    recorder
}

/// The number of wake-ups of a thread.
fn wake_ups(found: &Value, thread: u32) -> u64 {
    let rows = found["threads"].as_array().unwrap();
    rows.iter()
        .filter(|row| row["thread"] == thread && row["kind"] == "sleep")
        .map(|row| row["wake_ups"].as_u64().unwrap())
        .sum()
}

/// Reads a series. Returns the number of samples that were folded into histograms, and the due
/// times of the others.
fn samples(file: &Path) -> (u64, Vec<i64>) {
    let open = SeriesFile::open(file).unwrap();
    let earlier = open.hours().map_or(0, |hours| hours.samples);
    let schedule = open.descriptor().schedule;
    let mut kept = Vec::new();
    let end = open.read(&mut |chunk| {
        kept.extend(chunk.samples(&schedule).map(|(_, sample)| sample.due.get()));
    });
    assert_eq!(end.unwrap().damaged_bytes, 0, "{}", file.display());
    (earlier, kept)
}

/// The number of samples in the folder. While tardy measures, the file of a new series may be empty.
fn samples_of_all(run: &Path) -> u64 {
    let files = series::files(run);
    files
        .iter()
        .filter(|file| std::fs::metadata(file).is_ok_and(|file| file.len() > 0))
        .map(|file| samples(file))
        .map(|(earlier, kept)| earlier + kept.len() as u64)
        .sum()
}

/// The sum of a count over all series of a summary.
fn of_summary(shown: &Value, name: &str) -> u64 {
    let series = shown["series"].as_array().unwrap();
    let count = |series: &Value| series["counts"][name].as_u64().unwrap();
    series.iter().map(count).sum()
}

fn bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let of = |path: std::path::PathBuf| {
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

#[test]
fn real_time_threads_are_followed_from_when_they_become_so_and_others_are_not() {
    const CYCLES: usize = 1500;
    if !can_trace("real_time_threads_are_followed_from_when_they_become_so_and_others_are_not") {
        return;
    }
    let place = Workplace::new();
    let [mut first, mut later, mut ordinary] =
        [(); 3].map(|()| Timers::start(&place, "monotonic", CYCLES));
    make_real_time(&first);
    let (of_first, of_later, of_ordinary) = (first.id(), later.id(), ordinary.id());
    let mut recorder = record(&place, "");
    let samples_folder = place.path("machine");
    let (all_of_first, all_of_later, became) = std::thread::scope(|scope| {
        let first = scope.spawn(|| first.cycles());
        let ordinary = scope.spawn(|| ordinary.cycles());
        let becoming = i32::try_from(of_later).unwrap();
        let later = scope.spawn(|| later.cycles());
        recorder.until("wake-ups are stored", || {
            (samples_of_all(&samples_folder) > 0).then_some(())
        });
        let became = clock::monotonic();
        sched::set_policy(becoming, FIFO).unwrap();
        ordinary.join().unwrap();
        (first.join().unwrap(), later.join().unwrap(), became)
    });
    recorder.signal(signal::TERMINATE);
    let found = recorder.wait().ends_with(0).json();
    assert_eq!(
        (&found["process"], found["end"].as_str()),
        (&Value::Null, Some("finished"))
    );
    assert!(found["threads_followed"].as_u64() >= Some(2), "{found}");
    let dues =
        |cycles: Vec<(i64, i64)>| -> Vec<i64> { cycles.into_iter().map(|(due, _)| due).collect() };
    let (all_of_first, all_of_later) = (dues(all_of_first), dues(all_of_later));
    let files = series::files(&place.path("machine"));
    let stored: Vec<Vec<i64>> = files.iter().map(|file| samples(file).1).collect();
    let of = |own: &[i64]| {
        let mut found = stored
            .iter()
            .flatten()
            .copied()
            .filter(|due| own.contains(due));
        found.by_ref().collect::<Vec<i64>>()
    };
    assert_eq!(of(&all_of_first), all_of_first, "each once");
    assert_eq!(wake_ups(&found, of_first), CYCLES as u64);
    let of_later_stored = of(&all_of_later);
    assert_eq!(wake_ups(&found, of_later), of_later_stored.len() as u64);
    assert!(
        !of_later_stored.is_empty()
            && of_later_stored.len() < CYCLES
            && of_later_stored[0] > became,
        "{} of {CYCLES}, the first {} ns after the change",
        of_later_stored.len(),
        of_later_stored[0] - became
    );
    assert!(all_of_later.ends_with(&of_later_stored), "none is left out");
    assert_eq!(wake_ups(&found, of_ordinary), 0);
    assert_eq!(
        found["wake_ups"].as_u64(),
        Some(samples_of_all(&place.path("machine")))
    );
}

#[test]
fn a_killed_recording_opens_and_adds_up_and_the_next_one_continues_it() {
    const CYCLES: usize = 6000;
    if !can_trace("a_killed_recording_opens_and_adds_up_and_the_next_one_continues_it") {
        return;
    }
    let place = Workplace::new();
    let run = place.path("machine");
    let port = free_port();
    let flags = format!("--disk 16MiB --resume --metrics {port}");
    let mut program = Timers::named(&place, "killed", "monotonic", (CYCLES, 2000));
    make_real_time(&program);
    let mut killed = record(&place, &flags);
    let own = std::thread::scope(|scope| {
        let cycles = scope.spawn(|| program.cycles());
        let text = killed.until("metrics have wake-ups", || {
            let text = get(port, "/metrics")?;
            (sum(&text, "tardy_latency_seconds_count{probe=\"killed.sleep\"") > 0.0).then_some(text)
        });
        assert!(text.ends_with("# EOF\n"), "{text}");
        let mut top = InTerminal::start(&place, "top machine", (120, 30));
        let seen = top.until_seen("the thread", |seen| seen.contains("killed.sleep"));
        assert!(!seen.contains("CUT OFF"), "{seen}");
        top.type_keys("q");
        assert_eq!(top.end().0.code(), Some(0));
        killed.until("cycles and traces are stored", || {
            let are_there = ["cycles.json", "trace/worst-00000.dat"]
                .iter()
                .all(|file| run.join(file).exists());
            are_there.then_some(())
        });
        killed.signal(process::KILL);
        cycles.join().unwrap()
    });
    killed.wait();
    let cycles = Cycles::read(&run).unwrap().unwrap();
    assert!(
        cycles.threads.iter().any(|row| row.cycles > 0),
        "{cycles:?}"
    );
    let shown = place.tardy("show machine --json").ends_with(4).json();
    let before = samples_of_all(&run);
    assert_eq!(of_summary(&shown, "expected"), before);
    assert_eq!(of_summary(&shown, "recorded"), before);
    let file = run.join("samples/killed.sleep.series");
    let (earlier, stored) = samples(&file);
    assert_eq!(earlier, 0);
    assert!(stored.len() > 100, "{} of a loop of seconds", stored.len());
    assert!(
        own.iter()
            .map(|&(due, _)| due)
            .take(stored.len())
            .eq(stored.iter().copied()),
        "the first wake-ups, without a gap"
    );
    let mut program = Timers::named(&place, "killed", "monotonic", (300, 2000));
    make_real_time(&program);
    let mut resumed = place.start(&format!("attach {RECORDER} {flags}"));
    resumed.until("it continues", || {
        let record = place.record("machine");
        (record["interruptions"].as_array().is_some()).then_some(())
    });
    program.cycles();
    resumed.signal(signal::TERMINATE);
    let found = resumed.wait().ends_with(0).json();
    assert_eq!(wake_ups(&found, program.id()), 300);
    let shown = place.tardy("show machine --json").ends_with(0).json();
    let after = before + found["wake_ups"].as_u64().unwrap();
    assert_eq!(of_summary(&shown, "expected"), after);
    assert_eq!(samples_of_all(&run), after);
    // The folder has the cycles of both parts, and the cycles of the first part are unchanged.
    let whole = Cycles::read(&run).unwrap().unwrap();
    for row in &cycles.threads {
        assert!(whole.threads.contains(row), "{row:?} is not in {whole:?}");
    }
    let id = i32::try_from(program.id()).unwrap();
    let of_both = whole
        .threads
        .iter()
        .any(|row| row.thread == id && row.cycles > 200);
    assert!(of_both, "{:?}", whole.threads);
    // The folder stores a limited number of cycles: the longest ones of both parts.
    let shortest = whole.worst.last().unwrap().response_ns;
    let mut longer = cycles
        .worst
        .iter()
        .filter(|cycle| cycle.response_ns > shortest);
    assert!(
        longer.all(|cycle| whole.worst.contains(cycle)),
        "{shortest}"
    );
    let explained = place.tardy("explain machine --json").ends_with(0).json();
    let sum: u64 = whole.threads.iter().map(|row| row.cycles).sum();
    assert_eq!(explained["cycles"], sum);
    // The stacks in the traces contain the names of functions.
    let trace = std::fs::read(run.join("trace/worst-00000-1.dat")).unwrap();
    let symbols = TraceFile::parse(&trace).unwrap().symbols;
    let functions: Vec<String> = symbols.iter().map(|(_, name)| name.to_owned()).collect();
    assert!(
        functions.iter().any(|name| name == "do_nanosleep"),
        "{functions:?}"
    );
    assert!(
        functions.iter().any(|name| name == "hrtimer_wakeup"),
        "{functions:?}"
    );
    let traces = std::fs::read_dir(run.join("trace")).unwrap();
    let mut traces: Vec<_> = traces.map(|entry| entry.unwrap().file_name()).collect();
    traces.sort();
    assert_eq!(traces, ["worst-00000-1.dat", "worst-00000.dat"]);
    // A new thread of the same name continues the series.
    let (earlier, stored_now) = samples(&file);
    assert_eq!(
        (earlier, stored_now.len()),
        (stored.len() as u64, 300),
        "{file:?}"
    );
}

#[test]
fn a_small_disk_holds_a_recording_and_every_wake_up_is_counted() {
    const DISK: u64 = 16 << 20;
    if !can_trace("a_small_disk_holds_a_recording_and_every_wake_up_is_counted") {
        return;
    }
    let place = Workplace::new();
    let run = place.path("machine");
    let mut recorder = record(&place, "--disk 16MiB");
    let file = run.join("samples/many.sleep.series");
    let has_given_way = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let loops = scope.spawn(|| {
            // On a busy machine, a loop has fewer wake-ups than cycles, so the test may need
            // several loops.
            for _ in 0..6 {
                if !has_given_way.load(Ordering::Relaxed) {
                    let mut program = Timers::named(&place, "many", "monotonic", (20_000, 300));
                    make_real_time(&program);
                    program.cycles();
                }
            }
        });
        recorder.until("a segment gave way", || {
            let taken = bytes(&run);
            assert!(taken <= DISK, "{taken} of {DISK} bytes");
            std::thread::sleep(std::time::Duration::from_millis(100));
            let hours = SeriesFile::open(&file).ok()?.hours()?.samples;
            (hours > 0).then_some(())
        });
        has_given_way.store(true, Ordering::Relaxed);
        loops.join().unwrap();
    });
    recorder.signal(signal::TERMINATE);
    let outcome = recorder.wait();
    // If events were lost, the result is inconclusive, but the counts still add up.
    assert!([0, 4].contains(&outcome.code()), "{outcome:?}");
    let found = outcome.json();
    let (earlier, kept) = samples(&file);
    assert!(earlier > 0 && !kept.is_empty());
    assert!(bytes(&run) <= DISK);
    let shown = place.tardy("show machine --json").json();
    let [recorded, unstored] = ["recorded", "unstored"].map(|name| of_summary(&shown, name));
    assert_eq!(found["wake_ups"].as_u64(), Some(recorded));
    // A sample is missing from the series because it was folded or because a busy disk left no room
    // for it.
    let record = place.record("machine");
    let no_room = record["series"].as_array().unwrap().iter();
    let no_room: u64 = no_room
        .filter_map(|series| series["failure"]["samples"].as_u64())
        .sum();
    let all: Vec<_> = series::files(&run)
        .iter()
        .map(|file| samples(file))
        .collect();
    let [gave_way, kept] = all
        .iter()
        .fold([0, 0], |[gave_way, kept], (earlier, dues)| {
            [gave_way + earlier, kept + dues.len() as u64]
        });
    assert_eq!((unstored, recorded), (gave_way + no_room, kept + unstored));
}

#[test]
fn a_miss_runs_the_command_and_its_trace_is_in_the_folder_by_then() {
    if !can_trace("a_miss_runs_the_command_and_its_trace_is_in_the_folder_by_then") {
        return;
    }
    let act = "echo $TARDY_LATENCY_NS $TARDY_DUE_NS >> acts; cp $TARDY_RUN/trace/*.dat seen.dat";
    for (action, end, code) in [("trace", "threshold", 1), ("continue", "process-ended", 1)] {
        let place = Workplace::new();
        let mut program = Timers::start(&place, "monotonic", 400);
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tardy"));
        command.current_dir(place.path("."));
        let id = program.id().to_string();
        let words = ["attach", &id, "--for", "60s", "--json", "--out", "run"];
        let shell = format!("shell={act}");
        let words = words.into_iter().chain([
            "--deadline",
            "1ns",
            "--on-threshold",
            &shell,
            "--on-threshold",
            action,
        ]);
        let mut attach = place.start_command(command, words);
        attach.until("it records", || {
            place.path("run/samples").is_dir().then_some(())
        });
        let cycles = program.cycles();
        let found = attach.wait().ends_with(code).json();
        assert_eq!(found["end"], end);
        let acts = std::fs::read_to_string(place.path("acts")).unwrap();
        let acts: Vec<(i64, i64)> = acts
            .lines()
            .map(|line| {
                let mut words = line.split(' ').map(|word| word.parse().unwrap());
                (words.next().unwrap(), words.next().unwrap())
            })
            .collect();
        let files = series::files(&place.path("run"));
        let stored: Vec<i64> = files.iter().flat_map(|file| samples(file).1).collect();
        assert!(
            cycles
                .iter()
                .all(|(due, _)| action == "trace" || stored.contains(due))
                && acts.iter().all(|(_, due)| stored.contains(due)),
            "{acts:?}"
        );
        // Commands may run side by side, so the latencies are sorted first.
        let mut latencies: Vec<i64> = acts.iter().map(|&(latency, _)| latency).collect();
        latencies.sort_unstable();
        latencies.dedup();
        assert_eq!(latencies.len(), acts.len(), "each is larger: {acts:?}");
        let largest = found["all"]["max_ns"].as_i64();
        if action == "continue" {
            assert_eq!(latencies.last().copied(), largest);
        } else {
            assert_eq!(acts.len(), 1);
            assert_eq!(place.record("run")["state"], "stopped");
        }
        place
            .tardy("explain seen.dat --task timers --json")
            .ends_with(0)
            .json();
        // The test requests raw fields (`-R`), because trace-cmd 3.1 crashed once while it
        // formatted them.
        let report = finish(place.prepared(
            machine::program("trace-cmd", "trace-cmd"),
            ["report", "-R", "-i", "seen.dat"],
        ));
        let report = report.ends_with(0).stdout;
        for event in ["hrtimer_expire_entry", "sched_waking", "sched_switch"] {
            assert!(report.contains(&format!(" {event}: ")), "{event}: {report}");
        }
    }
}

#[test]
fn what_is_followed_is_a_program_or_the_real_time_threads_and_a_recording_is_bounded_or_not() {
    let place = Workplace::new();
    for (line, words) in [
        ("attach", "<PID>"),
        ("attach 1 --realtime", "cannot be used with"),
        ("attach --realtime --thread 7", "cannot be used with"),
        (
            "attach --realtime --until-stopped --for 1s",
            "cannot be used with",
        ),
        ("attach --realtime --on-threshold trace", "--deadline"),
        ("attach --realtime --until-stopped --disk 200MiB", "--out"),
        (
            "attach --realtime --until-stopped --disk 1MiB --out a",
            "at least 16MiB",
        ),
        (
            "attach --realtime --until-stopped --resume --out a",
            "--disk",
        ),
        ("attach --realtime --metrics 9877", "--out"),
    ] {
        let error = place.tardy(line).ends_with(2).stderr;
        assert!(error.contains(words), "{line}: {error}");
    }
    if machine::is_root() {
        std::fs::create_dir(place.path("there")).unwrap();
        let error = place
            .tardy("attach --realtime --out there")
            .ends_with(2)
            .stderr;
        assert!(error.contains("exists already"), "{error}");
    }
}
