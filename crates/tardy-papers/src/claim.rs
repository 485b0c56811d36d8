//! Claims: what a paper states, summarised in our words, and the rule by which each statement is
//! tested.
//!
//! Claims are data. Each rule is also applied to the paper's own numbers: if they broke the rule,
//! it would test something that the paper does not claim. Each published table is stored once,
//! together with its source. A test compares it with the file that was checked against the paper.
//!
//! A claim holds if its rule holds in every replica of the experiment. Claims that do not hold stay
//! in the report, with a note.
//!
//! The report shows each published table completely, even if there are cells for which we have no
//! number. A missing number with its reason is a finding; a missing table is not. Figures are also
//! described by data; `tardy_report::report::reproduce_figures` draws them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::experiment::Experiment;
use crate::figure::Figure;
use crate::quantity::{PublishedCell, Quantity, QuantityError};
use crate::rule::{Rule, RuleError};

const FILES: [(&str, &str); 4] = [
    ("abeni2002", include_str!("claims/abeni2002.toml")),
    ("williams2002", include_str!("claims/williams2002.toml")),
    ("mckenney2009", include_str!("claims/mckenney2009.toml")),
    ("koolwal2009", include_str!("claims/koolwal2009.toml")),
];

/// A paper, with its experiments, its claims, and its tables for comparison.
#[derive(Debug, Clone)]
pub struct Paper {
    /// Name of the paper in this project.
    pub name: &'static str,
    /// Author, title, year.
    pub title: String,
    pub experiments: Vec<Experiment>,
    pub claims: Vec<Claim>,
    pub tables: Vec<TableBeside>,
    /// Figures of the paper that the report redraws with the samples of our runs.
    pub figures: Vec<Figure>,
}

/// A statement of a paper, and how it is tested.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Name of the claim, unique among all papers.
    pub id: String,
    /// Where the claim is in the paper: section, table or figure.
    pub place: String,
    /// A short version of the claim.
    pub words: String,
    /// The experiment that produces the numbers of the claim.
    pub experiment: String,
    pub rule: Rule,
    /// The values that the rule uses, each with its name.
    pub values: Vec<Value>,
    /// A note for readers of the result, for example what stands in for a device of the paper.
    pub note: Option<String>,
    /// Why the claim does not hold here, if we know the reason.
    pub reason: Option<Reason>,
    /// Why the claim cannot be tested in the lab; absent if the lab can test it.
    pub lab: Option<String>,
    /// Why the claim cannot be tested on this machine alone; absent if this machine can test it.
    pub local: Option<String>,
    /// Whether the paper's own numbers break the rule. They do so if the paper contradicts itself,
    /// or if its numbers come from another experiment.
    pub contradicts: bool,
}

/// The reason why a claim does not hold. If the reason was neither traced nor published, it counts
/// as unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Functions that a trace shows, with the command that shows them, or the page that contains
    /// the trace.
    Traced(String),
    /// Names a source file, a commit or a document.
    Published(String),
    Unknown,
}

/// A value that a rule uses: our value, and the paper's value if the paper printed it.
#[derive(Debug, Clone)]
pub struct Value {
    /// The name by which the rule refers to the value.
    pub name: String,
    pub ours: Quantity,
    pub paper: Option<PublishedCell>,
}

/// A published table; the report shows our value next to the value of each cell.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableBeside {
    /// The table's name.
    pub published: String,
    pub experiment: String,
    /// The unit of the table's cells, as in [`PublishedCell`]; `own` if each row's cell `unit` or
    /// each column's suffix states the unit.
    pub unit: String,
    /// The table's rows. For each row: first its keys, separated by commas, then the words that it
    /// contributes to the name of our quantity. The words are [`NOTHING`] if we have no
    /// counterpart.
    pub rows: Vec<(String, String)>,
    /// The table's columns. For each column: first its name, then the words that it contributes to
    /// the name of our quantity, or [`NOTHING`].
    pub columns: Vec<(String, String)>,
    /// Whether each column stands for a kernel. The name of a quantity starts with the kernel, so
    /// the words of the column then come first, followed by the words of the row. If columns do not
    /// stand for kernels, the words of the row come first.
    #[serde(default)]
    pub is_of_services: bool,
    /// Why our values are missing, or how they must be read.
    pub note: Option<String>,
}

