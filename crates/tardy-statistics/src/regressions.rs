//! Finds the builds at which numbers became worse or better. Many series, with one value per build,
//! are watched together. The allowed probability of a false alarm is divided among them.
//!
//! A regression of a kernel appears under all loads of a board, under one load on all boards, or
//! everywhere. A test of a family of series therefore finds the regression sooner than a test of
//! one series. So families are tested in addition to each series. The last builds are compared with
//! the previous ones by Student's test. The estimated spread of a single series is moved towards
//! the spread of the other series (Smyth, Statistical Applications in Genetics and Molecular
//! Biology 3, 2004). A single build is never a regression, even if it is very unusual, because a
//! change must last for two builds.
//!
//! Tests of single series do not suffice. With 5 % of noise and one false alarm in a thousand
//! builds, an increase of 15 % in one of 200 numbers cannot be separated from chance within three
//! builds. The separation needs 5.0 standard deviations, but three builds that each deviate by 2.8
//! give only 4.7.
//!
//! [`crate::change_point`] examines the whole history of one series; this test examines each new
//! build. For each family, the test compares the last two builds with the builds before them, then
//! the last three, and so on for each number in `LASTS`. When families are compared with each
//! other, each family uses the number of last builds that gives the smallest probability. A larger
//! number would also include builds before the change. Such builds make the family's difference
//! smaller. With a small difference, almost every series of the family would differ enough to count
//! as changed.

use std::collections::BTreeMap;
use std::ops::Range;

use statrs::function::gamma::digamma;

use super::moments::Moments;
use super::student;

/// Parameters of the tests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Watch {
    /// Expected number of false alarms per build, in all families together.
    pub false_alarms_a_build: f64,
    /// Minimum number of builds in a baseline.
    pub baseline_min: usize,
    /// Maximum number of builds in a baseline; the latest ones are used.
    pub baseline_max: usize,
    /// Minimum difference that counts as a change, in the unit of the values. For logarithms, this
    /// is the logarithm of a ratio.
    pub difference_min: f64,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            false_alarms_a_build: 0.001,
            baseline_min: 8,
            baseline_max: 50,
            difference_min: 0.0,
        }
    }
}

/// A change that lasted for at least two builds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Alarm {
    /// Index of the family of series that changed.
    pub family: usize,
    /// Index of the first build with the change.
    pub from: usize,
    /// Index of the build whose values gave enough evidence for the change.
    pub found: usize,
    /// Mean difference of the family's series from their baselines, in the unit of the values.
    pub difference: f64,
    /// Probability that chance alone causes a difference of this size, before the correction for
    /// the number of tests.
    pub probability: f64,
}

/// The test is made once for each of these numbers: it compares this many of the last builds with
/// the baseline. The smallest number is 2, because a single build could be unusual by accident.
const LASTS: [usize; 6] = [2, 3, 4, 5, 6, 8];
/// Limits the influence of a single build. Among the last builds, the largest distance from the
/// baseline is limited to this multiple of the second largest distance. Therefore a single build
/// alone never counts as a change.
const BESIDE_SECOND: f64 = 2.0;

