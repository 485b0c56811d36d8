//! `cargo +nightly fuzz run trace_format`: see `tardy_fuzz::trace_format`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tardy_fuzz::trace_format::check(bytes));
