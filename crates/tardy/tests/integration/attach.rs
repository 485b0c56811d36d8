//! Tests `tardy attach` with the timer wake-ups of a running program that records its due times and
//! when it woke.

use crate::support;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use support::machine;
use support::series;
use support::workplace::{Outcome, RunningCommand, Workplace, finish};
use tardy_core::sample::Sample;
use tardy_machine::root::Root;
use tardy_machine::tracefs::Tracefs;
use tardy_sys::clock::Clock;
use tardy_sys::signal;

const CYCLES: usize = 400;

/// Returns whether the machine allows following a program.
pub(crate) fn can_trace(test: &str) -> bool {
    let can = machine::is_root() && Tracefs::open(&Root::system()).is_ok();
    if !can {
        machine::left_out(test, "it needs root and a tracefs");
    }
    can
}

/// Counts the tracefs instances that the tool's process `process` created.
fn instances_of(process: i32) -> usize {
    let tracefs = Tracefs::open(&Root::system()).unwrap();
    let entries = std::fs::read_dir(tracefs.path().join("instances")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| name.starts_with(&format!("tardy-{process}-")))
        .count()
}

/// The program of tests/data/timers.c, which waits for a line of input before its cycles.
pub(crate) struct Timers(Child);

impl Timers {
    pub(crate) fn start(place: &Workplace, kind: &str, cycles: usize) -> Self {
        Self::named(place, "timers", kind, (cycles, 2000))
    }

    /// Starts the program with a name, which distinguishes it from those of other tests, and with a
    /// period in microseconds.
    pub(crate) fn named(
        place: &Workplace,
        name: &str,
        kind: &str,
        (cycles, period): (usize, u32),
    ) -> Self {
        if !place.path(name).exists() {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/timers.c");
            let mut cc = place.prepared(
                machine::program("cc", "build-essential"),
                ["-O2", "-Wall", "-Wextra", "-Werror", "-pthread"],
            );
            cc.arg("-o").arg(name).arg(source).arg("-lrt");
            finish(cc).ends_with(0);
        }
        let mut command = place.prepared(
            Command::new(place.path(name)),
            [kind, &cycles.to_string(), &period.to_string()],
        );
        Self(command.stdin(Stdio::piped()).spawn().unwrap())
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Lets the program run its cycles and end, and returns for each cycle the due time and the
    /// time at which the program read its clock.
    pub(crate) fn cycles(&mut self) -> Vec<(i64, i64)> {
        let mut input = self.0.stdin.take().unwrap();
        writeln!(input).unwrap();
        let output = BufReader::new(self.0.stdout.take().unwrap());
        let read = |line: String| {
            let mut words = line.split(' ').map(|word| word.parse().unwrap());
            (words.next().unwrap(), words.next().unwrap())
        };
        // The program ends when its input is closed.
        let (mut cycles, mut input) = (Vec::new(), Some(input));
        for line in output.lines() {
            cycles.push(read(line.unwrap()));
            input.take();
        }
        self.0.wait().unwrap();
        cycles
    }
}

impl Drop for Timers {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `tardy attach` and waits until it records the program's timers.
fn attach(place: &Workplace, program: &Timers, flags: &str) -> RunningCommand {
    let mut attach = place.start(&format!(
        "attach {} --for 60s --json --out run {flags}",
        program.id()
    ));
    attach.until("it records", || {
        place.path("run/samples").is_dir().then_some(())
    });
    attach
}

/// Follows all cycles of a kind of timer, and returns the tool's outcome and the program's own
/// record.
fn followed(place: &Workplace, kind: &str, flags: &str) -> (Outcome, Vec<(i64, i64)>) {
    let mut program = Timers::start(place, kind, CYCLES);
    let attach = attach(place, &program, flags);
    let cycles = program.cycles();
    assert_eq!(cycles.len(), CYCLES);
    (attach.wait(), cycles)
}

fn count(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// Returns the counts of one kind of timer, and checks that every timer that was set ended in
/// exactly one way.
fn counts<'a>(found: &'a Value, timer: &str) -> &'a Value {
    let rows = found["timers"].as_array().unwrap();
    for row in rows {
        let ends =
            ["wake_ups", "unawaited", "cancelled", "lost", "pending"].map(|end| count(&row[end]));
        assert_eq!(count(&row["started"]), ends.iter().sum::<u64>(), "{row}");
    }
    rows.iter()
        .find(|row| row["timer"] == timer)
        .unwrap_or_else(|| panic!("no {timer} in {rows:?}"))
}

/// Reads the series that contains one kind of wake-ups of the program's main thread.
fn stored(place: &Workplace, kind: &str) -> series::Series {
    let probe = format!("timers.{kind}");
    let all = series::all(&place.path("run"));
    let found = all.into_iter().find(|one| one.descriptor.probe == probe);
    found.unwrap_or_else(|| panic!("no {probe}"))
}

/// Returns the summary's entry for one kind of wake-ups of the program's main thread.
fn row<'a>(found: &'a Value, kind: &str) -> &'a Value {
    let mut rows = found["threads"].as_array().unwrap().iter();
    rows.find(|row| row["name"] == "timers" && row["kind"] == kind)
        .unwrap_or_else(|| panic!("no {kind} in {}", found["threads"]))
}

