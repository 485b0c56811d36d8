//! `cargo +nightly fuzz run trace_page`: see `tardy_fuzz::trace_page`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tardy_fuzz::trace_page::check(bytes));
