//! Tests the built-in player without a sound card (tests/lab/sound.rs has one), and mpv: skew and
//! time between frames, with every frame accounted for.

use std::collections::BTreeSet;

use crate::support;

use support::summary::assert_exact;
use support::workplace::{Workplace, finish};
use support::{machine, series};

#[test]
fn a_delayed_audio_clock_puts_the_picture_ahead_at_exactly_those_frames() {
    let place = Workplace::new();
    let line = "run --load none --for 4s --json --out run --probe \
                media:period=10ms:delay=5ms:delay-every=20";
    let summary = place.tardy(line).ends_with(0).json();
    for shown in summary["series"].as_array().unwrap() {
        assert_exact(shown);
    }
    let stored = series::all(&place.path("run"));
    let of = |name: &str| {
        &stored
            .iter()
            .find(|series| series.descriptor.probe == name)
            .unwrap()
            .samples
    };
    let (skews, frames) = (of("media"), of("media.frame"));
    assert_eq!(
        frames.len() + 1,
        skews.len(),
        "a time between two frames for each but the first"
    );
    // A busy machine makes frames late. A picture can be ahead of the sound only at every 20th
    // frame, where the probe delays the audio clock.
    let mut frame = 0;
    let mut ahead = 0;
    for sample in skews {
        // A sound sample lasts 20.8 us at 48 kHz, and the clock counts played samples.
        if sample.latency.get() < -20_834 {
            assert_eq!(frame % 20, 0, "{sample:?}");
            ahead += 1;
        }
        frame += 1 + u64::from(sample.skipped);
    }
    assert!(ahead > 0, "{skews:?}");
    let text = summary["warnings"].to_string();
    assert!(
        text.contains("simulated player, no audio hardware") && !text.contains("early"),
        "{text}"
    );
}

