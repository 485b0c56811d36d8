//! Computes the numbers of imported series whose samples are only partly known. Totals that the
//! other tool stated replace numbers that cannot be computed.

use tardy_core::summary::numbers::Numbers;
use tardy_core::units::Nanos;
use tardy_core::verdict::Window;
use tardy_run::imported::StatedTotals;

use super::read::SeriesData;

/// Returns the numbers of one series. Stated numbers fill gaps in the computed ones. For example,
/// the stated mean is used if the last bucket of a histogram has no upper end. If nothing can be
/// computed, returns only the stated numbers.
pub(super) fn numbers(read: &SeriesData, computed: Option<Numbers>) -> Option<Numbers> {
    match (computed, read.stated) {
        (Some(computed), Some(stated)) => Some(mended(computed, &[stated], read.undecided)),
        (Some(computed), None) => Some(computed),
        (None, Some(stated)) => of_stated(&[stated]),
        (None, None) => None,
    }
}

/// Returns the numbers of several series together. If any of the series has only stated totals, the
/// result has no percentiles.
pub(super) fn numbers_of_all(series: &[&SeriesData], computed: Option<Numbers>) -> Option<Numbers> {
    let stated: Vec<StatedTotals> = series.iter().filter_map(|read| read.stated).collect();
    if stated.len() < series.len() {
        return computed;
    }
    if series.iter().any(|read| read.whole.latency.count() == 0) {
        return of_stated(&stated).or(computed);
    }
    let undecided = series.iter().map(|read| read.undecided).sum();
    computed.map(|computed| mended(computed, &stated, undecided))
}

/// Fills gaps in the computed numbers with numbers that the other tool stated. Stated means and
/// minima also cover values outside of all buckets. Percentiles beyond the buckets of a file are
/// removed, because they are unknown. If some samples are `undecided`, the number of misses is
/// replaced by bounds.
fn mended(mut computed: Numbers, stated: &[StatedTotals], undecided: u64) -> Numbers {
    if let Some(open) = stated.iter().filter_map(StatedTotals::open_from).min() {
        computed
            .percentiles
            .retain(|percentile| percentile.value_ns < open.get());
        computed
            .percentiles_corrected
            .iter_mut()
            .for_each(|corrected| corrected.retain(|percentile| percentile.value_ns < open.get()));
    }
    if undecided > 0 {
        let fewest = computed.misses.take();
        computed.misses_between = fewest.map(|fewest| (fewest, fewest + undecided));
    }
    computed.mean_ns = mean(stated).unwrap_or(computed.mean_ns);
    computed.min_ns = least(stated, computed.min_ns);
    computed
}

/// Returns the smallest value. If the files state it for every series, the stated value is
/// returned, even if the buckets show a value that is smaller by less than a bucket's width. Such a
/// difference is no contradiction, because a bucket may be represented by its lower edge.
/// Otherwise, returns the smaller one of the two values.
fn least(stated: &[StatedTotals], of_buckets: i64) -> i64 {
    let Some(least) = stated.iter().filter_map(|stated| stated.min_ns).min() else {
        return of_buckets;
    };
    let is_of_all = stated.iter().all(|stated| stated.min_ns.is_some());
    let width = stated
        .iter()
        .map(|stated| stated.resolution_ns.get())
        .max()
        .unwrap_or(0);
    let is_inside = is_of_all && least.get() < of_buckets.saturating_add(width);
    if is_inside {
        least.get()
    } else {
        of_buckets.min(least.get())
    }
}

/// Returns the mean and the smallest value of a series. For imported series, values that the file
/// states take precedence over values computed from its buckets. For other series, the given values
/// are returned.
pub(crate) fn mean_and_least(
    series: &[&SeriesData],
    (of_samples, of_buckets): (f64, i64),
) -> (f64, i64) {
    let stated: Vec<StatedTotals> = series.iter().filter_map(|read| read.stated).collect();
    if stated.len() < series.len() {
        return (of_samples, of_buckets);
    }
    (
        mean(&stated).unwrap_or(of_samples),
        least(&stated, of_buckets),
    )
}

fn of_stated(stated: &[StatedTotals]) -> Option<Numbers> {
    let some: Vec<&StatedTotals> = stated
        .iter()
        .filter(|stated| stated.samples.is_some_and(|samples| samples > 0))
        .collect();
    let min = some
        .iter()
        .map(|stated| stated.min_ns)
        .collect::<Option<Vec<Nanos>>>()?
        .into_iter()
        .min()?;
    let max = some
        .iter()
        .map(|stated| stated.max_ns)
        .collect::<Option<Vec<Nanos>>>()?
        .into_iter()
        .max()?;
    Some(Numbers {
        samples: some.iter().filter_map(|stated| stated.samples).sum(),
        min_ns: min.get(),
        mean_ns: mean(stated)?,
        max_ns: max.get(),
        max_at_ns: 0,
        percentiles: Vec::new(),
        percentiles_corrected: None,
        extremal_index: None,
        skipped: some
            .iter()
            .filter_map(|stated| stated.skipped)
            .fold(0, u64::saturating_add),
        misses: None,
        misses_between: None,
        misses_skipped: None,
        misses_clustering: None,
        coarse: 0,
    })
}

