//! The decoder of ring-buffer pages must not panic on any bytes, and must not return more events
//! than the page has bytes.

use tardy_trace::layout::PageLayout;
use tardy_trace::page::Page;

/// See [`crate::Target::check`].
pub fn check(bytes: &[u8]) {
    for (long_bytes, data_offset) in [(8, 16), (4, 12)] {
        if let Ok(page) = Page::new(
            bytes,
            PageLayout {
                long_bytes,
                data_offset,
                page_bytes: 4096,
            },
        ) {
            assert!(page.count() <= bytes.len());
        }
    }
}
