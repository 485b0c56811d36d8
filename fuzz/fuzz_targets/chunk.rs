//! `cargo +nightly fuzz run chunk`: no bytes make the reader of series panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tardy_core::chunk::{Chunk, ChunkHead, decode_head};
use tardy_core::series::Schedule;
use tardy_core::summary::accumulator::{Questions, SeriesAccumulator};
use tardy_core::units::Nanos;

fuzz_target!(|bytes: &[u8]| {
    let _ = decode_head(bytes);
    let _ = ChunkHead::decode(bytes);
    let schedule = Schedule::Grid { period: Nanos(1_000_000), start: Nanos(0), dither: Nanos(0) };
    let mut chunk = Chunk::default();
    if chunk.decode(bytes).is_ok() {
        let mut accumulator = SeriesAccumulator::new(schedule, Questions::default());
        // Skipped due times are expanded one by one; a fuzzer would find the slowest file, not a wrong one.
        if chunk.skipped.iter().map(|&(_, skipped)| u64::from(skipped)).sum::<u64>() < 100_000 {
            accumulator.add(&chunk);
            let _ = accumulator.whole();
        }
    }
});
