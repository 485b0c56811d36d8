//! `cargo +nightly fuzz run delays`: see `tardy_fuzz::delays`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tardy_fuzz::delays::check(bytes));
