//! Generates latencies of known distribution, so that bounds can be compared with true values.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use statrs::function::erf::erfc;

/// Selects how the latencies of a run are generated. The latencies of different CPUs are
/// independent, except where the description of a kind mentions all CPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Process {
    /// Independent log-normal latencies.
    Independent,
    /// Log-normal latencies from an autoregressive Gaussian process: each normal value is this
    /// number times the previous one, plus new noise.
    Autoregressive(f64),
    /// Gumbel latencies in clusters, with an extremal index of 0.25: each value is the larger of a
    /// new value and the decayed previous value.
    MaxAutoregressive,
    /// Log-normal latencies at one of two levels. All CPUs change the level simultaneously, on
    /// average every 500 samples.
    OnOff,
    /// Independent latencies, with this many stalls per run on average. Each stall hits all CPUs in
    /// the same period.
    CommonStalls(f64),
}

/// Median of the log-normal latencies, in ns.
const MEDIAN: f64 = 2_000.0;
/// Standard deviation of the logarithm of the latencies.
const SPREAD: f64 = 0.5;
/// Median at the second level of [`Process::OnOff`], in ns.
const MEDIAN_ON: f64 = 6_000.0;
/// Average number of samples after which the level changes.
const CHANGE: f64 = 500.0;
const EXTREMAL_INDEX: f64 = 0.25;
/// Minimum and maximum length of a stall, in ns. Both are below the period, so that no due time is
/// skipped.
const STALL: (f64, f64) = (500_000.0, 900_000.0);

impl Process {
    /// All kinds.
    pub(crate) const ALL: [Self; 7] = [
        Self::Independent,
        Self::Autoregressive(0.9),
        Self::Autoregressive(0.99),
        Self::MaxAutoregressive,
        Self::OnOff,
        Self::CommonStalls(0.7),
        Self::CommonStalls(2.0),
    ];

    /// Returns the fraction of values above `limit` in a run of `length` samples per CPU.
    pub(crate) fn share_above(self, limit: f64, length: usize) -> f64 {
        let log_normal = |median: f64| normal_above((limit / median).ln() / SPREAD);
        match self {
            Self::Independent | Self::Autoregressive(_) => log_normal(MEDIAN),
            Self::MaxAutoregressive => -f64::exp_m1(-f64::exp(-(limit - MEDIAN) / (MEDIAN / 4.0))),
            Self::OnOff => f64::midpoint(log_normal(MEDIAN), log_normal(MEDIAN_ON)),
            Self::CommonStalls(stalls) => {
                let rate = stalls / length as f64;
                let stalled = ((STALL.1 - limit) / (STALL.1 - STALL.0)).clamp(0.0, 1.0);
                rate * stalled + (1.0 - rate) * log_normal(MEDIAN)
            }
        }
    }

    /// Returns the value that is exceeded by the fraction `share` of all values.
    pub(crate) fn exceeded_by(self, share: f64, length: usize) -> f64 {
        let (mut low, mut high) = (1.0, 1e7);
        for _ in 0..100 {
            let middle = f64::midpoint(low, high);
            if self.share_above(middle, length) > share {
                low = middle
            } else {
                high = middle
            }
        }
        high
    }

    /// Returns a limit that samples rarely exceed. If the process has stalls, only stalls exceed
    /// it; otherwise 2 of `length` samples do, on average.
    pub(crate) fn rare_limit(self, length: usize) -> f64 {
        match self {
            Self::CommonStalls(_) => 400_000.0,
            _ => self.exceeded_by(2.0 / length as f64, length),
        }
    }
}

/// A run, with the random events that all its CPUs share.
pub(crate) struct MadeRun {
    process: Process,
    length: usize,
    seed: u64,
    /// For each sample, whether the second level applies; empty for most kinds of process.
    is_on: Vec<bool>,
    /// Index and length of each stall.
    stalls: Vec<(usize, f64)>,
}

