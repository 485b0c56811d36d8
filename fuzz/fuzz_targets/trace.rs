//! `cargo +nightly fuzz run trace`: no bytes make the reader of trace.dat panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tardy_trace::event::Decoder;
use tardy_trace::file::TraceFile;
use tardy_trace::merge::Merge;

fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = TraceFile::parse(bytes) else { return };
    let decoder = Decoder::new(&file.formats);
    for buffer in &file.buffers {
        let mut last = 0;
        for item in Merge::new(buffer, &decoder, file.counter) {
            assert!(item.time() >= last);
            last = item.time();
        }
    }
});
