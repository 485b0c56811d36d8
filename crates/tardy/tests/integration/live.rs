//! Tests the live view in a terminal during a run, and the effect of keys. The tests do not read
//! latencies.

use crate::support;

use support::machine;
use support::terminal::InTerminal;
use support::workplace::Workplace;

const ENTER_VIEW: &str = "\x1b[?1049h";

#[test]
fn the_live_view_fits_terminals_of_60_80_and_120_columns_and_gives_them_back() {
    let place = Workplace::new();
    for columns in [60, 80, 120] {
        let mut run = InTerminal::start(
            &place,
            &format!("run --for 4s --load none --deadline 10s --out run{columns}"),
            (columns, 24),
        );
        let seen = run.until_seen("figures", |seen| {
            // The last line is drawn last, so the screen is complete.
            ["average", "histogram", " us", "q end"]
                .iter()
                .all(|words| seen.contains(words))
        });
        assert!(run.has_view());
        for word in [
            "now",
            "99.9 %",
            "max",
            "skipped",
            "missed",
            "left",
            "largest value over time",
            "q end",
        ] {
            assert!(
                seen.contains(word),
                "no `{word}` at {columns} columns:\n{seen}"
            );
        }
        for cpu in machine::cpus().iter() {
            assert!(seen.contains(&format!("CPU {cpu} ")), "{seen}");
        }
        let (status, seen) = run.end();
        assert!(matches!(status.code(), Some(0 | 4)), "{status}: {seen}");
        assert!(
            seen.contains(&format!("run{columns}: cyclic")) && seen.contains("next: tardy report"),
            "the summary follows:\n{seen}"
        );
    }
}

#[test]
fn phases_and_the_work_of_loads_are_shown() {
    let place = Workplace::new();
    let mut run = InTerminal::start(&place, "run --for 8s --load io --out run", (100, 30));
    run.until("phase 1 of 2: idle");
    let wanted = ["phase 2 of 2: io", " operations", "|idle", "|io"];
    run.until_seen("operations and both phases", |seen| {
        wanted.iter().all(|words| seen.contains(words))
    });
    run.end();
}

#[test]
fn a_moment_is_marked_and_a_run_is_ended_early_and_both_are_kept() {
    let place = Workplace::new();
    let mut run = InTerminal::start(&place, "run --for 60s --load none --out run", (80, 24));
    run.until("average");
    run.type_keys("m");
    run.until("▲");
    run.type_keys(" ");
    run.until("VIEW PAUSED");
    run.type_keys(" ");
    run.until_seen("the view continues", |seen| !seen.contains("VIEW PAUSED"));
    if machine::cpus().len() > 1 {
        run.type_keys("n");
        let first = machine::cpus().iter().next().unwrap();
        run.until(&format!("histogram, CPU {first}"));
    }
    run.type_keys("q");
    run.until("Stop the run now?");
    run.type_keys("n");
    run.until_seen("no question", |seen| !seen.contains("Stop the run now?"));
    run.type_keys("q");
    run.until("Stop the run now?");
    run.type_keys("y");
    let (status, seen) = run.end();
    assert_eq!(status.code(), Some(130), "{seen}");
    assert!(seen.contains("marked during the run: 1 at"), "{seen}");
    let record = place.record("run");
    assert_eq!(
        (
            record["state"].as_str(),
            record["marks_ns"].as_array().map(Vec::len)
        ),
        (Some("interrupted"), Some(1)),
        "{record}"
    );
    for series in place.summary("run")["series"].as_array().unwrap() {
        let count = |name: &str| series["counts"][name].as_u64().unwrap();
        assert_eq!(
            count("expected"),
            count("recorded") + count("skipped") + count("lost"),
            "{series}"
        );
    }
    place.tardy("report run --html run.html").ends_with(0);
    let report = std::fs::read_to_string(place.path("run.html")).unwrap();
    assert!(report.contains("marked during the run: 1 at") && report.contains("mark 1"));
}

#[test]
fn signals_and_ctrl_c_give_the_terminal_back() {
    let place = Workplace::new();
    for (name, how) in [
        ("ctrl-c", None),
        ("terminate", Some(tardy_sys::signal::TERMINATE)),
        ("hang-up", Some(tardy_sys::signal::HANG_UP)),
    ] {
        let mut run = InTerminal::start(
            &place,
            &format!("run --for 60s --load none --out {name}"),
            (80, 24),
        );
        run.until("average");
        match how {
            Some(signal) => tardy_sys::process::kill(run.pid(), signal).unwrap(),
            None => run.type_keys("\x03"),
        }
        let (status, seen) = run.end();
        assert_eq!(status.code(), Some(130), "{name}: {seen}");
        assert_eq!(place.record(name)["state"], "interrupted");
    }
}

#[test]
fn keys_that_would_stop_or_quit_do_nothing() {
    let place = Workplace::new();
    let mut run = InTerminal::start(&place, "run --for 3s --load none --out run", (80, 24));
    run.until("average");
    run.type_keys("\x1a\x1c\x13");
    let (status, seen) = run.end();
    assert!(matches!(status.code(), Some(0 | 4)), "{status}: {seen}");
}

