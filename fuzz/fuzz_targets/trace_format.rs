//! `cargo +nightly fuzz run trace_format`: no text makes the parser of event formats panic, and no format makes the reading of its fields panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tardy_trace::event::Decoder;
use tardy_trace::format::EventFormat;
use tardy_trace::layout::PageLayout;

fuzz_target!(|text: &str| {
    let _ = PageLayout::parse(text);
    let Ok(format) = EventFormat::parse("sched", text) else { return };
    let data = [0xa5; 200];
    for field in &format.fields {
        let _ = (field.number(&data), field.bytes(&data));
    }
    let _ = Decoder::new(std::slice::from_ref(&format)).decode(0, 0, &data);
});