#[test]
fn a_delay_of_a_whole_frame_is_refused() {
    let place = Workplace::new();
    assert!(
        place
            .tardy("run --probe media:period=10ms:delay=10ms --out run")
            .ends_with(2)
            .stderr
            .contains("give delay= less than the period")
    );
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn a_real_player_reports_every_frame_and_stands_under_names_of_its_own() {
    // Panics if mpv is not installed.
    drop(machine::program("mpv", "mpv"));
    let place = Workplace::new();
    let cpu = machine::last_cpu();
    let line = format!(
        "run --load none --for 4s --cpus {cpu} --json --out run --probe \
         media:player=mpv:period=20ms --probe media"
    );
    let refused = place.tardy(&line).ends_with(2).stderr;
    assert!(
        refused.contains("media"),
        "one probe of a name in a run: {refused}"
    );
    let line = format!(
        "run --load none --for 4s --cpus {cpu} --json --out run --probe \
         media:player=mpv:period=20ms"
    );
    let outcome = place.tardy(&line);
    // A busy machine can keep mpv from reporting a frame, which then counts as lost. Everything
    // else must be complete.
    assert!([0, 4].contains(&outcome.code()), "{outcome:?}");
    let summary = outcome.json();
    let mut names: Vec<&str> = summary["series"]
        .as_array()
        .unwrap()
        .iter()
        .map(|series| series["probe"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["media.player", "media.player-frame"]);
    for shown in summary["series"].as_array().unwrap() {
        assert_exact(shown);
    }
    let stored = series::all(&place.path("run"));
    assert!(
        stored
            .iter()
            .all(|series| series.descriptor.quantity.starts_with("player-reported"))
    );
    let of = |name: &str| {
        stored
            .iter()
            .find(|series| series.descriptor.probe == name)
            .unwrap()
    };
    let (skews, frames) = (of("media.player"), of("media.player-frame"));
    // Frames follow the sound, which follows the clock here: 200 frames, shown or dropped, in 4 s.
    assert!(
        (190..=200).contains(&skews.counts.expected),
        "{:?}",
        skews.counts
    );
    assert_eq!(
        frames.counts.recorded + 1,
        skews.counts.recorded + skews.counts.lost,
        "a time between two frames for each shown but the first"
    );
    let length: i64 = frames
        .samples
        .iter()
        .map(|sample| sample.latency.get() + 20_000_000)
        .sum();
    let dropped = i64::try_from(skews.counts.skipped).unwrap();
    let expected = (i64::try_from(frames.counts.recorded).unwrap() + dropped) * 20_000_000;
    assert!(
        (length - expected).abs() < 1_000_000_000,
        "the film lasted {length} ns, its frames {expected}"
    );
    let text = summary["warnings"].to_string();
    assert!(
        text.contains("player-reported, by mpv ")
            && text.contains("threads of mpv ran under SCHED_FIFO 95") | !machine::is_root(),
        "{text}"
    );
    assert!(
        !text.contains("simulated") && !text.contains("faults-in-loop"),
        "{text}"
    );
}

#[test]
fn what_a_player_cannot_do_is_refused_and_one_that_is_not_there_is_named() {
    let place = Workplace::new();
    let refused = |probe: &str| {
        place
            .tardy(&format!("run --probe {probe} --out run"))
            .ends_with(2)
            .stderr
    };
    assert!(refused("media:player=mpv:delay=1ms").contains("cannot be delayed"));
    assert!(
        refused("media:player=mpv:period=1ms").contains("give one from 2ms to 1s"),
        "{}",
        refused("media:player=mpv:period=1ms")
    );
    assert!(refused("media:audio-out=alsa").contains("add player=mpv"));
    assert!(refused("media:player=alsa:delay=1ms").contains("cannot be delayed"));
    assert!(refused("media:player=simulated:device=0,0").contains("leave out device="));
    assert!(refused("media:player=mpv:device=0,0").contains("use player=alsa"));
    if std::path::Path::new("/dev/snd").exists() {
        machine::left_out("a_player_without_sound", "this machine has sound");
    } else {
        let silent = place
            .tardy("run --load none --for 1s --out run --probe media:player=mpv:audio-out=alsa")
            .ends_with(3)
            .stderr;
        assert!(
            silent.contains("mpv cannot use audio-out=alsa here"),
            "{silent}"
        );
    }
    let mut command = place.command([
        "run",
        "--load",
        "none",
        "--for",
        "1s",
        "--probe",
        "media:player=mpv",
        "--out",
        "run",
    ]);
    command.env("PATH", place.folder());
    let missing = finish(command).ends_with(3).stderr;
    assert!(missing.contains("install the package mpv"), "{missing}");
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn a_sound_card_that_is_not_there_is_named_and_the_clock_is_modelled_unless_one_was_asked_for() {
    let place = Workplace::new();
    let missing = |probe: &str| {
        place
            .tardy(&format!(
                "run --load none --for 1s --out run --probe {probe}"
            ))
            .ends_with(3)
            .stderr
    };
    // Machines have no card with this number, because SNDRV_CARDS is 32.
    let named = missing("media:device=99,0");
    assert!(
        named.contains("/dev/snd/pcmC99D0p") && named.contains("/proc/asound/pcm"),
        "{named}"
    );
    if std::path::Path::new("/dev/snd").exists() {
        return machine::left_out("a_sound_card_that_is_not_there", "this machine has sound");
    }
    let none = missing("media:player=alsa");
    assert!(
        none.contains("a sound card (/dev/snd has no playback device)")
            && none.contains("modprobe snd-dummy"),
        "{none}"
    );
    assert_eq!(place.names(), [""; 0]);
    let summary = place
        .tardy("run --load none --for 1s --json --out run --probe media")
        .ends_with(0)
        .json();
    // The summary begins with the worst series, which differs from run to run.
    let names: BTreeSet<&str> = summary["series"]
        .as_array()
        .unwrap()
        .iter()
        .map(|series| series["probe"].as_str().unwrap())
        .collect();
    assert_eq!(names, BTreeSet::from(["media", "media.frame"]));
    let text = summary["warnings"].to_string();
    assert!(
        text.contains("simulated player, no audio hardware")
            && text.contains("missing: a sound card"),
        "{text}"
    );
}