/// Returns how many of the program's timers woke it. A sleep always wakes the thread. With other
/// timers, the thread may be preempted after it has set the timer and before it waits. If the timer
/// expires in this time, it wakes no thread.
fn woken(row: &Value, is_sleep: bool) -> usize {
    let (started, wake_ups, unawaited) = (
        count(&row["started"]),
        count(&row["wake_ups"]),
        count(&row["unawaited"]),
    );
    assert_eq!(
        (started, wake_ups + unawaited),
        (CYCLES as u64, CYCLES as u64),
        "{row}"
    );
    assert!(
        wake_ups > CYCLES as u64 / 2 && (unawaited == 0 || !is_sleep),
        "{row}"
    );
    usize::try_from(wake_ups).unwrap()
}

#[test]
fn each_due_time_of_a_loop_is_found_once_and_lies_before_the_loops_own_clock_read() {
    if !can_trace("each_due_time_of_a_loop_is_found_once_and_lies_before_the_loops_own_clock_read")
    {
        return;
    }
    for (kind, timer) in [
        ("monotonic", "sleep"),
        ("timerfd", "timerfd"),
        ("posix-timer", "posix-timer"),
    ] {
        let place = Workplace::new();
        let (outcome, cycles) = followed(&place, kind, "");
        let found = outcome.ends_with(0).json();
        assert_eq!(found["end"], "process-ended", "{}", found["notes"]);
        let woken = woken(counts(&found, timer), kind == "monotonic");
        assert_eq!(
            found["clocks"],
            serde_json::json!([{"clock": "monotonic", "wake_ups": woken}])
        );
        let stored = stored(&place, timer);
        assert_eq!(stored.samples.len(), woken, "{kind}");
        assert!(stored.counts.is_exact(), "{:?}", stored.descriptor);
        let samples: &[Sample] = &stored.samples;
        // Each cycle of the program occurs at most once among the cycles that the tool found, and
        // in order.
        let own: Vec<(i64, i64)> = cycles
            .iter()
            .copied()
            .filter(|&(due, _)| samples.iter().any(|sample| sample.due.get() == due))
            .collect();
        assert!(
            samples
                .iter()
                .map(|sample| sample.due.get())
                .eq(own.iter().map(|&(due, _)| due)),
            "{kind}: due times are those of the loop"
        );
        let mut apart: Vec<i64> = samples
            .iter()
            .zip(&own)
            .map(|(sample, (_, woke))| woke - sample.wake().get())
            .collect();
        apart.sort_unstable();
        // The kernel switches to the thread before the thread reads its clock. The trace reads the
        // same clock in another way, so the switch may seem to come up to 1 us after the read.
        assert!(
            apart[0] > -1_000,
            "{kind}: a switch lies {} ns behind the loop's clock read",
            -apart[0]
        );
        let mut lateness: Vec<i64> = own.iter().map(|(due, woke)| woke - due).collect();
        lateness.sort_unstable();
        let (by_loop, by_attach) = (
            lateness[woken / 2],
            row(&found, timer)["median_ns"].as_i64().unwrap(),
        );
        eprintln!(
            "{kind}: medians {by_loop} ns by the loop, {by_attach} ns by attach; from switch to \
             clock read {} ns",
            apart[woken / 2]
        );
        for worst in found["worst"].as_array().unwrap() {
            let parts: i64 = worst["parts"]
                .as_object()
                .unwrap()
                .values()
                .map(|part| part.as_i64().unwrap())
                .sum();
            assert_eq!(parts, worst["lateness_ns"].as_i64().unwrap(), "{worst}");
        }
        let max = samples.iter().map(|sample| sample.latency.get()).max();
        assert_eq!(row(&found, timer)["max_ns"].as_i64(), max);
        assert_eq!(found["all"]["max_ns"], found["worst"][0]["lateness_ns"]);
    }
}