impl MadeRun {
    pub(crate) fn new(process: Process, length: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut is_on = Vec::new();
        let mut stalls = Vec::new();
        match process {
            Process::OnOff => {
                let mut now = random.uniform() < 0.5;
                while is_on.len() < length {
                    now ^= random.uniform() < 1.0 / CHANGE;
                    is_on.push(now);
                }
            }
            Process::CommonStalls(expected) => {
                stalls = (0..length)
                    .filter(|_| random.uniform() < expected / length as f64)
                    .map(|place| (place, 0.0))
                    .collect();
                stalls
                    .iter_mut()
                    .for_each(|stall| stall.1 = STALL.0 + (STALL.1 - STALL.0) * random.uniform());
            }
            _ => {}
        }
        Self {
            process,
            length,
            seed,
            is_on,
            stalls,
        }
    }

    /// Generates the latencies of one CPU, in ns.
    pub(crate) fn latencies(&self, cpu: u64) -> Vec<i64> {
        let mut random = Random::new(self.seed.wrapping_mul(1_000_003).wrapping_add(cpu + 1));
        let log_normal = |median: f64, normal: f64| (median * f64::exp(SPREAD * normal)) as i64;
        match self.process {
            Process::Independent => (0..self.length)
                .map(|_| log_normal(MEDIAN, random.normal()))
                .collect(),
            Process::Autoregressive(kept) => {
                let (mut state, new) = (random.normal(), f64::sqrt(1.0 - kept * kept));
                let mut next = || {
                    state = kept * state + new * random.normal();
                    log_normal(MEDIAN, state)
                };
                (0..self.length).map(|_| next()).collect()
            }
            Process::MaxAutoregressive => {
                let mut frechet = move || -1.0 / f64::ln(random.uniform());
                let mut state = frechet();
                let mut next = || {
                    state = f64::max((1.0 - EXTREMAL_INDEX) * state, EXTREMAL_INDEX * frechet());
                    (MEDIAN + MEDIAN / 4.0 * state.ln()) as i64
                };
                (0..self.length).map(|_| next()).collect()
            }
            Process::OnOff => self
                .is_on
                .iter()
                .map(|&on| log_normal(if on { MEDIAN_ON } else { MEDIAN }, random.normal()))
                .collect(),
            Process::CommonStalls(_) => {
                let mut values: Vec<i64> = (0..self.length)
                    .map(|_| log_normal(MEDIAN, random.normal()))
                    .collect();
                self.stalls
                    .iter()
                    .for_each(|&(place, stall)| values[place] = stall as i64);
                values
            }
        }
    }
}

fn normal_above(deviate: f64) -> f64 {
    0.5 * erfc(deviate / std::f64::consts::SQRT_2)
}

/// Uniform and normal random variables from a seed.
struct Random {
    source: Pcg64Mcg,
    left: Option<f64>,
}

impl Random {
    fn new(seed: u64) -> Self {
        Self {
            source: Pcg64Mcg::seed_from_u64(seed),
            left: None,
        }
    }

    /// Returns a value above 0 and below 1.
    fn uniform(&mut self) -> f64 {
        (self.source.random_range(0.0..1.0_f64)).max(f64::MIN_POSITIVE)
    }

    /// Uses Marsaglia's polar method, which generates two normal values at a time.
    fn normal(&mut self) -> f64 {
        if let Some(left) = self.left.take() {
            return left;
        }
        loop {
            let (x, y) = (2.0 * self.uniform() - 1.0, 2.0 * self.uniform() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let factor = f64::sqrt(-2.0 * square.ln() / square);
                self.left = Some(y * factor);
                return x * factor;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_have_the_distribution_that_is_said() {
        for process in Process::ALL {
            let (mut above, mut samples) = ([0_usize; 2], 0_usize);
            let limits = [0.5, 0.01].map(|share| process.exceeded_by(share, 20_000));
            for seed in 0..40 {
                let values = MadeRun::new(process, 20_000, seed).latencies(3);
                samples += values.len();
                limits.iter().zip(&mut above).for_each(|(&limit, above)| {
                    *above += values.iter().filter(|&&value| value as f64 > limit).count()
                });
            }
            let shares = above.map(|above| above as f64 / samples as f64);
            // The 800,000 samples carry at least as much information as 3,000 independent ones, so
            // the standard deviations of the two shares are at most 0.009 and 0.002, respectively.
            assert!(
                (shares[0] - 0.5).abs() < 0.03 && (shares[1] - 0.01).abs() < 0.004,
                "{process:?} {shares:?}"
            );
        }
    }
}
