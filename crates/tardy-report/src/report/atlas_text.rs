//! An atlas as text and as Markdown: the tables, the changes between releases, and the missing
//! cells.

use std::fmt::Write as _;

use tardy_results::atlas::{Atlas, AtlasCell, CellNumbers, Change};

use super::compare::markdown;
use super::table::Table;

/// Text of a cell without samples.
const NOTHING: &str = "-";

/// Minimum number of replicas on each side. With fewer, a change cannot be distinguished from
/// chance.
const REPLICAS_MIN: u32 = 4;

/// The statistic that a table shows for each cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CellStatistic {
    Max,
    P999,
}

impl CellStatistic {
    pub(super) const ALL: [Self; 2] = [Self::Max, Self::P999];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Max => "largest latency",
            Self::P999 => "99.9 % of latencies",
        }
    }

    pub(super) fn of(self, numbers: &CellNumbers) -> tardy_core::units::Nanos {
        match self {
            Self::Max => numbers.max_ns,
            Self::P999 => numbers.p999_ns,
        }
    }
}

/// Returns the atlas as text, in lines of at most `columns`.
#[must_use]
pub fn text(atlas: &Atlas, columns: usize) -> String {
    let mut out = format!("{}\n", summary(atlas));
    for shown in CellStatistic::ALL {
        let mut table = Table::new(
            std::iter::once(shown.title()).chain(atlas.loads.iter().map(String::as_str)),
        );
        for (kernel, cells) in atlas.kernels.iter().zip(&atlas.cells) {
            table.row(
                std::iter::once(kernel.name.clone())
                    .chain(cells.iter().map(|cell| word(cell, shown))),
            );
        }
        let _ = write!(out, "\n{}", table.in_blocks(columns));
    }
    let _ = writeln!(out, "\n{}", changes_title(atlas));
    if !atlas.changes.is_empty() {
        let mut table = Table::new(change_head());
        atlas
            .changes
            .iter()
            .for_each(|change| table.row(change_row(change)));
        out.push_str(&table.text());
    }
    let remarks = remarks(atlas);
    if !remarks.is_empty() {
        out.push('\n');
    }
    remarks.iter().for_each(|remark| {
        let _ = writeln!(out, "! {remark}");
    });
    notes(atlas).iter().for_each(|note| {
        let _ = writeln!(out, "{note}");
    });
    out
}

/// Returns the atlas as one Markdown table.
#[must_use]
pub fn markdown(atlas: &Atlas) -> String {
    let head: Vec<String> = std::iter::once("kernel".to_owned())
        .chain(atlas.loads.iter().cloned())
        .collect();
    let both = |cell: &AtlasCell| match &cell.numbers {
        Some(numbers) => format!("{} / {}", numbers.max_ns, numbers.p999_ns),
        None => word(cell, CellStatistic::Max),
    };
    let row = |(kernel, cells): (&tardy_results::atlas::AtlasKernel, &Vec<AtlasCell>)| {
        std::iter::once(kernel.name.clone())
            .chain(cells.iter().map(both))
            .collect()
    };
    let rows: Vec<Vec<String>> = atlas.kernels.iter().zip(&atlas.cells).map(row).collect();
    let mut out = format!(
        "{}. In each cell: largest latency / 99.9 %.\n\n{}",
        markdown::escape(&summary(atlas)),
        markdown::table(&head, &rows)
    );
    let _ = writeln!(out, "\n{}", markdown::escape(&changes_title(atlas)));
    if !atlas.changes.is_empty() {
        let rows: Vec<Vec<String>> = atlas.changes.iter().map(change_row).collect();
        let _ = write!(out, "\n{}", markdown::table(&change_head(), &rows));
    }
    let kernels: Vec<Vec<String>> = atlas.kernels.iter().map(kernel_row).collect();
    let _ = write!(out, "\n{}", markdown::table(&kernel_head(), &kernels));
    for line in remarks(atlas).into_iter().chain(notes(atlas)) {
        let _ = writeln!(out, "\n{}", markdown::escape(&line));
    }
    out
}

/// Returns the size of the atlas in one line.
pub(super) fn summary(atlas: &Atlas) -> String {
    let (there, all) = atlas.complete();
    let size = format!(
        "{} kernels x {} loads x {} replicas",
        atlas.kernels.len(),
        atlas.loads.len(),
        atlas.replicas
    );
    if there == all {
        size
    } else {
        format!("{size}; {there} of {all} runs are done")
    }
}

pub(super) fn word(cell: &AtlasCell, shown: CellStatistic) -> String {
    match &cell.numbers {
        Some(numbers) => shown.of(numbers).to_string(),
        None if cell.failures.is_empty() => NOTHING.to_owned(),
        None if cell.failures.iter().any(|failure| failure.is_of_kernel) => "failed".to_owned(),
        None => "not run".to_owned(),
    }
}

pub(super) fn changes_title(atlas: &Atlas) -> String {
    if atlas.compared == 0 {
        return "the kernels all have different preemption models, so releases cannot be compared"
            .to_owned();
    }
    let pairs = format!("{} comparisons of neighbouring releases", atlas.compared);
    let differ = "the medians over the replicas differ by a factor of 1.25 or more";
    match atlas.changes.len() {
        0 if atlas.replicas < REPLICAS_MIN => format!(
            "{pairs}: {} replicas are too few to tell a change from chance",
            atlas.replicas
        ),
        0 => format!("{pairs}: in 0 of them, {differ}"),
        found => format!(
            "{pairs}: in {found} of them, {differ}; at most 5 % of such differences are due to \
             chance"
        ),
    }
}

