//! The theory about the sections of watched guests, as text. The text shows the call paths of
//! sections, the bound on the scheduling latency, the longest interval in which no switch is
//! possible, and the distribution of latencies that follows from the lengths of the sections.

use tardy_outside::bound::Interrupts;
use tardy_outside::census::Group;
use tardy_outside::kind::{Kind, Longest, Stretch};
use tardy_outside::theory::LongestRow;

use super::table::Table;

/// Maximum number of functions that are shown of a call path.
const PATH: usize = 8;
/// The intervals in the table of variables: the four from which the bound on the scheduling latency
/// is computed, and the observed latency.
const VARIABLES: [Stretch; 5] = [
    Stretch::BeforeScheduler,
    Stretch::SwitchTail,
    Stretch::SwitchDue,
    Stretch::ToSchedule,
    Stretch::SwitchDelay,
];

const OF_BOUND: &str = "Bound on the scheduling latency (ECRTS 2020, Theorem 8): max(D_POID, D_ST) \
                        + D_PAIE + D_PSD + interrupts. The bound and the observed values cover \
                        every switch, from the moment at which the switch is due until the \
                        scheduler is done. They exclude the time from the timer to its interrupt, \
                        and the return to the program. Assumptions: Every code path ran in these \
                        guests. No NMI occurs (the lab's machine raises none). In columns that \
                        limit interrupts, interrupts of one kind come no closer together than \
                        observed. Softirqs that run at the end of an interrupt are sections \
                        (D_POID), not interrupts. Leaving the idle task is part of D_PAIE.";
const OF_STRETCH: &str = "The theory does not hold for these kernels, because preempt_enable does \
                          not call the scheduler on them. Instead, the table shows the longest \
                          time for which a task ran in the kernel without a chance to switch, \
                          interrupts included.";
const OF_LATENCY: &str = "Latency by sections (abeni2002): the share of latencies above a limit, \
                          as predicted from the sections for random moments, and as measured by \
                          the probes. The predicted latency is the rest of a section plus the base \
                          latency, which is the median latency of the samples that wait for no \
                          section. D is the largest difference between the two shares, for limits \
                          at least 10 us above the base latency. The shares differ significantly \
                          (at 5 %) if D is above the critical value. Due times on a grid are not \
                          random moments: a load that runs in step with the grid makes the shares \
                          differ.";

/// A table, and a note below it.
pub(super) struct Part {
    pub note: &'static str,
    pub table: Table,
}

/// Returns all tables with their notes; empty if the recording is from an older tool and lacks the
/// theory.
pub(super) fn theory(groups: &[Group], width: usize) -> String {
    let mut text = String::new();
    for Part { note, table } in parts(groups) {
        let note = if note.is_empty() {
            String::new()
        } else {
            format!("{note}\n\n")
        };
        text.push_str(&format!("\n{note}{}\n", table.in_blocks(width).trim_end()));
    }
    text
}

/// Returns those tables that have rows.
pub(super) fn parts(groups: &[Group]) -> Vec<Part> {
    let mut parts = vec![
        paths(groups),
        bounds(groups),
        variables(groups),
        stretches(groups),
        latencies(groups),
    ];
    parts.retain(|part| !part.table.parts().1.is_empty());
    parts
}

fn name(group: &Group) -> String {
    format!("{}, {}", group.variant, group.load)
}

fn path(row: &LongestRow) -> String {
    let more = if row.path.len() > PATH { " < ..." } else { "" };
    format!(
        "{}{more}",
        row.path
            .iter()
            .take(PATH)
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(" < ")
    )
}

/// Returns the longest section of each kind for each variant, over all loads of the variant.
fn paths(groups: &[Group]) -> Part {
    let mut table = Table::new([
        "longest section of",
        "kind",
        "length",
        "load",
        "task",
        "begins in < called by",
    ])
    .words([1, 3, 4, 5]);
    let mut variants: Vec<&str> = groups.iter().map(|group| group.variant.as_str()).collect();
    variants.dedup();
    for variant in variants {
        for kind in Kind::ALL {
            let of_variant = groups.iter().filter(|group| group.variant == variant);
            let rows =
                of_variant.flat_map(|group| group.longest.iter().map(move |row| (group, row)));
            let known =
                rows.filter(|(_, row)| row.what == Longest::Section(kind) && !row.path.is_empty());
            let Some((group, row)) = known.max_by_key(|(_, row)| row.length_ns) else {
                continue;
            };
            table.row([
                variant,
                kind.title(),
                &row.length_ns.to_string(),
                &group.load,
                &row.task,
                &path(row),
            ]);
        }
    }
    Part { note: "", table }
}

