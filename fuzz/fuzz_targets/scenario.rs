//! `cargo +nightly fuzz run scenario`: no text makes the parser of scenarios panic, and what it accepts it reads back.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(scenario) = tardy_measure::scenario::parse(text) {
        let written = tardy_measure::scenario::to_text(&scenario);
        assert_eq!(tardy_measure::scenario::parse(&written).expect("what was written is read"), scenario);
    }
});
