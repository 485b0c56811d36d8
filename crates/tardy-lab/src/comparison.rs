//! The results of an experiment: the latencies of each variant and phase over all replicas, the
//! runs that failed, and whether repeated runs gave equal samples.
//!
//! A deterministic run is one sample of a kernel's behaviour, so variants are compared over all
//! replicas.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use tardy_core::units::Nanos;
use tardy_outside::census::{self, Census};
use tardy_outside::kind::Kind;
use tardy_results::summary::model::{Summary, outside_of_loads};

use super::digest::Digest;
use super::experiment::{Outcome, Repetition};
use super::machine::Accelerator;
use super::provenance::Provenance;
use super::variant::Variant;

/// The results of all variants, side by side.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// A sentence that explains to the reader what the figures mean.
    pub meaning: String,
    /// Number of replicas.
    pub replicas: u32,
    /// Time between two wake-ups of the first probe. A delay shorter than this time may stay
    /// unseen.
    pub period_ns: Option<Nanos>,
    /// The variants in the order of the command line.
    pub variants: Vec<VariantResult>,
}

#[derive(Debug, Clone, Serialize)]
pub struct VariantResult {
    /// The measured variant.
    pub variant: Variant,
    /// One run for each replica.
    pub runs: Vec<RunResult>,
    /// The result of each phase and probe, over all replicas.
    pub phases: Vec<PhaseResult>,
    /// Phases that should be under load, but in which a run has no sample while the load worked.
    pub without_samples: Vec<String>,
    /// The largest latency of each probe in any whole run. Leaves out probes whose largest latency
    /// is in one of the `phases`. The latencies listed here occurred when no load was working, for
    /// example between two phases.
    pub in_no_phase: Vec<LargestOfProbe>,
}

/// The largest latency of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LargestOfProbe {
    /// Name of the probe.
    pub probe: String,
    /// The latency.
    pub max_ns: Nanos,
    /// A text that states when the latency occurred. No load was working at that time.
    pub place: String,
}

/// The result of one guest.
#[derive(Debug, Clone, Serialize)]
pub struct RunResult {
    /// Number of the replica.
    pub replica: u32,
    /// Run folder of the guest.
    pub folder: PathBuf,
    /// Digest of the inputs; absent if the run failed.
    pub input_digest: Option<Digest>,
    /// Digest of the samples; absent when there are none.
    pub sample_digest: Option<Digest>,
    /// Why the run or its repetition failed, or why the run cannot be read; otherwise absent.
    pub failure: Option<String>,
    /// Whether a second run had the same samples; absent without a second run.
    pub repeated: Option<bool>,
    /// The guest's clock when the run ended. This time divided by the time of one instruction is an
    /// upper bound on the number of executed instructions.
    pub virtual_ns: Option<Nanos>,
    /// Instructions executed since boot: the clock minus the kernel's idle time, exact to some
    /// millions; absent if the clock does not count instructions.
    pub instructions: Option<u64>,
    /// Wall time on the host in seconds; if the run was repeated, both runs together.
    pub wall_s: f64,
    /// Time on the host until the guest resumed from its snapshot, in ms; absent if the guest
    /// booted.
    pub restore_ms: Option<u64>,
}

/// The result of one probe in one phase, over all replicas.
#[derive(Debug, Clone, Serialize)]
pub struct PhaseResult {
    pub phase: String,
    pub loads: Vec<String>,
    pub probe: String,
    /// Number of samples in all runs together.
    pub samples: u64,
    /// Each run has a median latency; this is the median of these values over the replicas.
    pub median_ns: Nanos,
    /// Each run has a 99th percentile; this is the median of these values over the replicas.
    pub p99_ns: Nanos,
    /// Each run has a 99.9th percentile; this is the median of these values over the replicas.
    pub p999_ns: Nanos,
    /// The largest latency of each run, in the order of the replicas.
    pub max_of_runs_ns: Vec<Nanos>,
    /// Median of `max_of_runs_ns`.
    pub max_median_ns: Nanos,
    /// Maximum of `max_of_runs_ns`.
    pub max_ns: Nanos,
    /// The length of the longest section in this phase, for each run that was watched. A section is
    /// an interval in which no other task could run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub longest_section_of_runs_ns: Vec<Nanos>,
}

impl PhaseResult {
    /// Returns the text that represents the phase in tables. If the phase has exactly one load,
    /// this is the load; otherwise, it is the name of the phase.
    #[must_use]
    pub fn label(&self) -> String {
        label(&self.phase, &self.loads)
    }

    /// Returns the maximum of `longest_section_of_runs_ns`.
    #[must_use]
    pub fn longest_section_ns(&self) -> Option<Nanos> {
        self.longest_section_of_runs_ns.iter().copied().max()
    }
}

fn label(phase: &str, loads: &[String]) -> String {
    match loads {
        [load] => load.clone(),
        _ => phase.to_owned(),
    }
}

/// The result of one probe in one phase of one run.
struct Part {
    phase: String,
    loads: Vec<String>,
    probe: String,
    samples: u64,
    median_ns: i64,
    p99_ns: i64,
    p999_ns: i64,
    max_ns: i64,
    longest_section_ns: Option<Nanos>,
}

