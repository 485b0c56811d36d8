//! Makes the table of many runs, as `tardy history --table` writes it:
//! `many_runs BOARDS BUILDS FILE`, for `cargo xtask bench many-runs`.
//!
//! The boards have different typical latencies, and each build varies by 5 %. On all boards, the
//! last four builds are 15 % slower under the last load.

use std::error::Error;
use std::path::PathBuf;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tardy_core::series::ClockKind;
use tardy_core::units::Nanos;
use tardy_formats::history_table::TableWriter;
use tardy_results::compare::group::Key;
use tardy_results::history::run::{HistoryRun, RunNumbers};

const LOADS: [&str; 2] = ["idle", "memory"];
/// Number of builds, counted from the last, that are slower under the last load.
const WORSE: usize = 4;
const DAY: i64 = 86_400_000_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, boards, builds, file] = &arguments[..] else {
        return Err("many_runs BOARDS BUILDS FILE".into());
    };
    let (boards, builds): (usize, usize) = (boards.parse()?, builds.parse()?);
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let levels: Vec<f64> = (0..boards)
        .map(|_| random.random_range(10_000.0..60_000.0))
        .collect();
    let name = PathBuf::from(file);
    let file = std::fs::File::create_new(&name)?;
    let mut table = TableWriter::new(&file, &name)?;
    for build in 0..builds {
        for (board, level) in levels.iter().enumerate() {
            let numbers = |(place, load): (usize, &&str)| {
                let is_worse = build + WORSE >= builds && place + 1 == LOADS.len();
                // The sum of four uniform numbers is nearly normal.
                let mut noise = || {
                    1.0 + 0.05
                        * 3.0_f64.sqrt()
                        * (0..4).map(|_| random.random_range(-0.5..0.5)).sum::<f64>()
                };
                let of_load = level * (1.0 + place as f64) * if is_worse { 1.15 } else { 1.0 };
                let quantiles =
                    [0.8, 1.0, 1.3, 1.7].map(|factor| Some((of_load * factor * noise()).round()));
                RunNumbers {
                    key: Key {
                        probe: "cyclic".into(),
                        quantity: "latency".into(),
                        unit: "ns".into(),
                        load: Some((*load).into()),
                    },
                    samples: 600_000,
                    min: (of_load * 0.3) as i64,
                    mean: Some(of_load * 0.85),
                    quantiles,
                    max: (of_load * 2.5 * noise()) as i64,
                    skipped: Some(0),
                    misses: None,
                }
            };
            table.add(&HistoryRun {
                folder: format!("/srv/nightly/b{build:03}/board{board:05}").into(),
                board: format!("board{board:05}"),
                build: format!("b{build:03}"),
                started_realtime_ns: Nanos(
                    1_700_000_000_000_000_000 + build as i64 * DAY + board as i64 * 1_000_000_000,
                ),
                clock: ClockKind::Hardware,
                facts: [
                    "release",
                    "version",
                    "compiled",
                    "mode",
                    "command line",
                    "model",
                    "tool",
                ]
                .map(|name| {
                    Some(if name == "release" {
                        format!("6.12.{build}")
                    } else {
                        name.to_owned()
                    })
                }),
                numbers: LOADS.iter().enumerate().map(numbers).collect(),
            })?;
        }
    }
    table.finish()?;
    Ok(())
}
