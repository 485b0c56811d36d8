//! Sections of watched guests as text.

use std::fmt::Write;

use tardy_core::units::Nanos;
use tardy_outside::census::{Census, KindCensus, Place};
use tardy_outside::comparison::{Change, Difference};
use tardy_outside::kind::Kind;

use super::sections_theory_text::theory;
use super::table::Table;

/// Maximum number of sections that are listed for each variant, the longest first.
const PLACES: usize = 10;
/// Maximum number of differences that are listed.
const DIFFERENCES: usize = 40;

/// The explanation that follows every census.
const EXPLANATION: &str = "A section of several kinds is counted once for each kind. Times are \
                           virtual: each executed instruction takes the same time. Begins in: the \
                           function that switched interrupts or preemption off (for a lock, the \
                           function that takes it; for an interrupt, the kernel's entry code).";

/// Returns a census as text, at most `width` columns wide.
#[must_use]
pub fn census(census: &Census, width: usize) -> String {
    let mut text = String::new();
    let mut line = |words: std::fmt::Arguments<'_>| {
        text.write_fmt(words)
            .expect("writing to a string cannot fail");
        text.push('\n');
    };
    let mut table = Table::new(
        ["variant and load", "runs", "executed"]
            .into_iter()
            .map(str::to_owned)
            .chain(
                Kind::ALL
                    .iter()
                    .map(|kind| format!("longest {}", kind.title())),
            ),
    );
    for group in &census.groups {
        let name = format!("{}, {}", group.variant, group.load);
        let longest = group.kinds.iter().map(|kind| {
            if kind.count == 0 {
                "-".to_owned()
            } else {
                kind.longest_ns.to_string()
            }
        });
        table.row(
            [name, group.runs.to_string(), group.executed_ns.to_string()]
                .into_iter()
                .chain(longest),
        );
    }
    line(format_args!("{}", table.in_blocks(width)));
    for kind in Kind::ALL {
        let of = |kind: Kind| {
            census
                .groups
                .iter()
                .flat_map(move |group| group.kinds.iter().filter(move |other| other.kind == kind))
        };
        let (count, total) = of(kind).fold((0, 0_i64), |sum, kind| {
            (sum.0 + kind.count, sum.1.saturating_add(kind.total_ns.0))
        });
        line(format_args!(
            "{}: {count} sections, {} in all{}",
            kind.title(),
            Nanos(total),
            lengths(of(kind))
        ));
    }
    let mut variants: Vec<&str> = census
        .groups
        .iter()
        .map(|group| group.variant.as_str())
        .collect();
    variants.dedup();
    let longest = census.longest_places();
    for variant in variants {
        let mut table = Table::new([
            format!("longest of {variant}"),
            "kind".into(),
            "count".into(),
            "load".into(),
            "task".into(),
            "begins in".into(),
            "ends in".into(),
        ]);
        let mut seen: Vec<(Kind, &str, &str)> = Vec::new();
        for (group, kind, place) in longest
            .iter()
            .filter(|(group, ..)| group.variant == variant)
        {
            let Place {
                begin,
                end,
                count,
                longest_ns,
                task,
                ..
            } = place;
            if seen.len() == PLACES || seen.contains(&(*kind, begin, end)) {
                continue;
            }
            seen.push((*kind, begin, end));
            table.row([
                &longest_ns.to_string(),
                kind.title(),
                &count.to_string(),
                &group.load,
                task,
                begin,
                end,
            ]);
        }
        line(format_args!("\n{}", table.text().trim_end()));
    }
    line(format_args!("\n{EXPLANATION}"));
    text.push_str(&theory(&census.groups, width));
    let mut line = |words: std::fmt::Arguments<'_>| {
        text.write_fmt(words)
            .expect("writing to a string cannot fail");
        text.push('\n');
    };
    if !census.knows_preemption {
        line(format_args!(
            "! The preemption count was not found in a guest's memory: preemption, softirqs and \
             interrupts are unknown for this guest."
        ));
    }
    if census.unstored > 0 {
        line(format_args!(
            "! {} sections are left out, because there were too many code locations.",
            census.unstored
        ));
    }
    if census.left_out_windows > 0 {
        line(format_args!(
            "! {} sections or samples have no call path, because too much code was executed before \
             them.",
            census.left_out_windows
        ));
    }
    if census.corrected > 0 {
        line(format_args!(
            "! {} interrupts came while tardy assumed that interrupts were off: up to that many \
             sections may be shorter than shown.",
            census.corrected
        ));
    }
    text
}

/// Describes the distribution of section lengths, by powers of ten.
fn lengths<'a>(kinds: impl Iterator<Item = &'a KindCensus>) -> String {
    let mut above = [
        (1_000_u64, 0_u64),
        (10_000, 0),
        (100_000, 0),
        (1_000_000, 0),
    ];
    for kind in kinds {
        for (bin, count) in kind.histogram.iter().enumerate() {
            // Bin `n` contains lengths below 2^n ns. Only bins whose lengths all reach the limit
            // are counted.
            let least = if bin == 0 { 0 } else { 1_u64 << (bin - 1) };
            above
                .iter_mut()
                .filter(|(limit, _)| least >= *limit)
                .for_each(|(_, sum)| *sum += count);
        }
    }
    let parts = above.iter().filter(|(_, count)| *count > 0);
    let parts: Vec<String> = parts
        .map(|(limit, count)| {
            format!(
                "{count} above {}",
                Nanos((*limit as i64).saturating_add(least_above(*limit)))
            )
        })
        .collect();
    if parts.is_empty() {
        String::new()
    } else {
        format!("; {}", parts.join(", "))
    }
}

/// Returns how far a round limit is below the next power of two, which is a boundary of bins.
fn least_above(limit: u64) -> i64 {
    (limit.next_power_of_two() - limit) as i64
}

/// Returns the differences between two censuses as a table.
#[must_use]
pub fn comparison(differences: &[Difference]) -> String {
    let mut table = Table::new([
        "change",
        "kind",
        "longest before",
        "longest now",
        "count before",
        "count now",
        "begins in",
        "ends in",
    ]);
    for difference in differences.iter().take(DIFFERENCES) {
        let word = match difference.change {
            Change::Longer => "longer",
            Change::Shorter => "shorter",
            Change::New => "new",
            Change::Gone => "gone",
        };
        let time = |nanos: Option<Nanos>| nanos.map_or("-".to_owned(), |nanos| nanos.to_string());
        table.row([
            word,
            difference.kind.title(),
            &time(difference.base_ns),
            &time(difference.candidate_ns),
            &difference.base_count.to_string(),
            &difference.candidate_count.to_string(),
            &difference.begin,
            &difference.end,
        ]);
    }
    let mut text = if differences.is_empty() {
        String::new()
    } else {
        table.text()
    };
    let count = |change: Change| {
        differences
            .iter()
            .filter(|difference| difference.change == change)
            .count()
    };
    let (longer, shorter, new, gone) = (
        count(Change::Longer),
        count(Change::Shorter),
        count(Change::New),
        count(Change::Gone),
    );
    writeln!(
        text,
        "sections by functions: {longer} longer, {shorter} shorter, {new} new, {gone} gone"
    )
    .expect("writing to a string cannot fail");
    if differences.len() > DIFFERENCES {
        writeln!(
            text,
            "the {DIFFERENCES} largest differences are shown; --format json has all"
        )
        .expect("writing to a string cannot fail");
    }
    text
}