/// Returns the alarms of all families, in the order of the builds at which they are raised.
/// `values[series][build]` is `None` if the build has no value. Values should be approximately
/// normally distributed, as logarithms of a high quantile are. Every series has an entry for each
/// build. After a change, the baseline of the changed series starts at the change.
///
/// The function visits each member of a family about 80 times per build. For 200 series in 231
/// families over 200 builds, it takes a tenth of a second.
#[must_use]
pub fn alarms(values: &[Vec<Option<f64>>], families: &[Vec<usize>], watch: Watch) -> Vec<Alarm> {
    let builds = values.iter().map(Vec::len).max().unwrap_or(0);
    let mut begins = vec![0; values.len()];
    let mut found = Vec::new();
    let probability_max = watch.false_alarms_a_build / (families.len() * LASTS.len()).max(1) as f64;
    // The baselines before a build are the same for every number of last builds. So they are
    // computed once, and kept until a baseline restarts.
    let mut befores: BTreeMap<usize, Baselines> = BTreeMap::new();
    for build in 0..builds {
        let mut suspects: Vec<(bool, Alarm)> = Vec::new();
        for last in LASTS {
            let Some(from) = (build + 1).checked_sub(last) else {
                continue;
            };
            let before = befores
                .entry(from)
                .or_insert_with(|| Baselines::of(values, &begins, families, from, watch));
            let suspect = |(family, members): (usize, &Vec<usize>)| {
                let Judgement {
                    difference,
                    probability,
                } = judged(values, members, before, family, from..build + 1)?;
                let is_change =
                    probability < probability_max && difference.abs() > watch.difference_min;
                let alarm = Alarm {
                    family,
                    from,
                    found: build,
                    difference,
                    probability,
                };
                is_change.then(|| {
                    (
                        is_of_all(values, members, before, from..build + 1, difference),
                        alarm,
                    )
                })
            };
            suspects.extend(families.iter().enumerate().filter_map(suspect));
        }
        befores.retain(|from, _| from + LASTS[LASTS.len() - 1] > build + 1);
        // For each family, only the number of last builds with the smallest probability is used.
        // These builds start at the change, while a larger number would include builds before the
        // change.
        suspects.sort_by(|a, b| {
            (a.1.family)
                .cmp(&b.1.family)
                .then(a.1.probability.total_cmp(&b.1.probability))
        });
        suspects.dedup_by_key(|(_, alarm)| alarm.family);
        // Prefers the widest family in which nearly all series changed, then the change with the
        // least probability.
        let width = |(is_of_all, alarm): &(bool, Alarm)| {
            if *is_of_all {
                families[alarm.family].len()
            } else {
                0
            }
        };
        suspects.sort_by(|a, b| {
            width(b)
                .cmp(&width(a))
                .then(a.1.probability.total_cmp(&b.1.probability))
        });
        for (_, alarm) in suspects {
            let members = &families[alarm.family];
            // Skips each family that contains a series whose change was already reported for this
            // build.
            if members.iter().any(|&member| {
                begins[member] > 0
                    && found.iter().any(|other: &Alarm| {
                        other.found == build && families[other.family].contains(&member)
                    })
            }) {
                continue;
            }
            members
                .iter()
                .for_each(|&member| begins[member] = alarm.from);
            found.push(alarm);
            befores.clear();
        }
    }
    found
}

/// The state before a build: the baseline of each series, and the baseline of each family in which
/// at least half of the series have one.
struct Baselines {
    series: Vec<Option<SeriesBaseline>>,
    families: Vec<Option<FamilyBaseline>>,
}

/// The baseline of a series.
struct SeriesBaseline {
    builds: Range<usize>,
    mean: f64,
    deviation: f64,
    /// Degrees of freedom with which the standard deviation was estimated.
    freedom: f64,
}

impl SeriesBaseline {
    /// Returns the distance of `value` from the baseline's mean, in standard deviations.
    fn standardized(&self, value: f64) -> f64 {
        (value - self.mean) / self.deviation
    }
}

/// The baseline of a family. Its values are in units of the standard deviation of each series.
struct FamilyBaseline {
    /// Number of series that have a baseline.
    present: usize,
    centre: f64,
    spread: f64,
    /// Degrees of freedom with which the spread was estimated.
    freedom: f64,
    /// Number of builds that the baseline covers.
    known: usize,
}

impl Baselines {
    /// Returns the baselines, computed from the builds before the build `from`. For each series,
    /// `begins` contains the first build that the baseline of the series may include.
    fn of(
        values: &[Vec<Option<f64>>],
        begins: &[usize],
        families: &[Vec<usize>],
        from: usize,
        watch: Watch,
    ) -> Self {
        let latest = from.saturating_sub(watch.baseline_max);
        let baseline = |(series, &begin): (&Vec<Option<f64>>, &usize)| {
            let builds = begin.max(latest)..from;
            let known = series.get(builds.clone())?.iter().flatten();
            let count = known.clone().count();
            (count >= watch.baseline_min.max(3)).then(|| {
                (
                    builds,
                    known.copied().collect::<Moments>(),
                    count as f64 - 1.0,
                )
            })
        };
        let baselines: Vec<Option<(Range<usize>, Moments, f64)>> =
            values.iter().zip(begins).map(baseline).collect();
        let prior = Prior::of(
            baselines
                .iter()
                .flatten()
                .filter_map(|(_, moments, freedom)| Some((moments.variance()?, *freedom))),
        );
        let one = |baseline: Option<(Range<usize>, Moments, f64)>| {
            let (builds, moments, freedom) = baseline?;
            let deviation = prior.drawn(moments.variance()?, freedom).sqrt();
            (deviation > 0.0).then_some(SeriesBaseline {
                builds,
                mean: moments.mean()?,
                deviation,
                freedom: freedom + prior.freedom,
            })
        };
        let series: Vec<Option<SeriesBaseline>> = baselines.into_iter().map(one).collect();
        let families = families
            .iter()
            .map(|members| family_before(values, members, &series, watch))
            .collect();
        Self { series, families }
    }
}