impl Part {
    /// Sets `longest_section_ns` to the length of the longest section in the part's phase.
    fn with_section(mut self, census: Option<&Census>) -> Self {
        let label = label(&self.phase, &self.loads);
        let group =
            census.and_then(|census| census.groups.iter().find(|group| group.load == label));
        self.longest_section_ns = group.map(|group| group.kinds[Kind::Blocked.index()].longest_ns);
        self
    }
}

impl Comparison {
    /// Reads each run with `summarize`. A run that cannot be read counts as failed.
    #[must_use]
    pub fn new(
        meaning: &str,
        variants: &[Variant],
        outcomes: &[Outcome],
        summarize: &dyn Fn(&Outcome) -> Result<Option<Summary>, String>,
    ) -> Self {
        let mut period_ns = None;
        let mut result = |(index, variant): (usize, &Variant)| {
            let mut runs = Vec::new();
            let (mut parts, mut without_samples) = (Vec::new(), Vec::new());
            let mut of_whole_runs = Vec::new();
            for outcome in outcomes.iter().filter(|outcome| outcome.variant == index) {
                let summary = if outcome.result.is_ok() {
                    summarize(outcome)
                } else {
                    Ok(None)
                };
                runs.push(run_result(outcome, summary.as_ref().err()));
                let probe = summary
                    .as_ref()
                    .ok()
                    .and_then(|summary| summary.as_ref()?.probes.first());
                period_ns = period_ns.or_else(|| {
                    probe
                        .filter(|probe| !probe.has_no_period)
                        .map(|probe| probe.period_ns)
                });
                let summary = summary.ok().flatten();
                // If a run was not watched, there is no census of its sections.
                let census = census::census(&outcome.folder).ok();
                parts.extend(
                    summary
                        .iter()
                        .flat_map(parts_of)
                        .map(|part| part.with_section(census.as_ref())),
                );
                without_samples.extend(summary.iter().flat_map(without_samples_of));
                of_whole_runs.extend(summary.iter().flat_map(largest_of));
            }
            VariantResult {
                variant: variant.clone(),
                runs,
                in_no_phase: in_no_phase(&of_whole_runs, &parts),
                phases: over_ensemble(&parts),
                without_samples,
            }
        };
        let replicas = outcomes
            .iter()
            .map(|outcome| outcome.replica + 1)
            .max()
            .unwrap_or(0);
        let variants = variants.iter().enumerate().map(&mut result).collect();
        Self {
            meaning: meaning.to_owned(),
            replicas,
            period_ns,
            variants,
        }
    }
}

pub(super) fn run_result(outcome: &Outcome, unreadable: Option<&String>) -> RunResult {
    let provenance = outcome.result.as_ref().ok();
    let failure = outcome
        .result
        .as_ref()
        .err()
        .map(|failure| failure.cause.to_string());
    let failure = match &outcome.repetition {
        Some(Repetition::Failed(failure)) => Some(format!("the second run: {failure}")),
        _ => failure,
    };
    let repeated = match &outcome.repetition {
        None => None,
        Some(Repetition::Same) => Some(true),
        Some(Repetition::Different(_) | Repetition::Failed(_)) => Some(false),
    };
    RunResult {
        replica: outcome.replica,
        folder: outcome.folder.clone(),
        input_digest: provenance.map(|provenance| provenance.input_digest.clone()),
        sample_digest: provenance.and_then(|provenance| provenance.sample_digest.clone()),
        failure: failure.or_else(|| unreadable.cloned()),
        repeated,
        virtual_ns: provenance.map(|provenance| provenance.guest.ended_at),
        instructions: provenance.and_then(instructions),
        wall_s: outcome.wall.as_secs_f64(),
        restore_ms: provenance.and_then(|provenance| provenance.restore_ms),
    }
}

fn instructions(provenance: &Provenance) -> Option<u64> {
    let machine = &provenance.inputs.machine;
    let busy = provenance
        .guest
        .ended_at
        .0
        .checked_sub(provenance.guest.idle?.0)?;
    let count = u64::try_from(busy / machine.instruction_shift.per_instruction().get()).ok()?;
    (machine.accelerator == Accelerator::Tcg).then_some(count)
}

fn parts_of(summary: &Summary) -> Vec<Part> {
    let mut parts = Vec::new();
    for phase in &summary.phases {
        for (probe, numbers) in &phase.probes {
            let Some(numbers) = numbers else { continue };
            let of = |probability: f64| {
                numbers
                    .percentiles
                    .iter()
                    .find(|percentile| percentile.probability == probability)
            };
            parts.push(Part {
                phase: phase.name.clone(),
                loads: phase.loads.clone(),
                probe: probe.clone(),
                samples: numbers.samples,
                median_ns: of(0.5).map_or(numbers.min_ns, |median| median.value_ns),
                p99_ns: of(0.99).map_or(numbers.max_ns, |percentile| percentile.value_ns),
                p999_ns: of(0.999).map_or(numbers.max_ns, |percentile| percentile.value_ns),
                max_ns: numbers.max_ns,
                longest_section_ns: None,
            });
        }
    }
    parts
}

