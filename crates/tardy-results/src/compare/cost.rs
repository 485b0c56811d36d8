//! Compares costs. For each service or program, computes by how many percent the candidate's cost
//! is higher, with an interval and a verdict.
//!
//! Costs are compared as ratios (Hodges and Lehmann's shift of logarithms). Ratios are used because
//! the value of a trial is a sum of many delays that are never negative, and because users want to
//! know a percentage. With at least four runs per side, each run counts as one number. With fewer
//! runs, the trials are compared. If there are many metrics, some of them differ by chance. The
//! intervals are therefore widened, as they are for latencies, so that the probability of any wrong
//! verdict is at most 1 %. Programs are compared by their averages, as in mckenney2009.

use std::path::{Path, PathBuf};

use serde::Serialize;
use tardy_run::cost::CostSet;
use tardy_run::folder::{self, folders};
use tardy_run::record::{RunKind, RunRecord, State};
use tardy_statistics::compare::equivalence::equivalence;
use tardy_statistics::compare::run_spread::{Reach, widened};
use tardy_statistics::compare::shift::shift;
use tardy_statistics::confidence::{Confidence, Interval};
use tardy_statistics::student;

use super::facts::{self, FactDifference};
use super::judge::stretched;
use super::margin::Margin;
use super::model::{Outcome, RUNS_MIN};
use crate::cost::reference::advantage_percent;
use crate::cost::summary::{CostSummary, CostSummaryError, MetricSummary, of_record};

/// The comparison of a baseline with one or more candidates.
#[derive(Debug, Clone, Serialize)]
pub struct CostComparison {
    /// The worst verdict of all candidates.
    pub verdict: Outcome,
    /// Largest difference that does not matter to the user.
    pub margin: Margin,
    /// Confidence of each interval before it is widened for the number of rows.
    pub confidence: Confidence,
    /// Unit of the costs: `ns`, or `instructions` if emulated machines were measured.
    pub unit: &'static str,
    /// Whether the timed operations are whole programs. Programs are compared by their averages, as
    /// in mckenney2009.
    pub is_of_programs: bool,
    pub base: CostSide,
    /// The candidates, in the order of the command line.
    pub candidates: Vec<CostCandidate>,
}

#[derive(Debug, Clone, Serialize)]
pub struct CostSide {
    /// Name of the side, as given on the command line.
    pub name: String,
    /// The run folders of the side.
    pub runs: Vec<String>,
    /// The machine of the first run, in two lines.
    pub machine: [String; 2],
}

/// The comparison of a candidate with the baseline.
#[derive(Debug, Clone, Serialize)]
pub struct CostCandidate {
    pub side: CostSide,
    /// The verdict over all rows.
    pub verdict: Outcome,
    /// Caveats that a reader must know before the numbers.
    pub warnings: Vec<String>,
    /// Other differences between the runs.
    pub changed: Vec<FactDifference>,
    /// A row for each metric that both sides have.
    pub rows: Vec<CostRow>,
}

/// The comparison of one metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CostRow {
    pub metric: String,
    /// Number of bytes that one operation moves, for bandwidths.
    pub bytes: Option<u64>,
    /// The cost in the baseline: for a service, the minimum over the baseline's runs; for a
    /// program, the average over its trials.
    pub base: f64,
    pub candidate: f64,
    /// By how many percent the candidate costs more than the baseline; mckenney2009 calls this the
    /// throughput advantage of the baseline.
    pub advantage_percent: f64,
    /// Interval of the percentage; absent if there are too few data.
    pub interval_percent: Option<Interval>,
    /// Whether the candidate costs less than the baseline, more, or the same within the margin.
    pub verdict: Outcome,
}

/// Why costs cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CostCompareError {
    /// A run could not be read.
    #[error(transparent)]
    SeriesData(#[from] CostSummaryError),
    /// One side has times, and the other has counts of instructions.
    #[error(
        "the costs of {base} are in {base_unit}, those of {other} in {other_unit}, so they are not \
         comparable; compare runs that used the same clock"
    )]
    Units {
        base: String,
        base_unit: &'static str,
        other: String,
        other_unit: &'static str,
    },
    /// The runs share no metric.
    #[error("{0} and {1} share no metric: measure the same metrics")]
    NothingShared(String, String),
}

