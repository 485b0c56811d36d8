//! `cargo +nightly fuzz run console`: see `tardy_fuzz::console`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tardy_fuzz::console::check(bytes));