#[test]
fn timers_of_other_clocks_are_told_and_put_on_the_monotonic_one() {
    if !can_trace("timers_of_other_clocks_are_told_and_put_on_the_monotonic_one") {
        return;
    }
    for (kind, clock) in [("realtime", Clock::Realtime), ("tai", Clock::Tai)] {
        let place = Workplace::new();
        let (outcome, cycles) = followed(&place, kind, "");
        let found = outcome.ends_with(0).json();
        woken(counts(&found, "sleep"), true);
        // If no TAI offset is set, CLOCK_TAI equals CLOCK_REALTIME.
        let told = if Clock::Tai.ahead() == Clock::Realtime.ahead() {
            "realtime"
        } else {
            kind
        };
        assert_eq!(
            found["clocks"],
            serde_json::json!([{"clock": told, "wake_ups": CYCLES}])
        );
        let ahead = clock.ahead();
        for (sample, (due, _)) in stored(&place, "sleep").samples.iter().zip(cycles) {
            // During the test the clock may be slewed, by at most half a millisecond per second.
            assert!(
                (due - ahead - sample.due.get()).abs() < 10_000_000,
                "{sample:?} for {due}"
            );
        }
    }
}

#[test]
fn timers_that_wake_nobody_are_counted_and_are_no_wake_ups() {
    if !can_trace("timers_that_wake_nobody_are_counted_and_are_no_wake_ups") {
        return;
    }
    let place = Workplace::new();
    let found = followed(&place, "busy", "").0.ends_with(0).json();
    let row = counts(&found, "timerfd");
    let (wake_ups, unawaited) = (count(&row["wake_ups"]), count(&row["unawaited"]));
    assert_eq!(
        (count(&row["started"]), wake_ups + unawaited),
        (CYCLES as u64, CYCLES as u64),
        "{row}"
    );
    // A host that takes the CPU away can delay the timer's interrupt until the thread waits.
    assert!(unawaited * 100 >= CYCLES as u64 * 95, "{row}");
    let rows = found["threads"].as_array().unwrap();
    let by_timer = rows.iter().filter(|row| row["woken_by"] == "timer");
    assert_eq!(
        by_timer.map(|row| count(&row["wake_ups"])).sum::<u64>(),
        wake_ups,
        "{rows:?}"
    );
    // When another thread ends a wait, the kernel cancels the timer, and the wake-up counts as a
    // wake-up by that thread. If the other thread acts before the wait starts, no timer is set.
    let place = Workplace::new();
    let found = followed(&place, "woken", "").0.ends_with(0).json();
    let row = counts(&found, "sleep");
    assert!(
        count(&row["started"]) > 0 && row["cancelled"] == row["started"],
        "{row}"
    );
    assert!(count(&found["other_wake_ups"]) > 0, "{found}");
    let place = Workplace::new();
    let found = followed(&place, "itimer", "").0.ends_with(0).json();
    woken(counts(&found, "itimer"), false);
}

#[test]
fn a_trace_that_another_program_changed_decides_nothing_and_says_why() {
    let test = "a_trace_that_another_program_changed_decides_nothing_and_says_why";
    if !can_trace(test) {
        return;
    }
    for (file, value, why) in [
        ("tracing_on", "0", "another program switched off tracing"),
        (
            "trace_clock",
            "global",
            "another program changed the clock of the trace",
        ),
    ] {
        let place = Workplace::new();
        let mut program = Timers::start(&place, "monotonic", 4 * CYCLES);
        let attach = attach(&place, &program, "--deadline 1h");
        let process = attach.pid();
        let program = std::thread::spawn(move || program.cycles());
        // Some wake-ups are measured before the trace is changed. All of these wake-ups meet the
        // deadline of one hour, so only the change can make the verdict inconclusive. The program
        // runs so long that the trace is changed before its end even on a busy machine.
        std::thread::sleep(std::time::Duration::from_millis(400));
        let tracefs = Tracefs::open(&Root::system()).unwrap();
        let instances = std::fs::read_dir(tracefs.path().join("instances")).unwrap();
        let own = format!("tardy-{process}-");
        let is_own = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(&own);
        let instance = instances
            .map(|entry| entry.unwrap())
            .find(|entry| is_own(&entry.file_name()))
            .unwrap();
        std::fs::write(instance.path().join(file), value).unwrap();
        let found = attach.wait().ends_with(4).json();
        assert_eq!(found["end"], "trace-ended", "{found}");
        assert_eq!(found["trace"]["incomplete"], why, "{found}");
        assert_eq!(found["verdict"]["outcome"], "inconclusive", "{found}");
        let shown = place.tardy("show run").ends_with(4).stdout;
        assert!(shown.contains(why), "{shown}");
        assert_eq!(instances_of(process), 0);
        program.join().unwrap();
    }
}