fn without_samples_of(summary: &Summary) -> impl Iterator<Item = String> {
    let silent = summary.phases.iter().filter(|phase| {
        !phase.loads.is_empty() && phase.probes.iter().all(|(_, numbers)| numbers.is_none())
    });
    silent.map(|phase| label(&phase.name, &phase.loads))
}

fn largest_of(summary: &Summary) -> impl Iterator<Item = LargestOfProbe> {
    summary.probes.iter().filter_map(|probe| {
        let numbers = probe.numbers.as_ref()?;
        Some(LargestOfProbe {
            probe: probe.probe.clone(),
            max_ns: Nanos(numbers.max_ns),
            place: outside_of_loads(&summary.phases, numbers),
        })
    })
}

/// Returns the largest latency that each probe had in any whole run. Leaves out probes whose
/// largest latency is in one of the `parts`.
fn in_no_phase(of_runs: &[LargestOfProbe], parts: &[Part]) -> Vec<LargestOfProbe> {
    let mut largest: BTreeMap<&String, &LargestOfProbe> = BTreeMap::new();
    for of_run in of_runs {
        let max = largest.entry(&of_run.probe).or_insert(of_run);
        if of_run.max_ns > max.max_ns {
            *max = of_run;
        }
    }
    let is_in_a_part = |largest: &LargestOfProbe| {
        parts
            .iter()
            .any(|part| part.probe == largest.probe && part.max_ns >= largest.max_ns.get())
    };
    let outside = largest
        .into_values()
        .filter(|largest| !is_in_a_part(largest));
    outside.cloned().collect()
}

/// Groups the results of all runs by phase and probe, in the order in which these first appear.
fn over_ensemble(parts: &[Part]) -> Vec<PhaseResult> {
    let mut results: Vec<PhaseResult> = Vec::new();
    for part in parts {
        if results.iter().any(|result| {
            result.phase == part.phase && result.loads == part.loads && result.probe == part.probe
        }) {
            continue;
        }
        let alike: Vec<&Part> = parts
            .iter()
            .filter(|other| {
                other.phase == part.phase && other.loads == part.loads && other.probe == part.probe
            })
            .collect();
        let maxima: Vec<i64> = alike.iter().map(|part| part.max_ns).collect();
        results.push(PhaseResult {
            phase: part.phase.clone(),
            loads: part.loads.clone(),
            probe: part.probe.clone(),
            samples: alike.iter().map(|part| part.samples).sum(),
            median_ns: Nanos(median(alike.iter().map(|part| part.median_ns).collect())),
            p99_ns: Nanos(median(alike.iter().map(|part| part.p99_ns).collect())),
            p999_ns: Nanos(median(alike.iter().map(|part| part.p999_ns).collect())),
            max_ns: Nanos(maxima.iter().copied().max().unwrap_or_default()),
            max_median_ns: Nanos(median(maxima.clone())),
            max_of_runs_ns: maxima.into_iter().map(Nanos).collect(),
            longest_section_of_runs_ns: alike
                .iter()
                .filter_map(|part| part.longest_section_ns)
                .collect(),
        });
    }
    results
}

/// Returns the lower median, which is always one of the values.
fn median(mut values: Vec<i64>) -> i64 {
    values.sort_unstable();
    values
        .get(values.len().saturating_sub(1) / 2)
        .copied()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(phase: &str, loads: &[&str], max_ns: i64) -> Part {
        let loads = loads.iter().map(|load| (*load).to_owned()).collect();
        Part {
            phase: phase.into(),
            loads,
            probe: "cyclic".into(),
            samples: 10,
            median_ns: max_ns / 2,
            p99_ns: max_ns - 2,
            p999_ns: max_ns - 1,
            max_ns,
            longest_section_ns: None,
        }
    }

    #[test]
    fn phases_are_gathered_over_the_ensemble_in_their_order() {
        let parts = [
            part("idle", &[], 20),
            part("load", &["io"], 900),
            part("idle", &[], 30),
            part("load", &["io"], 500),
            part("idle", &[], 10),
            part("load", &["io"], 700),
        ];
        let results = over_ensemble(&parts);
        let labels: Vec<String> = results.iter().map(PhaseResult::label).collect();
        assert_eq!(labels, ["idle", "io"]);
        assert_eq!(
            (
                results[1].samples,
                results[1].max_ns,
                results[1].max_median_ns
            ),
            (30, Nanos(900), Nanos(700))
        );
        assert_eq!(results[0].max_of_runs_ns, [Nanos(20), Nanos(30), Nanos(10)]);
        assert_eq!(
            (results[0].p99_ns, results[0].p999_ns),
            (Nanos(18), Nanos(19))
        );
    }

    #[test]
    fn the_median_is_a_value_that_occurred() {
        assert_eq!(
            (median(vec![3, 1, 2]), median(vec![4, 1]), median(vec![])),
            (2, 1, 0)
        );
    }
}
