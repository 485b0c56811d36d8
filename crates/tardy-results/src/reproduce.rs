//! Tests the claims of papers. Each claim has a rule about the values of quantities. The values are
//! computed from the runs of the papers' experiments.
//!
//! Reports of `reproduce` contain no time and no path, so two invocations in the lab write
//! identical bytes.

pub mod culprits;
pub mod measured;
pub mod traced;

use std::path::Path;

use serde::Serialize;
use tardy_papers::claim::{Claim, Paper, Reason, TableBeside, Value};
use tardy_papers::experiment::{Extent, Place};
use tardy_papers::published;
use tardy_papers::quantity::{EACH, Quantity, Unit};

use culprits::{Culprit, culprits};
use measured::{PaperRuns, Refusal};

/// The results of all papers.
#[derive(Debug, Clone, Serialize)]
pub struct Reproduction {
    pub place: Place,
    pub extent: Extent,
    pub papers: Vec<PaperResult>,
    /// How many claims are confirmed, how many are not, and how many cannot be tested.
    pub counts: Counts,
    pub cells: CellCounts,
}

/// How many cells the published tables have, and for how many we have a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct CellCounts {
    /// Cells in which the paper printed a number.
    pub published: usize,
    /// Number of these cells for which we have a value to print next to the published one. For each
    /// of the other cells, the cell's table states why our value is missing.
    pub with_ours: usize,
}

/// The number of claims with each outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    pub hold: usize,
    pub do_not_hold: usize,
    pub not_tested: usize,
}

/// The results for one paper.
#[derive(Debug, Clone, Serialize)]
pub struct PaperResult {
    pub name: &'static str,
    pub title: String,
    pub experiments: Vec<ExperimentResult>,
    pub claims: Vec<ClaimResult>,
    pub tables: Vec<TableResult>,
}

/// A command that measures for a paper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExperimentCommand {
    /// Path of the command's runs, relative to the folder of the reproduction.
    pub folder: String,
    /// The command without `--out`.
    pub words: Vec<String>,
}

/// An experiment with its results.
#[derive(Debug, Clone, Serialize)]
pub struct ExperimentResult {
    pub name: String,
    pub about: String,
    /// The command that runs the experiment; `None` if it cannot run here.
    pub command: Option<String>,
    /// The measured kernels, each with its number of replicas.
    pub kernels: Vec<(String, usize)>,
    /// How the runs deviate from the experiment; for example, loads did not run or folders cannot
    /// be read.
    pub remarks: Vec<String>,
    /// The loads that ran.
    pub loads: Vec<LoadAmount>,
    /// The causes of late samples, if the experiment asks for them.
    pub culprits: Vec<Culprit>,
}

/// The amount of a load's work in an experiment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LoadAmount {
    /// The load's label in the plan.
    pub load: String,
    /// The smallest number of operations that the load did in any of the runs.
    pub least_operations: u64,
}

/// The outcome of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Outcome {
    /// The rule holds in every replica, and on every kernel to which it applies.
    Holds,
    DoesNotHold,
    /// The claim cannot be tested here.
    NotTested {
        why: String,
    },
}

