//! Tests the rules for real-time loops with two programs that `tardy attach` follows: a loop that
//! breaks the rules on purpose, and a correct loop.

use crate::attach::{Timers, can_trace};
use crate::support;

use std::path::Path;
use std::process::{Child, Command};

use serde_json::Value;
use support::machine;
use support::workplace::{Workplace, finish};

/// Rules that tests/data/bad_loop.c breaks once or more in each cycle.
pub(crate) const BROKEN: [&str; 6] = [
    "page_faults",
    "sleeps_relative",
    "sleeps_on_wall_clock",
    "woken_by_lower_priority",
    "futex_without_inheritance",
    "threads_started",
];

/// A program that runs until the end of the test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn bad_loop(place: &Workplace) -> Program {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut cc = place.prepared(
        machine::program("cc", "build-essential"),
        ["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"],
    );
    cc.arg(tests.join("../../include"))
        .args(["-o", "bad_loop"])
        .arg(tests.join("tests/data/bad_loop.c"));
    finish(cc).ends_with(0);
    let command = Command::new(place.path("bad_loop")).spawn();
    Program(command.unwrap())
}

/// Returns the priority and the rules of the thread with this ID.
fn rules(document: &Value, thread: u32) -> (i64, Vec<Value>) {
    let loops = document["loops"].as_array().unwrap();
    let found = loops.iter().find(|looped| looped["id"] == thread);
    let found = found.unwrap_or_else(|| panic!("no loop {thread} in {loops:?}"));
    let rules = found["rules"].as_array().unwrap();
    (found["priority"].as_i64().unwrap(), rules.clone())
}

fn count(rules: &[Value], name: &str) -> Option<u64> {
    let rule = rules.iter().find(|rule| rule["rule"] == name).unwrap();
    rule["count"].as_u64()
}

#[test]
fn a_followed_loop_that_breaks_every_rule_is_told_each_with_count_evidence_and_remedy() {
    if !can_trace("a_followed_loop_that_breaks_every_rule_is_told") {
        return;
    }
    let place = Workplace::new();
    let program = bad_loop(&place);
    let thread = program.0.id();
    let attached = place
        .tardy(&format!("attach {thread} --for 2s --json --out run"))
        .ends_with(0)
        .json();
    let (priority, found) = rules(&attached, thread);
    assert_eq!(priority, 19, "SCHED_FIFO 80, not the thread that answers");
    for name in BROKEN {
        assert!(count(&found, name).unwrap() > 50, "{name} in {found:?}");
    }
    let wakers = found
        .iter()
        .find(|rule| rule["rule"] == "woken_by_lower_priority");
    let wakers = wakers.unwrap()["detail"].as_str().unwrap();
    assert!(wakers.contains("by bad_loop (nice 0"), "{wakers}");
    assert_eq!(
        attached["loops"].as_array().unwrap().len(),
        1,
        "real-time only"
    );

    // The folder has the same numbers, and the text has each broken rule with its remedy.
    let explained = place.tardy("explain run --json").ends_with(0).json();
    assert_eq!(explained["loops"], attached["loops"]);
    let text = place.tardy("explain run").ends_with(0).stdout;
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        flat.contains(&format!(
            "Rules of a real-time loop broken by bad_loop/{thread} (real-time 80)"
        )),
        "{text}"
    );
    for rule in found.iter().filter(|rule| rule["count"] != 0) {
        let [what, detail, remedy] = ["what", "detail", "remedy"].map(|key| {
            let words = rule[key].as_str().unwrap().split_whitespace();
            words.collect::<Vec<_>>().join(" ")
        });
        let words = format!("{what}: {} ({detail}) remedy: {remedy}", rule["count"]);
        assert!(flat.contains(&words), "no {words:?} in {text}");
    }
    has_cycles(&place, &text);
}

#[test]
fn a_followed_loop_that_sleeps_until_a_time_breaks_no_rule() {
    if !can_trace("a_followed_loop_that_sleeps_until_a_time_breaks_no_rule") {
        return;
    }
    let place = Workplace::new();
    let mut program = Timers::start(&place, "monotonic", 200);
    let thread = program.id();
    let mut attach = place.start(&format!("attach {thread} --for 60s --json --out run"));
    attach.until("it records", || {
        place.path("run/samples").is_dir().then_some(())
    });
    program.cycles();
    let (_, found) = rules(&attach.wait().ends_with(0).json(), thread);
    for name in [
        "sleeps_relative",
        "sleeps_on_wall_clock",
        "futex_without_inheritance",
        "threads_started",
    ] {
        assert_eq!(count(&found, name), Some(0), "{name} in {found:?}");
    }
    // An ordinary thread has no priority to invert.
    assert!(
        found
            .iter()
            .all(|rule| rule["rule"] != "woken_by_lower_priority")
    );
}

/// Checks that the folder's report has the first six lines that `explain` prints about cycles,
/// without their chains of wake-ups.
fn has_cycles(place: &Workplace, text: &str) {
    place.tardy("report run --html run.html").ends_with(0);
    let page = std::fs::read_to_string(place.path("run.html")).unwrap();
    assert!(page.contains("<h2 id=\"cycles\">Cycles</h2>"));
    let plain: String = page
        .split('<')
        .filter_map(|part| part.split_once('>'))
        .flat_map(|(_, text)| [text, " "])
        .collect();
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let plain = words(&plain.replace("&gt;", ">").replace("&amp;", "&"));
    // Lines with deeper indentation continue the line above.
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let is_new = ["blocked in", "cycles end in", "bad_loop/", "  at "]
            .iter()
            .any(|start| line.starts_with(start));
        match lines.last_mut().filter(|_| !is_new) {
            Some(last) => *last = words(&format!("{last} {line}")),
            None => lines.push(words(line)),
        }
        if is_new {
            lines.push(words(line));
        }
    }
    let stories: Vec<&String> = lines
        .iter()
        .filter(|line| line.contains(" wake-up + ") || line.starts_with("blocked in"))
        .collect();
    assert!(stories.len() > 1, "{text}");
    for line in stories.iter().take(6) {
        let line = line.split(" timer -> ").next().unwrap();
        assert!(plain.contains(line), "no {line:?} in {plain}");
    }
}
