//! The reader of series must not panic on any bytes.

use tardy_core::chunk::{Chunk, ChunkHead, decode_head};
use tardy_core::series::Schedule;
use tardy_core::summary::accumulator::{SeriesAccumulator, SummaryOptions};
use tardy_core::units::Nanos;

/// See [`crate::Target::check`].
pub fn check(bytes: &[u8]) {
    let _ = decode_head(bytes);
    let _ = ChunkHead::decode(bytes);
    let schedule = Schedule::Grid {
        period: Nanos(1_000_000),
        start: Nanos(0),
        dither: Nanos(0),
    };
    let mut chunk = Chunk::default();
    if chunk.decode(bytes).is_ok() {
        let mut accumulator = SeriesAccumulator::new(schedule, SummaryOptions::default());
        accumulator.add(&chunk);
        let _ = accumulator.whole();
    }
}
