//! Tests interrupted runs: the samples are kept, and the run is marked as interrupted.

use crate::support;

use std::path::Path;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::Value;
use support::machine;
use support::series;
use support::workplace::{RunningCommand, Workplace};
use tardy_sys::{clock, process, signal};

/// Waits until the files of the run contain samples.
#[track_caller]
fn wait_for_samples(running: &mut RunningCommand, run: &Path) {
    running.until("it stored samples", || {
        let files = series::files(run);
        let has_samples =
            |file: &std::path::PathBuf| std::fs::metadata(file).is_ok_and(|data| data.len() > 400);
        (!files.is_empty() && files.iter().all(has_samples)).then_some(())
    });
}

fn state(run: &Path) -> Option<Value> {
    let record: Value = serde_json::from_slice(&std::fs::read(run.join("run.json")).ok()?).ok()?;
    Some(record["state"].clone())
}

fn has_phase_with_loads(run: &Path) -> bool {
    let record: Option<Value> = std::fs::read(run.join("run.json"))
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    record.is_some_and(|record| {
        record["phases"].as_array().is_some_and(|phases| {
            phases
                .iter()
                .any(|phase| phase["loads"] != Value::Array(Vec::new()))
        })
    })
}

#[track_caller]
fn assert_exact(summary: &Value) {
    for series in summary["series"].as_array().unwrap() {
        let count = |name: &str| series["counts"][name].as_u64().unwrap();
        assert_eq!(
            count("expected"),
            count("recorded") + count("skipped") + count("lost"),
            "{}",
            series["counts"]
        );
    }
}

#[test]
fn a_signal_ends_a_run_in_order_with_its_loads_and_keeps_what_was_measured() {
    for number in [signal::INTERRUPT, signal::TERMINATE] {
        let place = Workplace::new();
        let run = place.path("run");
        let mut running = place.start("run --for 600s --load io --load fork --json --out run");
        // The idle phase lasts a third of the run, but at most 10 s.
        running.until("its loads run", || has_phase_with_loads(&run).then_some(()));
        wait_for_samples(&mut running, &run);
        running.signal(number);
        let outcome = running.wait().ends_with(130);
        let summary = outcome.json();
        assert_eq!(summary["state"], "interrupted");
        assert!(
            summary["warnings"].to_string().contains("\"interrupted\""),
            "{}",
            summary["warnings"]
        );
        assert!(summary["probes"][0]["counts"]["recorded"].as_u64().unwrap() > 0);
        assert_exact(&summary);
        place.assert_no_process_is_left();
        assert_eq!(
            place.tardy("show --json run").ends_with(130).stdout,
            outcome.stdout
        );
        let text = place.tardy("show run").ends_with(130).stdout;
        assert!(text.contains("interrupted after "), "{text}");
    }
}

/// The tool, its supervisor and its loads are stopped, as a debugger, a freezer or a container
/// engine stops them.
#[test]
fn stopped_processes_miss_their_periods_and_the_run_says_so() {
    let place = Workplace::new();
    let run = place.path("run");
    let mut running = place.start(&format!(
        "run --for 600s --load fork --load io --period 1ms --cpus {} --json --out run",
        machine::last_cpu()
    ));
    wait_for_samples(&mut running, &run);
    running.until("loads", || has_phase_with_loads(&run).then_some(()));
    let processes = running.family();
    assert!(processes.len() > 2, "the tool, its supervisor and loads");
    // A process may just have ended.
    let signal_all = |signal| {
        for &process in &processes {
            let _ = process::kill(process, signal);
        }
    };
    signal_all(process::STOP);
    let stopped = clock::monotonic();
    std::thread::sleep(Duration::from_millis(300));
    let least = (clock::monotonic() - stopped) / 1_000_000;
    signal_all(process::CONTINUE);
    std::thread::sleep(Duration::from_millis(300));
    running.signal(signal::INTERRUPT);
    let summary = running.wait().ends_with(130).json();
    assert_exact(&summary);
    let longest = series::all(&run)[0]
        .samples
        .iter()
        .map(|sample| i64::from(sample.skipped))
        .max()
        .unwrap();
    // The process is stopped for at least the requested time, minus the time that the signal takes
    // to arrive. A busy machine may prolong the stop.
    assert!(
        longest >= least - 50,
        "{longest} periods skipped in a row, stopped for {least} ms"
    );
    let probe = &summary["probes"][0];
    assert!(
        probe["counts"]["skipped"].as_i64().unwrap() >= longest,
        "{}",
        probe["counts"]
    );
    let corrected = &probe["numbers"]["percentiles_corrected"];
    assert!(
        corrected[1]["value_ns"].as_i64()
            >= probe["numbers"]["percentiles"][1]["value_ns"].as_i64(),
        "{corrected}"
    );
    let text = place.tardy("show run").ends_with(130).stdout;
    assert!(
        text.contains("skipped") && text.contains("\nwith skipped "),
        "{text}"
    );
    place.assert_no_process_is_left();
}