#[test]
fn without_a_terminal_or_with_no_live_there_are_plain_lines() {
    let place = Workplace::new();
    let piped = place.tardy("run --for 1s --load none --out piped");
    assert!(
        !piped.stderr.contains('\x1b') && !piped.stdout.contains('\x1b'),
        "{piped:?}"
    );
    let mut run = InTerminal::start(
        &place,
        "run --for 2s --load none --no-live --out lines",
        (100, 24),
    );
    run.until("of 2 s");
    assert!(!run.has_view());
    let (_, seen) = run.end();
    assert!(
        !seen.contains(ENTER_VIEW) && seen.contains("lines: cyclic"),
        "{seen}"
    );
}

#[test]
fn a_run_that_is_not_kept_is_named_after_its_command() {
    let place = Workplace::new();
    let mut run = InTerminal::start(&place, "cyclictest -S -i 1000 -D 2", (80, 24));
    let seen = run.until("cyclictest, not kept");
    assert!(!seen.contains("scratch"), "{seen}");
    run.end();
}

#[test]
fn the_view_and_all_threads_but_the_probes_stay_off_measured_cpus() {
    let cpus = machine::cpus();
    if cpus.len() < 2 {
        return machine::left_out(
            "the_view_and_all_threads_but_the_probes_stay_off_measured_cpus",
            "there is one CPU",
        );
    }
    let (place, measured) = (Workplace::new(), machine::last_cpu());
    let mut run = InTerminal::start(
        &place,
        &format!("run --for 3s --load none --cpus {measured} --out run"),
        (80, 24),
    );
    run.until("average");
    let tasks = std::fs::read_dir(format!("/proc/{}/task", run.pid())).unwrap();
    let mut on_measured = Vec::new();
    let mut others = Vec::new();
    for task in tasks {
        // A thread that has just ended has no file.
        let file = task.unwrap().path().join("status");
        let Ok(status) = std::fs::read_to_string(file) else {
            continue;
        };
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().trim().to_owned()
        };
        let allowed: tardy_core::cpu::CpuList = field("Cpus_allowed_list:").parse().unwrap();
        let may_measure = allowed.iter().any(|cpu| cpu.0 == measured);
        let names = if may_measure {
            &mut on_measured
        } else {
            &mut others
        };
        names.push(field("Name:"));
    }
    assert_eq!(on_measured, [format!("cyclic/{measured}")], "{others:?}");
    for name in ["tardy-view", "tardy-recorder"] {
        assert!(others.iter().any(|other| other == name), "{others:?}");
    }
    run.end();
}

#[test]
fn top_shows_the_run_of_another_process_and_leaves_it_alone() {
    let place = Workplace::new();
    let mut run = place.start("run --for 60s --load none --quiet --out run");
    run.until("it has samples", || {
        place.path("run/run.json").exists().then_some(())
    });
    let mut top = InTerminal::start(&place, "top", (80, 24));
    let before = top.until_seen("figures", |seen| {
        seen.contains("average") && seen.contains(" us")
    });
    assert!(
        before.contains("run") && !before.contains("CUT OFF") && before.contains("q quit"),
        "{before}"
    );
    let clock = |seen: &str| {
        seen.lines()
            .next()
            .unwrap()
            .split(" of ")
            .next()
            .unwrap()
            .to_owned()
    };
    top.until_seen("the time advances", |seen| clock(seen) != clock(&before));
    top.type_keys("q");
    let (status, seen) = top.end();
    assert_eq!(status.code(), Some(0), "{seen}");
    assert_eq!(place.record("run")["state"], "running");
    run.signal(tardy_sys::signal::INTERRUPT);
    run.wait();
}

#[test]
fn top_shows_a_run_that_ended_with_the_numbers_of_its_summary() {
    let place = Workplace::new();
    let outcome = place.tardy("run --for 2s --load none --quiet --deadline 1s --out run");
    assert!(matches!(outcome.code(), 0 | 4), "{outcome:?}");
    let mut top = InTerminal::start(&place, "top run", (120, 30));
    let seen = top.until("finished");
    for series in place.summary("run")["series"].as_array().unwrap() {
        let numbers = &series["numbers"];
        let time =
            |name: &str| tardy_core::units::Nanos(numbers[name].as_i64().unwrap()).to_string();
        let row = seen
            .lines()
            .find(|line| line.starts_with(&format!("CPU {} ", series["cpu"])))
            .unwrap();
        for text in [
            time("min_ns"),
            time("max_ns"),
            series["counts"]["skipped"].to_string(),
            numbers["misses"].to_string(),
        ] {
            assert!(row.contains(&text), "no {text} in {row}\n{numbers}");
        }
    }
    top.type_keys("q");
    top.end();
    let refused = place.tardy("top run").ends_with(2);
    assert!(
        refused.stderr.contains("needs a terminal"),
        "{}",
        refused.stderr
    );
    place.tardy("top nothing").ends_with(2);
}
