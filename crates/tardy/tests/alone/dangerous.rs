//! Tests loads and conditions that starve the machine, fill a disk or take CPUs away; only with
//! TARDY_TEST_DANGEROUS=1.

use crate::hot_loop::released_binary;
use crate::support;

use std::process::Command;

use serde_json::Value;
use support::machine;
use support::workplace::{Workplace, finish};

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
        assert!(count("recorded") > 0);
    }
}

/// Returns whether `test`, which needs root and a spare CPU, may run.
fn may_run(test: &str) -> bool {
    if !machine::may_be_dangerous(test) {
        return false;
    }
    let may = machine::is_root() && machine::cpus().len() >= 2;
    if !may {
        machine::left_out(test, "it needs root and two CPUs");
    }
    may
}

#[test]
fn a_probe_that_never_sleeps_is_ended_and_the_machine_goes_on() {
    let _turn = crate::turn();
    if !may_run("a_probe_that_never_sleeps_is_ended_and_the_machine_goes_on") {
        return;
    }
    let place = Workplace::new();
    let cpu = machine::last_cpu();
    let line = format!(
        "run --for 30s --load none --period 1ns --force --cpus {cpu} --priority 98 --keep \
         histogram --json --out run"
    );
    let outcome = place.tardy(&line).ends_with(4);
    let summary = outcome.json();
    assert_eq!(
        summary["state"], "ended-by-watchdog",
        "{}",
        summary["warnings"]
    );
    let first = summary["warnings"][0]["warning"].as_str().unwrap();
    assert!(
        ["most-periods-skipped", "watchdog-ended"].contains(&first),
        "{}",
        summary["warnings"]
    );
    assert!(
        summary["warnings"].to_string().contains("watchdog-ended"),
        "{}",
        summary["warnings"]
    );
    assert_exact(&summary);
    place.assert_no_process_is_left();
}

#[test]
fn most_periods_skipped_is_said_first() {
    let _turn = crate::turn();
    if !may_run("most_periods_skipped_is_said_first") {
        return;
    }
    let place = Workplace::new();
    let line = format!(
        "run --for 2s --load none --period 2us --force --cpus {} --priority 98 --deadline 1s \
         --out run",
        machine::last_cpu()
    );
    let outcome = place.tardy(&line).ends_with(4);
    let first = outcome.first_warning();
    assert!(
        first.contains("use a longer --period") || first.contains("stopped by the watchdog"),
        "{}",
        outcome.stdout
    );
}

/// Runs a shell script in its own mount namespace, with a tmpfs of `mebibytes` MiB at `disk`.
fn on_small_disk(place: &Workplace, mebibytes: u32, script: &str) -> support::workplace::Outcome {
    std::fs::create_dir(place.path("disk")).unwrap();
    let mount = format!("mount -t tmpfs -o size={mebibytes}m tmpfs disk && ");
    finish(place.prepared(
        machine::program("unshare", "util-linux"),
        [
            "-m",
            "sh",
            "-c",
            &(mount + script),
            env!("CARGO_BIN_EXE_tardy"),
        ],
    ))
}

