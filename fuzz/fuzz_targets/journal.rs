//! `cargo +nightly fuzz run journal`: see `tardy_fuzz::journal`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tardy_fuzz::journal::check(bytes));
