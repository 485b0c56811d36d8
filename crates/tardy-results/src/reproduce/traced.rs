//! Finds in traces why claims do not hold. When an experiment runs again in watched guests, it
//! takes the same samples. So the trace shows the cause of each largest latency on which a claim
//! depends.
//!
//! A reason is stated only if the causes of all these latencies are known. Therefore each latency
//! must occur in the watched guest with exactly the same value as in the first run. If a claim is
//! about the fraction of samples below a limit, and only few samples are above it, the cause of the
//! largest latency counts as the reason.

use std::collections::BTreeMap;
use std::path::Path;

use tardy_core::units::{Nanos, three_digits};
use tardy_papers::claim::{Claim, Paper, Reason, Value};
use tardy_papers::experiment::Extent;
use tardy_papers::quantity::{EACH, Quantity, QuantitySource, Statistic};

use super::measured::PaperRuns;
use super::{ClaimResult, ExperimentCommand, PaperResult, Reproduction};
use crate::explain::Late;
use crate::explain::run::{RunQuestion, SampleStory};
use crate::explain::source::explain_run;
use crate::explain::words;

/// Maximum number of functions that are named for each latency.
const FUNCTIONS: usize = 4;
/// Number of explained samples that are read per run. The plugin stores at most this number per
/// phase.
const STORIES: usize = 1024;

/// One of the largest latencies on which a claim depends.
struct Maximum {
    experiment: String,
    quantity: Quantity,
}

/// Returns the largest latencies on which the values of a claim depend; `None` if any of the values
/// does not depend on the tail of a kernel's latencies.
fn maxima(claim: &Claim, values: &[f64]) -> Option<Vec<Maximum>> {
    let maximum = |(value, worth): (&Value, &f64)| {
        let mut quantity = value.ours.clone();
        let QuantitySource::Phase { statistic, .. } = &mut quantity.of else {
            return None;
        };
        let is_of_tail = quantity.kernel != EACH && is_of_tail(*statistic, *worth);
        *statistic = Statistic::Max;
        let experiment = quantity.experiment.clone();
        is_of_tail.then(|| Maximum {
            experiment: experiment.unwrap_or_else(|| claim.experiment.clone()),
            quantity,
        })
    };
    claim.values.iter().zip(values).map(maximum).collect()
}

/// Returns whether the largest samples decide a value.
fn is_of_tail(statistic: Statistic, worth: f64) -> bool {
    match statistic {
        Statistic::Max => true,
        // At least one sample is above the limit, but only a few are.
        Statistic::Below(_) => (0.999..1.0).contains(&worth),
        _ => false,
    }
}

/// Returns commands for those claims that do not hold and whose reason is unknown. These commands
/// record traces that can show the reason.
#[must_use]
pub fn experiments_to_trace(papers: &[Paper], found: &Reproduction) -> Vec<ExperimentCommand> {
    let of = |(paper, result): (&Paper, &PaperResult)| of_paper(paper, result, found.extent);
    papers.iter().zip(&found.papers).flat_map(of).collect()
}

fn of_paper(paper: &Paper, result: &PaperResult, extent: Extent) -> Vec<ExperimentCommand> {
    let mut kernels: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let unknown = result
        .claims
        .iter()
        .filter(|claim| claim.reason == Some(Reason::Unknown));
    let of_claim = |found: &ClaimResult| {
        let claim = paper.claims.iter().find(|claim| claim.id == found.id)?;
        let values: Vec<f64> = found
            .values
            .iter()
            .map(|value| value.ours.map_or(0.0, |[median, ..]| median))
            .collect();
        maxima(claim, &values)
    };
    for maximum in unknown.filter_map(of_claim).flatten() {
        kernels
            .entry(maximum.experiment)
            .or_default()
            .push(maximum.quantity.kernel);
    }
    let traced = |(name, kernels): (String, Vec<String>)| {
        let experiment = paper.experiments.iter().find(|known| known.name == name)?;
        Some(ExperimentCommand {
            words: experiment.traced(extent, &kernels)?,
            folder: folder_of(&name),
        })
    };
    kernels.into_iter().filter_map(traced).collect()
}

fn folder_of(experiment: &str) -> String {
    format!("{experiment}-traced")
}

/// Returns what caused a claim's largest latencies, according to the traces below `folder`; `None`
/// if the traces do not explain all of them. `values` are the values of the first replica; a
/// watched guest repeats this replica.
pub(super) fn reason(
    claim: &Claim,
    values: &[f64],
    measured: &PaperRuns,
    folder: &Path,
) -> Option<String> {
    let maxima = maxima(claim, values)?;
    let cause = |maximum: &Maximum| {
        let quantity = &maximum.quantity;
        let latency = measured.value(quantity, &maximum.experiment, 0).ok()?;
        let runs = PaperRuns::first_runs(&folder_of(&maximum.experiment), folder);
        let (kernel, run) = runs.iter().find(|(name, _)| *name == quantity.kernel)?;
        let question = RunQuestion {
            worst: STORIES,
            late: Late::Above(Nanos::ZERO),
            from_outside: true,
        };
        let cause = cause(latency, &explain_run(run, question).ok()?.worst)?;
        Some(format!("{kernel}: {cause}"))
    };
    let causes: Vec<String> = maxima.iter().map(cause).collect::<Option<_>>()?;
    let places = maxima.iter().map(|of| folder_of(&of.experiment));
    Some(format!(
        "{}. To see this: tardy explain {}",
        distinct(causes).join("; "),
        distinct(places.collect()).join(" ")
    ))
}