pub(super) struct Side {
    pub(super) name: String,
    pub(super) record: RunRecord,
    pub(super) runs: Vec<CostSummary>,
}

/// Returns whether `path` contains costs. The first run decides this, and the other runs must be of
/// the same kind.
#[must_use]
pub fn is_cost(path: &Path) -> bool {
    folders(path)
        .first()
        .and_then(|first| folder::open(first).ok())
        .is_some_and(|record| record.kind == RunKind::Cost)
}

/// Compares the costs of each candidate with those of `base`.
///
/// # Errors
/// Fails with a [`CostCompareError`] if the costs cannot be read or compared.
pub fn compare(
    base: &Path,
    candidates: &[PathBuf],
    margin: Margin,
    confidence: Confidence,
) -> Result<CostComparison, CostCompareError> {
    let base = read(base)?;
    let candidates = candidates
        .iter()
        .map(|path| candidate(&base, &read(path)?, margin, confidence))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(CostComparison {
        verdict: Outcome::of_all(candidates.iter().map(|candidate| candidate.verdict))
            .unwrap_or(Outcome::Inconclusive),
        margin,
        confidence,
        unit: base.unit(),
        is_of_programs: base.is_of_programs(),
        base: base.facts(),
        candidates,
    })
}

fn read(path: &Path) -> Result<Side, CostCompareError> {
    let (mut records, mut runs) = (Vec::new(), Vec::new());
    for run in folders(path) {
        let record = folder::open(&run).map_err(CostSummaryError::from)?;
        runs.push(of_record(&run, record.clone())?);
        records.push(record);
    }
    Ok(Side {
        name: path.display().to_string(),
        record: records.swap_remove(0),
        runs,
    })
}

impl Side {
    /// Reads the single run in `folder`.
    pub(super) fn of_one(folder: &Path) -> Result<Self, CostCompareError> {
        let record = folder::open(folder).map_err(CostSummaryError::from)?;
        let runs = vec![of_record(folder, record.clone())?];
        Ok(Self {
            name: folder.display().to_string(),
            record,
            runs,
        })
    }

    pub(super) fn unit(&self) -> &'static str {
        self.runs[0].how.unit
    }

    fn is_of_programs(&self) -> bool {
        self.runs.iter().all(|run| run.how.set != CostSet::Metrics)
    }

    fn facts(&self) -> CostSide {
        let runs = self.runs.iter().map(|run| run.run.clone()).collect();
        CostSide {
            name: self.name.clone(),
            runs,
            machine: self.runs[0].machine.clone(),
        }
    }

    pub(super) fn metrics(&self, name: &str) -> Vec<&MetricSummary> {
        self.runs
            .iter()
            .filter_map(|run| run.metrics.iter().find(|metric| metric.name == name))
            .collect()
    }
}

fn candidate(
    base: &Side,
    side: &Side,
    margin: Margin,
    confidence: Confidence,
) -> Result<CostCandidate, CostCompareError> {
    if base
        .runs
        .iter()
        .chain(&side.runs)
        .any(|run| run.how.unit != base.unit())
    {
        return Err(CostCompareError::Units {
            base: base.name.clone(),
            base_unit: base.unit(),
            other: side.name.clone(),
            other_unit: side.unit(),
        });
    }
    let names: Vec<&str> = base.runs[0]
        .metrics
        .iter()
        .map(|metric| &*metric.name)
        .filter(|name| !side.metrics(name).is_empty())
        .collect();
    let of_runs = base.runs.len().min(side.runs.len()) >= RUNS_MIN;
    let judge = RowJudge {
        margin,
        confidence,
        rows: names.len(),
    };
    let rows: Vec<CostRow> = names
        .iter()
        .filter_map(|name| row(name, base, side, of_runs, judge))
        .collect();
    if rows.is_empty() {
        return Err(CostCompareError::NothingShared(
            base.name.clone(),
            side.name.clone(),
        ));
    }
    let seen = Outcome::of_all(rows.iter().map(|row| row.verdict)).unwrap_or(Outcome::Inconclusive);
    let is_short = base
        .runs
        .iter()
        .chain(&side.runs)
        .any(|run| run.state != State::Finished);
    Ok(CostCandidate {
        side: side.facts(),
        verdict: if is_short && !seen.has_worse() {
            Outcome::Inconclusive
        } else {
            seen
        },
        warnings: warnings(base, side, of_runs, names.len() - rows.len()),
        changed: facts::differences(&base.record, &side.record),
        rows,
    })
}

