//! Stacks of the kernel as a flame graph. The width of a function is the latency that passed while
//! it ran. Callers are below the functions that they called.

use maud::{Markup, html};
use tardy_results::explain::stacks::StackRow;

use crate::report::explain_text::{share, time};

/// Height of a row in px.
const ROW: usize = 18;
/// Functions with a smaller share of the total latency are not drawn.
const SHARE_MIN: f64 = 0.002;
/// Minimum width of a rectangle that contains text, in % of the graph.
const LETTERS_MIN: f64 = 3.0;

/// A function and the functions that it called. The lowest row is a cause instead of a function.
#[derive(Debug, Default)]
struct Flame {
    name: String,
    ns: u64,
    above: Vec<Flame>,
}

impl Flame {
    fn add(&mut self, path: &mut dyn Iterator<Item = &str>, ns: u64) {
        self.ns = self.ns.saturating_add(ns);
        let Some(name) = path.next() else { return };
        let place = self
            .above
            .iter()
            .position(|flame| flame.name == name)
            .unwrap_or_else(|| {
                self.above.push(Self {
                    name: name.to_owned(),
                    ..Self::default()
                });
                self.above.len() - 1
            });
        self.above[place].add(path, ns);
    }

    /// Places rectangles for this function and the functions that it called, widest first. `left`
    /// is in % of the graph's width, and `depth` is the row.
    fn place<'a>(
        &'a self,
        left: f64,
        depth: usize,
        all: u64,
        out: &mut Vec<(&'a Self, f64, f64, usize)>,
    ) {
        let mut left = left;
        let mut above: Vec<&Self> = self.above.iter().collect();
        above.sort_by_key(|flame| std::cmp::Reverse(flame.ns));
        for flame in above {
            let part = flame.ns as f64 / all.max(1) as f64;
            if part >= SHARE_MIN {
                out.push((flame, left, part * 100.0, depth));
                flame.place(left, depth + 1, all, out);
            }
            left += part * 100.0;
        }
    }
}

/// Returns the graph; empty without stacks. `is_from_outside` means a plugin trace, which takes no
/// time of the guest.
pub(super) fn graph(rows: &[StackRow], is_from_outside: bool) -> Markup {
    let mut root = Flame::default();
    for row in rows {
        let who = tardy_results::explain::stacks::who(row)
            + if row.is_end { ", given up by" } else { "" };
        let mut path = std::iter::once(&*who).chain(row.functions.iter().rev().map(String::as_str));
        root.add(&mut path, row.sum_ns);
    }
    let mut flames = Vec::new();
    root.place(0.0, 0, root.ns, &mut flames);
    let rows_high = flames
        .iter()
        .map(|&(.., depth)| depth + 1)
        .max()
        .unwrap_or(0);
    let percent = |value: f64| format!("{value:.3}%");
    html! {
        @if !flames.is_empty() {
            h3 { "Functions that made samples late" }
            p class="note" {
                "Kernel stacks. A function is as wide as the latency that it and its callees caused (" (time(root.ns)) " in all). Callers are below their callees. "
                @if !is_from_outside { "Recording a stack takes up to tens of microseconds: do not compare these latencies with those of other runs." }
            }
            svg class="flames" width="100%" height=(rows_high * ROW) role="img" aria-label="Flame graph of latency by kernel function" {
                @for (flame, left, width, depth) in flames {
                    svg x=(percent(left)) y=((rows_high - 1 - depth) * ROW) width=(percent(width)) height=(ROW) {
                        title { (flame.name) ": " (time(flame.ns)) ", " (share(flame.ns, root.ns)) }
                        rect width="100%" height=(ROW) style=(if depth == 0 { "fill:var(--alarm);fill-opacity:.35;stroke:var(--surface)" } else { "fill:var(--series-1);fill-opacity:.35;stroke:var(--surface)" }) {}
                        @if width >= LETTERS_MIN { text x="4" y="13" font-size="11" fill="currentColor" { (flame.name) } }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tardy_trace::explain::Cause;

    use super::*;

    #[test]
    fn functions_are_as_wide_as_their_lateness_and_stand_on_their_callers() {
        let row = |functions: &[&str], sum_ns| StackRow {
            cause: Cause::PreemptionOff,
            name: "dd".into(),
            is_end: false,
            functions: functions.iter().map(|&name| name.into()).collect(),
            sum_ns,
            samples: 1,
            max_ns: sum_ns,
        };
        let rows = [
            row(&["clear_page", "read"], 600),
            row(&["<lock>", "read"], 400),
            row(&["rare"], 1),
        ];
        let drawn = graph(&rows, false).into_string();
        let at = |name: &str| {
            let (before, _) = drawn
                .split_once(&format!("<title>{name}"))
                .unwrap_or_else(|| panic!("no {name} in {drawn}"));
            before
                .rsplit_once("<svg ")
                .unwrap()
                .1
                .trim_end_matches('>')
                .to_owned()
        };
        assert_eq!(
            at("preemption off in dd"),
            "x=\"0.000%\" y=\"36\" width=\"100.000%\" height=\"18\""
        );
        assert_eq!(
            at("read"),
            "x=\"0.000%\" y=\"18\" width=\"99.900%\" height=\"18\""
        );
        assert_eq!(
            at("clear_page"),
            "x=\"0.000%\" y=\"0\" width=\"59.940%\" height=\"18\""
        );
        assert_eq!(
            at("&lt;lock&gt;"),
            "x=\"59.940%\" y=\"0\" width=\"39.960%\" height=\"18\""
        );
        assert!(!drawn.contains("rare"), "too little to be seen");
        assert_eq!(graph(&[], false).into_string(), "");
    }
}
