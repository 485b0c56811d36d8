//! Tests how many instructions the explaining thread executes to explain a run while it lasts.
//! Times differ from machine to machine; instruction counts hardly do.

use crate::hot_loop::released_binary;
use crate::support;

use std::path::Path;

use support::machine;
use support::workplace::{Workplace, finish};
use tardy_machine::root::Root;
use tardy_machine::tracefs::Tracefs;

/// Maximum numbers of instructions in user mode. The first is for each event, from reading its page
/// to writing its delays; the second is for each sample, without its events. On a quiet machine a
/// sample has a dozen events.
const AN_EVENT_MAX: u64 = 2_000;
const A_SAMPLE_MAX: u64 = 12_000;

/// The work that the explaining thread does in one run.
struct Explaining {
    instructions: u64,
    events: u64,
    samples: u64,
}

/// Explains a run of `cycles` periods.
fn explain(place: &Workplace, tardy: &Path, cycles: u32) -> Explaining {
    let (run, counts) = (format!("run-{cycles}"), format!("callgrind-{cycles}"));
    // Valgrind does not know the system calls by which the tool mounts tracefs, so the shell mounts
    // tracefs.
    let mount = "{ mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs \
                 /sys/kernel/tracing; } && exec \"$@\"";
    let mut valgrind = place.prepared(
        machine::program("unshare", "util-linux"),
        ["--mount", "sh", "-c", mount, "sh"],
    );
    valgrind
        .arg(machine::program("valgrind", "valgrind").get_program())
        .args(["--tool=callgrind", "--separate-threads=yes"]);
    valgrind
        .arg("--toggle-collect=tardy_tracer::follower::Follower::run*")
        .arg(format!("--callgrind-out-file={counts}"))
        .arg(tardy);
    let cpu = machine::last_cpu().to_string();
    valgrind.args([
        "run",
        "--explain",
        "--cycles",
        &cycles.to_string(),
        "--cpus",
        &cpu,
        "--period",
        "2ms",
        "--load",
        "none",
    ]);
    valgrind.args(["--quiet", "--json", "--out", &run]);
    finish(valgrind).ends_with(0);
    let files = place
        .names()
        .into_iter()
        .filter(|name| name.starts_with(&format!("{counts}-")));
    let totals = |name: String| {
        let text = std::fs::read_to_string(place.path(&name)).unwrap();
        text.lines()
            .find_map(|line| line.strip_prefix("totals: ")?.parse::<u64>().ok())
            .unwrap_or(0)
    };
    let counted: Vec<u64> = files.map(totals).filter(|&total| total > 0).collect();
    assert_eq!(counted.len(), 1, "one thread explains: {counted:?}");
    let tracing = &place.record(&run)["tracing"];
    // On a busy machine the loop under valgrind is late and skips most periods; all samples are
    // explained.
    let series = &tracing["series"][0];
    assert!(
        series["explained"].as_u64() > Some(0) && series["explained"] == series["samples"],
        "{series}"
    );
    Explaining {
        instructions: counted[0],
        events: tracing["events_read"].as_u64().unwrap(),
        samples: series["samples"].as_u64().unwrap(),
    }
}

#[test]
fn explaining_takes_few_instructions_an_event() {
    let _turn = crate::turn();
    let test = "explaining_takes_few_instructions_an_event";
    if !machine::is_root() || Tracefs::open(&Root::system()).is_err() {
        return machine::left_out(test, "it needs root and a tracefs");
    }
    let place = Workplace::new();
    let tardy = released_binary();
    let (short, long) = (explain(&place, &tardy, 500), explain(&place, &tardy, 3_000));
    let (few, many) = (short.events, long.events);
    assert!(
        many > few + 10_000 && long.samples > short.samples,
        "{few} events, then {many}: too few to compare"
    );
    let more = long.instructions.saturating_sub(short.instructions);
    let (events, samples) = (many - few, long.samples - short.samples);
    println!("{more} instructions for {events} events of {samples} samples");
    assert!(more > 50 * events, "{more} instructions cannot be all");
    let most = AN_EVENT_MAX * events + A_SAMPLE_MAX * samples;
    assert!(more <= most, "{more} instructions, at most {most} allowed");
}
