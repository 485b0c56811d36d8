//! The simulated player: skew and inter-frame time, accounted for frame by frame.
#![allow(clippy::unwrap_used, reason = "a test ends where something is not as expected")]

mod support;

use support::series;
use support::workplace::Workplace;

#[test]
fn a_delayed_audio_clock_puts_the_picture_ahead_at_exactly_those_frames() {
    let place = Workplace::new();
    let line = "run --load none --for 4s --json --out run --probe media:period=10ms:delay=5ms:delay-every=20";
    let summary = place.tardy(line).ends_with(0).json();
    for shown in summary["series"].as_array().unwrap() {
        let count = |name: &str| shown["counts"][name].as_u64().unwrap();
        assert_eq!(count("expected"), count("recorded") + count("missed") + count("lost"), "{shown}");
    }
    let stored = series::all(&place.path("run"));
    let of = |name: &str| &stored.iter().find(|series| series.descriptor.probe == name).unwrap().samples;
    let (skews, frames) = (of("media"), of("media.frame"));
    assert_eq!(frames.len() + 1, skews.len(), "a time between two frames for each but the first");
    // What the machine does makes frames late, and the picture never ahead: that is the delayed clock's doing alone.
    let mut frame = 0;
    let mut ahead = 0;
    for sample in skews {
        if sample.latency.get() < 0 {
            assert_eq!(frame % 20, 0, "{sample:?}");
            ahead += 1;
        }
        frame += 1 + u64::from(sample.missed);
    }
    assert!(ahead > 0, "{skews:?}");
    let text = summary["warnings"].to_string();
    assert!(text.contains("simulated player, no audio hardware") && !text.contains("early"), "{text}");
}

#[test]
fn a_delay_of_a_whole_frame_is_refused() {
    let place = Workplace::new();
    assert!(
        place.tardy("run --probe media:period=10ms:delay=10ms --out run").ends_with(2).stderr.contains("give delay= less than the period")
    );
    assert_eq!(place.names(), [""; 0]);
}
