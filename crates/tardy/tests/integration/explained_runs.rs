//! Tests `tardy run --explain` and `tardy explain RUN`: the explanation of every late sample adds
//! up to its latency, the cause is named, and nothing is left of the recording.

use crate::support;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use support::machine;
use support::workplace::{Workplace, finish};
use tardy_machine::root::Root;
use tardy_machine::tracefs::Tracefs;
use tardy_samples::delays::{DelayReader, SampleDelay};
use tardy_sys::process;
use tardy_trace::explain::Cause;

/// Returns whether this machine lets a run record its trace.
fn can_trace(test: &str) -> bool {
    let can = machine::is_root() && Tracefs::open(&Root::system()).is_ok();
    if !can {
        machine::left_out(test, "it needs root and a tracefs");
    }
    can
}

/// Instances of tracefs that runs of process `process` created.
fn instances_of(process: u32) -> Vec<String> {
    let tracefs = Tracefs::open(&Root::system()).unwrap();
    let entries = std::fs::read_dir(tracefs.path().join("instances")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| name.starts_with(&format!("tardy-{process}-")))
        .collect()
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// The sum of the values of a key over all rows.
fn sum(rows: &Value, key: &str) -> u64 {
    rows.as_array()
        .unwrap()
        .iter()
        .map(|row| number(&row[key]))
        .sum()
}

/// The files of a run that contain delays.
fn delay_files(run: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(run.join("trace"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "delays")
        })
        .collect()
}

/// The explained samples of a run, each with the causes and names of its pieces.
fn delays(run: &Path) -> Vec<(SampleDelay, Vec<(Cause, String)>)> {
    let mut found = Vec::new();
    for path in delay_files(run) {
        let mut reader = DelayReader::open(&path).unwrap();
        while let Some(chunk) = reader.next_chunk().unwrap() {
            for sample in chunk.samples {
                let holder = |holder: usize| {
                    (
                        chunk.holders[holder].cause,
                        chunk.holders[holder].name.clone(),
                    )
                };
                let holders = sample
                    .pieces
                    .iter()
                    .map(|piece| holder(piece.holder))
                    .collect();
                found.push((sample, holders));
            }
        }
    }
    found
}

