//! Tests the player on a sound card of the guest. The card is the kernel's snd-dummy, which plays
//! to no hardware, at the pace of a high-resolution timer or of ticks.

use std::path::{Path, PathBuf};

use tardy_core::sample::Sample;
use tardy_lab::cache::Cache;
use tardy_lab::kernel;

use super::probes::{MILLI, PATH, TICK, notes, stored};
use super::{REAL_TIME, STOCK, assert_accounted, compared, lab, lab_is_there};

/// Length of a sound frame at 48 kHz, in ns, rounded up.
const SOUND_FRAME: i64 = 20_834;

/// Returns whether guests can have a sound card; its modules are in the kernels' packages. The
/// first run needs the network.
fn card_is_there(test: &str) -> bool {
    if !lab_is_there(test, false) {
        return false;
    }
    let modules = |source| {
        kernel::modules(
            &super::kernel(source).unwrap(),
            &["snd-dummy"],
            &Cache::of_user().unwrap(),
        )
    };
    let missing = [STOCK, REAL_TIME]
        .into_iter()
        .find_map(|source| modules(source).err());
    let Some(missing) = missing else { return true };
    assert!(
        std::env::var_os("TARDY_TEST_REQUIRE_LAB").is_none_or(|value| value != "1"),
        "{missing}"
    );
    crate::support::machine::left_out(test, &missing.to_string());
    false
}

fn values(samples: &[Sample]) -> Vec<i64> {
    samples.iter().map(|sample| sample.latency.get()).collect()
}

/// Finds these words in the run's notes, and returns the duration that follows them, in ns.
fn time_behind(text: &str, words: &str) -> f64 {
    let rest = &text[text
        .find(words)
        .unwrap_or_else(|| panic!("no `{words}` in {text}"))
        + words.len()..];
    let mut parts = rest.trim_start().split([' ', ';', '\"']);
    let number: f64 = parts.next().unwrap().parse().unwrap();
    number
        * [("us", 1e3), ("ms", 1e6), ("s", 1e9)]
            .iter()
            .find(|(unit, _)| parts.clone().next() == Some(unit))
            .expect("a unit")
            .1
}

/// Returns the skews and inter-frame errors of a player that used the card, and checks that it
/// wrote no sound late.
fn played(run: &Path) -> (Vec<i64>, Vec<i64>) {
    assert_accounted(run);
    assert!(
        !run.join("samples/media.cpu0.series").exists(),
        "a card's clock has its own names"
    );
    let (skews, frames) = (
        stored(run, "media.alsa.cpu0"),
        stored(run, "media.alsa-frame.cpu0"),
    );
    assert!(
        (59..=60).contains(&skews.len()) && frames.len() + 1 == skews.len(),
        "{} frames, {} times between two",
        skews.len(),
        frames.len()
    );
    assert!(skews.iter().all(|sample| sample.skipped == 0), "{skews:?}");
    let notes = notes(run);
    assert!(
        notes.contains("hw:0,0 (Dummy PCM, a driver without hardware")
            && notes.contains("hw:0,0 had no xruns"),
        "{notes}"
    );
    assert!(
        !notes.contains("simulated") && !notes.contains("faults-in-loop"),
        "{notes}"
    );
    (values(&skews), values(&frames))
}

