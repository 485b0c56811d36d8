//! `cargo +nightly fuzz run deb`: see `tardy_fuzz::deb`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tardy_fuzz::deb::check(bytes));
