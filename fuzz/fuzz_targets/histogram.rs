//! `cargo +nightly fuzz run histogram`: see `tardy_fuzz::histogram`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tardy_fuzz::histogram::check(bytes));
