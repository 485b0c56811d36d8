//! Builds after which numbers are worse: many series, one value a build, watched together with the probability of a false alarm shared out.
//!
//! A regression of a kernel shows in all loads of a board, in one load on all boards, or everywhere, and is then seen sooner than in a single series:
//! so families of series are watched beside each series. The last builds of each are held against those before them by Student's test, with the
//! spread of a single series drawn towards that of the others (G. K. Smyth, Stat. Appl. Genet. Mol. Biol. 3, 2004). One odd build is no regression,
//! however odd: a change has to last for two.

use statrs::function::gamma::digamma;

use super::moments::Moments;
use super::student;

/// How to watch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Watch {
    /// Expected false alarms a build, of all families together.
    pub false_alarms_a_build: f64,
    /// Builds that a baseline needs.
    pub baseline_min: usize,
    /// Builds that a baseline has at most: the latest ones.
    pub baseline_max: usize,
    /// A smaller difference is no change, in the unit of the values (of a logarithm: a share).
    pub difference_min: f64,
}

impl Default for Watch {
    fn default() -> Self {
        Self { false_alarms_a_build: 0.001, baseline_min: 8, baseline_max: 50, difference_min: 0.0 }
    }
}

/// A change that lasted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Alarm {
    /// Place of the family of series that changed.
    pub family: usize,
    /// Place of the first build after the change.
    pub from: usize,
    /// Place of the build with which it was found.
    pub found: usize,
    /// By how much, on the mean of its series, in the unit of the values.
    pub difference: f64,
    /// Of such a difference by chance, before it is shared out among all that were looked for.
    pub probability: f64,
}

/// Numbers of last builds that are held against the baseline. A single one could be an accident.
const LASTS: [usize; 6] = [2, 3, 4, 5, 6, 8];
/// The furthest of the last builds counts as so many times the second furthest at most, so that it is no change alone.
const BESIDE_SECOND: f64 = 2.0;

/// Alarms of families of `series`, in the order of the builds with which they are found. `values[series][build]` is about normal, as the logarithm
/// of a high quantile is, and `None` where the build has none. A series that changed begins a new baseline with its change.
///
/// Looks at each member of a family for `baseline_max` builds, with each build: 200 series in 231 families over 200 builds take half a second.
#[must_use]
pub fn alarms(values: &[Vec<Option<f64>>], families: &[Vec<usize>], watch: Watch) -> Vec<Alarm> {
    let builds = values.iter().map(Vec::len).max().unwrap_or(0);
    let mut begins = vec![0; values.len()];
    let mut found = Vec::new();
    let probability_max = watch.false_alarms_a_build / (families.len() * LASTS.len()).max(1) as f64;
    for build in 0..builds {
        let mut suspects: Vec<(bool, Alarm)> = Vec::new();
        for last in LASTS {
            let Some(from) = (build + 1).checked_sub(last) else { continue };
            let standard = standardized(values, &begins, from, build, watch);
            let suspect = |(family, members): (usize, &Vec<usize>)| {
                let Judgement { difference, probability, is_of_all } = judged(members, &standard, watch)?;
                let is_change = probability < probability_max && difference.abs() > watch.difference_min;
                is_change.then_some((is_of_all, Alarm { family, from, found: build, difference, probability }))
            };
            suspects.extend(families.iter().enumerate().filter_map(suspect));
        }
        // The widest family all of whose series changed says most; then whatever is the least probable by chance.
        let width = |(is_of_all, alarm): &(bool, Alarm)| if *is_of_all { families[alarm.family].len() } else { 0 };
        suspects.sort_by(|a, b| width(b).cmp(&width(a)).then(a.1.probability.total_cmp(&b.1.probability)));
        for (_, alarm) in suspects {
            let members = &families[alarm.family];
            // What belongs to a change that is already told is not told again.
            if members.iter().any(|&member| {
                begins[member] > 0 && found.iter().any(|other: &Alarm| other.found == build && families[other.family].contains(&member))
            }) {
                continue;
            }
            members.iter().for_each(|&member| begins[member] = alarm.from);
            found.push(alarm);
        }
    }
    found
}

/// A series as the test sees it: its builds of the baseline and its last ones, without its mean and in standard deviations.
struct Standard {
    baseline: Vec<Option<f64>>,
    last: Vec<Option<f64>>,
    deviation: f64,
    /// Degrees of freedom of the deviation.
    freedom: f64,
}

