//! `cargo +nightly fuzz run guest_text`: see `tardy_fuzz::guest_text`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tardy_fuzz::guest_text::check(bytes));