/// A claim, and the outcome of its test.
#[derive(Debug, Clone, Serialize)]
pub struct ClaimResult {
    pub id: String,
    pub place: String,
    pub words: String,
    pub experiment: String,
    /// The rule, as written in the table of claims.
    pub rule: String,
    pub values: Vec<ValueResult>,
    /// Whether the numbers in the paper satisfy the rule; absent if the paper did not print them.
    pub holds_in_the_paper: Option<bool>,
    /// Number of tests of the rule: one for each replica and each kernel to which the rule applies.
    pub cases: usize,
    /// Number of tests in which the rule held.
    pub held: usize,
    #[serde(flatten)]
    pub outcome: Outcome,
    pub note: Option<String>,
    /// Why the claim does not hold; absent if it holds or could not be tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

/// A value in a rule.
#[derive(Debug, Clone, Serialize)]
pub struct ValueResult {
    pub name: String,
    /// The value as printed in the paper.
    pub published: Option<String>,
    /// Our values: the median, the smallest and the largest value over all tests. Times are in ns,
    /// and shares are between 0 and 1. Absent if we have no value.
    pub ours: Option<[f64; 3]>,
    pub unit: Unit,
}

/// A published table with our values.
#[derive(Debug, Clone, Serialize)]
pub struct TableResult {
    /// Where the table was published.
    pub source: &'static str,
    pub columns: Vec<String>,
    pub rows: Vec<TableRow>,
    /// Explains why our values are missing, or how a reader must interpret them.
    pub note: Option<String>,
    /// Reasons why our value is missing in some cells although the experiment was measured.
    pub missing: Vec<String>,
}

/// A row with the published and our values.
#[derive(Debug, Clone, Serialize)]
pub struct TableRow {
    /// Name of the row in the paper.
    pub published_name: String,
    /// The measurement of this tool that corresponds to the row.
    pub our_name: String,
    /// The published value, and our value, which is the median of the replicas.
    pub cells: Vec<(Option<String>, Option<String>)>,
}

/// Tests the claims of `papers` with the runs of their experiments, which are in folders below
/// `folder`.
#[must_use]
pub fn reproduce(
    papers: &[Paper],
    folder: &Path,
    place: Place,
    extent: Extent,
    replicas: u32,
) -> Reproduction {
    let papers: Vec<PaperResult> = papers
        .iter()
        .map(|paper| of_paper(paper, folder, place, extent, replicas))
        .collect();
    let mut counts = Counts::default();
    for claim in papers.iter().flat_map(|paper| &paper.claims) {
        match claim.outcome {
            Outcome::Holds => counts.hold += 1,
            Outcome::DoesNotHold => counts.do_not_hold += 1,
            Outcome::NotTested { .. } => counts.not_tested += 1,
        }
    }
    let tables = papers.iter().flat_map(|paper| &paper.tables);
    let cells = tables
        .flat_map(|table| &table.rows)
        .flat_map(|row| &row.cells)
        .filter(|(published, _)| published.is_some());
    let cells = cells.fold(CellCounts::default(), |counts, (_, ours)| CellCounts {
        published: counts.published + 1,
        with_ours: counts.with_ours + usize::from(ours.is_some()),
    });
    Reproduction {
        place,
        extent,
        papers,
        counts,
        cells,
    }
}

fn of_paper(
    paper: &Paper,
    folder: &Path,
    place: Place,
    extent: Extent,
    replicas: u32,
) -> PaperResult {
    let measured = PaperRuns::read(paper, folder);
    let experiment = |experiment: &tardy_papers::experiment::Experiment| ExperimentResult {
        name: experiment.name.clone(),
        about: experiment.about.clone(),
        command: experiment
            .command(place, extent, replicas)
            .map(|words| typed(&words)),
        kernels: measured.kernels(&experiment.name),
        remarks: measured.remarks(&experiment.name),
        loads: measured.loads(&experiment.name),
        culprits: if experiment.is_for_culprits {
            culprits(&PaperRuns::first_runs(&experiment.name, folder))
        } else {
            Vec::new()
        },
    };
    PaperResult {
        name: paper.name,
        title: paper.title.clone(),
        experiments: paper.experiments.iter().map(experiment).collect(),
        claims: paper
            .claims
            .iter()
            .map(|claim| of_claim(claim, &measured, place, folder))
            .collect(),
        tables: paper
            .tables
            .iter()
            .map(|table| of_table(table, &measured, place))
            .collect(),
    }
}

impl ExperimentCommand {
    /// Returns the folder and the command in one line.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{}: {}", self.folder, typed(&self.words))
    }
}