#[test]
fn a_disk_that_fills_up_costs_stored_samples_and_nothing_else() {
    let _turn = crate::turn();
    if !may_run("a_disk_that_fills_up_costs_stored_samples_and_nothing_else") {
        return;
    }
    let place = Workplace::new();
    // Another program fills the disk after the run has started, and the run continues. The summary
    // is read in the namespace, and the run folder is copied out of it.
    let script = r#""$0" run --for 60s --load none --period 200us --deadline 1h --misses 0.9 --json --out disk/run >ran.json & run=$!
        until ls disk/run/samples/*.series >/dev/null 2>&1 || ! kill -0 $run; do sleep 0.1; done
        sleep 1; cat /dev/zero >disk/fill 2>/dev/null; sleep 2; kill -TERM $run
        wait $run; echo $? >ran.code
        "$0" show disk/run >shown.text; echo $? >shown.code
        rm disk/fill; cp -r disk/run kept"#;
    on_small_disk(&place, 48, script).ends_with(0);
    let text = |name: &str| std::fs::read_to_string(place.path(name)).unwrap();
    let summary: Value = serde_json::from_str(&text("ran.json")).unwrap();
    assert_eq!(
        (text("ran.code").trim(), text("shown.code").trim()),
        ("4", "4"),
        "{}",
        summary["warnings"]
    );
    assert_eq!(
        summary["state"], "interrupted",
        "a full disk does not end a run"
    );
    assert_exact(&summary);
    let first = summary["warnings"][0].clone();
    assert_eq!(
        first["warning"], "samples-not-stored",
        "{}",
        summary["warnings"]
    );
    assert!(first["since_start"].as_i64().unwrap() > 0, "{first}");
    let shown = text("shown.text");
    assert!(
        shown.contains("INCONCLUSIVE") && shown.contains("could not be stored ("),
        "{shown}"
    );
    for series in summary["series"].as_array().unwrap() {
        assert!(series["counts"]["unstored"].as_u64() > Some(0), "{series}");
        assert_eq!(
            series["numbers"]["samples"], series["counts"]["recorded"],
            "the histogram has every sample"
        );
    }
    let again = place.tardy("show --json kept").ends_with(4).json();
    assert_eq!(again["series"], summary["series"]);
}

#[test]
fn no_room_at_the_start_is_refused_with_the_estimate() {
    let _turn = crate::turn();
    if !may_run("no_room_at_the_start_is_refused_with_the_estimate") {
        return;
    }
    let place = Workplace::new();
    let script =
        r#""$0" run --for 1h --load none --out disk/run; code=$?; ls -A disk >left; exit $code"#;
    let outcome = on_small_disk(&place, 20, script).ends_with(3);
    assert!(
        outcome.stderr.contains("--out: the run needs about ")
            && outcome.stderr.contains("MB left"),
        "{}",
        outcome.stderr
    );
    assert!(
        outcome.stderr.contains("use --keep histogram (about "),
        "{}",
        outcome.stderr
    );
    assert_eq!(std::fs::read_to_string(place.path("left")).unwrap(), "");
}

#[test]
fn a_small_disk_takes_a_run_that_fits_and_the_remedy_helps() {
    let _turn = crate::turn();
    if !may_run("a_small_disk_takes_a_run_that_fits_and_the_remedy_helps") {
        return;
    }
    let short = r#""$0" run --for 300ms --load none --out disk/run"#;
    let outcome = on_small_disk(&Workplace::new(), 12, short);
    assert!(
        [0, 4].contains(&outcome.code()),
        "few samples may be inconclusive: {outcome:?}"
    );
    let remedy = r#""$0" run --for 10h --keep histogram --dry-run --load none --out disk/run"#;
    on_small_disk(&Workplace::new(), 20, remedy).ends_with(0);
    let hopeless = on_small_disk(&Workplace::new(), 3, short).ends_with(3);
    assert!(
        hopeless.stderr.ends_with(" MB left: use another folder\n"),
        "{}",
        hopeless.stderr
    );
}

#[test]
fn every_sample_is_stored_at_20_khz_on_every_cpu_under_load_in_little_memory() {
    let _turn = crate::turn();
    if !may_run("every_sample_is_stored_at_20_khz_on_every_cpu_under_load_in_little_memory") {
        return;
    }
    let place = Workplace::new();
    // The test uses the released binary, because its code takes as little memory as on users'
    // machines.
    let tardy = released_binary();
    let run = |period: &str| {
        let line = format!("run --for 6s --period {period} --load io --load fork --json --out run");
        finish(place.prepared(Command::new(&tardy), line.split(' ')))
    };
    // The period of 50 us is refused if a wake-up costs more than 12.5 us, as on many virtual
    // machines. The test then uses a period of 200 us.
    let mut outcome = run("50us");
    if outcome.code() == 2 {
        println!("50 us is too short here: {}", outcome.stderr);
        outcome = run("200us");
    }
    assert!([0, 4].contains(&outcome.code()), "{outcome:?}");
    let summary = outcome.json();
    assert_exact(&summary);
    let memory = &place.record("run")["overhead"]["resident_bytes_max"];
    let most = (64 + machine::cpus().len() as u64) << 20;
    assert!(memory.as_u64() < Some(most), "{memory} bytes of memory");
    let series = summary["series"].as_array().unwrap();
    let sum = |name: &str| -> u64 {
        let counts = series.iter().map(|series| &series["counts"]);
        counts.map(|counts| counts[name].as_u64().unwrap()).sum()
    };
    assert_eq!((sum("lost"), sum("unstored")), (0, 0));
    let stored = sum("recorded");
    // Series of probes have the CPU in their names; series of the machine's state do not.
    let files = std::fs::read_dir(place.path("run/samples")).unwrap();
    let bytes: u64 = files
        .map(|file| file.unwrap())
        .filter(|file| file.file_name().to_string_lossy().contains(".cpu"))
        .filter(|file| file.path().extension().is_some_and(|end| end == "series"))
        .map(|file| file.metadata().unwrap().len())
        .sum();
    assert!(
        bytes > 0 && bytes <= 4 * stored,
        "{bytes} bytes for {stored} samples"
    );
}
