//! `cargo +nightly fuzz run chunk`: see `tardy_fuzz::chunk`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tardy_fuzz::chunk::check(bytes));