fn row(name: &str, base: &Side, side: &Side, of_runs: bool, judge: RowJudge) -> Option<CostRow> {
    let is_of_programs = base.is_of_programs() && side.is_of_programs();
    let (from, to) = (base.metrics(name), side.metrics(name));
    let figure = |metrics: &[&MetricSummary]| {
        let values = metrics.iter().map(|metric| {
            if is_of_programs {
                metric.mean
            } else {
                metric.cost
            }
        });
        if is_of_programs {
            values.sum::<f64>() / metrics.len() as f64
        } else {
            values.fold(f64::INFINITY, f64::min)
        }
    };
    let counted = |metrics: &[&MetricSummary]| -> Vec<f64> {
        if of_runs {
            metrics
                .iter()
                .map(|metric| {
                    if is_of_programs {
                        metric.mean
                    } else {
                        metric.cost
                    }
                })
                .collect()
        } else {
            metrics
                .iter()
                .flat_map(|metric| metric.values.iter().copied())
                .collect()
        }
    };
    let figures = (figure(&from), figure(&to));
    judge.row(
        (name, from[0].bytes),
        figures,
        (&counted(&from), &counted(&to)),
    )
}

/// Judges one of several rows. The intervals are widened, which limits the probability that any of
/// the verdicts is wrong.
#[derive(Clone, Copy)]
struct RowJudge {
    margin: Margin,
    confidence: Confidence,
    /// Number of rows.
    rows: usize,
}

impl RowJudge {
    /// Returns the row of a metric; `None` if the metric costs nothing on one side. A cost that was
    /// computed by subtraction can be zero; then no ratio exists.
    fn row(
        self,
        (name, bytes): (&str, Option<u64>),
        (base, candidate): (f64, f64),
        (from, to): (&[f64], &[f64]),
    ) -> Option<CostRow> {
        if base <= 0.0 || candidate <= 0.0 {
            return None;
        }
        let logarithms = |values: &[f64]| -> Vec<f64> {
            values
                .iter()
                .filter(|value| **value > 0.0)
                .map(|value| value.ln())
                .collect()
        };
        let (from, to) = (logarithms(from), logarithms(to));
        let shift = shift(&from, &to, self.confidence)?;
        let freedom = (from.len() + to.len()).saturating_sub(2).max(1) as f64;
        let factor = stretched(self.rows, self.confidence, |confidence| {
            student::deviate(confidence, freedom)
        });
        let interval = shift.interval.is_finite().then(|| {
            let wide = widened(shift.shift, shift.interval, factor, Reach::default());
            Interval {
                lower: wide.lower.exp_m1(),
                upper: wide.upper.exp_m1(),
            }
        });
        let share = self.margin.of(base) / base;
        Some(CostRow {
            metric: name.to_owned(),
            bytes,
            base,
            candidate,
            advantage_percent: advantage_percent(base, candidate),
            interval_percent: interval.map(|interval| Interval {
                lower: interval.lower * 100.0,
                upper: interval.upper * 100.0,
            }),
            verdict: interval.map_or(Outcome::Inconclusive, |interval| {
                equivalence(shift.shift.exp_m1(), interval, share).into()
            }),
        })
    }
}