#[test]
fn a_run_whose_folder_is_removed_moved_or_replaced_ends_and_says_so() {
    for what in ["removed", "moved", "replaced"] {
        let place = Workplace::new();
        let (run, moved) = (place.path("run"), place.path("moved"));
        let mut running = place.start("run --for 2s --load none --quiet --out run");
        wait_for_samples(&mut running, &run);
        if what == "removed" {
            std::fs::remove_dir_all(&run).unwrap();
        } else {
            std::fs::rename(&run, &moved).unwrap();
        }
        if what == "replaced" {
            std::fs::create_dir(&run).unwrap();
            std::fs::write(run.join("mine"), "").unwrap();
        }
        let outcome = running.wait().ends_with(3);
        assert!(
            outcome.stderr.contains("removed or moved"),
            "{what}: {}",
            outcome.stderr
        );
        if what != "removed" {
            assert_exact(&place.summary("moved"));
        }
        if what == "replaced" {
            assert_eq!(support::workplace::names(&run), ["mine"]);
        }
        place.assert_no_process_is_left();
        assert_eq!(place.journals(), [""; 0], "{what}");
    }
}

/// Lists the files that a run reserves for its end. On file systems without unnamed files the
/// reserved files may remain, so the list is empty.
fn reserved(run: &Path) -> Vec<String> {
    if tardy_sys::unnamed_file::create(run).is_err() {
        return Vec::new();
    }
    let folders = [run.to_owned(), run.join("samples")];
    let names = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
    names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.ends_with(".reserved"))
        .collect()
}

/// Kills runs with these arguments at `moments` random times, five runs at once, and checks the
/// folders.
fn kill_at_drawn_moments(moments: usize, arguments: &str) {
    let mut random = Pcg64Mcg::seed_from_u64(seed());
    let waits: Vec<Duration> = (0..moments)
        .map(|_| Duration::from_micros(random.random_range(0..2_000_000)))
        .collect();
    std::thread::scope(|scope| {
        for waits in waits.chunks(moments.div_ceil(5)) {
            scope.spawn(move || kill_after(waits, arguments));
        }
    });
}

/// Kills a run after each of these times.
fn kill_after(waits: &[Duration], arguments: &str) {
    for &wait in waits {
        let place = Workplace::new();
        let run = place.path("run");
        let mut running = place.start(&format!("run {arguments} --quiet --out run"));
        running.until("its folder is there", || state(&run));
        std::thread::sleep(wait);
        running.signal(process::KILL);
        assert_eq!(running.wait().status.code(), None);
        place.assert_no_process_is_left();
        assert_eq!(
            reserved(&run),
            [""; 0],
            "room that was taken beforehand has no name"
        );
        let shown = place.tardy("show run").ends_with(4);
        assert!(
            shown.stdout.contains("CUT OFF") && shown.stdout.contains("the run was cut off"),
            "killed after {wait:?}: {}",
            shown.stdout
        );
        assert_exact(&place.tardy("show --json run").ends_with(4).json());
        // If a run is killed before its start time is chosen, its files have no heads yet; such
        // empty files are left out.
        for file in series::files(&run)
            .iter()
            .filter(|file| std::fs::metadata(file).unwrap().len() > 0)
        {
            let series = series::read(file);
            assert!(series.counts.is_exact(), "{:?}", series.counts);
            assert_eq!(
                series.samples.len() as u64,
                series.counts.recorded,
                "the last chunk accounts for all samples before it"
            );
        }
    }
}

/// Seed of the random times: constant unless the environment sets it.
fn seed() -> u64 {
    std::env::var("TARDY_TEST_SEED")
        .map_or(1, |seed| seed.parse().expect("TARDY_TEST_SEED is a number"))
}

#[test]
fn a_run_killed_at_any_of_50_moments_opens_and_accounts_for_all_that_it_stored() {
    kill_at_drawn_moments(50, "--for 600s --load none");
}