pub(super) fn change_head() -> Vec<String> {
    [
        "load", "model", "of", "from", "to", "before", "after", "factor",
    ]
    .map(str::to_owned)
    .to_vec()
}

pub(super) fn change_row(change: &Change) -> Vec<String> {
    vec![
        change.load.clone(),
        change.model.clone(),
        change.statistic.word().to_owned(),
        change.from.clone(),
        change.to.clone(),
        change.from_ns.to_string(),
        change.to_ns.to_string(),
        format!(
            "{} {:.2}",
            if change.ratio > 1.0 {
                "worse"
            } else {
                "better"
            },
            change.ratio.max(1.0 / change.ratio)
        ),
    ]
}

pub(super) fn kernel_head() -> Vec<String> {
    ["kernel", "release", "model", "package"]
        .map(str::to_owned)
        .to_vec()
}

pub(super) fn kernel_row(kernel: &tardy_results::atlas::AtlasKernel) -> Vec<String> {
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| NOTHING.to_owned());
    vec![
        kernel.name.clone(),
        known(&kernel.release),
        known(&kernel.model),
        known(&kernel.package),
    ]
}

/// Returns notes about kernels that are left out, and about cells in which replicas have no result.
pub(super) fn remarks(atlas: &Atlas) -> Vec<String> {
    let mut remarks: Vec<String> = atlas
        .absent
        .iter()
        .map(|(kernel, why)| format!("{kernel} is left out: {why}"))
        .collect();
    for (kernel, cells) in atlas.kernels.iter().zip(&atlas.cells) {
        for (load, cell) in atlas.loads.iter().zip(cells) {
            if let Some(first) = cell.failures.first() {
                let (failed, all) = (
                    cell.failures.len(),
                    cell.failures.len() + cell.runs as usize,
                );
                remarks.push(format!(
                    "{} under {load}: {failed} of {all} replicas have no result: {}",
                    kernel.name, first.words
                ));
            }
        }
    }
    remarks
}

/// Returns notes that explain the numbers.
pub(super) fn notes(atlas: &Atlas) -> Vec<String> {
    std::iter::once(atlas.meaning.clone())
        .chain(atlas.period_ns.map(sampling_gap))
        .collect()
}

/// Returns a note on the delays that a probe cannot see if it wakes up only every `period`.
#[must_use]
pub fn sampling_gap(period: tardy_core::units::Nanos) -> String {
    format!(
        "The probe wakes up every {0}: a shorter delay can fall between two wake-ups, and a delay \
         can be up to {0} longer than the latency that shows it.",
        period.exact()
    )
}

#[cfg(test)]
pub(super) mod tests {
    use tardy_core::units::Nanos;
    use tardy_results::atlas::{AtlasKernel, CellFailure, Statistic};

    use super::*;

    pub(crate) fn atlas() -> Atlas {
        let cell = |max_us: i64| AtlasCell {
            runs: 2,
            failures: vec![],
            numbers: Some(CellNumbers {
                samples: 4000,
                median_ns: Nanos::from_micros(15),
                p99_ns: Nanos::from_micros(18),
                p999_ns: Nanos::from_micros(20),
                max_ns: Nanos::from_micros(max_us),
                p999_of_runs_ns: vec![],
                max_of_runs_ns: vec![],
            }),
        };
        let kernel = |name: &str| AtlasKernel {
            name: name.to_owned(),
            package: Some("linux-image 1".into()),
            words: vec![],
            release: Some("6.1.0<b>".into()),
            model: Some("full".into()),
        };
        let failure = CellFailure {
            words: "the kernel panicked: x|y".into(),
            is_of_kernel: true,
        };
        let failed = AtlasCell {
            runs: 0,
            failures: vec![failure; 2],
            numbers: None,
        };
        Atlas {
            meaning: "virtual time".into(),
            replicas: 2,
            period_ns: Some(Nanos::from_millis(1)),
            kernels: vec![kernel("6.1-full"), kernel("6.12-full")],
            absent: vec![("debian:9.9".into(), "no release has it".into())],
            loads: vec!["none".into(), "fork".into()],
            cells: vec![
                vec![cell(18), cell(11_279)],
                vec![AtlasCell::default(), failed],
            ],
            changes: vec![Change {
                load: "fork".into(),
                model: "full".into(),
                statistic: Statistic::Max,
                from: "6.1-full".into(),
                to: "6.12-full".into(),
                from_ns: Nanos::from_micros(100),
                to_ns: Nanos::from_micros(50),
                ratio: 0.5,
                probability: 1e-5,
            }],
            compared: 4,
        }
    }

    #[test]
    fn every_cell_is_told_also_what_failed_and_what_is_not_there() {
        let text = text(&atlas(), 120);
        for wanted in [
            "2 kernels x 2 loads x 2 replicas; 6 of 8 runs are done",
            "6.1-full         18.0 us  11.3 ms",
            "6.12-full              -   failed",
            "6.1-full             20.0 us  20.0 us",
            "fork   full  max  6.1-full  6.12-full  100 us  50.0 us  better 2.00",
            "! debian:9.9 is left out: no release has it",
            "! 6.12-full under fork: 2 of 2 replicas have no result: the kernel panicked",
            "every 1ms",
        ] {
            assert!(text.contains(wanted), "{wanted}:\n{text}");
        }
    }

    #[test]
    fn markdown_has_both_numbers_in_a_cell_and_stays_inert() {
        let text = markdown(&atlas());
        for wanted in [
            "| 6.1-full | 18.0 us / 20.0 us | 11.3 ms / 20.0 us |",
            "| 6.12-full | - | failed |",
            "6.1.0&lt;b&gt;",
            "x\\|y",
        ] {
            assert!(text.contains(wanted), "{wanted}:\n{text}");
        }
    }
}
