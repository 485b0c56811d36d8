//! `cargo +nightly fuzz run kernel_image`: see `tardy_fuzz::kernel_image`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tardy_fuzz::kernel_image::check(bytes));
