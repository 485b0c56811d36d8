//! A periodic loop that tardy measures:
//!
//!     cargo build --release -p tardy-app --example loop
//!     tardy run --load none --for 10s --deadline 500us -- target/*/release/examples/loop
//!
//! Arguments: the period in us (default 1000) and the number of cycles to run (default 60000).

use std::time::Duration;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| {
        text.parse::<u32>()
            .ok()
            .filter(|&number| number > 0)
            .unwrap_or_else(|| {
                eprintln!("usage: loop [PERIOD_US [CYCLES]]");
                std::process::exit(2)
            })
    });
    let period = i64::from(arguments.next().unwrap_or(1000)) * 1000;
    let cycles = arguments.next().unwrap_or(60_000);
    let mut control = tardy_app::Loop::open("control", period).unwrap_or_else(|error| {
        eprintln!("loop: not measured: {error}");
        tardy_app::Loop::unmeasured()
    });
    let mut due = tardy_app::now();
    for _ in 0..cycles {
        // Due times that have already passed are skipped, so latency does not accumulate.
        due += period;
        let now = tardy_app::now();
        if due <= now {
            due += ((now - due) / period + 1) * period;
        }
        std::thread::sleep(Duration::from_nanos(due.abs_diff(tardy_app::now())));
        control.due(due);
        std::hint::black_box((0..1000).sum::<u64>());
        control.done();
    }
}