/// The builds that a series' last ones are held against.
struct Baseline<'a> {
    values: &'a [Option<f64>],
    moments: Moments,
    /// Degrees of freedom of their variance.
    freedom: f64,
}

impl<'a> Baseline<'a> {
    fn of(values: &'a [Option<f64>], watch: Watch) -> Option<Self> {
        let known = values.iter().flatten().count();
        let moments = values.iter().flatten().copied().collect();
        (known >= watch.baseline_min.max(3)).then_some(Self { values, moments, freedom: known as f64 - 1.0 })
    }
}

/// Every series that has a baseline before the build `from`, up to the build `to`.
fn standardized(values: &[Vec<Option<f64>>], begins: &[usize], from: usize, to: usize, watch: Watch) -> Vec<Option<Standard>> {
    let latest = from.saturating_sub(watch.baseline_max);
    let baselines: Vec<Option<Baseline>> =
        values.iter().zip(begins).map(|(series, &begin)| Baseline::of(series.get(begin.max(latest)..from)?, watch)).collect();
    let prior = Prior::of(baselines.iter().flatten().filter_map(|baseline| Some((baseline.moments.variance()?, baseline.freedom))));
    let standard = |(series, baseline): (&Vec<Option<f64>>, &Option<Baseline>)| {
        let baseline = baseline.as_ref()?;
        let mean = baseline.moments.mean()?;
        let deviation = prior.drawn(baseline.moments.variance()?, baseline.freedom).sqrt();
        let places = |values: &[Option<f64>]| values.iter().map(|value| value.map(|value| (value - mean) / deviation)).collect();
        (deviation > 0.0).then_some(())?;
        let last = places(series.get(from..=to)?);
        Some(Standard { baseline: places(baseline.values), last, deviation, freedom: baseline.freedom + prior.freedom })
    };
    values.iter().zip(&baselines).map(standard).collect()
}

/// What the other series say of the variance of one.
struct Prior {
    variance: f64,
    freedom: f64,
}

impl Prior {
    /// Trust in the others, in degrees of freedom, at most: where all variances seem the same.
    const FREEDOM_MAX: f64 = 200.0;

    /// From variances with their degrees of freedom: more trust the less they differ among themselves.
    fn of(variances: impl Iterator<Item = (f64, f64)>) -> Self {
        let half = |freedom: f64| freedom / 2.0;
        let logarithms: Vec<(f64, f64)> = variances
            .filter(|(variance, freedom)| *variance > 0.0 && *freedom >= 2.0)
            .map(|(variance, freedom)| (variance.ln() - digamma(half(freedom)) + half(freedom).ln(), trigamma(half(freedom))))
            .collect();
        let moments: Moments = logarithms.iter().map(|(logarithm, _)| *logarithm).collect();
        let expected = logarithms.iter().map(|(_, own)| own).sum::<f64>() / logarithms.len().max(1) as f64;
        let (Some(mean), Some(spread)) = (moments.mean(), moments.variance()) else { return Self { variance: 0.0, freedom: 0.0 } };
        if logarithms.len() < 3 {
            return Self { variance: 0.0, freedom: 0.0 };
        }
        let excess = spread - expected;
        // The degrees of freedom at which variances differ so much by themselves.
        let (mut low, mut high) = (0.01, Self::FREEDOM_MAX);
        while high - low > 1e-3 {
            let middle = f64::midpoint(low, high);
            if trigamma(half(middle)) > excess { low = middle } else { high = middle }
        }
        let variance = (mean + digamma(half(high)) - half(high).ln()).exp();
        Self { variance, freedom: high }
    }

    fn drawn(&self, variance: f64, freedom: f64) -> f64 {
        (self.freedom * self.variance + freedom * variance) / (self.freedom + freedom)
    }
}

/// The derivative of the digamma function, for positive numbers: the asymptotic series from 10 on (Abramowitz and Stegun, 6.4.12).
fn trigamma(mut x: f64) -> f64 {
    let mut sum = 0.0;
    while x < 10.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    sum + inverse * (1.0 + inverse / 2.0 + square * (1.0 / 6.0 - square * (1.0 / 30.0 - square / 42.0)))
}

