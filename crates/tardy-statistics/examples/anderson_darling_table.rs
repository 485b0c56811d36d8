//! Prints the percentage points of the Anderson-Darling statistic of fitted excesses. They are
//! stored in `goodness::tail_fit`.
//!
//! `cargo run --release -p tardy-statistics --example anderson_darling_table` takes a few minutes.

use rand::{RngExt, SeedableRng};
use tardy_statistics::goodness::anderson_darling;
use tardy_statistics::goodness::tail_fit::PROBABILITIES;
use tardy_statistics::gpd::Gpd;
use tardy_statistics::gpd::excesses::Excesses;
use tardy_statistics::gpd::fit::fit;

const EXCESSES: usize = 1000;
const REPETITIONS: usize = 40_000;

fn main() {
    for tenths in -5..=10_i32 {
        let truth = Gpd {
            scale: 1.0,
            shape: f64::from(tenths) / 10.0,
        };
        let mut random = rand_pcg::Pcg64::seed_from_u64(tenths.unsigned_abs().into());
        let mut statistics: Vec<f64> = (0..REPETITIONS)
            .filter_map(|_| {
                let values: Vec<f64> = (0..EXCESSES)
                    .map(|_| truth.excess_at(random.random::<f64>()))
                    .collect();
                let excesses = Excesses::from_values(&values);
                let model = fit(&excesses).ok()?.model;
                let shares: Vec<f64> = excesses
                    .values()?
                    .iter()
                    .map(|&value| model.cumulative(value))
                    .collect();
                Some(anderson_darling(&shares)).filter(|statistic| statistic.is_finite())
            })
            .collect();
        statistics.sort_unstable_by(f64::total_cmp);
        let points = PROBABILITIES
            .map(|upper| statistics[((1.0 - upper) * statistics.len() as f64) as usize]);
        println!(
            "    {points:.3?}, // {}, {} fits",
            truth.shape,
            statistics.len()
        );
    }
}
