//! `cargo +nightly fuzz run folder`: see `tardy_fuzz::folder`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tardy_fuzz::folder::check(bytes));
