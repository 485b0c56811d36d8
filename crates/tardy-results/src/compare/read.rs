//! Reads run folders and compares them; the result is a [`Comparison`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tardy_core::units::Nanos;
use tardy_core::warning::{Severity, Warning};
use tardy_run::guest_start::GuestStart;

use super::alike::one_measurement;
use super::facts;
use super::group::{Key, RunGroup, groups};
use super::judge::{settle, table};
use super::model::{
    CandidateComparison, Comparison, Method, Outcome, RUNS_MIN, RunFacts, Settings, SideSummary,
    SpreadSource, Table,
};
use super::side::{CompareError, RunSide, Side};
use super::verdict::of_tables;
use crate::summary::model::ProbeSummary;

/// Maximum number of names that a warning lists. If there are more, their number follows.
const NAMES_SHOWN: usize = 4;

/// The samples of a side's runs, by the key under which they are compared.
type Groups = BTreeMap<Key, Vec<RunGroup>>;

/// Compares `candidates` with `base`. Each side is a run or a folder of runs.
///
/// # Errors
/// Fails with a [`CompareError`] if a run cannot be read, or cannot be compared with the others.
pub fn compare(
    base: &Path,
    candidates: &[PathBuf],
    settings: &Settings,
) -> Result<Comparison, CompareError> {
    let base = Side::read(base, settings.window)?;
    let sides = candidates
        .iter()
        .map(|path| Side::read(path, settings.window))
        .collect::<Result<Vec<Side>, _>>()?;
    compare_sides(&base, sides, settings)
}

/// Compares each of `sides` with `base`.
///
/// # Errors
/// Fails as [`compare`] does.
pub(super) fn compare_sides(
    base: &Side,
    sides: Vec<Side>,
    settings: &Settings,
) -> Result<Comparison, CompareError> {
    if !settings.is_across_clocks {
        one_clock(
            base.runs
                .iter()
                .chain(sides.iter().flat_map(|side| &side.runs)),
        )?;
    }
    std::iter::once(base)
        .chain(&sides)
        .try_for_each(one_measurement)?;
    let needs_blocks = settings.between_runs.is_some()
        || base.runs.len() < RUNS_MIN
        || sides.iter().any(|side| side.runs.len() < RUNS_MIN);
    let base_groups = groups_of(base, settings, needs_blocks)?;
    let mut compared = Vec::new();
    for side in sides {
        compared.push(candidate(
            base,
            &base_groups,
            &side,
            settings,
            needs_blocks,
        )?);
    }
    Ok(Comparison {
        verdict: Outcome::of_all(compared.iter().map(|candidate| candidate.verdict))
            .unwrap_or(Outcome::Inconclusive),
        settings: settings.clone(),
        base: summary(base),
        candidates: compared,
    })
}

/// Refuses runs whose times are from different clocks.
///
/// # Errors
/// Fails with [`CompareError::Clocks`] if the clocks differ.
pub fn one_clock<'a>(runs: impl Iterator<Item = &'a RunSide>) -> Result<(), CompareError> {
    let mut first: Option<&RunSide> = None;
    for run in runs {
        let base = *first.get_or_insert(run);
        if base.record.clock != run.record.clock {
            return Err(CompareError::clocks(
                (&base.folder, base.record.clock),
                (&run.folder, run.record.clock),
            ));
        }
    }
    Ok(())
}

fn groups_of(side: &Side, settings: &Settings, needs_blocks: bool) -> Result<Groups, CompareError> {
    let mut all = Groups::new();
    for run in &side.runs {
        for (key, mut group) in groups(run, settings.block)? {
            if !needs_blocks {
                group.blocks = Vec::new();
            }
            all.entry(key).or_default().push(group);
        }
    }
    if let Some(load) = load_of_phase(side, settings)? {
        all.retain(|key, _| key.load.as_deref() == Some(load));
    }
    Ok(all)
}

/// Returns the load by which the groups of the requested phase are found. Returns `None` if the
/// groups of whole runs are wanted: because no phase was requested, or because the runs have only
/// this phase. Such runs have no separate groups for the phase.
///
/// # Errors
/// Fails with [`CompareError::NoPhase`] if no run of the side has the phase.
pub(super) fn load_of_phase<'a>(
    side: &Side,
    settings: &'a Settings,
) -> Result<Option<&'a str>, CompareError> {
    let Some(phase) = settings.phase.as_deref() else {
        return Ok(None);
    };
    let has: BTreeSet<&str> = side
        .runs
        .iter()
        .flat_map(|run| &run.record.phases)
        .map(|phase| phase.name.as_str())
        .collect();
    if !has.contains(phase) {
        return Err(CompareError::NoPhase {
            side: side.name.clone(),
            phase: phase.to_owned(),
            has: has.into_iter().collect::<Vec<_>>().join(", "),
        });
    }
    Ok((has.len() > 1).then_some(phase))
}