/// Returns the command line as a user types it, quoted for a shell.
#[must_use]
pub fn typed(words: &[String]) -> String {
    let quoted = |word: &String| {
        if word.contains([' ', '<', '*']) {
            format!("'{word}'")
        } else {
            word.clone()
        }
    };
    format!(
        "tardy {}",
        words.iter().map(quoted).collect::<Vec<_>>().join(" ")
    )
}

fn of_claim(claim: &Claim, measured: &PaperRuns, place: Place, folder: &Path) -> ClaimResult {
    let cannot = match place {
        Place::Lab => &claim.lab,
        Place::Local => &claim.local,
    };
    let tested = match cannot {
        Some(why) => Err(Refusal(why.clone())),
        None => test(claim, measured),
    };
    let (cases, why) = match tested {
        Ok(cases) => (cases, None),
        Err(Refusal(why)) => (Vec::new(), Some(why)),
    };
    let held = cases.iter().filter(|case| case.holds).count();
    let outcome = match why {
        Some(why) => Outcome::NotTested { why },
        None if held == cases.len() => Outcome::Holds,
        None => Outcome::DoesNotHold,
    };
    let traced = || {
        let values = &cases.first()?.values;
        traced::reason(claim, values, measured, folder).map(Reason::Traced)
    };
    // The table's traces are of the lab's guests for amd64.
    let is_traced_there = place == Place::Lab && measured.is_on_amd64(&claim.experiment);
    let of_table = claim
        .reason
        .clone()
        .filter(|reason| is_traced_there || !matches!(reason, Reason::Traced(_)));
    let reason = || of_table.or_else(traced).unwrap_or(Reason::Unknown);
    let reason = (outcome == Outcome::DoesNotHold).then(reason);
    let value = |(index, value): (usize, &Value)| ValueResult {
        name: value.name.clone(),
        published: value.paper.as_ref().map(|cell| cell.printed.clone()),
        ours: middle(cases.iter().map(|case| case.values[index]).collect()),
        unit: value.ours.unit(place),
    };
    ClaimResult {
        id: claim.id.clone(),
        place: claim.place.clone(),
        words: claim.words.clone(),
        experiment: claim.experiment.clone(),
        rule: claim.rule.to_string(),
        values: claim.values.iter().enumerate().map(value).collect(),
        holds_in_the_paper: claim.holds_in_the_paper(),
        cases: cases.len(),
        held,
        outcome,
        note: claim.note.clone(),
        reason,
    }
}

/// One test of a rule: on one replica and, if the rule is applied to each kernel separately, on one
/// kernel.
struct Case {
    holds: bool,
    /// Our values, in the same order as the values of the claim.
    values: Vec<f64>,
}

fn test(claim: &Claim, measured: &PaperRuns) -> Result<Vec<Case>, Refusal> {
    let is_of_each = claim.values.iter().any(|value| value.ours.kernel == EACH);
    let kernels: Vec<Option<String>> = if is_of_each {
        measured
            .kernels(&claim.experiment)
            .into_iter()
            .map(|(kernel, _)| Some(kernel))
            .collect()
    } else {
        vec![None]
    };
    let mut cases = Vec::new();
    for kernel in &kernels {
        let quantities: Vec<Quantity> = claim
            .values
            .iter()
            .map(|value| with_kernel(&value.ours, kernel.as_deref()))
            .collect();
        let replicas = quantities
            .iter()
            .map(|quantity| measured.replicas(quantity, &claim.experiment))
            .min()
            .unwrap_or(0);
        // If there is no replica, the code still tries to read the first one: the error then states
        // why there is none.
        for replica in 0..replicas.max(1) {
            let values: Vec<f64> = quantities
                .iter()
                .map(|quantity| measured.value(quantity, &claim.experiment, replica))
                .collect::<Result<_, _>>()?;
            let of_name = |name: &str| {
                claim
                    .values
                    .iter()
                    .position(|value| value.name == name)
                    .map(|index| values[index])
            };
            let holds = claim
                .rule
                .holds(&of_name)
                .ok_or_else(|| Refusal("a value of the rule is missing".to_owned()))?;
            cases.push(Case { holds, values });
        }
    }
    if cases.is_empty() {
        Err(Refusal(format!("there is no run of {}", claim.experiment)))
    } else {
        Ok(cases)
    }
}

