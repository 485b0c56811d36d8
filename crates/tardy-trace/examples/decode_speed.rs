//! Measures how many events are decoded and merged per second:
//! `cargo run --release -p tardy-trace --example decode_speed trace.dat`. Reads the file repeatedly
//! for two seconds, on one CPU.

use std::time::{Duration, Instant};

use tardy_trace::event::Decoder;
use tardy_trace::file::TraceFile;
use tardy_trace::merge::Merge;

fn main() {
    let path = std::env::args_os().nth(1).expect("a trace.dat is given");
    let bytes = std::fs::read(&path).expect("it can be read");
    let file = TraceFile::parse(&bytes).expect("it is a trace.dat");
    let decoder = Decoder::new(&file.formats);
    let buffer = file.buffer(None).expect("it has a buffer");
    let (start, mut events) = (Instant::now(), 0_usize);
    while start.elapsed() < Duration::from_secs(2) {
        events += Merge::new(buffer, &decoder, file.counter).count();
    }
    println!(
        "{:.1} million events a second",
        events as f64 / start.elapsed().as_secs_f64() / 1e6
    );
}