/// Stands in place of a quantity's words if we have no counterpart for the paper's number.
pub const NOTHING: &str = "-";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    experiment: Vec<Experiment>,
    #[serde(default)]
    table: Vec<TableBeside>,
    #[serde(default)]
    figure: Vec<Figure>,
    claim: Vec<WrittenClaim>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenClaim {
    id: String,
    place: String,
    words: String,
    experiment: String,
    rule: String,
    #[serde(default)]
    values: BTreeMap<String, WrittenValue>,
    note: Option<String>,
    reason: Option<Reason>,
    lab: Option<String>,
    local: Option<String>,
    #[serde(default)]
    contradicts: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenValue {
    ours: String,
    paper: Option<String>,
}

/// Why a file with claims cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    #[error("claim {id}: {source}")]
    Rule { id: String, source: RuleError },
    #[error("claim {id}: {source}")]
    Quantity { id: String, source: QuantityError },
    #[error("claim {id}: the rule and its values do not use the same names: {names:?}")]
    Names { id: String, names: Vec<String> },
    #[error("{what}: there is no experiment {experiment}")]
    Experiment { what: String, experiment: String },
}

/// Returns every paper.
///
/// # Panics
/// Panics if a file that is part of the binary is invalid, which the tests of this module rule out.
#[must_use]
pub fn papers() -> Vec<Paper> {
    FILES
        .iter()
        .map(|(name, text)| parse(name, text).unwrap_or_else(|error| panic!("{name}: {error}")))
        .collect()
}

fn parse(name: &'static str, text: &str) -> Result<Paper, ClaimError> {
    let file: File = toml::from_str(text)?;
    let claims = file
        .claim
        .into_iter()
        .map(WrittenClaim::read)
        .collect::<Result<Vec<_>, _>>()?;
    let paper = Paper {
        name,
        title: file.title,
        experiments: file.experiment,
        claims,
        tables: file.table,
        figures: file.figure,
    };
    let knows = |experiment: &str| {
        paper
            .experiments
            .iter()
            .any(|known| known.name == experiment)
    };
    for claim in &paper.claims {
        let of_values = claim
            .values
            .iter()
            .filter_map(|value| value.ours.experiment.as_deref());
        if let Some(unknown) = of_values
            .chain([claim.experiment.as_str()])
            .find(|name| !knows(name))
        {
            return Err(ClaimError::Experiment {
                what: claim.id.clone(),
                experiment: unknown.to_owned(),
            });
        }
    }
    for figure in &paper.figures {
        if let Some(unknown) = figure.experiments.iter().find(|name| !knows(name)) {
            return Err(ClaimError::Experiment {
                what: figure.place.clone(),
                experiment: unknown.clone(),
            });
        }
    }
    match paper.tables.iter().find(|table| !knows(&table.experiment)) {
        Some(table) => Err(ClaimError::Experiment {
            what: table.published.clone(),
            experiment: table.experiment.clone(),
        }),
        None => Ok(paper),
    }
}

impl WrittenClaim {
    fn read(self) -> Result<Claim, ClaimError> {
        let id = self.id;
        let rule: Rule = self.rule.parse().map_err(|source| ClaimError::Rule {
            id: id.clone(),
            source,
        })?;
        let refuse = |source| ClaimError::Quantity {
            id: id.clone(),
            source,
        };
        let value = |(name, written): (String, WrittenValue)| {
            let paper = written
                .paper
                .map(|text| text.parse())
                .transpose()
                .map_err(refuse)?;
            Ok(Value {
                name,
                ours: written.ours.parse().map_err(refuse)?,
                paper,
            })
        };
        let values: Vec<Value> = self
            .values
            .into_iter()
            .map(value)
            .collect::<Result<_, ClaimError>>()?;
        let (mut asked, mut given) = (
            rule.names(),
            values
                .iter()
                .map(|value| value.name.as_str())
                .collect::<Vec<_>>(),
        );
        asked.sort_unstable();
        given.sort_unstable();
        if asked != given {
            let names = asked
                .iter()
                .chain(&given)
                .map(|name| (*name).to_owned())
                .collect();
            return Err(ClaimError::Names { id, names });
        }
        let Self {
            place,
            words,
            experiment,
            note,
            reason,
            lab,
            local,
            contradicts,
            ..
        } = self;
        Ok(Claim {
            id,
            place,
            words,
            experiment,
            rule,
            values,
            note,
            reason,
            lab,
            local,
            contradicts,
        })
    }
}

impl Claim {
    /// Returns whether the paper's own numbers satisfy the rule; `None` if the paper printed no
    /// number for one of the values.
    #[must_use]
    pub fn holds_in_the_paper(&self) -> Option<bool> {
        let value = |name: &str| {
            self.values
                .iter()
                .find(|value| value.name == name)?
                .paper
                .as_ref()
                .map(|cell| cell.value)
        };
        self.rule.holds(&value)
    }
}

