//! What a comparison of four kernels costs: guest instructions, which are exact, and the host's
//! time, which is not.

use std::time::Instant;

use serde_json::Value;

use super::{Experiment, MODELS, holds, identity, runs_of};
use crate::failure::Result;
use crate::figure::{Bench, Figure, FigureResult, row};

pub(crate) const FIGURE: Figure = Figure {
    name: "lab-budget",
    promise: "A guest with six loads of 2,000 cycles executes at most 5 G instructions, for each of four kernels",
    measure,
};

const INSTRUCTIONS_MAX: f64 = 5e9;

fn measure(bench: &Bench) -> Result<FigureResult> {
    let mut commands = Vec::new();
    let scenario = ["--scenario", "crates/tardy/tests/data/lab/six-loads.toml"];
    let mut timed = |name: &str, more: &[&str]| {
        let started = Instant::now();
        let arguments = [&MODELS[..], &scenario, more].concat();
        let experiment = Experiment::run(bench, name, &arguments, &mut commands)?;
        Ok::<_, crate::failure::Failure>((experiment, started.elapsed().as_secs_f64()))
    };
    let (cold, cold_s) = timed("cold", &[])?;
    let (_, first_s) = timed("snapshots-first", &["--snapshots"])?;
    let (restored, restored_s) = timed("snapshots", &["--snapshots"])?;
    let mut table = vec![row([
        "variant",
        "G instructions",
        "with idle time",
        "host's seconds, cold",
        "from a snapshot",
        "restoring, ms",
    ])];
    let mut most: f64 = 0.0;
    for (one, other) in cold.variants().zip(restored.variants()) {
        let (Some(run), Some(again)) = (runs_of(one).first(), runs_of(other).first()) else {
            continue;
        };
        let executed = run["instructions"].as_f64().unwrap_or(f64::NAN);
        most = most.max(executed);
        let with_idle = run["virtual_ns"].as_f64().unwrap_or(f64::NAN) / 4.0;
        let number = |value: &Value| {
            value
                .as_f64()
                .map_or("-".to_owned(), |value| format!("{value:.1}"))
        };
        let giga = |count: f64| format!("{:.2}", count / 1e9);
        table.push(row([
            super::name(one),
            &giga(executed),
            &giga(with_idle),
            &number(&run["wall_s"]),
            &number(&again["wall_s"]),
            &again["restore_ms"].to_string(),
        ]));
    }
    Ok(FigureResult {
        reached: format!(
            "at most {:.2} G instructions: {}; {cold_s:.0} s cold, {restored_s:.0} s from \
             snapshots ({first_s:.0} s with making them)",
            most / 1e9,
            holds(most <= INSTRUCTIONS_MAX),
        ),
        commands,
        tables: vec![table],
        notes: vec![
            "Instructions: the guest's clock at the end less its idle time, divided by the time \
             of an instruction (4 ns); the kernel reports its idle time with a resolution of 10 ms. With idle time: \
             the clock alone."
                .to_owned(),
            identity(&cold),
        ],
    })
}