#[test]
fn every_late_sample_is_explained_and_adds_up_to_its_latency() {
    if !can_trace("every_late_sample_is_explained_and_adds_up_to_its_latency") {
        return;
    }
    let place = Workplace::new();
    // One probe for each kind of wake-up: by a timer in a hard interrupt, by a thread on the same
    // CPU, by a thread on another CPU, by a timer file descriptor, and after a relative sleep.
    let probes = [
        "cyclic",
        "pipe",
        "futex:waker=other:name=far",
        "timerfd",
        "nanosleep:period=3ms",
    ];
    let probes = probes.map(|probe| format!("--probe {probe} ")).concat();
    place
        .tardy(&format!(
            "run --for 3s --load none --explain --quiet {probes} --out run"
        ))
        .ends_with(0);
    let memory = number(&place.record("run")["overhead"]["resident_bytes_max"]);
    assert!(memory < 200 << 20, "{memory} bytes of memory");
    let found = place
        .tardy("explain run --json --worst 7 --above 1ns")
        .ends_with(0)
        .json();
    let counts = &found["samples"];
    assert!(number(&counts["late"]) > 1_000, "{counts}");
    assert_eq!(
        (
            &counts["explained"],
            &counts["checked"],
            &counts["left_out"]
        ),
        (&counts["late"], &counts["late"], &0.into()),
        "{counts}"
    );
    assert_eq!(
        (&counts["not_adding_up"], &counts["damaged_bytes"]),
        (&0.into(), &0.into()),
        "{counts}"
    );
    let all = number(&found["lateness"]["sum_ns"]);
    assert_eq!(
        (
            sum(&found["holders"], "sum_ns"),
            sum(&found["components"], "sum_ns")
        ),
        (all, all)
    );
    for story in found["worst"].as_array().unwrap() {
        assert_eq!(
            sum(&story["pieces"], "length_ns"),
            number(&story["latency_ns"]),
            "{story}"
        );
    }
    // Each way of waking a thread adds its own components to the latency.
    let parts: Vec<_> = found["components"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["component"].as_str().unwrap())
        .collect();
    for part in ["request", "timer", "expiry", "waker", "switch", "return"] {
        assert!(parts.contains(&part), "no {part} in {parts:?}");
    }
    // The waker on another CPU sends an interrupt. Kernels since 6.4 trace its sender.
    let has_senders = found["tracing"]["events"]
        .as_array()
        .unwrap()
        .contains(&"ipi:ipi_send_cpu".into());
    if has_senders && machine::last_cpu() > 0 {
        let senders: Vec<_> = found["holders"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|row| row["sender"].as_str())
            .collect();
        assert!(
            senders.iter().any(|name| name.starts_with("far")),
            "{senders:?}"
        );
    }
    let series: Vec<_> = found["tracing"]["series"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["probe"].as_str().unwrap())
        .collect();
    assert!(
        series.contains(&"far.timer") && series.contains(&"pipe"),
        "{series:?}"
    );
    let text = place.tardy("explain run").ends_with(0).stdout;
    for words in [
        "add up to the latency",
        "Causes of latency",
        "Parts of the latency",
        "Worst 1: ",
        "the thread reads the clock",
    ] {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
    assert!(
        place
            .tardy("show run")
            .stdout
            .contains("the kernel's trace was recorded (")
    );
    place.tardy("report run --html report.html").ends_with(0);
    let page = std::fs::read_to_string(place.path("report.html")).unwrap();
    let (_, section) = page
        .split_once("Causes of late samples")
        .expect("the report has the section");
    assert!(
        section.contains("Largest cause: ") && section.contains(" samples, for comparison: "),
        "causes and the baseline are named"
    );
    assert!(
        section.matches("<rect x=").count() > 10 && section.contains("Worst 1: "),
        "the worst are drawn"
    );
    // The trace around the worst samples can be explained without the rest of the run.
    let worst = place
        .tardy("explain run/trace/worst.dat --task cyclic/0 --json")
        .ends_with(0)
        .json();
    assert!(
        number(&worst["wake_ups"]["timed"]) > 0 && worst["trace"]["is_monotonic"] == true,
        "{}",
        worst["trace"]
    );
    let text = place
        .tardy("explain run/trace/worst.dat --task cyclic/0")
        .ends_with(0)
        .stdout;
    assert!(
        text.contains("! the run kept the trace only around its worst samples")
            && !text.contains("larger buffer"),
        "{text}"
    );
    place
        .tardy("explain run --perfetto run.pftrace")
        .ends_with(0);
    let perfetto = std::fs::read(place.path("run.pftrace")).unwrap();
    let has = |words: &str| {
        perfetto
            .windows(words.len())
            .any(|window| window == words.as_bytes())
    };
    assert!(
        has("cyclic/0") && has("switch"),
        "{} bytes without the probe's thread",
        perfetto.len()
    );
    // If a file is truncated, the missing explanations are reported.
    for path in delay_files(&place.path("run")) {
        std::fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(100)
            .unwrap();
    }
    let text = place.tardy("explain run --worst 0").ends_with(0).stdout;
    let all = number(&counts["explained"]);
    assert!(
        text.contains(&format!("! {all} of {all} explanations are missing"))
            && text.contains(": latency unknown"),
        "{text}"
    );
}

#[test]
fn a_thread_of_higher_priority_is_blamed_by_name() {
    if !can_trace("a_thread_of_higher_priority_is_blamed_by_name") {
        return;
    }
    let place = Workplace::new();
    let cpu = machine::last_cpu();
    // Each run of the load is longer than a period, so it delays a sample.
    let load = format!(
        "busy:length=1100us:period=10ms:priority=90:record={}",
        place.path("moments").display()
    );
    let line = format!(
        "run --for 6s --cpus {cpu} --load-cpus measured --priority 50 --load {load} --explain \
         --quiet --out run"
    );
    place.tardy(&line).ends_with(0);
    // The load recorded the times at which it had the CPU.
    let moments = std::fs::read_to_string(place.path(&format!("moments.cpu{cpu}"))).unwrap();
    let moment = |line: &str| {
        let mut words = line
            .split_whitespace()
            .map(|word| word.parse::<i64>().unwrap());
        (words.next().unwrap(), words.next().unwrap())
    };
    let moments: Vec<_> = moments.lines().map(moment).collect();
    assert!(moments.len() > 50);
    let (mut held, mut blamed) = (0, 0);
    for (sample, holders) in delays(&place.path("run")) {
        let (due, woke) = (
            sample.due.get(),
            sample.due.get() + i64::try_from(sample.sum()).unwrap(),
        );
        let overlap = moments
            .iter()
            .map(|&(start, end)| end.min(woke) - start.max(due))
            .max()
            .unwrap_or(0);
        if overlap > 100_000 {
            held += 1;
            let is_it = |(cause, name): &(Cause, String)| {
                *cause == Cause::HigherPriority && name.contains("busy")
            };
            blamed += usize::from(holders.iter().any(is_it));
        }
    }
    assert!(held >= 50, "{held} samples waited for it");
    assert!(blamed * 100 >= held * 99, "{blamed} of {held} name it");
}

#[test]
fn nothing_is_left_of_a_recording_that_was_killed() {
    if !can_trace("nothing_is_left_of_a_recording_that_was_killed") {
        return;
    }
    let place = Workplace::new();
    let start = || {
        let mut running = place.start("run --for 600s --load none --explain --quiet --out killed");
        let delays = place.path("killed/trace/cyclic.cpu0.delays");
        running.until("it explained samples", || {
            std::fs::metadata(&delays)
                .is_ok_and(|file| file.len() > 100)
                .then_some(())
        });
        let process = running.pid().unsigned_abs();
        assert_eq!(instances_of(process).len(), 1);
        process::kill(running.pid(), 9).unwrap();
        running.wait();
        process
    };
    let killed = start();
    let restored = place.tardy("restore").ends_with(0);
    assert!(
        restored.stdout.contains("remove the trace instance tardy-"),
        "{restored:?}"
    );
    assert_eq!(instances_of(killed), Vec::<String>::new());
    // Explanations that were written before the kill can be read.
    let found = place.tardy("explain killed --json").ends_with(0).json();
    assert!(
        number(&found["samples"]["checked"]) > 0 && found["samples"]["not_adding_up"] == 0,
        "{}",
        found["samples"]
    );
    std::fs::remove_dir_all(place.path("killed")).unwrap();
    // Like `tardy restore`, the next run removes the instance of a killed run.
    let killed = start();
    place
        .tardy("run --for 1s --load none --explain --quiet --out next")
        .ends_with(0);
    assert_eq!(instances_of(killed), Vec::<String>::new());
}

#[test]
fn without_rights_a_run_goes_on_unexplained_and_says_why() {
    let place = Workplace::new();
    std::fs::set_permissions(place.folder(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let binary = place.path("tardy");
    std::fs::copy(env!("CARGO_BIN_EXE_tardy"), &binary).unwrap();
    std::fs::set_permissions(&binary, std::fs::Permissions::from_mode(0o755)).unwrap();
    let line = "run --for 1s --load none --explain --quiet --out run";
    let outcome = if machine::is_root() {
        let nobody = [
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--bounding-set=-all",
            "--inh-caps=-all",
        ];
        let mut setpriv = place.prepared(machine::program("setpriv", "util-linux"), nobody);
        setpriv.arg(&binary).args(line.split(' '));
        finish(setpriv)
    } else {
        finish(place.prepared(std::process::Command::new(&binary), line.split(' ')))
    };
    let outcome = outcome.ends_with(0);
    let warned = outcome
        .stdout
        .lines()
        .find(|line| line.contains("samples are not explained"))
        .unwrap_or_default();
    assert!(
        warned.contains("tracefs cannot be used") && warned.contains("run as root"),
        "{}",
        outcome.stdout
    );
    assert!(number(&place.summary("run")["probes"][0]["counts"]["recorded"]) > 0);
    let refused = place.tardy("explain run").ends_with(2);
    assert!(
        refused.stderr.contains("the run has no trace") && refused.stderr.contains("run as root"),
        "{}",
        refused.stderr
    );
}

#[test]
fn all_that_was_recorded_is_a_trace_that_others_read() {
    if !can_trace("all_that_was_recorded_is_a_trace_that_others_read") {
        return;
    }
    let place = Workplace::new();
    place
        .tardy("run --for 2s --load none --explain --keep-trace --quiet --out run")
        .ends_with(0);
    place.tardy("explain run --trace-dat all.dat").ends_with(0);
    let recorded = number(&place.record("run")["tracing"]["events_read"]);
    // Raw fields (`-R`), because trace-cmd 3.1 crashed once while it formatted them.
    let report = finish(place.prepared(
        machine::program("trace-cmd", "trace-cmd"),
        ["report", "-R", "-i", "all.dat"],
    ))
    .ends_with(0)
    .stdout;
    let events = report
        .lines()
        .filter(|line| line.contains(": ") && line.contains('['))
        .count() as u64;
    assert_eq!(
        events,
        recorded,
        "{}",
        report.lines().take(20).collect::<Vec<_>>().join("\n")
    );
    let of_trace = place
        .tardy("explain all.dat --task cyclic/0 --json")
        .ends_with(0)
        .json();
    let of_run = &place.record("run")["tracing"]["series"][0]["explained"];
    assert!(
        number(&of_trace["wake_ups"]["timed"]) * 10 >= number(of_run) * 9,
        "{} of {of_run}",
        of_trace["wake_ups"]
    );
    let refused = place
        .tardy("explain all.dat --task cyclic/0 --trace-dat other.dat")
        .ends_with(2);
    assert!(
        refused.stderr.contains("--trace-dat is for a run"),
        "{}",
        refused.stderr
    );
    // A killed tool may leave a partial page at the end of the file.
    let pages = place.path("run/trace/cpu0.pages");
    let length = std::fs::metadata(&pages).unwrap().len();
    std::fs::OpenOptions::new()
        .write(true)
        .open(&pages)
        .unwrap()
        .set_len(length - 100)
        .unwrap();
    place.tardy("explain run --trace-dat cut.dat").ends_with(0);
    place.tardy("explain cut.dat --task cyclic/0").ends_with(0);
    std::fs::remove_file(place.path("run/trace/head.dat")).unwrap();
    let refused = place.tardy("explain run --trace-dat none.dat").ends_with(2);
    assert!(
        refused.stderr.contains("--explain --keep-trace") && !place.path("none.dat").exists(),
        "{}",
        refused.stderr
    );
}

#[test]
fn what_is_asked_of_a_folder_must_be_of_a_run_that_was_explained() {
    let place = Workplace::new();
    place
        .tardy("run --for 1s --load none --quiet --out run")
        .ends_with(0);
    let refused = place.tardy("explain run").ends_with(2);
    assert!(
        refused
            .stderr
            .contains("measure with `tardy run --explain`"),
        "{}",
        refused.stderr
    );
    let refused = place.tardy("explain run --task cyclic").ends_with(2);
    assert!(
        refused.stderr.contains("--task is for a trace.dat"),
        "{}",
        refused.stderr
    );
    assert!(
        place
            .tardy("explain nothing")
            .ends_with(2)
            .stderr
            .contains("nothing")
    );
    let refused = place.tardy("run --keep-trace --out other").ends_with(2);
    assert!(refused.stderr.contains("--explain"), "{}", refused.stderr);
}

#[test]
fn with_stacks_the_functions_of_late_samples_are_named_and_nothing_is_compared() {
    if !can_trace("with_stacks_the_functions_of_late_samples_are_named_and_nothing_is_compared") {
        return;
    }
    let place = Workplace::new();
    // These loads make kernel code disable interrupts or preemption for tens of microseconds.
    place
        .tardy("run --for 6s --load memory --load fork --explain=stacks --quiet --out run")
        .ends_with(0);
    place
        .tardy("run --for 1s --load none --explain --quiet --out plain")
        .ends_with(0);
    let record = place.record("run");
    let tracing = &record["tracing"];
    assert_eq!(
        (&tracing["level"], &tracing["no_stacks"]),
        (&2.into(), &Value::Null),
        "{}",
        record["warnings"]
    );
    assert!(number(&tracing["stacks_read"]) > 100, "{tracing}");
    assert!(
        place
            .tardy("show run --full")
            .stdout
            .contains("do not use these latencies for comparisons")
    );
    for line in ["compare run plain", "compare plain run", "compare run run"] {
        let refused = place.tardy(line).ends_with(2);
        assert!(
            refused.stderr.contains("run recorded kernel stacks"),
            "{line}: {}",
            refused.stderr
        );
    }
    let found = place
        .tardy("explain run --json --worst 200 --above 1ns")
        .ends_with(0)
        .json();
    assert_eq!(
        number(&found["samples"]["not_adding_up"]),
        0,
        "{}",
        found["samples"]
    );
    let rows = found["stacks"]
        .as_array()
        .expect("a loaded machine holds samples up in the kernel");
    // Stacks leave out the functions that record them and the interrupt in which they are recorded.
    let innermost = |row: &Value| row["functions"][0].as_str().unwrap().to_owned();
    let own = [
        "trace_event_raw_event_x86_irq_vector",
        "trace_event_raw_event_sched_switch",
        "asm_sysvec_apic_timer_interrupt",
    ];
    assert_eq!(
        rows.iter()
            .map(innermost)
            .find(|name| own.contains(&&**name)),
        None
    );
    let functions = rows
        .iter()
        .flat_map(|row| row["functions"].as_array().unwrap())
        .map(|name| name.as_str().unwrap());
    let named = functions.filter(|name| !name.starts_with("0x")).count();
    assert!(
        tracing["are_functions_hidden"] == true || named > 0,
        "{rows:?}"
    );
    let folded = place
        .tardy("explain run --folded folded --above 1ns")
        .ends_with(0);
    assert!(
        folded.stdout.contains("Kernel functions during the delay"),
        "{}",
        folded.stdout
    );
    let lines = std::fs::read_to_string(place.path("folded")).unwrap();
    let ns = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap();
    assert_eq!(
        lines.lines().map(ns).sum::<u64>(),
        sum(&found["stacks"], "sum_ns")
    );
    place.tardy("report run --html report.html").ends_with(0);
    let page = std::fs::read_to_string(place.path("report.html")).unwrap();
    assert!(
        page.contains("Flame graph of latency")
            && page.contains("Functions that made samples late")
    );
    let refused = place.tardy("explain plain --folded none").ends_with(2);
    assert!(
        refused.stderr.contains("--explain=stacks") && !place.path("none").exists(),
        "{}",
        refused.stderr
    );
    // `tardy reproduce` reports the stacks of the experiment that looks for culprits.
    std::fs::create_dir(place.path("out")).unwrap();
    std::fs::rename(place.path("run"), place.path("out/williams-culprits")).unwrap();
    let report = place
        .tardy("reproduce williams2002 --out out --report-only --quiet --json")
        .ends_with(0)
        .json();
    let experiments = report["papers"][0]["experiments"].as_array().unwrap();
    let of_name = |name: &str| {
        experiments
            .iter()
            .find(|experiment| experiment["name"] == name)
            .unwrap()
    };
    let culprits = of_name("williams-culprits")["culprits"].as_array().unwrap();
    let first = &found["stacks"][0];
    assert_eq!(
        (&culprits[0]["late_ns"], &culprits[0]["functions"][0]),
        (&first["max_ns"], &first["functions"][0]),
        "{culprits:?}"
    );
    assert!(
        of_name("williams-realfeel")["culprits"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

/// Compiles a C program against the header that users include.
fn compile(place: &Workplace, source: &str, program: &str) {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap();
    let mut cc = place.prepared(
        machine::program("cc", "build-essential"),
        ["-O2", "-Wall", "-Wextra", "-Werror", "-pthread"],
    );
    cc.arg("-I")
        .arg(repository.join("include"))
        .arg("-o")
        .arg(program)
        .arg(repository.join(source));
    finish(cc).ends_with(0);
}

#[test]
fn the_loop_of_a_program_is_explained_and_judged_by_the_rules_for_loops() {
    if !can_trace("the_loop_of_a_program_is_explained_and_judged_by_the_rules_for_loops") {
        return;
    }
    let place = Workplace::new();
    compile(&place, "crates/tardy/tests/data/bad_loop.c", "bad_loop");
    compile(&place, "include/examples/loop.c", "loop");
    place
        .tardy("run --load none --for 2s --explain --quiet --out bad -- ./bad_loop")
        .ends_with(0);
    place
        .tardy("run --load none --for 2s --explain --quiet --out good -- ./loop 2000 20")
        .ends_with(0);
    for run in ["bad", "good"] {
        let counts = &place
            .tardy(&format!("explain {run} --json"))
            .ends_with(0)
            .json()["samples"];
        assert!(
            number(&counts["explained"]) > 100 && counts["explained"] == counts["late"],
            "{counts}"
        );
        assert_eq!(
            (&counts["checked"], &counts["not_adding_up"]),
            (&counts["late"], &0.into()),
            "{counts}"
        );
        // It is known which thread runs the loop, so the thread's wake-ups are found.
        assert!(
            number(&counts["with_unknown"]) * 10 < number(&counts["explained"]),
            "{counts}"
        );
    }
    let rules = |run: &str| {
        let found = place
            .tardy(&format!("explain {run} --json"))
            .ends_with(0)
            .json();
        let loops = found["loops"].as_array().unwrap();
        assert_eq!(
            (loops.len(), &loops[0]["priority"]),
            (1, &19.into()),
            "{loops:?}"
        );
        loops[0]["rules"].as_array().unwrap().clone()
    };
    let of = |rules: &[Value], name: &str| {
        rules
            .iter()
            .find(|rule| rule["rule"] == name)
            .unwrap()
            .clone()
    };
    let (bad, good) = (rules("bad"), rules("good"));
    for name in crate::attach_rules::BROKEN {
        let (bad, good) = (of(&bad, name), of(&good, name));
        if bad["count"].is_null() {
            let has_it = place.record("bad")["tracing"]["absent"]
                .to_string()
                .contains("sys_enter_futex");
            assert!(name == "futex_without_inheritance" && has_it, "{bad}");
            continue;
        }
        assert!(number(&bad["count"]) > 50, "{bad}");
        assert_eq!(good["count"], 0, "{good}");
    }
    assert!(
        of(&bad, "woken_by_lower_priority")["detail"]
            .to_string()
            .contains("by bad_loop (nice 0"),
        "{bad:?}"
    );
    let text = place.tardy("explain bad").ends_with(0).stdout;
    for words in [
        "Rules of a real-time loop broken by bad_loop",
        "page faults: ",
        "call mlockall(MCL_CURRENT | MCL_FUTURE)",
    ] {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
    // The report has every rule that was broken, with the same words as the text and JSON.
    place.tardy("report bad --html bad.html").ends_with(0);
    let page = std::fs::read_to_string(place.path("bad.html")).unwrap();
    assert!(page.contains("Rules of a real-time loop broken by bad_loop"));
    for rule in bad
        .iter()
        .filter(|rule| !rule["count"].is_null() && rule["count"] != 0)
    {
        let (count, [what, detail, remedy]) = (
            &rule["count"],
            ["what", "detail", "remedy"].map(|key| rule[key].as_str().unwrap()),
        );
        for words in [
            format!("{what}: {count} ({detail})"),
            format!("remedy: {remedy}"),
        ] {
            let words = words
                .replace('&', "&amp;")
                .replace('<', "&lt;")
                .replace('>', "&gt;")
                .replace('"', "&quot;");
            assert!(page.contains(&words), "no {words:?} in the report");
        }
    }
    // A comparison with timerlat appears in the report and in the text in the same words. This
    // record is edited, because not every kernel has timerlat; a test of the lab makes a real
    // comparison.
    let mut record = place.record("good");
    let agreement = |theirs: u64| json!({"compared": 999, "agreeing": 998, "difference_min_ns": -12, "difference_max_ns": 1034, "theirs_max_ns": theirs});
    record["tracing"]["second_opinion"] =
        json!({"wake_ups": 1001, "interrupt": agreement(4_000), "thread": agreement(9_000)});
    // Few kernels have monitors of runtime verification, so the record is edited for these, too.
    record["tracing"]["loops"][0]["monitors"] =
        json!([{"monitor": "sleep", "count": 12}, {"monitor": "wakeup", "count": 0}]);
    std::fs::write(place.path("good").join("run.json"), record.to_string()).unwrap();
    place.tardy("report good --html good.html").ends_with(0);
    let (page, text) = (
        std::fs::read_to_string(place.path("good.html")).unwrap(),
        place.tardy("explain good").ends_with(0).stdout,
    );
    for words in [
        "Second opinion: timerlat measured 1001 wake-ups of its threads",
        "998 of 999 agree within 1 us or 2 % (timerlat's latency minus tardy's: -12 to 1034 ns; \
         timerlat's largest 9.00 us)",
        "Second opinion: violations reported by the kernel's monitors: sleep 12, wakeup 0",
    ] {
        assert!(
            text.contains(words) && page.contains(words),
            "no {words:?} in {text} or in the report"
        );
    }
}

#[test]
fn a_run_that_cannot_begin_leaves_no_recording() {
    if !can_trace("a_run_that_cannot_begin_leaves_no_recording") {
        return;
    }
    let place = Workplace::new();
    for flags in [
        "--explain -- true",
        "--explain -- /nonexistent",
        "-b 100us -- true",
        "--deadline 1s --on-threshold trace -- true",
    ] {
        let run = place.start(&format!("run --for 1s --load none --out run {flags}"));
        let process = u32::try_from(run.pid()).unwrap();
        let ended = run.wait();
        assert!([2, 3].contains(&ended.code()), "{flags}: {ended:?}");
        assert_eq!(instances_of(process), [""; 0], "{flags}");
        let restored = place.tardy("restore").ends_with(0);
        assert!(
            !restored.stdout.contains("trace instance"),
            "{}",
            restored.stdout
        );
        assert!(!place.path("run").exists());
    }
}