fn family_before(
    values: &[Vec<Option<f64>>],
    members: &[usize],
    series: &[Option<SeriesBaseline>],
    watch: Watch,
) -> Option<FamilyBaseline> {
    let present: Vec<(usize, &SeriesBaseline)> = members
        .iter()
        .filter_map(|&member| Some((member, series[member].as_ref()?)))
        .collect();
    if present.is_empty() || present.len() * 2 < members.len() {
        return None;
    }
    let longest = present.iter().map(|(_, one)| one.builds.len()).max()?;
    // All baselines end at the same build, but may start at different builds, so they are aligned
    // at their ends.
    let mut means = vec![Mean::default(); longest];
    for &(member, one) in &present {
        for (back, value) in values[member][one.builds.clone()].iter().rev().enumerate() {
            value
                .iter()
                .for_each(|&value| means[back].add(one.standardized(value)));
        }
    }
    let baseline: Vec<f64> = means
        .iter()
        .filter_map(|mean| mean.of(present.len()))
        .collect();
    let known = baseline.len();
    let moments: Moments = baseline.into_iter().collect();
    let (spread, freedom) = match present[..] {
        [(_, alone)] => (1.0, alone.freedom),
        // Each boot of a board has random effects that all series of the board share. The spread of
        // the family's mean includes these effects.
        _ => (moments.standard_deviation()?, known as f64 - 1.0),
    };
    (known >= watch.baseline_min).then_some(FamilyBaseline {
        present: present.len(),
        centre: moments.mean()?,
        spread,
        freedom,
        known,
    })
}

/// Sum and count for the mean over the series that have a value.
#[derive(Clone, Default)]
struct Mean {
    sum: f64,
    count: usize,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    /// Returns the mean if at least half of the series have a value; `series` is the number of all
    /// series.
    fn of(&self, series: usize) -> Option<f64> {
        (self.count * 2 >= series && self.count > 0).then(|| self.sum / self.count as f64)
    }
}

/// The variance that a series is expected to have, according to the other series (a prior).
struct Prior {
    variance: f64,
    freedom: f64,
}

impl Prior {
    /// Maximum weight of this prior, in degrees of freedom. This maximum is used if all variances
    /// seem equal.
    const FREEDOM_MAX: f64 = 200.0;

    /// Estimates the prior from variances with their degrees of freedom. The less the variances
    /// differ, the larger is the weight of the prior.
    fn of(variances: impl Iterator<Item = (f64, f64)>) -> Self {
        let half = |freedom: f64| freedom / 2.0;
        let logarithms: Vec<(f64, f64)> = variances
            .filter(|(variance, freedom)| *variance > 0.0 && *freedom >= 2.0)
            .map(|(variance, freedom)| {
                (
                    variance.ln() - digamma(half(freedom)) + half(freedom).ln(),
                    trigamma(half(freedom)),
                )
            })
            .collect();
        let moments: Moments = logarithms.iter().map(|(logarithm, _)| *logarithm).collect();
        let expected =
            logarithms.iter().map(|(_, own)| own).sum::<f64>() / logarithms.len().max(1) as f64;
        let (Some(mean), Some(spread)) = (moments.mean(), moments.variance()) else {
            return Self {
                variance: 0.0,
                freedom: 0.0,
            };
        };
        if logarithms.len() < 3 {
            return Self {
                variance: 0.0,
                freedom: 0.0,
            };
        }
        let excess = spread - expected;
        // Searches for the degrees of freedom at which chance alone makes the variances differ as
        // much as observed.
        let (mut low, mut high) = (0.01, Self::FREEDOM_MAX);
        while high - low > 1e-3 {
            let middle = f64::midpoint(low, high);
            if trigamma(half(middle)) > excess {
                low = middle
            } else {
                high = middle
            }
        }
        let variance = (mean + digamma(half(high)) - half(high).ln()).exp();
        Self {
            variance,
            freedom: high,
        }
    }

    fn drawn(&self, variance: f64, freedom: f64) -> f64 {
        (self.freedom * self.variance + freedom * variance) / (self.freedom + freedom)
    }
}

/// Returns the derivative of the digamma function for positive numbers, from the asymptotic series
/// for arguments of at least 10 (Abramowitz and Stegun, 6.4.12).
fn trigamma(mut x: f64) -> f64 {
    let mut sum = 0.0;
    while x < 10.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    sum + inverse
        * (1.0 + inverse / 2.0 + square * (1.0 / 6.0 - square * (1.0 / 30.0 - square / 42.0)))
}