/// If each side has only one probe, and both measure the same quantity under different names, like
/// cyclictest and `cyclic`, pairs the two. Also returns a warning that the names differ.
fn beside(base: &Groups, own: Groups) -> (Groups, Option<String>) {
    let only = |groups: &Groups| -> Option<Key> {
        let mut keys = groups
            .keys()
            .map(|key| Key {
                load: None,
                ..key.clone()
            })
            .collect::<BTreeSet<Key>>()
            .into_iter();
        keys.next().filter(|_| keys.next().is_none())
    };
    match (only(base), only(&own)) {
        (Some(one), Some(other))
            if one.probe != other.probe
                && one.quantity == other.quantity
                && one.unit == other.unit =>
        {
            let renamed = own
                .into_iter()
                .map(|(key, groups)| {
                    (
                        Key {
                            probe: one.probe.clone(),
                            ..key
                        },
                        groups,
                    )
                })
                .collect();
            (
                renamed,
                Some(format!(
                    "{} is compared with {}: a difference may come from the different ways of \
                     measuring",
                    other.probe, one.probe
                )),
            )
        }
        _ => (own, None),
    }
}

fn candidate(
    base: &Side,
    base_groups: &Groups,
    side: &Side,
    settings: &Settings,
    needs_blocks: bool,
) -> Result<CandidateComparison, CompareError> {
    let (own, other_probe) = beside(base_groups, groups_of(side, settings, needs_blocks)?);
    // If the user named a phase, a run that has only this phase is paired with the phase of the
    // same name in another run.
    let counterpart = |key: &Key| {
        own.get(key)
            .or_else(|| settings.phase.as_ref().and_then(|_| of_kind(&own, key)))
    };
    let shared: Vec<_> = base_groups
        .iter()
        .filter_map(|(key, groups)| Some((key, groups, counterpart(key)?)))
        .collect();
    let mut tables: Vec<Table> = shared
        .iter()
        .filter_map(|(key, groups, found)| table(key, groups, found, settings, shared.len()))
        .collect();
    if tables.is_empty() && own.keys().any(|key| base_groups.contains_key(key)) {
        return Err(CompareError::NoDistribution {
            base: base.name.clone(),
            other: side.name.clone(),
        });
    }
    if tables.is_empty() {
        return Err(CompareError::NothingShared {
            base: base.name.clone(),
            base_has: names(base_groups),
            other: side.name.clone(),
            other_has: names(&own),
        });
    }
    settle(&mut tables, settings);
    worst_first(&mut tables);
    let (verdict, reason) = verdict(base, side, &tables);
    Ok(CandidateComparison {
        warnings: other_probe
            .into_iter()
            .chain(warnings(base, side, base_groups, &own, &tables))
            .collect(),
        changed: facts::differences(&base.first().record, &side.first().record),
        side: summary(side),
        verdict,
        reason,
        tables,
    })
}

fn of_kind<'a>(groups: &'a Groups, key: &Key) -> Option<&'a Vec<RunGroup>> {
    groups
        .iter()
        .find(|(other, _)| {
            (&other.probe, &other.quantity, &other.unit) == (&key.probe, &key.quantity, &key.unit)
        })
        .map(|found| found.1)
}

fn names(groups: &Groups) -> String {
    let names: BTreeSet<String> = groups
        .keys()
        .filter(|key| key.load.is_none())
        .map(Key::to_string)
        .collect();
    if names.is_empty() {
        "no sample".to_owned()
    } else {
        names.into_iter().collect::<Vec<_>>().join(", ")
    }
}

fn verdict(base: &Side, side: &Side, tables: &[Table]) -> (Outcome, String) {
    let (seen, reason) = of_tables(tables);
    let (from, to) = (shortcomings(base), shortcomings(side));
    let is_short = !from.is_empty() || !to.is_empty();
    match seen {
        seen if seen.has_worse() && from != to => (
            Outcome::Inconclusive,
            format!(
                "{} by the numbers, but the two sides deviated from their plans in different ways",
                seen.word()
            ),
        ),
        Outcome::Better | Outcome::Equivalent if is_short => (
            Outcome::Inconclusive,
            format!(
                "{} by the numbers, but a degraded or incomplete run cannot support this verdict",
                seen.word()
            ),
        ),
        seen => (seen, reason),
    }
}

