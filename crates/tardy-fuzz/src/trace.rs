//! The reader of trace.dat must not panic on any bytes, events must be in the order of their times,
//! and the parts of each wake-up must add up.

use tardy_trace::event::Decoder;
use tardy_trace::explain::{Explainer, Facts, Target};
use tardy_trace::file::TraceFile;
use tardy_trace::merge::Merge;

/// See [`crate::Target::check`].
pub fn check(bytes: &[u8]) {
    let Ok(file) = TraceFile::parse(bytes) else {
        return;
    };
    let decoder = Decoder::new(&file.formats);
    for buffer in &file.buffers {
        let mut last = 0;
        let mut explainer = Explainer::new(
            Target::Names(vec!["my_loop".into()]),
            Facts::default(),
            &file.commands,
        );
        for item in Merge::new(buffer, &decoder, file.counter) {
            assert!(item.time() >= last);
            last = item.time();
            explainer.take(&item);
            for wake_up in explainer.finished() {
                let sum: u64 = wake_up.pieces.iter().map(|piece| piece.length()).sum();
                assert_eq!(sum, wake_up.lateness());
            }
        }
    }
}