fn warnings(base: &Side, side: &Side, of_runs: bool, without_ratio: usize) -> Vec<String> {
    let mut warnings = Vec::new();
    for (which, runs) in [("base", &base.runs), ("new", &side.runs)] {
        for run in runs {
            warnings.extend(
                run.warnings
                    .iter()
                    .map(|warning| format!("{which} ({}): {warning}", run.run)),
            );
            if run.state != State::Finished {
                warnings.push(format!(
                    "{which} ({}): its measurement is incomplete",
                    run.run
                ));
            }
        }
    }
    if base.unit() == "instructions" {
        warnings.push(
            "costs are counts of executed instructions: they show the length of the kernel's code, \
             not the speed of a machine"
                .to_owned(),
        );
    }
    if base.is_of_programs() != side.is_of_programs()
        || base.runs[0].how.command != side.runs[0].how.command
    {
        warnings.push("the sides timed different commands".to_owned());
    }
    if !of_runs {
        warnings.push(format!(
            "intervals cover only the spread between trials: to cover the spread between runs, \
             measure {RUNS_MIN} runs per side"
        ));
    }
    for (which, from, to) in [("base", base, side), ("new", side, base)] {
        let only: Vec<&str> = from.runs[0]
            .metrics
            .iter()
            .map(|metric| &*metric.name)
            .filter(|name| to.metrics(name).is_empty())
            .collect();
        if !only.is_empty() {
            warnings.push(format!(
                "left out, because they are only in {which}: {}",
                only.join(", ")
            ));
        }
    }
    if without_ratio > 0 {
        warnings.push(format!(
            "{without_ratio} metrics are left out, because one side's cost is 0"
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    fn judge(from: &[f64], to: &[f64], margin: Margin) -> CostRow {
        let average = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        alone(margin)
            .row(("made", None), (average(from), average(to)), (from, to))
            .unwrap()
    }

    fn alone(margin: Margin) -> RowJudge {
        RowJudge {
            margin,
            confidence: Confidence::NINETY_FIVE,
            rows: 1,
        }
    }

    #[test]
    fn of_equal_sides_with_40_metrics_hardly_any_has_a_metric_that_differs() {
        let mut random = Pcg64::seed_from_u64(1);
        let judge = RowJudge {
            rows: 40,
            ..alone(Margin::Share(0.0))
        };
        let mut runs = |level: f64, count: usize| -> Vec<f64> {
            (0..count)
                .map(|_| level * random.random_range(0.9..1.1))
                .collect()
        };
        for count in [RUNS_MIN, 30] {
            let mut verdict = |level| {
                let (from, to) = (runs(100.0, count), runs(level, count));
                let row = judge.row(("made", None), (from[0], to[0]), (&from, &to));
                row.unwrap().verdict
            };
            let wrong = (0..200)
                .filter(|_| (0..40).any(|_| verdict(100.0) != Outcome::Inconclusive))
                .count();
            // 2 wrong verdicts are expected (1 % of 200). By chance, one in a thousand such tests
            // would have more than 7.
            assert!(wrong <= 7, "{wrong} of 200 with {count} values");
            assert_eq!(verdict(200.0), Outcome::Worse, "{count} values");
        }
    }

    #[test]
    fn the_advantage_is_that_of_the_paper_and_three_trials_decide_nothing() {
        let row = judge(
            &[1350.4, 1332.7, 1314.5],
            &[1524.6, 1574.2, 1569.8],
            Margin::default(),
        );
        assert_eq!(format!("{:.1}", row.advantage_percent), "16.8");
        assert_eq!(
            (row.interval_percent, row.verdict),
            (None, Outcome::Inconclusive)
        );
    }

    #[test]
    fn the_verdict_is_the_region_that_the_whole_interval_lies_in() {
        let base: Vec<f64> = (0..20)
            .map(|trial| 100.0 + f64::from(trial) / 10.0)
            .collect();
        let times = |factor: f64| base.iter().map(|value| value * factor).collect::<Vec<_>>();
        let margin = Margin::Share(0.05);
        let doubled = judge(&base, &times(2.0), margin);
        assert_eq!(
            (doubled.verdict, doubled.advantage_percent.round()),
            (Outcome::Worse, 100.0)
        );
        let interval = doubled.interval_percent.unwrap();
        assert!(
            interval.lower > 98.0
                && interval.lower < 100.0
                && interval.upper > 100.0
                && interval.upper < 102.0,
            "{interval:?}"
        );
        assert_eq!(judge(&base, &times(0.5), margin).verdict, Outcome::Better);
        assert_eq!(
            judge(&base, &times(1.001), margin).verdict,
            Outcome::Equivalent
        );
        assert_eq!(
            judge(&base, &times(1.05), margin).verdict,
            Outcome::Inconclusive
        );
        // With a margin of 20 ns, 110 ns and 100 ns count as equal.
        assert_eq!(
            judge(
                &base,
                &times(1.1),
                Margin::Time(tardy_core::units::Nanos(20))
            )
            .verdict,
            Outcome::Equivalent
        );
    }

    #[test]
    fn of_nothing_there_is_no_ratio() {
        assert_eq!(
            alone(Margin::default()).row(("made", None), (0.0, 1.0), (&[0.0], &[1.0])),
            None
        );
    }
}