/// The result of the test of a family's last builds.
struct Judgement {
    /// Mean difference of the family's series from their baselines, in the unit of the values.
    difference: f64,
    /// Probability that chance alone causes a difference of this size.
    probability: f64,
}

/// A family counts as changed as a whole if at least this share of its series changed.
const NEARLY_ALL: f64 = 0.8;

/// Tests how the `last` builds of these series differ from the baseline.
fn judged(
    values: &[Vec<Option<f64>>],
    members: &[usize],
    before: &Baselines,
    family: usize,
    last: Range<usize>,
) -> Option<Judgement> {
    let base = before.families[family].as_ref()?;
    let mut means = [const { Mean { sum: 0.0, count: 0 } }; LASTS[LASTS.len() - 1]];
    let mut differences = means.clone();
    let present = || {
        members.iter().filter_map(|&member| {
            Some((
                &values[member][last.clone()],
                before.series[member].as_ref()?,
            ))
        })
    };
    for (series, one) in present() {
        for (place, value) in series
            .iter()
            .enumerate()
            .filter_map(|(place, value)| Some((place, (*value)?)))
        {
            means[place].add(one.standardized(value));
            differences[place].add(value - one.mean);
        }
    }
    let of_builds = |means: &[Mean]| -> Vec<f64> {
        means[..last.len()]
            .iter()
            .filter_map(|mean| mean.of(base.present))
            .collect()
    };
    let (means, differences) = (of_builds(&means), of_builds(&differences));
    let told = told(&means, base.centre)?;
    let error = base.spread * (1.0 / means.len() as f64 + 1.0 / base.known as f64).sqrt();
    let difference = self::told(&differences, 0.0)?;
    (error > 0.0).then(|| Judgement {
        difference,
        probability: student::both_tails(told / error, base.freedom),
    })
}

/// Returns the mean distance of the builds from `centre`. [`BESIDE_SECOND`] limits the distance of
/// the furthest build. Returns `None` if there is only one build.
fn told(of_builds: &[f64], centre: f64) -> Option<f64> {
    let side = (of_builds.iter().sum::<f64>() / of_builds.len() as f64 - centre).signum();
    let mut beyond: Vec<f64> = of_builds
        .iter()
        .map(|value| (value - centre) * side)
        .collect();
    beyond.sort_unstable_by(|a, b| b.total_cmp(a));
    let second = *beyond.get(1)?;
    beyond[0] = beyond[0].min(BESIDE_SECOND * second.max(0.0));
    Some(side * beyond.iter().sum::<f64>() / beyond.len() as f64)
}

