//! `cargo +nightly fuzz run documents`: see `tardy_fuzz::documents`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tardy_fuzz::documents::check(bytes));