/// Sorts the tables: worse first, then mixed, undecided, better and equivalent. Among tables with
/// the same verdict, the one whose 99.9 % quantile grew most comes first.
fn worst_first(tables: &mut [Table]) {
    let rank = |table: &Table| match table.verdict {
        Outcome::Worse => 0,
        Outcome::Mixed => 1,
        Outcome::Inconclusive => 2,
        Outcome::Better => 3,
        Outcome::Equivalent => 4,
    };
    let change = |table: &Table| {
        let high = table.overview.high;
        (high.candidate_ns.max(1.0) / high.base_ns.max(1.0)).ln()
    };
    tables.sort_by(|a, b| {
        rank(a)
            .cmp(&rank(b))
            .then(change(b).total_cmp(&change(a)))
            .then(a.key.cmp(&b.key))
    });
}

/// Returns the kinds of serious warnings about a side's runs.
fn shortcomings(side: &Side) -> BTreeSet<String> {
    let serious = |warning: &&Warning| {
        matches!(
            warning.severity(),
            Severity::Incomplete | Severity::Degraded
        )
    };
    let warnings = side
        .runs
        .iter()
        .flat_map(|run| &run.summary.warnings)
        .filter(serious);
    let kind = |warning: &Warning| {
        serde_json::to_value(warning)
            .ok()
            .and_then(|value| Some(value.get("warning")?.as_str()?.to_owned()))
    };
    warnings.filter_map(kind).collect()
}

pub(super) fn summary(side: &Side) -> SideSummary {
    let facts = |run: &RunSide| RunFacts {
        folder: run.folder.display().to_string(),
        kind: run.record.kind,
        clock: run.record.clock,
        started_realtime_ns: run.record.started.realtime_ns,
        measured_ns: run.summary.measured_ns,
        machine: run.record.machine.one_line(),
        warnings: run
            .summary
            .warnings
            .iter()
            .map(Warning::to_string)
            .collect(),
    };
    SideSummary {
        name: side.name.clone(),
        runs: side.runs.iter().map(facts).collect(),
    }
}

fn warnings(
    base: &Side,
    side: &Side,
    base_groups: &Groups,
    own: &Groups,
    tables: &[Table],
) -> Vec<String> {
    let mut warnings = Vec::new();
    for (which, runs) in [("base", &base.runs), ("new", &side.runs)] {
        for run in runs {
            for warning in run
                .summary
                .warnings
                .iter()
                .filter(|warning| warning.severity() != Severity::Notice)
            {
                warnings.push(format!("{which} ({}): {warning}", run.folder.display()));
            }
        }
    }
    let (from, to) = (base.first(), side.first());
    if from.record.clock != to.record.clock {
        warnings.push(
            "one side has virtual time, which measures lengths of code paths; the other has the \
             real time of a machine"
                .to_owned(),
        );
    }
    let is_traced = |side: &Side| side.runs.iter().any(|run| run.record.tracing.is_some());
    if is_traced(base) != is_traced(side) {
        let which = if is_traced(base) {
            &base.name
        } else {
            &side.name
        };
        warnings.push(format!(
            "only {which} recorded the kernel's trace (--explain): its latencies include the cost \
             of tracing"
        ));
    }
    warnings.extend(different_starts(from, to));
    let periods = |run: &RunSide| -> Vec<String> {
        let worded = |probe: &ProbeSummary| match probe.period_ns {
            _ if probe.has_no_period => probe.probe.clone(),
            Nanos::ZERO => format!("{} with an unknown period", probe.probe),
            period => format!("{} every {}", probe.probe, period.exact()),
        };
        run.summary.probes.iter().map(worded).collect()
    };
    // For a single probe, `beside` already warns about different names, so only the periods are
    // compared here.
    let times = |run: &RunSide| {
        run.summary
            .probes
            .iter()
            .map(|probe| probe.period_ns)
            .collect::<Vec<_>>()
    };
    if periods(from) != periods(to) && (times(from) != times(to) || times(from).len() > 1) {
        warnings.push(format!(
            "the schedules differ: {} against {}",
            periods(from).join(", "),
            periods(to).join(", ")
        ));
    }
    let loads = |run: &RunSide| {
        run.record
            .phases
            .iter()
            .map(|phase| phase.name.clone())
            .collect::<BTreeSet<String>>()
    };
    if loads(from) != loads(to) {
        let list = |run: &RunSide| {
            let names = loads(run).into_iter().collect::<Vec<_>>().join(", ");
            if names.is_empty() {
                "not known".to_owned()
            } else {
                names
            }
        };
        warnings.push(format!(
            "the phases differ ({} against {}): the whole runs are not comparable; compare one \
             phase of both with --phase",
            list(from),
            list(to)
        ));
    }
    for (side, missing) in [
        (&base.name, missing(base_groups, own)),
        (&side.name, missing(own, base_groups)),
    ] {
        if !missing.is_empty() {
            warnings.push(format!(
                "left out, because they are only in {side}: {}",
                few(&missing)
            ));
        }
    }
    if tables
        .iter()
        .any(|table| matches!(table.method, Method::OrderStatistics))
    {
        warnings.push(
            "only histograms are known: intervals are wide, and assume that samples do not cluster"
                .to_owned(),
        );
    }
    warnings.extend(undecided_misses(base, side));
    warnings.extend(about_runs(base, side, tables));
    warnings
}