/// Returns whether nearly every series of a family differs from its baseline by at least half of
/// `difference`, in the same direction. How much a series varies does not affect the result.
fn is_of_all(
    values: &[Vec<Option<f64>>],
    members: &[usize],
    before: &Baselines,
    last: Range<usize>,
    difference: f64,
) -> bool {
    let present: Vec<(usize, &SeriesBaseline)> = members
        .iter()
        .filter_map(|&member| Some((member, before.series[member].as_ref()?)))
        .collect();
    let own = |(member, one): &&(usize, &SeriesBaseline)| {
        let mut own = Mean::default();
        values[*member][last.clone()]
            .iter()
            .flatten()
            .for_each(|&value| own.add(value - one.mean));
        own.of(1).unwrap_or(0.0) * difference.signum() >= difference.abs() / 2.0
    };
    present.iter().filter(own).count() as f64 >= NEARLY_ALL * present.len() as f64
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

    /// Returns a normally distributed number (Box and Muller).
    fn normal(random: &mut Pcg64Mcg) -> f64 {
        let (one, other): (f64, f64) = (
            random.random_range(1e-12..1.0),
            random.random_range(0.0..1.0),
        );
        (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos()
    }

    /// Returns logarithms of a quantile for 20 boards with 10 loads each, for a number of builds.
    /// From the build `from` on, the series that `changed` selects are worse by 15 %.
    fn history(
        seed: u64,
        builds: usize,
        from: usize,
        changed: impl Fn(usize, usize) -> bool,
    ) -> Vec<Vec<Option<f64>>> {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let series = |index: usize| (index / LOADS, index % LOADS);
        let mut one = |index: usize| {
            let (board, load) = series(index);
            let level = random.random_range(2.0..6.0);
            let shift = |build: usize| {
                if build >= from && changed(board, load) {
                    1.15_f64.ln()
                } else {
                    0.0
                }
            };
            (0..builds)
                .map(|build| Some(level + NOISE * normal(&mut random) + shift(build)))
                .collect()
        };
        (0..BOARDS * LOADS).map(&mut one).collect()
    }

    /// Returns one family for each series, one for each board, one for each load, and one for all
    /// series.
    fn families() -> Vec<Vec<usize>> {
        let all = || 0..BOARDS * LOADS;
        let boards =
            (0..BOARDS).map(|board| all().filter(|index| index / LOADS == board).collect());
        let loads = (0..LOADS).map(|load| all().filter(|index| index % LOADS == load).collect());
        all()
            .map(|index| vec![index])
            .chain(boards)
            .chain(loads)
            .chain([all().collect()])
            .collect()
    }

    #[test]
    fn a_history_of_noise_has_at_most_one_false_alarm() {
        let alarms: Vec<usize> = (0..5)
            .map(|seed| {
                alarms(
                    &history(seed, BUILDS, 0, |_, _| false),
                    &families(),
                    Watch::default(),
                )
                .len()
            })
            .collect();
        assert!(alarms.iter().all(|&count| count <= 1), "{alarms:?}");
    }

    /// Returns how many builds passed between the change and its alarm, for each of `histories`
    /// histories.
    fn delays(histories: u64, changed: impl Fn(usize, usize) -> bool + Copy) -> Vec<Option<usize>> {
        let from = 40;
        let delay = |seed| {
            let found = alarms(
                &history(seed, from + 10, from, changed),
                &families(),
                Watch::default(),
            );
            let of_change = |alarm: &&Alarm| {
                alarm.from + 2 >= from
                    && families()[alarm.family]
                        .iter()
                        .all(|&index| changed(index / LOADS, index % LOADS))
                    && alarm.difference > 0.05
            };
            found
                .iter()
                .find(of_change)
                .map(|alarm| alarm.found + 1 - from)
        };
        (0..histories).map(delay).collect()
    }

    fn share_within(delays: &[Option<usize>], builds: usize) -> f64 {
        delays
            .iter()
            .filter(|delay| delay.is_some_and(|delay| delay <= builds))
            .count() as f64
            / delays.len() as f64
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
        assert!(
            (39..=41).contains(&found[0].from) && (0.1..0.18).contains(&found[0].difference),
            "{found:?}"
        );
    }

    #[test]
    fn a_step_is_dated_by_its_build_and_told_by_its_mean_however_series_vary() {
        let (step, change) = (1.5_f64.ln(), 14);
        for seed in 0..20 {
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            let mut one = |noise: f64| -> Vec<Option<f64>> {
                (0..24)
                    .map(|build| {
                        Some(noise * normal(&mut random) + if build >= change { step } else { 0.0 })
                    })
                    .collect()
            };
            let values = vec![one(0.011), one(0.036)];
            let found = alarms(
                &values,
                &[vec![0], vec![1], vec![0, 1]],
                Watch {
                    difference_min: 0.05,
                    ..Watch::default()
                },
            );
            let first = found.first().unwrap_or_else(|| panic!("seed {seed}"));
            assert_eq!(
                (found.len(), first.family, first.from),
                (1, 2, change),
                "seed {seed}: {found:?}"
            );
            assert!(
                (first.difference - step).abs() < 0.06,
                "seed {seed}: {found:?}"
            );
        }
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
        let is_of_board = |alarm: &Alarm| {
            families()[alarm.family]
                .iter()
                .all(|index| index / LOADS == 3)
        };
        assert!(
            (1..=2).contains(&found.len()) && found.iter().all(is_of_board),
            "{found:?}"
        );
        assert!(
            alarms(
                &history(3, 7, 0, |_, _| false),
                &families(),
                Watch::default()
            )
            .is_empty()
        );
        assert!(alarms(&[], &[], Watch::default()).is_empty());
    }

    #[test]
    fn series_whose_spreads_differ_lend_each_other_less() {
        let alike = Prior::of((0..50).map(|_| (0.0025, 30.0)));
        let different = Prior::of((0..50).map(|index| (0.0025 * f64::from(1 + index % 10), 30.0)));
        assert!(
            alike.freedom > 100.0 && different.freedom < 10.0,
            "{} {}",
            alike.freedom,
            different.freedom
        );
        assert!(
            (trigamma(1.0) - std::f64::consts::PI.powi(2) / 6.0).abs() < 1e-9
                && (trigamma(0.5) - std::f64::consts::PI.powi(2) / 2.0).abs() < 1e-9
        );
    }
}