#[test]
fn a_run_killed_under_load_opens_and_leaves_no_load_behind() {
    kill_at_drawn_moments(4, "--for 3s --load io --load fork --cpu-dma-latency leave");
}

#[test]
fn a_run_killed_before_it_began_leaves_nothing_that_looks_like_a_run() {
    let mut random = Pcg64Mcg::seed_from_u64(seed());
    for _ in 0..10 {
        let place = Workplace::new();
        let running = place.start("run --for 600s --load none --quiet --out run");
        std::thread::sleep(Duration::from_micros(random.random_range(0..30_000)));
        running.signal(process::KILL);
        running.wait();
        let code = place.tardy("show run").code();
        let expected = if place.path("run").join("run.json").exists() {
            4
        } else {
            2
        };
        assert_eq!(code, expected, "{:?}", place.names());
    }
}

/// The folder of a run that is killed after its files are created and before its start time is
/// chosen.
#[test]
fn a_run_killed_before_its_files_had_heads_opens_without_a_sample() {
    let place = Workplace::new();
    place.tardy("run --cycles 20 --load none --quiet --out run");
    let path = place.path("run/run.json");
    let mut record: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    record["state"] = "running".into();
    record["ended_ns"] = Value::Null;
    record["series"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .for_each(|series| series["counts"] = Value::Null);
    std::fs::write(&path, record.to_string()).unwrap();
    // A head may also be cut off, in its first bytes or in the descriptor.
    for bytes in [30, 5, 0] {
        for file in series::files(&place.path("run")) {
            let head = std::fs::read(&file).unwrap();
            std::fs::write(&file, &head[..bytes]).unwrap();
        }
        let page = format!("report run --html report-{bytes}.html");
        for command in ["show run", "show run --json", &page] {
            assert_ne!(place.tardy(command).code(), 2, "{command}, {bytes} bytes");
        }
        place.tardy("show run").ends_with(4);
    }
}

fn affinities(moves: &[Value]) -> Vec<String> {
    let read = |to: &Value| {
        std::fs::read_to_string(to["path"].as_str().unwrap())
            .unwrap()
            .trim()
            .to_owned()
    };
    moves.iter().map(read).collect()
}

/// The interrupts that a run with --move-irqs moved, from its plan.
fn interrupts_moved(record: &Value) -> Vec<Value> {
    let changes = record["plan"]["changes"].as_array().unwrap();
    changes
        .iter()
        .filter(|change| change["change"] == "interrupt")
        .cloned()
        .collect()
}

#[test]
fn restore_puts_interrupts_back_after_tool_and_guardian_were_killed() {
    let test = "restore_puts_interrupts_back_after_tool_and_guardian_were_killed";
    if !machine::is_root() || machine::cpus().len() < 2 {
        return machine::left_out(
            test,
            "interrupts are moved by root only, and only where there are two CPUs",
        );
    }
    let place = Workplace::new();
    let run = place.path("run");
    let mut running = place.start(&format!(
        "run --for 20s --load io --move-irqs --cpus {} --quiet --out run",
        machine::last_cpu()
    ));
    running.until("its loads run", || has_phase_with_loads(&run).then_some(()));
    let guardian = running.guardian();
    process::kill(guardian, process::KILL).unwrap();
    running.signal(process::KILL);
    running.wait();
    place.assert_no_process_is_left();
    let moved = interrupts_moved(&place.record("run"));
    let text = |key: &str| {
        moved
            .iter()
            .map(|to| to[key].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    if moved.is_empty() {
        machine::left_out(test, "this machine cannot move an interrupt");
    } else {
        assert_ne!(affinities(&moved), text("old"), "the run had moved them");
    }
    assert_eq!(place.journals().len(), 1, "the journal was left");
    let dry = place.tardy("restore --dry-run").ends_with(0);
    assert_eq!(
        dry.stdout.matches("smp_affinity_list").count(),
        moved.len(),
        "{}",
        dry.stdout
    );
    let restored = place.tardy("restore").ends_with(0);
    assert_eq!(affinities(&moved), text("old"), "{}", restored.stdout);
    assert_eq!(
        place.journals().len(),
        0,
        "the journal is gone: {}",
        restored.stdout
    );
    assert_eq!(
        place.tardy("restore").ends_with(0).stdout,
        "there is nothing to restore\n"
    );
    place.tardy("show run").ends_with(4);
}
