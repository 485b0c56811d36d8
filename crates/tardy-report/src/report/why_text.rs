//! The difference between two latencies as text.

use std::fmt::Write;

use tardy_core::units::Nanos;
use tardy_outside::call_difference::FunctionDifference;
use tardy_results::why::{Why, WhySide};

use super::table::Table;

/// Maximum number of functions that are listed, unless all are requested.
const FUNCTIONS: usize = 20;

/// Returns the comparison, with every function if `is_full`.
#[must_use]
pub fn text(why: &Why, is_full: bool) -> String {
    let mut text = String::new();
    let mut line = |words: std::fmt::Arguments<'_>| {
        text.write_fmt(words)
            .expect("writing to a string cannot fail");
        text.push('\n');
    };
    line(format_args!("{}", headline(why)));
    line(format_args!("base: {}", side(&why.base, why.quantile)));
    line(format_args!("new:  {}", side(&why.new, why.quantile)));
    let table = table(why, is_full);
    if !table.parts().1.is_empty() {
        line(format_args!("{}", table.text().trim_end()));
    }
    let equal = why.functions.len() - changed(why).count();
    match equal {
        0 => {}
        1 => line(format_args!("1 function took the same time on both sides")),
        _ => line(format_args!(
            "{equal} functions took the same time on both sides"
        )),
    }
    text
}

fn changed(why: &Why) -> impl Iterator<Item = &FunctionDifference> {
    why.functions.iter().filter(|row| row.base_ns != row.new_ns)
}

/// Returns the functions whose times differ between the two latencies, the largest difference
/// first.
pub(crate) fn table(why: &Why, is_full: bool) -> Table {
    let changed: Vec<&FunctionDifference> = changed(why).collect();
    let shown = if is_full { changed.len() } else { FUNCTIONS };
    let mut table = Table::new([
        "function",
        "instructions: base",
        "new",
        "difference",
        "cumulative",
        "calls",
    ]);
    let instructions = |ns: i64| instructions(ns, why.instruction_ns);
    let mut cumulated = 0;
    for row in changed.iter().take(shown) {
        cumulated += row.difference_ns();
        table.row([
            name(row),
            instructions(row.base_ns.cast_signed()),
            instructions(row.new_ns.cast_signed()),
            signed(&instructions(row.difference_ns())),
            signed(&instructions(cumulated)),
            calls(row),
        ]);
    }
    if let Some(rest) = changed.get(shown..).filter(|rest| !rest.is_empty()) {
        let sum = |of: &dyn Fn(&FunctionDifference) -> u64| {
            rest.iter().map(|row| of(row)).sum::<u64>().cast_signed()
        };
        let (base, new) = (sum(&|row| row.base_ns), sum(&|row| row.new_ns));
        table.row([
            format!("{} others", rest.len()),
            instructions(base),
            instructions(new),
            signed(&instructions(new - base)),
            signed(&instructions(why.difference_ns)),
            String::new(),
        ]);
    }
    table
}

pub(crate) fn headline(why: &Why) -> String {
    let of = match why.quantile {
        None => "largest latency".to_owned(),
        Some(quantile) => format!("{} % quantile", quantile * 100.0),
    };
    let [base, new] = [&why.base, &why.new].map(|side| nanos(side.latency_ns));
    let (length, word) = match why.difference_ns {
        0 => {
            return format!("Both sides have the same {of}, {base}.");
        }
        difference if difference > 0 => (difference, "longer"),
        difference => (-difference, "shorter"),
    };
    let main = why.functions.first().map_or_else(String::new, |row| {
        format!(
            " Largest difference: {} ({} instructions).",
            name(row),
            signed(&instructions(row.difference_ns(), why.instruction_ns))
        )
    });
    format!(
        "The {of} of the new side is {} {word} ({base} -> {new}), {} instructions.{main}",
        Nanos(length),
        signed(&instructions(why.difference_ns, why.instruction_ns)),
    )
}

