//! Checks the output of `tardy compare` by rules.

mod changes;
mod headline;

use super::Findings;
use super::numbers::{
    Duration, duration_after, half_of_last_digit, number_after, number_before, share_of_column,
    word_before,
};
use super::tables::{COMPARISON, Row, Table};
use changes::{Change, changes, column_at_start, verdict};
use headline::{GROUPS, Headline, NamedRow, named};

/// If a `BETTER` headline contains this text, the exit code is that of `INCONCLUSIVE`.
const OPEN: &str = "inconclusive as a whole";

/// Checks the output of `tardy compare`.
pub(super) fn check(paragraphs: &[String], tables: &[Table], exit_code: i32, found: &mut Findings) {
    let title = paragraphs.first().map_or("", String::as_str);
    let Some(headline) = Headline::parse(title) else {
        return;
    };
    check_exit_code(&headline, exit_code, found);
    check_next_step(&headline, paragraphs, found);
    let Some(table) = tables.iter().find(|table| table.name == COMPARISON) else {
        return;
    };
    check_verdicts(&headline, table, found);
    check_counts(&headline, table, found);
    check_open_whole_run(&headline, table, found);
    for row in &table.rows {
        for change in changes(row) {
            check_change(&headline, row, &change, found);
        }
    }
    check_named_rows(&headline, table, found);
    check_alike(&headline, table, found);
    check_marks(paragraphs, table, found);
}

fn check_exit_code(headline: &Headline, exit_code: i32, found: &mut Findings) {
    let word = headline.word;
    let code = if headline.said.contains(OPEN) {
        4
    } else {
        headline.exit_code
    };
    found.add_if(
        code != exit_code,
        format_args!("headline {word} means exit code {code}, exit code is {exit_code}"),
    );
}

/// Checks that the comparison is inconclusive as a whole if rows are better but the row of the
/// whole run is inconclusive.
fn check_open_whole_run(headline: &Headline, table: &Table, found: &mut Findings) {
    let Some(row) = table.row("whole run") else {
        return;
    };
    let is_open = verdict(row) == "inconclusive";
    found.add_if(
        headline.said.contains(OPEN) != (is_open && headline.word == "BETTER"),
        format_args!(
            "headline {}: `{OPEN}` against the row of the whole run, which is open: {is_open}",
            headline.word
        ),
    );
}

fn check_next_step(headline: &Headline, paragraphs: &[String], found: &mut Findings) {
    let (new, base) = (headline.new, headline.base);
    let next = paragraphs
        .iter()
        .find(|line| line.starts_with("next: tardy compare "));
    let names_the_sides = |line: &String| line.contains(&format!("compare {base} {new}"));
    found.add_if(
        next.is_some_and(|line| !names_the_sides(line)),
        format_args!("headline: {new} against {base}, but {next:?}"),
    );
}

fn rows_with(table: &Table, wanted: &str) -> usize {
    table
        .rows
        .iter()
        .filter(|row| verdict(row) == wanted)
        .count()
}

/// Checks the headline's word against the verdicts of the rows.
fn check_verdicts(headline: &Headline, table: &Table, found: &mut Findings) {
    let has = |verdict| rows_with(table, verdict) > 0;
    let follows = if has("mixed") || has("better") && has("worse") {
        "MIXED"
    } else if has("worse") {
        "WORSE"
    } else if has("better") {
        "BETTER"
    } else if has("inconclusive") {
        "INCONCLUSIVE"
    } else {
        "EQUIVALENT"
    };
    // A fault of the runs as a whole can overrule the rows.
    let is_withheld = headline.word == "INCONCLUSIVE"
        && headline
            .said
            .strip_prefix(&follows.to_lowercase())
            .is_some_and(|rest| rest.starts_with(" by the numbers, but "));
    found.add_if(
        follows != headline.word && !is_withheld && !table.lacks_rows,
        format_args!("headline {}, its rows give {follows}", headline.word),
    );
}

/// Checks the headline's counts of rows against the rows.
fn check_counts(headline: &Headline, table: &Table, found: &mut Findings) {
    let Some(total) = number_before(headline.said, " rows").filter(|_| !table.lacks_rows) else {
        return;
    };
    for (words, verdict) in GROUPS {
        let (said, rows) = (headline.rows(verdict), rows_with(table, verdict));
        found.add_if(
            said != rows as f64,
            format_args!("headline: {words}{said} rows against {rows} such rows"),
        );
    }
    found.add_if(
        total != table.rows.len() as f64,
        format_args!(
            "headline: of {total} rows against {} rows",
            table.rows.len()
        ),
    );
}

/// Checks a change against its row's verdict, the margin, and its own relative value.
fn check_change(headline: &Headline, row: &Row, change: &Change, found: &mut Findings) {
    let (verdict, margin) = (verdict(row), headline.margin);
    let place = format!("row {}: {} {}", row.label, change.column, change.cell);
    let (base, new) = (change.base, change.new);
    let margin_ns = headline.margin_ns(base.ns);
    let (size_ns, rounding_ns) = (change.difference_ns().abs(), change.rounding_ns());
    let is_against_verdict = match verdict {
        "better" => new.is_above(base),
        "worse" => base.is_above(new),
        other => !["mixed", "inconclusive"].contains(&other),
    };
    // In an inconclusive row, the marked change may be smaller than the margin.
    let is_too_small = verdict != "inconclusive" && size_ns + rounding_ns < margin_ns;
    found.add_if(
        change.decides() && (is_against_verdict || is_too_small),
        format_args!("{place} decides the verdict {verdict} (margin {margin})"),
    );
    check_unmarked(headline, verdict, change, &place, found);
    found.add_if(
        !change.is_relative_right(),
        format_args!("{place}: the percentage does not follow"),
    );
    found.add_if(
        headline.said.contains("the same samples") && !base.is_same(new),
        format_args!("headline: the same samples against {place}"),
    );
}

