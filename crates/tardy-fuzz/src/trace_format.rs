//! The parser of event formats must not panic on any text, and the reader of event fields must not
//! panic on any format.

use tardy_trace::event::Decoder;
use tardy_trace::format::EventFormat;
use tardy_trace::layout::PageLayout;

/// See [`crate::Target::check`].
pub fn check(bytes: &[u8]) {
    let text = crate::text(bytes);
    let _ = PageLayout::parse(text);
    let Ok(format) = EventFormat::parse("sched", text) else {
        return;
    };
    let data = [0xa5; 200];
    for field in &format.fields {
        let _ = (field.number(&data), field.bytes(&data));
    }
    let _ = Decoder::new(std::slice::from_ref(&format)).decode(0, 0, &data);
}
