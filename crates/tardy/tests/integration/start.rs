//! Checks that work of the tool before the first due time and after the last one does not affect
//! any sample, however long it takes.

use crate::support;

use support::machine;
use support::series;
use support::workplace::{Workplace, finish};

const SECOND: f64 = 1e9;

/// A system call in a trace: its thread, begin and end, in ns since 1970.
#[derive(Debug)]
struct Call {
    thread: String,
    begin: f64,
    end: f64,
}

/// Parses calls from the output of `strace -f -ttt -T`. If strace printed lines of other threads
/// between the two halves of a call, joins the halves.
fn calls(trace: &str) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    for line in trace.lines() {
        let mut words = line.split_whitespace();
        let (Some(thread), Some(time), Some(rest)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let time = time.parse::<f64>().unwrap() * SECOND;
        if rest.starts_with("<...") {
            calls
                .iter_mut()
                .rfind(|call| call.thread == thread)
                .unwrap()
                .end = time;
        } else if rest.starts_with("fsync(") || rest.starts_with("fdatasync(") {
            let length = line
                .rsplit_once('<')
                .and_then(|(_, length)| length.strip_suffix('>')?.parse::<f64>().ok())
                .unwrap_or(0.0);
            calls.push(Call {
                thread: thread.to_owned(),
                begin: time,
                end: time + length * SECOND,
            });
        }
    }
    calls
}

#[test]
fn a_slow_disk_is_waited_for_before_the_first_due_time_and_after_the_last() {
    let place = Workplace::new();
    let slow = "inject=fsync,fdatasync:delay_enter=600000";
    let mut strace = place.prepared(
        machine::program("strace", "strace"),
        [
            "-f",
            "--seccomp-bpf",
            "-ttt",
            "-T",
            "-o",
            "trace",
            "-e",
            slow,
        ],
    );
    strace.args(["-e", "trace=fsync,fdatasync", env!("CARGO_BIN_EXE_tardy")]);
    let cpu = machine::last_cpu();
    strace.args(
        format!("run --for 1s --period 10ms --load none --cpus {cpu} --quiet --json --out run")
            .split(' '),
    );
    let outcome = finish(strace);
    let summary = outcome.json();
    let counts = &summary["series"][0]["counts"];
    assert_eq!(
        counts["expected"], 100,
        "as many due times as periods: {counts}"
    );

    let record = place.record("run");
    let start = record["started"]["monotonic_ns"].as_i64().unwrap();
    let to_wall_clock = record["started"]["realtime_ns"].as_i64().unwrap() - start;
    let samples = &series::all(&place.path("run"))[0].samples;
    let [first, last] = [samples.first(), samples.last()].map(|sample| sample.unwrap().due.get());
    assert!(
        (start..start + 10_000_000).contains(&first),
        "the first due time is waited for: {first} of a start at {start}"
    );
    let [first, last] = [first, last].map(|due| (due + to_wall_clock) as f64);
    let trace = std::fs::read_to_string(place.path("trace")).unwrap();
    let calls = calls(&trace);
    let (before, after): (Vec<&Call>, Vec<&Call>) =
        calls.iter().partition(|call| call.begin < first);
    assert!(!before.is_empty() && !after.is_empty(), "{trace}");
    for call in before {
        assert!(
            call.end < first,
            "the disk is waited for while samples are taken, from {first} on: {call:?}"
        );
    }
    for call in after {
        assert!(
            call.begin > last,
            "the disk is waited for while samples are taken, up to {last}: {call:?}"
        );
    }
}