/// Checks a change without a mark. Such a change was compared and decided, so it may exceed the
/// margin only in the direction of its row's verdict.
fn check_unmarked(
    headline: &Headline,
    verdict: &str,
    change: &Change,
    place: &str,
    found: &mut Findings,
) {
    if change.is_undecided() || change.decides() {
        return;
    }
    let beyond = headline.margin_of_latency_ns(change.base.ns) + change.rounding_ns();
    let (is_longer, is_shorter) = (
        change.difference_ns() > beyond,
        change.difference_ns() < -beyond,
    );
    let is_against = match verdict {
        "better" => is_longer,
        "worse" => is_shorter,
        "mixed" => false,
        _ => is_longer || is_shorter,
    };
    found.add_if(
        is_against,
        format_args!(
            "{place} is beyond the margin {}, has no mark, and the verdict of its row is {verdict}",
            headline.margin
        ),
    );
}

/// Checks the text `all compared quantiles up to 99 %` against the rows. In the column that belongs
/// to this percentage, no row may be marked as undecided.
fn check_alike(headline: &Headline, table: &Table, found: &mut Findings) {
    let Some(up_to) = number_after(headline.said, "all compared quantiles up to ") else {
        return;
    };
    for row in &table.rows {
        for change in changes(row) {
            let share = share_of_column(&change.column);
            found.add_if(
                share == Some(up_to / 100.0) && change.is_undecided(),
                format_args!(
                    "headline: alike up to {up_to} %, but row {}: {} is undecided: {}",
                    row.label, change.column, change.cell
                ),
            );
        }
    }
}

/// Checks that each mark in the table is explained below it.
fn check_marks(paragraphs: &[String], table: &Table, found: &mut Findings) {
    let all: Vec<Change> = table.rows.iter().flat_map(changes).collect();
    for (mark, is_used) in [
        ("* ", all.iter().any(Change::decides)),
        ("~ ", all.iter().any(Change::is_undecided)),
    ] {
        let is_explained = paragraphs.iter().any(|line| line.starts_with(mark));
        // An explanation without a mark is allowed: a narrow screen may lack the column or row with
        // the mark.
        found.add_if(
            is_used && !is_explained,
            format_args!("the mark {}is not explained", mark),
        );
    }
}

fn check_named_rows(headline: &Headline, table: &Table, found: &mut Findings) {
    for named in named(headline) {
        let row = table.row(named.row).or_else(|| table.row(named.key));
        let Some(row) = row else {
            found.add_if(
                !table.lacks_rows,
                format_args!("headline: {} has no row", named.row),
            );
            continue;
        };
        found.add_if(
            verdict(row) != named.verdict,
            format_args!(
                "headline {}: {} names row {}: {}",
                headline.word,
                named.verdict,
                named.row,
                verdict(row)
            ),
        );
        check_direction(&named, found);
        // An inconclusive headline names the column before the row: `99 % quantile of ...`.
        let subject_column = column_at_start(headline.said).0;
        for said in named.changes.split(", ") {
            let column = if said.starts_with(['+', '-']) {
                subject_column.clone()
            } else {
                column_at_start(said).0
            };
            let there = changes(row)
                .into_iter()
                .find(|change| change.column == column);
            // A narrow table may lack the usual columns.
            let is_left_out = ["median", "99.9 %", "max"].contains(&column.as_str())
                && row.text(&column).is_none();
            found.add_if(
                there.is_none() && !is_left_out && said.starts_with(['+', '-']),
                format_args!(
                    "headline: {}: {column} {said} is not in the table",
                    named.row
                ),
            );
            if let Some(change) = there {
                check_named_change(&named, said, &change, found);
            }
        }
    }
}

/// Checks that a better row has shorter latencies and a worse row longer ones.
fn check_direction(named: &NamedRow, found: &mut Findings) {
    for said in named.changes.split(", ") {
        let is_longer = said.contains(" times longer") || said.contains(" +");
        let is_shorter = said.contains(" times shorter") || said.contains(" -");
        found.add_if(
            named.verdict == "better" && is_longer || named.verdict == "worse" && is_shorter,
            format_args!(
                "headline: {}: {said} does not make it {}",
                named.row, named.verdict
            ),
        );
    }
}

/// Checks a change that the headline names against the table's cell.
fn check_named_change(named: &NamedRow, said: &str, change: &Change, found: &mut Findings) {
    let place = format!("headline: {}: {} {said}", named.row, change.column);
    let cell = change.cell;
    found.add_if(
        !change.decides(),
        format_args!("{place} against {cell}, which does not decide its row"),
    );
    let shorter = word_before(said, " times shorter");
    if let Some(times) = shorter.or(word_before(said, " times longer")) {
        let ratio = if shorter.is_some() {
            1.0 / change.ratio()
        } else {
            change.ratio()
        };
        let off = times
            .parse::<f64>()
            .map_or(0.0, |times| (ratio - times).abs());
        let most = half_of_last_digit(times) * 1.01 + ratio * change.relative_rounding();
        found.add_if(
            off > most,
            format_args!("{place} against {cell}, {ratio:.2} times"),
        );
    }
    for (sign, factor) in [("+", 1.0), ("-", -1.0)] {
        let pattern = format!(" {sign}");
        let padded = format!(" {said}");
        let is_wrong = |by: Duration| {
            let most = (change.rounding_ns() + by.rounding_ns) * 1.01;
            (change.difference_ns() - factor * by.ns).abs() > most
        };
        found.add_if(
            duration_after(&padded, &pattern).is_some_and(is_wrong),
            format_args!("{place} against {cell}"),
        );
    }
}
