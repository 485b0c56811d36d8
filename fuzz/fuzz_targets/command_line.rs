//! `cargo +nightly fuzz run command_line`: see `tardy_fuzz::command_line`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tardy_fuzz::command_line::check(bytes));