#[test]
fn a_deadline_decides_the_exit_code_and_the_folder_is_a_run_like_any_other() {
    let test = "a_deadline_decides_the_exit_code_and_the_folder_is_a_run_like_any_other";
    if !can_trace(test) {
        return;
    }
    let place = Workplace::new();
    let missed = followed(&place, "monotonic", "--deadline 1ns")
        .0
        .ends_with(1)
        .json();
    assert_eq!(
        (
            missed["verdict"]["outcome"].as_str(),
            &row(&missed, "sleep")["misses"]
        ),
        (Some("failed"), &CYCLES.into())
    );
    std::fs::rename(place.path("run"), place.path("first")).unwrap();
    let passed = followed(&place, "monotonic", "--deadline 1h")
        .0
        .ends_with(0)
        .json();
    assert_eq!(
        (
            passed["verdict"]["outcome"].as_str(),
            &row(&passed, "sleep")["misses"]
        ),
        (Some("passed"), &0.into())
    );
    let summary = place.tardy("show run --json").ends_with(0).json();
    let mut summaries = summary["series"].as_array().unwrap().iter();
    let sleeps = summaries.find(|series| series["probe"] == "timers.sleep");
    let sleeps = sleeps.unwrap_or_else(|| panic!("{}", summary["series"]));
    assert_eq!(sleeps["counts"]["recorded"], CYCLES, "{sleeps}");
    assert_eq!(
        summary["verdict"], passed["verdict"],
        "one verdict for one folder"
    );
    let sentence = passed["verdict"]["sentence"].as_str().unwrap();
    assert!(
        sentence.contains(&format!("0 misses in {CYCLES} due times")),
        "the series with the most wake-ups: {sentence}"
    );
    assert_eq!(
        sleeps["numbers"]["max_ns"],
        row(&passed, "sleep")["max_ns"],
        "{sleeps}"
    );
    let plotted = place.tardy("plot run --kind ccdf -o tail.svg").ends_with(0);
    let others = summary["series"].as_array().unwrap().len() - 1;
    assert_eq!(
        plotted.stderr.contains("the chart shows timers.sleep"),
        others > 0,
        "{plotted:?}"
    );
    let drawn = std::fs::read(place.path("tail.svg")).unwrap();
    place
        .tardy("plot run --probe timers.sleep --kind ccdf -o named.svg")
        .ends_with(0);
    assert_eq!(drawn, std::fs::read(place.path("named.svg")).unwrap());
    assert!(
        place
            .tardy("export run --format csv")
            .ends_with(0)
            .stdout
            .lines()
            .count()
            > CYCLES
    );
    // The result of the comparison does not matter here.
    let compared = place.tardy("compare first run --format json");
    assert!([0, 1, 4].contains(&compared.code()), "{compared:?}");
    place.tardy("report run --html run.html").ends_with(0);
    let error = place
        .tardy(&format!("attach {} --out run", std::process::id()))
        .ends_with(2)
        .stderr;
    assert!(error.contains("exists already"), "{error}");
}