fn mean(stated: &[StatedTotals]) -> Option<f64> {
    let of = |stated: &StatedTotals| Some((stated.mean_ns?, stated.samples? as f64));
    let weighted: Vec<(f64, f64)> = stated
        .iter()
        .filter(|stated| stated.samples != Some(0))
        .map(of)
        .collect::<Option<_>>()?;
    let samples: f64 = weighted.iter().map(|(_, samples)| samples).sum();
    (samples > 0.0).then(|| {
        weighted
            .iter()
            .map(|(mean, samples)| mean * samples)
            .sum::<f64>()
            / samples
    })
}

/// Returns the minimum number of misses in series whose samples are known only by their extremes.
/// Each extreme beyond the deadline proves at least one miss.
pub(super) fn misses(series: &[&SeriesData], window: Window) -> u64 {
    series.iter().map(|read| late_extremes(read, window)).sum()
}

fn late_extremes(read: &SeriesData, window: Window) -> u64 {
    let Some(stated) = read
        .stated
        .filter(|_| read.is_judged() && read.whole.latency.count() == 0)
    else {
        return 0;
    };
    let (samples, window) = (stated.samples.unwrap_or(0), stated.surely_missed(window));
    if stated.min_ns.is_some_and(|least| least > window.latest) {
        return samples;
    }
    let is_late =
        |extreme: Option<Nanos>| u64::from(extreme.is_some_and(|extreme| window.misses(extreme)));
    is_late(stated.max_ns) + is_late(stated.min_ns).min(samples.saturating_sub(1))
}

/// Returns the number of undecided samples, that is, samples for which the file does not show
/// whether they were outside the window. In a series with buckets, these are the samples in buckets
/// that contain the limit. If only the extremes of a series are known, all samples except the
/// proven misses are undecided, unless the extremes show that every sample is in time.
pub(super) fn undecided(series: &[&SeriesData], window: Window) -> u64 {
    let of = |read: &&SeriesData| match read.stated.filter(|_| read.is_judged()) {
        Some(stated) if read.whole.latency.count() > 0 => {
            let (fewest, most) = stated.misses_in_buckets(&read.whole.latency, window);
            most - fewest
        }
        Some(stated) => {
            let rounded = stated.maybe_missed(window);
            let is_in_time =
                |extreme: Option<Nanos>| extreme.is_some_and(|extreme| !rounded.misses(extreme));
            let is_decided = is_in_time(stated.max_ns)
                && (window.earliest.is_none() || is_in_time(stated.min_ns));
            if is_decided {
                0
            } else {
                stated
                    .samples
                    .unwrap_or(0)
                    .saturating_sub(late_extremes(read, window))
            }
        }
        None => 0,
    };
    series.iter().map(of).sum()
}

/// Returns the reason why misses cannot be counted; `None` if they can be counted.
pub(super) fn shortcoming(series: &[&SeriesData], window: Window) -> Option<String> {
    let is_without_buckets =
        |read: &&SeriesData| read.stated.is_some() && read.whole.latency.count() == 0;
    let is_open = |read: &&SeriesData| read.open_from().is_some_and(|from| from <= window.latest);
    (undecided(series, window) > 0).then(|| {
        if series.iter().any(is_without_buckets) {
            "only the extremes of a series are known: more samples may be late"
        } else if series.iter().any(is_open) {
            "samples beyond the histogram's last bucket may or may not be late: measure with a \
             larger histogram"
        } else {
            "the file rounds its values, so samples near the deadline may or may not be late: \
             measure in ns"
        }
        .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stated_least_value_is_that_of_its_bucket_unless_it_contradicts_it() {
        let of = |least| {
            [StatedTotals {
                min_ns: Some(Nanos(least)),
                resolution_ns: Nanos(1_000),
                ..StatedTotals::default()
            }]
        };
        assert_eq!(
            [
                least(&of(590), 0),
                least(&of(3_500), 2_000),
                least(&of(1_000), 2_000)
            ],
            [590, 2_000, 1_000]
        );
        assert_eq!(least(&[StatedTotals::default()], 2_000), 2_000);
    }
}