impl TableBeside {
    /// Returns the published number of a cell; `None` if the paper has no such number.
    #[must_use]
    pub fn published(&self, row: &str, column: &str) -> Option<PublishedCell> {
        // Spaces within the key are replaced, because a space would end the key.
        let keys = row.replace(' ', "_").replace(',', " ");
        let unit = if self.unit == "own" {
            self.own_unit(&keys, column)?
        } else {
            &self.unit
        };
        format!("{} {keys} {column} {unit}", self.published)
            .parse()
            .ok()
    }

    fn own_unit<'a>(&self, keys: &str, column: &'a str) -> Option<&'a str> {
        let keys: Vec<&str> = keys.split(' ').collect();
        let of_row = crate::published::find(&self.published)?.cell(&keys, "unit");
        of_row.or_else(|| column.rsplit_once('_').map(|(_, unit)| unit))
    }

    /// Returns the quantity that is our counterpart of a cell. `row` and `column` are the words
    /// that the cell's row and column contribute to the quantity's name. Returns `None` if we have
    /// no counterpart.
    ///
    /// # Errors
    /// Returns [`QuantityError`] if the words do not form a quantity.
    pub fn quantity(&self, row: &str, column: &str) -> Result<Option<Quantity>, QuantityError> {
        let (kernel, rest) = if self.is_of_services {
            (column, row)
        } else {
            (row, column)
        };
        if [row, column].contains(&NOTHING) {
            Ok(None)
        } else {
            format!("{kernel} {rest}").parse().map(Some)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Extent, Place};
    use crate::published;
    use crate::quantity::{EACH, QuantitySource};

    #[test]
    fn there_are_at_least_forty_claims_with_names_of_their_own() {
        let papers = papers();
        let ids: Vec<&str> = papers
            .iter()
            .flat_map(|paper| &paper.claims)
            .map(|claim| claim.id.as_str())
            .collect();
        assert!(ids.len() >= 40, "{}", ids.len());
        for (index, id) in ids.iter().enumerate() {
            assert!(!ids[..index].contains(id), "{id} twice");
        }
        assert!(papers.iter().all(|paper| paper.claims.len() >= 8));
        assert_eq!(
            papers.iter().map(|paper| paper.name).collect::<Vec<_>>(),
            crate::PAPERS
        );
    }

    /// A rule that the paper's own numbers break would not test what the paper claims.
    #[test]
    fn every_rule_holds_for_the_numbers_that_the_paper_printed() {
        let mut tested = 0;
        for claim in papers().iter().flat_map(|paper| &paper.claims) {
            if let Some(holds) = claim.holds_in_the_paper() {
                assert_eq!(holds, !claim.contradicts, "{}: {}", claim.id, claim.rule);
                tested += 1;
            }
        }
        assert!(tested >= 30, "{tested}");
    }

    #[test]
    fn every_kernel_of_a_claim_is_one_of_its_experiment() {
        for paper in papers() {
            for claim in &paper.claims {
                for value in &claim.values {
                    let name = value.ours.experiment.as_ref().unwrap_or(&claim.experiment);
                    let experiment = paper
                        .experiments
                        .iter()
                        .find(|known| known.name == *name)
                        .unwrap();
                    let kernels = experiment.kernel_names();
                    let is_known =
                        value.ours.kernel == EACH || kernels.contains(&value.ours.kernel);
                    assert!(
                        is_known || experiment.kernels.is_empty(),
                        "{}: {} is none of {kernels:?}",
                        claim.id,
                        value.ours.kernel
                    );
                    let is_cost = matches!(
                        value.ours.of,
                        QuantitySource::Cost { .. } | QuantitySource::CostsWithin { .. }
                    );
                    assert!(
                        is_cost == experiment.cost.is_some() || experiment.arguments.is_empty(),
                        "{}",
                        claim.id
                    );
                }
            }
        }
    }

    #[test]
    fn every_table_that_is_set_beside_ours_has_a_number_in_it_and_quantities() {
        for table in papers().iter().flat_map(|paper| &paper.tables) {
            assert!(
                published::find(&table.published).is_some(),
                "{}",
                table.published
            );
            for (row, kernel) in &table.rows {
                assert!(
                    table
                        .columns
                        .iter()
                        .any(|(column, _)| table.published(row, column).is_some()),
                    "{} {row}",
                    table.published
                );
                for (column, rest) in &table.columns {
                    let quantity = table.quantity(kernel, rest);
                    assert!(
                        quantity.is_ok(),
                        "{} {column}: {quantity:?}",
                        table.published
                    );
                }
            }
            let is_open = table
                .rows
                .iter()
                .chain(&table.columns)
                .any(|(_, words)| words == NOTHING);
            assert!(
                !is_open || table.note.is_some(),
                "{}: an empty cell needs a note",
                table.published
            );
        }
    }

    /// The other numbers would need compilers or parallel ports; the notes of the tables give the
    /// reasons.
    #[test]
    fn the_lab_has_a_number_for_242_of_335_published_ones() {
        let (mut published, mut ours) = (0, 0);
        for table in papers().iter().flat_map(|paper| &paper.tables) {
            for (row, kernel) in &table.rows {
                for (column, rest) in &table.columns {
                    if table.published(row, column).is_some() {
                        published += 1;
                        ours += usize::from(![kernel, rest].contains(&&NOTHING.to_owned()));
                    }
                }
            }
        }
        assert_eq!((published, ours), (335, 242));
    }

    #[test]
    fn every_published_table_is_set_beside_ours_with_all_of_its_rows() {
        let papers = papers();
        let tables: Vec<&TableBeside> = papers.iter().flat_map(|paper| &paper.tables).collect();
        for published in published::TABLES {
            let of_table = |table: &&&TableBeside| table.published == published.name;
            let shown: Vec<&str> = tables
                .iter()
                .filter(of_table)
                .flat_map(|table| &table.rows)
                .map(|(row, _)| row.as_str())
                .collect();
            for row in published.rows() {
                let is_there = shown
                    .iter()
                    .any(|keys| keys.split(',').zip(&row).all(|(key, cell)| key == *cell));
                assert!(is_there, "{}: {row:?}", published.name);
            }
        }
    }

    #[test]
    fn every_figure_is_of_kernels_that_its_experiments_boot_and_every_curve_is_a_quantity() {
        use crate::figure::FigureKind;
        let mut drawn = 0;
        for paper in papers() {
            for figure in &paper.figures {
                for name in &figure.experiments {
                    let experiment = paper
                        .experiments
                        .iter()
                        .find(|known| known.name == *name)
                        .unwrap();
                    let kernels = experiment.kernel_names();
                    assert!(
                        figure.kernels.iter().all(|kernel| kernels.contains(kernel)),
                        "{}: {kernels:?}",
                        figure.place
                    );
                    assert!(!experiment.is_for_culprits, "{}", figure.place);
                }
                let is_sweep = figure.kind == FigureKind::Sweep;
                let is_of_quantities = is_sweep || figure.kind == FigureKind::TotalDelay;
                assert_eq!(
                    (
                        figure.at.len() == figure.experiments.len(),
                        !figure.curves.is_empty()
                    ),
                    (is_sweep, is_of_quantities),
                    "{}",
                    figure.place
                );
                for (curve, rest) in &figure.curves {
                    assert!(format!("rt {rest}").parse::<Quantity>().is_ok(), "{curve}");
                }
                drawn += 1;
            }
            let of_culprits = |name: &str| {
                paper
                    .experiments
                    .iter()
                    .any(|known| known.name == name && known.is_for_culprits)
            };
            assert!(
                paper
                    .claims
                    .iter()
                    .all(|claim| !of_culprits(&claim.experiment)),
                "a run that finds culprits is slower"
            );
        }
        assert!(drawn >= 20, "{drawn}");
    }

    #[test]
    fn a_claim_that_the_lab_cannot_test_says_why() {
        for paper in papers() {
            for experiment in &paper.experiments {
                let is_in_lab = experiment.command(Place::Lab, Extent::Full, 1).is_some();
                let claims = paper
                    .claims
                    .iter()
                    .filter(|claim| claim.experiment == experiment.name);
                for claim in claims {
                    assert!(is_in_lab || claim.lab.is_some(), "{}", claim.id);
                }
            }
        }
    }

    #[test]
    fn a_rule_whose_names_are_not_its_values_is_refused() {
        let text = |rule: &str| {
            format!(
                "title = \"x\"\n[[experiment]]\nname = \"e\"\nabout = \"\"\n[[claim]]\nid = \
                 \"a\"\nplace = \"1\"\nwords = \"w\"\nexperiment = \"e\"\nrule = \
                 \"{rule}\"\nvalues.full = {{ ours = \"full io max\" }}\n"
            )
        };
        assert!(parse("abeni2002", &text("full < 1ms")).is_ok());
        assert!(matches!(
            parse("abeni2002", &text("full < none")),
            Err(ClaimError::Names { .. })
        ));
        assert!(matches!(
            parse("abeni2002", &text("full = 1")),
            Err(ClaimError::Rule { .. })
        ));
        let elsewhere = text("full < 1ms").replace("experiment = \"e\"", "experiment = \"f\"");
        assert!(matches!(
            parse("abeni2002", &elsewhere),
            Err(ClaimError::Experiment { .. })
        ));
    }
}
