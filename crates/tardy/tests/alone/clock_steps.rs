//! Tests timers whose clock another program sets during the run. The tests set CLOCK_TAI, because
//! only time synchronisation by PTP reads it.

use crate::support;

use support::workplace::Workplace;
use support::{machine, series};
use tardy_sys::clock;

/// Keeps CLOCK_TAI 100 s ahead of UTC until the value is dropped.
struct TaiOffset;

impl TaiOffset {
    fn set(test: &str) -> Option<Self> {
        if !machine::is_root() || clock::tai_offset() != 0 {
            machine::left_out(test, "it needs root, and a CLOCK_TAI that nobody has set");
            return None;
        }
        clock::set_tai_offset(100).unwrap();
        Some(Self)
    }
}

impl Drop for TaiOffset {
    fn drop(&mut self) {
        let _ = clock::set_tai_offset(0);
    }
}

/// Makes a run with `flags` for 3 s and, during the run, sets CLOCK_TAI from 100 s to `to` seconds
/// ahead of UTC. Checks the exit code, and returns the output.
fn stepped(place: &Workplace, flags: &str, to: i32, code: i32) -> String {
    clock::set_tai_offset(100).unwrap();
    let cpu = machine::last_cpu();
    let mut running = place.start(&format!(
        "run {flags} --for 3s --period 20ms --load none --cpus {cpu} --deadline 1h --quiet --out \
         run"
    ));
    running.until("it measures", || {
        place.path("run/state.jsonl").exists().then_some(())
    });
    clock::set_tai_offset(to).unwrap();
    running.wait().ends_with(code).stdout
}

#[test]
fn a_step_of_the_timers_clock_ends_no_wait_early_keeps_no_run_from_ending_and_decides_nothing() {
    let _turn = crate::turn();
    let Some(_offset) = TaiOffset::set(
        "a_step_of_the_timers_clock_ends_no_wait_early_keeps_no_run_from_ending_and_decides_nothing",
    ) else {
        return;
    };
    for probe in ["cyclic", "posix-timer", "nanosleep"] {
        for (to, said) in [(40, "set back by 60.0 s"), (2000, "set forward by")] {
            let place = Workplace::new();
            let text = stepped(&place, &format!("--probe {probe} --clock tai"), to, 4);
            assert!(
                text.contains("CLOCK_TAI was ")
                    && text.contains(said)
                    && text.contains("this run supports no verdict"),
                "{probe}: {text}"
            );
            assert!(text.contains("INCONCLUSIVE"), "{probe}: {text}");
            let samples = &series::all(&place.path("run"))[0].samples;
            if probe != "nanosleep" {
                assert!(
                    samples.iter().all(|sample| sample.latency.get() >= 0),
                    "{probe}: a wait ended before its time"
                );
                let counts = place.record("run")["series"][0]["counts"].clone();
                assert_eq!(
                    counts["expected"], 150,
                    "{probe}: every due time is accounted for: {counts}"
                );
            }
            assert!(
                samples
                    .iter()
                    .all(|sample| sample.latency.get() < 10_000_000_000),
                "{probe}: a sample is as long as the step"
            );
        }
    }
}

#[test]
fn a_step_under_an_aligned_grid_is_told_and_touches_no_latency() {
    let _turn = crate::turn();
    let Some(_offset) =
        TaiOffset::set("a_step_under_an_aligned_grid_is_told_and_touches_no_latency")
    else {
        return;
    };
    let place = Workplace::new();
    let text = stepped(&place, "--align tai", 40, 0);
    assert!(
        text.contains("CLOCK_TAI was set back by") && text.contains("not whole multiples"),
        "{text}"
    );
    assert!(text.contains("PASSED"), "{text}");
}