/// Returns a warning if the file of an import does not show how many samples missed the deadline.
fn undecided_misses(base: &Side, side: &Side) -> Option<String> {
    let is_undecided = |run: &&RunSide| {
        let mut numbers = run
            .summary
            .probes
            .iter()
            .filter_map(|probe| probe.numbers.as_ref());
        numbers.any(|numbers| numbers.misses_between.is_some())
    };
    let run = base.runs.iter().chain(&side.runs).find(is_undecided)?;
    Some(format!(
        "misses are not compared: the imported file of {} does not decide which samples missed \
         the deadline",
        run.folder.display()
    ))
}

/// Returns a note if the runs do not show how much runs of the same side differ from each other.
/// The note states that the difference is exact only for these runs, or that tardy assumes a
/// spread.
fn about_runs(base: &Side, side: &Side, tables: &[Table]) -> Option<String> {
    let of_source = |source: SpreadSource| {
        tables
            .iter()
            .filter_map(|table| table.between_runs)
            .find(|between| between.source == source)
    };
    let count = |side: &Side| {
        if side.runs.len() == 1 {
            "1 run".to_owned()
        } else {
            format!("{} runs", side.runs.len())
        }
    };
    if tables
        .iter()
        .any(|table| matches!(table.method, Method::Exact))
    {
        return Some(
            "one replica per side in virtual time: the difference is exact for these command \
             lines, but other replicas may give a different one"
                .to_owned(),
        );
    }
    let between = of_source(SpreadSource::Documented)?;
    Some(format!(
        "{} against {}: tardy assumes a standard deviation of {} between runs; measure {RUNS_MIN} \
         runs per side to compute it, or set it with --between-runs",
        count(base),
        count(side),
        share(between.share)
    ))
}

/// Formats a share as a percentage.
fn share(share: f64) -> String {
    format!("{} %", (share * 1000.0).round() / 10.0)
}

/// Returns a warning about lab guests that started from different states. The results of such
/// guests differ as much as those of two replicas, even if nothing else differs.
fn different_starts(from: &RunSide, to: &RunSide) -> Option<String> {
    // The starts can be compared only if both runs recorded in which state their guest started.
    let (from, to) = (
        GuestStart::read(&from.folder)?,
        GuestStart::read(&to.folder)?,
    );
    let is_same_guest = from.kernel == to.kernel && from.command_line == to.command_line;
    let words = match (&from.snapshot, &to.snapshot) {
        (Some(one), Some(other)) if is_same_guest && one != other => {
            "the guests started from different snapshots"
        }
        (Some(_), None) | (None, Some(_)) => {
            "one side's guest started from a snapshot, the other's booted"
        }
        _ => return None,
    };
    Some(format!(
        "{words}, which alone may cause a difference; run both sides with --snapshots, or both \
         without"
    ))
}

/// Returns the first names of a list, and the number of further names.
fn few(names: &[String]) -> String {
    let shown = names
        .iter()
        .take(NAMES_SHOWN)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > NAMES_SHOWN {
        format!("{shown} and {} more", names.len() - NAMES_SHOWN)
    } else {
        shown
    }
}

fn missing(groups: &Groups, other: &Groups) -> Vec<String> {
    groups
        .keys()
        .filter(|key| !other.contains_key(key))
        .map(Key::to_string)
        .collect()
}