fn side(side: &WhySide, quantile: Option<f64>) -> String {
    let rank = match quantile {
        None => "the largest".to_owned(),
        Some(quantile) => format!("the {} % quantile", quantile * 100.0),
    };
    format!(
        "{}: {} under {}, {rank} of {} samples; {}",
        side.kernel,
        nanos(side.latency_ns),
        side.phase,
        side.samples,
        side.run.display()
    )
}

fn name(row: &FunctionDifference) -> String {
    let mut name = row.function.clone();
    if let Some(renamed) = &row.renamed_to {
        let _ = write!(name, " -> {renamed}");
    }
    if !row.with.is_empty() {
        let _ = write!(name, " (with {})", row.with.join(", "));
    }
    name
}

fn calls(row: &FunctionDifference) -> String {
    if row.base_calls == row.new_calls {
        row.base_calls.to_string()
    } else {
        format!("{} -> {}", row.base_calls, row.new_calls)
    }
}

fn nanos(ns: u64) -> Nanos {
    Nanos(i64::try_from(ns).unwrap_or(i64::MAX))
}

/// Formats a time as a number of instructions. The number is whole, unless a clock was read in the
/// middle of an instruction.
fn instructions(ns: i64, instruction_ns: u64) -> String {
    let length = i64::try_from(instruction_ns.max(1)).unwrap_or(i64::MAX);
    if ns % length == 0 {
        (ns / length).to_string()
    } else {
        format!("{:.2}", ns as f64 / length as f64)
    }
}

fn signed(number: &str) -> String {
    if number.starts_with('-') || number == "0" {
        number.to_owned()
    } else {
        format!("+{number}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(function: &str, base_ns: u64, new_ns: u64, calls: (u64, u64)) -> FunctionDifference {
        FunctionDifference {
            function: function.to_owned(),
            base_ns,
            new_ns,
            base_calls: calls.0,
            new_calls: calls.1,
            ..FunctionDifference::default()
        }
    }

    fn side(kernel: &str, latency_ns: u64) -> WhySide {
        WhySide {
            run: kernel.into(),
            kernel: format!("Linux {kernel}"),
            phase: "idle".to_owned(),
            due_ns: Nanos(1),
            latency_ns,
            samples: 1000,
        }
    }

    #[test]
    fn the_table_adds_up_to_the_difference_of_the_headline() {
        let mut functions = vec![
            row("tick", 800, 2400, (2, 4)),
            row("rearm", 400, 440, (1, 1)),
            row("irq", 80, 76, (1, 1)),
            row("same", 40, 40, (1, 1)),
        ];
        functions[1].renamed_to = Some("restart".to_owned());
        functions[2].with = vec!["exit".to_owned()];
        let why = Why {
            base: side("6.12", 1320),
            new: side("7.3", 2956),
            quantile: None,
            instruction_ns: 4,
            difference_ns: 1636,
            functions,
            paths: Vec::new(),
        };
        assert_eq!(
            text(&why, false),
            "The largest latency of the new side is 1.64 us longer (1.32 us -> 2.96 us), +409 \
             instructions. Largest difference: tick (+400 instructions).\n\
             base: Linux 6.12: 1.32 us under idle, the largest of 1000 samples; 6.12\n\
             new:  Linux 7.3: 2.96 us under idle, the largest of 1000 samples; 7.3\n\
             function          instructions: base  new  difference  cumulative   calls\n\
             tick                             200  600        +400        +400  2 -> 4\n\
             rearm -> restart                 100  110         +10        +410       1\n\
             irq (with exit)                   20   19          -1        +409       1\n\
             1 function took the same time on both sides\n"
        );
        let equal = Why {
            difference_ns: 0,
            new: side("7.3", 1320),
            functions: Vec::new(),
            ..why
        };
        assert!(
            text(&equal, false)
                .starts_with("Both sides have the same largest latency, 1.32 us.\nbase: ")
        );
    }
}
