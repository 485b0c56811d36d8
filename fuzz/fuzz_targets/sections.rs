//! `cargo +nightly fuzz run sections`: see `tardy_fuzz::sections`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tardy_fuzz::sections::check(bytes));
