//! `cargo +nightly fuzz run configuration`: see `tardy_fuzz::configuration`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tardy_fuzz::configuration::check(bytes));
