//! `cargo +nightly fuzz run import`: see `tardy_fuzz::import`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tardy_fuzz::import::check(bytes));
