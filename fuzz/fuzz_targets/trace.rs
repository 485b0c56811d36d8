//! `cargo +nightly fuzz run trace`: see `tardy_fuzz::trace`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tardy_fuzz::trace::check(bytes));