/// Returns each text once, in the order in which the texts first occur.
fn distinct(texts: Vec<String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for text in texts {
        if !found.contains(&text) {
            found.push(text);
        }
    }
    found
}

/// Describes who had the CPU during the longest piece of the sample with this latency; `None` if no
/// sample has exactly this latency.
fn cause(latency: f64, stories: &[SampleStory]) -> Option<String> {
    let story = stories
        .iter()
        .find(|story| story.latency_ns as f64 == latency)?;
    let longest = story.pieces.iter().max_by_key(|piece| piece.length_ns)?;
    let executed = story.executed.iter().flat_map(|code| &code.functions);
    let functions: Vec<&str> = executed
        .take(FUNCTIONS)
        .map(|row| row.function.as_str())
        .collect();
    Some(format!(
        "{} of {}, {} ({})",
        three_digits(longest.length_ns as f64),
        three_digits(latency),
        words::holder(&longest.holder),
        functions.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use tardy_papers::claim::papers;
    use tardy_papers::experiment::Place;
    use tardy_trace::explain::{Cause, Component};

    use super::*;
    use crate::explain::{HolderFacts, StoryPiece};
    use crate::reproduce::{Outcome, reproduce};

    #[test]
    fn only_experiments_behind_unknown_reasons_run_again_on_the_kernels_of_their_claims() {
        let papers = papers();
        let nothing = tempfile::tempdir().unwrap();
        let mut found = reproduce(&papers, nothing.path(), Place::Lab, Extent::Quick, 1);
        assert_eq!(experiments_to_trace(&papers, &found), []);
        let claims = found.papers.iter_mut().flat_map(|paper| &mut paper.claims);
        for claim in claims {
            // One claim already has a reason and another compares shares, so only one claim remains
            // to be traced.
            let reason = match claim.id.as_str() {
                "low-latency-fixes-memory" => Reason::Traced("x".into()),
                "preemptible-fixes-io" | "bulk-and-tail-rank-kernels-in-opposite-orders" => {
                    Reason::Unknown
                }
                _ => continue,
            };
            claim.outcome = Outcome::DoesNotHold;
            claim.reason = Some(reason);
        }
        let again = experiments_to_trace(&papers, &found);
        let [timeline] = again.as_slice() else {
            panic!("{again:?}")
        };
        assert_eq!(timeline.folder, "abeni-timeline-traced");
        let line = timeline.words.join(" ");
        let kernels = "--kernel debian:6.1 --preempt none --kernel debian:6.1 --preempt full \
                       --watch -- --scenario abeni2002";
        assert!(
            line.contains(kernels) && !line.contains("voluntary"),
            "{line}"
        );
    }

    #[test]
    fn a_share_is_about_the_tail_if_few_samples_are_above_its_limit() {
        let of = |text: &str, worth: f64| is_of_tail(text.parse().unwrap(), worth);
        assert_eq!(
            [0.95, 0.9995, 1.0].map(|worth| of("<1ms", worth)),
            [false, true, false]
        );
        assert!(of("max", 5e6) && !of("mean", 5e3) && !of("p99.999", 5e3));
    }

    #[test]
    fn a_cause_is_that_of_the_sample_with_exactly_the_tested_latency() {
        let piece = |start_ns: u64, length_ns: u64, name: &str| StoryPiece {
            start_ns,
            length_ns,
            component: Component::Switch,
            cpu: 0,
            holder: HolderFacts {
                cause: Cause::KernelCode,
                name: name.to_owned(),
                priority: None,
                work: None,
                sender: None,
                known: "seen",
                or: None,
            },
            stack: Vec::new(),
            ended: Vec::new(),
        };
        let story = |latency_ns: u64, holder: &str| SampleStory {
            probe: "usleep".to_owned(),
            series_cpu: None,
            cpu: 0,
            due_ns: Nanos::ZERO,
            since_start_ns: Nanos::ZERO,
            phase: None,
            waker: None,
            latency_ns,
            is_switch_seen: true,
            pieces: vec![
                piece(0, 2_000, "timer"),
                piece(2_000, latency_ns - 2_000, holder),
            ],
            executed: None,
        };
        let stories = [story(5_000, "other"), story(582_000, "tardy-load-io")];
        let found = cause(582_000.0, &stories).unwrap();
        assert!(
            found.starts_with("580 us of 582 us, ") && found.contains("tardy-load-io"),
            "{found}"
        );
        assert_eq!(cause(582_001.0, &stories), None);
    }
}
