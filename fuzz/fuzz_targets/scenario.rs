//! `cargo +nightly fuzz run scenario`: see `tardy_fuzz::scenario`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tardy_fuzz::scenario::check(bytes));
