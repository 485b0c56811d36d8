//! `cargo +nightly fuzz run apt`: see `tardy_fuzz::apt`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tardy_fuzz::apt::check(bytes));
