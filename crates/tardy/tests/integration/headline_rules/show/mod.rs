//! Checks the output of `tardy show` by rules, which are grouped by subject.

mod deadline;
mod headline;
mod loads;
mod preempt_rt;
mod rows;
mod verdict;
mod whole_run;

use super::Findings;
use super::numbers::{Duration, duration_after, duration_before, share_of_column, word_after};
use super::tables::{LATENCY, Row, Table};
use verdict::Verdict;

const UPPER_BOUND: &str = "upper bound (95 %)";
const WITH_SKIPPED: &str = "with skipped";
const ALL: &str = "all";

/// A printed text, split into paragraphs and tables.
struct Page<'a> {
    text: &'a str,
    paragraphs: &'a [String],
    tables: &'a [Table],
    title: &'a str,
    /// The measured time in the title.
    measured: Option<Duration>,
    /// The probe's period in the title.
    period: Option<Duration>,
    /// The answer to "Do you need PREEMPT_RT?".
    answer: &'a str,
    /// The paragraph about the largest latency.
    largest: &'a str,
    /// The paragraph about the worst load.
    worst_load: &'a str,
    /// Whether the values may be rounded to the buckets of a histogram.
    is_rounded: bool,
}

impl<'a> Page<'a> {
    fn new(text: &'a str, paragraphs: &'a [String], tables: &'a [Table]) -> Self {
        let title = paragraphs.first().map_or("", String::as_str);
        let start = |prefix| paragraph(paragraphs, prefix);
        Self {
            text,
            paragraphs,
            tables,
            title,
            measured: duration_before(title, " measured"),
            period: duration_after(title, "every ")
                .filter(|_| title.matches("every ").count() == 1),
            answer: start("Do you need PREEMPT_RT?"),
            largest: start("Largest latency: "),
            worst_load: start("worst load: "),
            is_rounded: ["import", "bucket", "histogram"]
                .iter()
                .any(|word| text.contains(word)),
        }
    }

    /// The first paragraph that starts with `prefix`; empty if there is none.
    fn paragraph(&self, prefix: &str) -> &'a str {
        paragraph(self.paragraphs, prefix)
    }

    fn tables<'b>(&'b self, name: &'b str) -> impl Iterator<Item = &'a Table> + 'b {
        self.tables.iter().filter(move |table| table.name == name)
    }

    fn is_cut_off(&self) -> bool {
        self.title.contains("CUT OFF")
    }

    fn has_warning(&self) -> bool {
        self.is_cut_off() || self.paragraphs.iter().any(|line| line.starts_with("! "))
    }
}

fn paragraph<'a>(paragraphs: &'a [String], prefix: &str) -> &'a str {
    paragraphs
        .iter()
        .find(|line| line.starts_with(prefix))
        .map_or("", String::as_str)
}

/// The table of latencies of a run with one probe.
struct Latencies<'a> {
    table: &'a Table,
    /// The row of all CPUs, or of the only CPU.
    whole: &'a Row,
    cpus: Vec<&'a Row>,
    upper_bound: Option<&'a Row>,
    with_skipped: Option<&'a Row>,
    /// The columns of percentiles.
    percentiles: Vec<&'a str>,
}

impl<'a> Latencies<'a> {
    fn of(page: &Page<'a>) -> Option<Self> {
        let mut tables = page.tables(LATENCY);
        let table = tables.next().filter(|_| tables.next().is_none())?;
        let cpus: Vec<&Row> = table.rows.iter().filter(|row| is_cpu(row)).collect();
        let known = |row: &Row| {
            is_cpu(row) || [ALL, UPPER_BOUND, WITH_SKIPPED].contains(&row.label.as_str())
        };
        let is_plain = table.rows.iter().all(known) && !page.title.contains(": work ");
        let only_cpu = cpus.first().copied().filter(|_| cpus.len() == 1);
        Some(Self {
            table,
            whole: table.row(ALL).or(only_cpu).filter(|_| is_plain)?,
            upper_bound: table.row(UPPER_BOUND),
            with_skipped: table.row(WITH_SKIPPED),
            percentiles: table
                .columns
                .iter()
                .map(String::as_str)
                .filter(|column| share_of_column(column).is_some())
                .collect(),
            cpus,
        })
    }

    /// Returns whether every CPU has a row.
    fn is_complete(&self) -> bool {
        !self.table.lacks_rows
    }

    fn max(&self) -> Option<Duration> {
        self.whole.duration("max")
    }

    fn cpu(&self, name: &str) -> Option<&'a Row> {
        self.table.row(&format!("CPU {name}"))
    }

    /// The row whose misses the verdict counts: the whole run's, or that of the CPU that the
    /// verdict names.
    fn row_of_verdict(&self, verdict: &Verdict) -> Option<&'a Row> {
        match verdict.cpu_alone() {
            Some(name) => self.cpu(name),
            None => Some(self.whole).filter(|_| verdict.starts_with_its_count()),
        }
    }
}

fn is_cpu(row: &Row) -> bool {
    row.label.starts_with("CPU ")
}

/// The list of CPUs in the title.
fn cpus_of_title<'a>(page: &Page<'a>) -> &'a str {
    word_after(page.title, " on CPUs ")
        .or(word_after(page.title, " on CPU "))
        .unwrap_or("")
}

/// Samples and skipped periods of a row. A narrow table may lack these columns.
fn due_times(row: &Row) -> Option<(f64, f64)> {
    Some((row.count("samples")?, row.count("skipped")?))
}

/// Checks the output of `tardy show`.
pub(super) fn check(
    text: &str,
    paragraphs: &[String],
    tables: &[Table],
    exit_code: i32,
    found: &mut Findings,
) {
    let page = Page::new(text, paragraphs, tables);
    let verdict = Verdict::of(&page);
    verdict::check_exit_code(&page, &verdict, exit_code, found);
    verdict::check_count(&verdict, found);
    verdict::check_share(&verdict, found);
    verdict::check_skipped_periods(&verdict, found);
    headline::check_title(&page, &verdict, found);
    rows::check(&page, &verdict, found);
    let Some(latencies) = Latencies::of(&page) else {
        return;
    };
    whole_run::check(&page, &latencies, found);
    headline::check_verdict(&latencies, &verdict, found);
    headline::check_largest(&page, &latencies, found);
    deadline::check(&page, &latencies, &verdict, found);
    loads::check(&page, &latencies, deadline::printed(&page, &verdict), found);
    preempt_rt::check(&page, &verdict, found);
    headline::check_copies_of_the_maximum(&page, &latencies, found);
}