/// Returns the name of an interval: the name in the paper (ECRTS 2020), if the paper defines the
/// interval.
fn variable(stretch: Stretch) -> &'static str {
    match stretch {
        Stretch::BeforeScheduler => "D_POID",
        Stretch::SwitchDue => "D_PAIE",
        Stretch::ToSchedule => "D_PSD",
        Stretch::SwitchTail => "D_ST",
        Stretch::NoChance => "unable to switch",
        Stretch::SwitchDelay => "observed",
    }
}

fn bounds(groups: &[Group]) -> Part {
    let columns = ["variant and load", "interrupts", "observed"]
        .into_iter()
        .map(str::to_owned);
    let mut table =
        Table::new(columns.chain(Interrupts::ALL.map(|interrupts| interrupts.title().to_owned())));
    for (group, bound) in groups
        .iter()
        .filter_map(|group| Some((group, group.bound.as_ref()?)))
    {
        let observed = bound
            .observed_ns
            .map_or("-".to_owned(), |observed| observed.to_string());
        let cells = bound
            .bounds
            .iter()
            .map(|assumed| match (assumed.bound_ns, assumed.ratio) {
                (None, _) => "does not converge".to_owned(),
                (Some(bound), None) => bound.to_string(),
                (Some(bound), Some(ratio)) => format!("{bound} ({ratio:.2} x)"),
            });
        table.row(
            [name(group), bound.interrupts.to_string(), observed]
                .into_iter()
                .chain(cells),
        );
    }
    Part {
        note: OF_BOUND,
        table,
    }
}

/// Returns the intervals from which the bounds are computed, and the longest observed latency.
fn variables(groups: &[Group]) -> Part {
    let mut table = Table::new([
        "variable",
        "length",
        "variant and load",
        "task",
        "begins in",
        "ends in",
    ])
    .words([2, 3, 4, 5]);
    for group in groups.iter().filter(|group| group.bound.is_some()) {
        for stretch in VARIABLES {
            let Some(row) = group
                .longest
                .iter()
                .find(|row| row.what == Longest::Stretch(stretch))
            else {
                continue;
            };
            table.row([
                variable(stretch),
                &row.length_ns.to_string(),
                &name(group),
                &row.task,
                &row.begin,
                &row.end,
            ]);
        }
    }
    Part { note: "", table }
}

fn stretches(groups: &[Group]) -> Part {
    let mut table = Table::new([
        "unable to switch for",
        "variant and load",
        "task",
        "begins in",
        "ends in",
    ])
    .words([1, 2, 3, 4]);
    for group in groups
        .iter()
        .filter(|group| group.is_preemptible == Some(false))
    {
        let Some(row) = group
            .longest
            .iter()
            .find(|row| row.what == Longest::Stretch(Stretch::NoChance))
        else {
            continue;
        };
        table.row([
            &row.length_ns.to_string(),
            &name(group),
            &row.task,
            &row.begin,
            &row.end,
        ]);
    }
    Part {
        note: OF_STRETCH,
        table,
    }
}

fn latencies(groups: &[Group]) -> Part {
    let rows = || {
        groups
            .iter()
            .filter_map(|group| Some((group, group.section_latency.as_ref()?)))
    };
    let limits = rows()
        .next()
        .into_iter()
        .flat_map(|(_, row)| &row.shares)
        .map(|share| format!("above {}", share.above_ns));
    let head = [
        "latency by sections / by probes",
        "samples",
        "base latency",
        "D",
        "critical",
    ]
    .into_iter()
    .map(str::to_owned);
    let mut table = Table::new(head.chain(limits));
    for (group, row) in rows() {
        let shares = row.shares.iter().map(|share| {
            format!(
                "{} / {}",
                percent(share.by_sections),
                percent(share.by_probes)
            )
        });
        let distance = &row.distance;
        let numbers = [
            name(group),
            distance.samples.to_string(),
            row.way_ns.to_string(),
            format!("{:.4}", distance.distance),
            format!("{:.4}", distance.critical),
        ];
        table.row(numbers.into_iter().chain(shares));
    }
    Part {
        note: OF_LATENCY,
        table,
    }
}

fn percent(share: f64) -> String {
    if share == 0.0 {
        "0".to_owned()
    } else {
        format!("{:.3} %", share * 100.0)
    }
}