/// What the last builds of a family come to.
struct Judgement {
    /// From the baseline, in the unit of the values.
    difference: f64,
    /// Of such a difference by chance.
    probability: f64,
    /// Whether nearly every series differs by half of it at least.
    is_of_all: bool,
}

/// Share of a family's series that have to differ for it to have changed as a whole.
const NEARLY_ALL: f64 = 0.8;

/// By how much the last builds of these series differ from the baseline.
fn judged(members: &[usize], standard: &[Option<Standard>], watch: Watch) -> Option<Judgement> {
    let present: Vec<&Standard> = members.iter().filter_map(|&member| standard[member].as_ref()).collect();
    if present.is_empty() || present.len() * 2 < members.len() {
        return None;
    }
    let deviation = present.iter().map(|series| series.deviation).sum::<f64>() / present.len() as f64;
    let longest = present.iter().map(|series| series.baseline.len()).max()?;
    // Baselines end with the same build, and may begin with different ones.
    let of_build = |back: usize| mean(&present, |series| series.baseline.len().checked_sub(back).and_then(|place| series.baseline[place]));
    let baseline: Moments = (1..=longest).filter_map(of_build).collect();
    let known = (1..=longest).filter_map(of_build).count();
    let last: Vec<f64> = (0..present[0].last.len()).filter_map(|place| mean(&present, |series| series.last[place])).collect();
    if known < watch.baseline_min || last.len() < 2 {
        return None;
    }
    let (spread, freedom) = match present[..] {
        [alone] => (1.0, alone.freedom),
        // The builds of one board share what a boot drew: the family's own spread says how much.
        _ => (baseline.standard_deviation()?, known as f64 - 1.0),
    };
    let centre = baseline.mean()?;
    let side = (last.iter().sum::<f64>() / last.len() as f64 - centre).signum();
    let mut beyond: Vec<f64> = last.iter().map(|value| (value - centre) * side).collect();
    beyond.sort_unstable_by(|a, b| b.total_cmp(a));
    beyond[0] = beyond[0].min(BESIDE_SECOND * beyond[1].max(0.0));
    let told = side * beyond.iter().sum::<f64>() / beyond.len() as f64;
    let error = spread * (1.0 / last.len() as f64 + 1.0 / known as f64).sqrt();
    let own = |series: &&&Standard| {
        let known: Vec<f64> = series.last.iter().flatten().copied().collect();
        let own = known.iter().sum::<f64>() / known.len().max(1) as f64;
        own * told.signum() >= told.abs() / 2.0
    };
    let is_of_all = present.iter().filter(own).count() as f64 >= NEARLY_ALL * present.len() as f64;
    (error > 0.0).then(|| Judgement { difference: told * deviation, probability: student::both_tails(told / error, freedom), is_of_all })
}

