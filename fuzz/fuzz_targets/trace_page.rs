//! `cargo +nightly fuzz run trace_page`: no bytes make the decoder of ring-buffer pages panic, and none make more events of a page than it has room for.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tardy_trace::layout::PageLayout;
use tardy_trace::page::Page;

fuzz_target!(|bytes: &[u8]| {
    for (long_bytes, data_offset) in [(8, 16), (4, 12)] {
        if let Ok(page) = Page::new(bytes, PageLayout { long_bytes, data_offset, page_bytes: 4096 }) {
            assert!(page.count() <= bytes.len());
        }
    }
});
