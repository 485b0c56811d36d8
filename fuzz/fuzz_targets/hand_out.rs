//! `cargo +nightly fuzz run hand_out`: see `tardy_fuzz::hand_out`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tardy_fuzz::hand_out::check(bytes));