fn with_kernel(quantity: &Quantity, kernel: Option<&str>) -> Quantity {
    match kernel {
        Some(kernel) if quantity.kernel == EACH => Quantity {
            kernel: kernel.to_owned(),
            ..quantity.clone()
        },
        _ => quantity.clone(),
    }
}

/// Returns the lower median (always one of the values), the smallest value and the largest value.
fn middle(mut values: Vec<f64>) -> Option<[f64; 3]> {
    values.sort_by(f64::total_cmp);
    Some([
        *values.get(values.len().checked_sub(1)? / 2)?,
        *values.first()?,
        *values.last()?,
    ])
}

fn of_table(table: &TableBeside, measured: &PaperRuns, place: Place) -> TableResult {
    let mut missing: Vec<String> = Vec::new();
    let mut cell = |row: &str, kernel: &str, column: &str, rest: &str| {
        let published = table.published(row, column).map(|cell| cell.printed);
        let quantity = table
            .quantity(kernel, rest)
            .expect("a test parses every cell");
        // If we have no counterpart for the cell, the table's note gives the reason.
        let ours = quantity.and_then(|quantity| {
            let replicas = measured.replicas(&quantity, &table.experiment).max(1);
            let found: Vec<Result<f64, Refusal>> = (0..replicas)
                .map(|replica| measured.value(&quantity, &table.experiment, replica))
                .collect();
            let values = found
                .iter()
                .filter_map(|value| value.as_ref().ok().copied());
            if let Some([median, ..]) = middle(values.collect()) {
                return Some(quantity.unit(place).show(median));
            }
            if let (Some(Err(Refusal(why))), true) = (found.first(), published.is_some())
                && !missing.contains(why)
            {
                missing.push(why.clone());
            }
            None
        });
        (published, ours)
    };
    let row = |(name, kernel): &(String, String)| TableRow {
        published_name: name.replace(',', " "),
        our_name: kernel.clone(),
        cells: table
            .columns
            .iter()
            .map(|(column, rest)| cell(name, kernel, column, rest))
            .collect(),
    };
    let rows = table.rows.iter().map(row).collect();
    TableResult {
        source: published::find(&table.published).map_or("", published::Table::source),
        columns: table
            .columns
            .iter()
            .map(|(column, _)| column.clone())
            .collect(),
        rows,
        note: table.note.clone(),
        missing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_values_occurred() {
        assert_eq!(middle(vec![3.0, 1.0, 2.0]), Some([2.0, 1.0, 3.0]));
        assert_eq!(middle(vec![4.0, 1.0]), Some([1.0, 1.0, 4.0]));
        assert_eq!(middle(vec![]), None);
    }

    #[test]
    fn without_a_run_nothing_is_said_of_any_claim_but_why() {
        let nothing = tempfile::tempdir().unwrap();
        let papers = tardy_papers::claim::papers();
        for place in [Place::Local, Place::Lab] {
            let found = reproduce(&papers, nothing.path(), place, Extent::Quick, 1);
            assert_eq!((found.counts.hold, found.counts.do_not_hold), (0, 0));
            assert!(found.counts.not_tested >= 40);
            // For each cell without our value, there is a reason.
            assert!(found.cells.published > 300 && found.cells.with_ours == 0);
            for table in found.papers.iter().flat_map(|paper| &paper.tables) {
                assert!(
                    table.note.is_some() || !table.missing.is_empty(),
                    "{}",
                    table.source
                );
            }
            for claim in found.papers.iter().flat_map(|paper| &paper.claims) {
                let Outcome::NotTested { why } = &claim.outcome else {
                    panic!("{claim:?}")
                };
                assert!(
                    !why.is_empty() && claim.values.iter().all(|value| value.ours.is_none()),
                    "{claim:?}"
                );
            }
        }
    }
}