#[test]
fn the_text_has_each_thread_its_parts_and_what_became_of_its_timers() {
    if !can_trace("the_text_has_each_thread_its_parts_and_what_became_of_its_timers") {
        return;
    }
    let place = Workplace::new();
    let mut program = Timers::start(&place, "monotonic", CYCLES);
    let id = program.id();
    let mut attach = place.start(&format!("attach {id} --thread {id} --for 60s --out run"));
    attach.until("it records", || {
        place.path("run/samples").is_dir().then_some(())
    });
    program.cycles();
    let text = attach.wait().ends_with(0).stdout;
    let words = [
        format!("process {id} (timers), thread {id}: "),
        ", until the process exited\n".to_owned(),
        format!("timers/{id}"),
        format!("sleep: {CYCLES} set: {CYCLES} woke a thread"),
        "worst at".to_owned(),
        "next: tardy explain run | tardy plot run --kind ccdf ".to_owned(),
    ];
    for words in words {
        assert!(text.contains(&words), "no {words:?} in {text}");
    }
}

#[test]
fn a_signal_ends_it_in_order_and_what_a_kill_leaves_is_removed() {
    if !can_trace("a_signal_ends_it_in_order_and_what_a_kill_leaves_is_removed") {
        return;
    }
    let place = Workplace::new();
    let program = Timers::start(&place, "monotonic", CYCLES);
    let interrupted = attach(&place, &program, "");
    let process = interrupted.pid();
    assert_eq!(instances_of(process), 2);
    interrupted.signal(signal::INTERRUPT);
    // If the command is interrupted before the first wake-up, the result is inconclusive.
    let found = interrupted.wait().ends_with(4).json();
    assert_eq!(
        (found["end"].as_str(), place.record("run")["state"].as_str()),
        (Some("interrupted"), Some("interrupted"))
    );
    assert_eq!((instances_of(process), place.journals().len()), (0, 0));
    std::fs::remove_dir_all(place.path("run")).unwrap();
    let killed = attach(&place, &program, "");
    let process = killed.pid();
    killed.signal(tardy_sys::process::KILL);
    killed.wait();
    // Another command that starts meanwhile may remove the instance, but never the journal.
    assert_eq!(place.journals().len(), 1);
    place.tardy("restore").ends_with(0);
    assert_eq!((instances_of(process), place.journals().len()), (0, 0));
}

#[test]
fn in_a_time_namespace_nothing_is_traced_because_the_clocks_differ() {
    const TEST: &str = "in_a_time_namespace_nothing_is_traced_because_the_clocks_differ";
    if !can_trace(TEST) {
        return;
    }
    let inside = |place: &Workplace, line: &str| {
        let words = ["--time", "--monotonic", "100000", "--fork"];
        let mut unshare = place.prepared(machine::program("unshare", "util-linux"), words);
        unshare
            .arg(env!("CARGO_BIN_EXE_tardy"))
            .args(line.split(' '));
        finish(unshare)
    };
    let place = Workplace::new();
    if inside(&place, "--version").code() != 0 {
        return machine::left_out(TEST, "time namespaces cannot be made here");
    }
    let line = "run --cycles 100 --load none --explain --quiet --out run";
    let ran = inside(&place, line).ends_with(0);
    let attached = inside(&place, &format!("attach {} --for 1s", std::process::id()));
    for said in [&ran.stdout, &attached.ends_with(3).stderr] {
        assert!(said.contains("time namespace"), "{said}");
    }
    place.tardy("explain run").ends_with(2);
}

#[test]
fn what_is_no_program_is_refused_in_a_line() {
    let place = Workplace::new();
    let refused = |line: &str| {
        let error = place.tardy(line).ends_with(2).stderr;
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    };
    for wrong in ["attach foo", "attach 0", "attach 1 --thread x"] {
        let error = place.tardy(wrong).ends_with(2).stderr;
        assert!(
            error.contains("expected a number, as printed by `pidof NAME`"),
            "{error}"
        );
    }
    assert!(refused("attach 4194304").contains("there is no process 4194304"));
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd") {
        assert!(refused("attach 2").contains("kernel thread"));
    }
    let program = Timers::start(&place, "woken", 1);
    let id = program.id();
    assert!(
        refused(&format!("attach {id} --thread 1")).contains(&format!(
            "process {id} has no thread 1: it has {id} (timers)"
        ))
    );
    let threads = std::fs::read_dir(format!("/proc/{id}/task"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let other = threads.into_iter().find(|thread| *thread != id.to_string());
    if let Some(other) = other {
        assert!(
            refused(&format!("attach {other}")).contains(&format!("give {id} --thread {other}"))
        );
    }
    assert!(
        place.names().iter().all(|name| name == "timers"),
        "{:?}",
        place.names()
    );
}