#[test]
fn a_player_goes_by_the_pointer_of_a_sound_card_and_its_skew_is_as_coarse_as_that() {
    if !card_is_there("a player on a sound card") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let how = ["--for", "2s", "--load", "none", "--", "--probe", "media"];
    let (fine, coarse) = (folder.path().join("fine"), folder.path().join("coarse"));
    compared(
        &fine,
        &[
            &[
                "--kernel",
                STOCK,
                "--kernel",
                REAL_TIME,
                "--module",
                "snd-dummy",
            ][..],
            &how[..],
        ]
        .concat(),
    );
    compared(
        &coarse,
        &[
            &["--kernel", STOCK, "--module", "snd-dummy:hrtimer=0"][..],
            &how[..],
        ]
        .concat(),
    );
    for kernel in ["6.1", "6.1-rt"] {
        let run = fine.join(kernel).join("replica-000");
        let (skews, frames) = played(&run);
        // The player reads the card's position twice: when it goes to sleep, and when it shows the
        // picture. Each time, the card counts only whole sound frames. In two seconds, the kernel's
        // own work may delay the player at two of the sixty pictures. Each picture ends one
        // interval and begins another, so up to four intervals may be uneven.
        let (late, uneven) = (
            skews.iter().filter(|skew| **skew >= PATH).count(),
            frames.iter().filter(|error| error.abs() >= PATH).count(),
        );
        assert!(
            late <= 2
                && skews
                    .iter()
                    .all(|skew| (-2 * SOUND_FRAME..MILLI).contains(skew)),
            "{kernel}: {skews:?}"
        );
        assert!(
            uneven <= 4 && frames.iter().all(|error| error.abs() < MILLI),
            "{kernel}: {frames:?}"
        );
        assert!(
            time_behind(&notes(&run), "even pace by at most") <= SOUND_FRAME as f64,
            "{}",
            notes(&run)
        );
    }
    // With ticks, the card's pointer stands still for 4 ms and then jumps. The player only notices
    // at its next look that the pointer has jumped.
    let run = coarse.join("6.1/replica-000");
    let (skews, frames) = played(&run);
    assert!(
        skews.iter().all(|skew| skew.abs() < TICK + PATH),
        "{skews:?}"
    );
    assert!(
        skews.iter().any(|skew| *skew > MILLI) && skews.iter().any(|skew| *skew < -MILLI),
        "{skews:?}"
    );
    assert!(
        frames.iter().all(|error| error.abs() < 2 * TICK)
            && frames.iter().any(|error| error.abs() > MILLI),
        "{frames:?}"
    );
    let uneven = time_behind(&notes(&run), "even pace by at most");
    assert!(
        (MILLI as f64..(TICK + PATH) as f64).contains(&uneven),
        "{uneven} ns: {}",
        notes(&run)
    );
}

/// The time for which the player is prevented from writing, which is longer than the sound written
/// ahead.
const STALL: i64 = 80 * MILLI;
const BUFFER: i64 = 50 * MILLI;

#[test]
fn a_player_that_is_kept_from_writing_has_an_xrun_a_stall_and_every_frame_is_accounted_for() {
    if !card_is_there("xruns") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let load = "busy:length=80ms:period=500ms:priority=97:record=/run/out/record";
    let probe = "media:player=alsa:buffer=50ms:period=40ms:priority=80";
    let own = [
        "run",
        "--for",
        "3s",
        "--probe",
        probe,
        "--load",
        load,
        "--quiet",
        "--out",
        "/run/out/run",
    ];
    let out = folder.path().to_str().unwrap();
    let output = lab(&[
        &[
            "run",
            "--kernel",
            STOCK,
            "--module",
            "snd-dummy",
            "--out",
            out,
            "--program",
            "/init",
            "--",
        ],
        &own[..],
    ]
    .concat());
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let folder: PathBuf = folder.path().join("6.1/replica-000");
    let run = folder.join("run");
    assert_accounted(&run);
    let skews = stored(&run, "media.alsa.cpu0");
    let last = skews.last().unwrap().wake().get();
    let text = std::fs::read_to_string(folder.join("record.cpu0")).unwrap();
    let ends = text
        .lines()
        .map(|line| line.split(' ').nth(1).unwrap().parse::<i64>().unwrap());
    // The last stall may end after the player has ended; it does not count.
    let stalls = ends.filter(|ended| *ended < last).count();
    assert!(
        (3..=7).contains(&stalls),
        "{stalls} stalls of {STALL} ns in 3 s: {text}"
    );
    let notes = notes(&run);
    assert!(
        notes.contains(&format!("hw:0,0 had {stalls} xruns")),
        "{stalls} stalls: {notes}"
    );
    // In each stall, the silence is shorter than the stall, but not by more than the sound that was
    // written ahead.
    let silent = time_behind(&notes, "with nothing to play for") / stalls as f64;
    assert!(
        ((STALL - BUFFER - PATH) as f64..STALL as f64).contains(&silent),
        "{silent} ns a stall: {notes}"
    );
    // The card cannot play more sound than was written, so the picture is late by less than the
    // buffer.
    assert!(
        skews
            .iter()
            .all(|sample| sample.latency.get() < BUFFER + PATH),
        "{skews:?}"
    );
    assert!(
        skews
            .iter()
            .filter(|sample| sample.latency.get() > MILLI)
            .count()
            >= stalls,
        "{skews:?}"
    );
}