/// The mean over the series that have a value, if at least half of them do.
fn mean(series: &[&Standard], value: impl Fn(&Standard) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = series.iter().filter_map(|series| value(series)).collect();
    (values.len() * 2 >= series.len() && !values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    const BOARDS: usize = 20;
    const LOADS: usize = 10;
    const BUILDS: usize = 200;
    const NOISE: f64 = 0.05;

    /// A normal number (Box and Muller).
    fn normal(random: &mut Pcg64Mcg) -> f64 {
        let (one, other): (f64, f64) = (random.random_range(1e-12..1.0), random.random_range(0.0..1.0));
        (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos()
    }

    /// Logarithms of a quantile, 20 boards with 10 loads each, over builds; worse by 15 % from `from` on where `changed` says so.
    fn history(seed: u64, builds: usize, from: usize, changed: impl Fn(usize, usize) -> bool) -> Vec<Vec<Option<f64>>> {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let series = |index: usize| (index / LOADS, index % LOADS);
        let mut one = |index: usize| {
            let (board, load) = series(index);
            let level = random.random_range(2.0..6.0);
            let shift = |build: usize| if build >= from && changed(board, load) { 1.15_f64.ln() } else { 0.0 };
            (0..builds).map(|build| Some(level + NOISE * normal(&mut random) + shift(build))).collect()
        };
        (0..BOARDS * LOADS).map(&mut one).collect()
    }

    /// Each series, each board, each load, and all.
    fn families() -> Vec<Vec<usize>> {
        let all = || 0..BOARDS * LOADS;
        let boards = (0..BOARDS).map(|board| all().filter(|index| index / LOADS == board).collect());
        let loads = (0..LOADS).map(|load| all().filter(|index| index % LOADS == load).collect());
        all().map(|index| vec![index]).chain(boards).chain(loads).chain([all().collect()]).collect()
    }

    #[test]
    fn a_history_of_noise_has_at_most_one_false_alarm() {
        let alarms: Vec<usize> =
            (0..5).map(|seed| alarms(&history(seed, BUILDS, 0, |_, _| false), &families(), Watch::default()).len()).collect();
        assert!(alarms.iter().all(|&count| count <= 1), "{alarms:?}");
    }

    /// Builds from the change to its alarm, in each of some histories.
    fn delays(histories: u64, changed: impl Fn(usize, usize) -> bool + Copy) -> Vec<Option<usize>> {
        let from = 40;
        let delay = |seed| {
            let found = alarms(&history(seed, from + 10, from, changed), &families(), Watch::default());
            let of_change = |alarm: &&Alarm| {
                alarm.from + 2 >= from
                    && families()[alarm.family].iter().all(|&index| changed(index / LOADS, index % LOADS))
                    && alarm.difference > 0.05
            };
            found.iter().find(of_change).map(|alarm| alarm.found + 1 - from)
        };
        (0..histories).map(delay).collect()
    }

    fn share_within(delays: &[Option<usize>], builds: usize) -> f64 {
        delays.iter().filter(|delay| delay.is_some_and(|delay| delay <= builds)).count() as f64 / delays.len() as f64
    }

    #[test]
    fn a_regression_of_a_board_or_of_a_load_is_found_within_three_builds() {
        let of_board = delays(20, |board, _| board == 3);
        let of_load = delays(20, |_, load| load == 7);
        let of_all = delays(20, |_, _| true);
        for delays in [&of_board, &of_load, &of_all] {
            assert!(share_within(delays, 3) >= 0.95, "{delays:?}");
        }
    }

    #[test]
    fn a_regression_of_one_load_on_one_board_takes_some_more() {
        let delays = delays(20, |board, load| (board, load) == (3, 7));
        assert!(share_within(&delays, 7) >= 0.9, "{delays:?}");
    }

    #[test]
    fn one_odd_build_is_no_regression_and_a_change_is_told_once() {
        let mut values = history(1, 60, 40, |board, _| board == 3);
        for series in &mut values[..LOADS] {
            series[30] = series[30].map(|value| value + 3.0);
        }
        let found = alarms(&values, &families(), Watch::default());
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(families()[found[0].family], (30..40).collect::<Vec<_>>());
        assert!((39..=41).contains(&found[0].from) && (0.1..0.18).contains(&found[0].difference), "{found:?}");
    }

    #[test]
    fn builds_without_a_value_are_passed_over_and_short_histories_say_nothing() {
        let mut values = history(2, 60, 40, |board, _| board == 3);
        for (index, series) in values.iter_mut().enumerate() {
            for build in (index % 3..60).step_by(3) {
                series[build] = None;
            }
        }
        let found = alarms(&values, &families(), Watch::default());
        let is_of_board = |alarm: &Alarm| families()[alarm.family].iter().all(|index| index / LOADS == 3);
        assert!((1..=2).contains(&found.len()) && found.iter().all(is_of_board), "{found:?}");
        assert!(alarms(&history(3, 7, 0, |_, _| false), &families(), Watch::default()).is_empty());
        assert!(alarms(&[], &[], Watch::default()).is_empty());
    }

    #[test]
    fn series_whose_spreads_differ_lend_each_other_less() {
        let alike = Prior::of((0..50).map(|_| (0.0025, 30.0)));
        let different = Prior::of((0..50).map(|index| (0.0025 * f64::from(1 + index % 10), 30.0)));
        assert!(alike.freedom > 100.0 && different.freedom < 10.0, "{} {}", alike.freedom, different.freedom);
        assert!(
            (trigamma(1.0) - std::f64::consts::PI.powi(2) / 6.0).abs() < 1e-9
                && (trigamma(0.5) - std::f64::consts::PI.powi(2) / 2.0).abs() < 1e-9
        );
    }
}
