//! Stacks of the kernel as a flame graph. The width of a function is the part of the latency during
//! which it, or a function that it called, ran. Callers are below the functions that they called.

use maud::{Markup, html};
use tardy_outside::call_difference::PathDifference;
use tardy_results::explain::stacks::StackRow;

use crate::report::explain_text::{share, time};

/// Height of a row in px.
const ROW: usize = 18;
/// Smallest share of the total latency for which a function is drawn.
const SHARE_MIN: f64 = 0.002;
/// Minimum width of a rectangle that contains text, in % of the graph.
const LETTERS_MIN: f64 = 3.0;

/// A function and the functions that it called. The lowest row is a cause or a task instead of a
/// function.
#[derive(Debug, Default)]
struct Flame {
    name: String,
    width_ns: u64,
    /// How long the function, and the functions that it called, ran in each of the two compared
    /// latencies.
    base_ns: u64,
    new_ns: u64,
    above: Vec<Flame>,
}

impl Flame {
    /// Adds the time of a stack to this function and to each function on `path`.
    fn add(&mut self, path: &mut dyn Iterator<Item = &str>, base_ns: u64, new_ns: u64) {
        self.width_ns = self.width_ns.saturating_add(base_ns.max(new_ns));
        self.base_ns = self.base_ns.saturating_add(base_ns);
        self.new_ns = self.new_ns.saturating_add(new_ns);
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
        self.above[place].add(path, base_ns, new_ns);
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
        above.sort_by_key(|flame| std::cmp::Reverse(flame.width_ns));
        for flame in above {
            let part = flame.width_ns as f64 / all.max(1) as f64;
            if part >= SHARE_MIN {
                out.push((flame, left, part * 100.0, depth));
                flame.place(left, depth + 1, all, out);
            }
            left += part * 100.0;
        }
    }

    /// Draws the functions above this root. `look` returns the title and the colour of a rectangle
    /// in row `depth`.
    fn drawn(&self, label: &str, look: impl Fn(&Self, usize) -> (String, String)) -> Markup {
        let mut flames = Vec::new();
        self.place(0.0, 0, self.width_ns, &mut flames);
        let depths = flames.iter().map(|&(.., depth)| depth + 1);
        let rows_high = depths.max().unwrap_or(0);
        let percent = |value: f64| format!("{value:.3}%");
        html! {
            svg class="flames" width="100%" height=(rows_high * ROW) role="img" aria-label=(label) {
                @for (flame, left, width, depth) in flames {
                    @let (title, colour) = look(flame, depth);
                    svg x=(percent(left)) y=((rows_high - 1 - depth) * ROW) width=(percent(width)) height=(ROW) {
                        title { (flame.name) ": " (title) }
                        rect width="100%" height=(ROW) style=(format!("fill:{colour};stroke:var(--surface)")) {}
                        @if width >= LETTERS_MIN { text x="4" y="13" font-size="11" fill="currentColor" { (flame.name) } }
                    }
                }
            }
        }
    }
}

/// Returns the graph; empty if there are no stacks. `is_from_outside` is true for a plugin trace.
/// Recording such a trace takes no time of the guest.
pub(super) fn graph(rows: &[StackRow], is_from_outside: bool) -> Markup {
    let mut root = Flame::default();
    for row in rows {
        let who = tardy_results::explain::stacks::who(row)
            + if row.is_end { ", CPU given up in" } else { "" };
        let mut path = std::iter::once(&*who).chain(row.functions.iter().rev().map(String::as_str));
        root.add(&mut path, 0, row.sum_ns);
    }
    let all = root.width_ns;
    html! {
        @if all > 0 {
            h3 { "Functions that made samples late" }
            p class="note" {
                "Kernel stacks. A function is as wide as the latency that it and its callees caused (" (time(all)) " in all). Callers are below their callees. "
                @if !is_from_outside { "Recording a stack takes up to tens of microseconds: do not compare these latencies with those of other runs." }
            }
            (root.drawn("Flame graph of latency by kernel function", |flame, depth| {
                let colour = if depth == 0 { "--alarm" } else { "--series-1" };
                let title = format!("{}, {}", time(flame.width_ns), share(flame.width_ns, all));
                (title, format!("var({colour});fill-opacity:.35"))
            }))
        }
    }
}

/// Returns the graph that shows the difference between two latencies.
pub(super) fn difference(paths: &[PathDifference]) -> Markup {
    let mut root = Flame::default();
    for path in paths {
        let mut names = path.functions.iter().map(String::as_str);
        root.add(&mut names, path.base_ns, path.new_ns);
    }
    html! {
        p class="note" {
            "The width of a function is the time that it and its callees took on the side where that time was longer. Callers are below their callees. A red function took longer on the new side, a blue one on the base's side; the stronger the colour, the larger the difference."
        }
        (root.drawn("Flame graph of the difference by kernel function", |flame, _| {
            let (base, new) = (flame.base_ns, flame.new_ns);
            let title = format!("{} -> {}", time(base), time(new));
            let strength = base.abs_diff(new) as f64 / base.max(new).max(1) as f64;
            let colour = if new > base { "--alarm" } else { "--series-0" };
            (title, format!("var({colour});fill-opacity:{:.2}", 0.05 + 0.6 * strength))
        }))
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

    #[test]
    fn a_function_that_one_side_lacks_is_as_wide_as_on_the_other() {
        let path = |functions: &[&str], base_ns, new_ns| PathDifference {
            functions: functions.iter().map(|&name| name.to_owned()).collect(),
            base_ns,
            new_ns,
        };
        let drawn = difference(&[
            path(&["irq"], 100, 100),
            path(&["irq", "gone"], 300, 0),
            path(&["irq", "longer"], 200, 600),
        ])
        .into_string();
        for part in [
            "<title>irq: 600 ns -> 700 ns</title>",
            "width=\"60.000%\" height=\"18\"><title>longer: 200 ns -> 600 ns</title>",
            "width=\"30.000%\" height=\"18\"><title>gone: 300 ns -> 0</title>",
            "fill:var(--series-0);fill-opacity:0.65",
            "fill:var(--alarm);fill-opacity:0.45",
        ] {
            assert!(
                drawn.contains(&part.replace("->", "-&gt;")),
                "{part} in {drawn}"
            );
        }
    }
}
