//! A comparison as Markdown. Names and facts come from runs, so Markdown and HTML syntax in them is
//! escaped.

use std::fmt::Write as _;

use tardy_results::compare::model::Comparison;

use super::cells;

#[must_use]
pub fn text(comparison: &Comparison) -> String {
    let mut out = String::new();
    for candidate in &comparison.candidates {
        let (new, base) = (escape(&candidate.side.name), escape(&comparison.base.name));
        let _ = writeln!(
            out,
            "## {new} against {base}: {}\n",
            candidate.verdict.word()
        );
        let _ = writeln!(
            out,
            "**{}** (margin {})\n",
            escape(&candidate.reason),
            comparison.settings.margin
        );
        candidate.warnings.iter().for_each(|warning| {
            let _ = writeln!(out, "- :warning: {}", escape(warning));
        });
        if !candidate.warnings.is_empty() {
            out.push('\n');
        }
        out.push_str(&table(
            &cells::overview_head(),
            &cells::overview(&candidate.tables, true),
        ));
        for note in cells::notes(&candidate.tables) {
            let _ = writeln!(out, "\n{}", escape(note));
        }
        for compared in &candidate.tables {
            let _ = writeln!(out, "\n### {}\n", escape(&compared.key.to_string()));
            out.push_str(&table(
                &cells::head(compared, &comparison.settings),
                &cells::rows(compared),
            ));
            let _ = writeln!(
                out,
                "\n{}",
                escape(&cells::title(compared, &comparison.settings))
            );
            for line in cells::open_ends(compared) {
                let _ = writeln!(out, "\n{}", escape(&line));
            }
        }
        if !candidate.changed.is_empty() {
            out.push_str("\n### What else changed\n\n");
            let known =
                |value: &Option<String>| value.clone().unwrap_or_else(|| "(unknown)".to_owned());
            let rows: Vec<Vec<String>> = candidate
                .changed
                .iter()
                .map(|fact| vec![fact.fact.clone(), known(&fact.base), known(&fact.candidate)])
                .collect();
            out.push_str(&table(&["fact", "base", "new"].map(str::to_owned), &rows));
        }
        out.push('\n');
    }
    out
}

/// Returns a table with right-aligned numbers.
#[must_use]
pub fn table(head: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| {
        format!(
            "| {} |\n",
            cells
                .iter()
                .map(|cell| escape(cell))
                .collect::<Vec<_>>()
                .join(" | ")
        )
    };
    let rule = std::iter::once("---")
        .chain(std::iter::repeat_n("---:", head.len().saturating_sub(1)))
        .collect::<Vec<_>>()
        .join("|");
    let mut out = line(head) + &format!("|{rule}|\n");
    rows.iter().for_each(|row| out.push_str(&line(row)));
    out
}

/// Escapes Markdown and HTML syntax.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '!' => {
                out.push('\\');
                out.push(character);
            }
            character if character.is_control() => out.push(' '),
            character => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_say_stays_inert() {
        assert_eq!(
            escape("<script>a|b\n`x`</script>"),
            "&lt;script&gt;a\\|b \\`x\\`&lt;/script&gt;"
        );
        assert_eq!(
            table(&["a".into(), "b".into()], &[vec!["|".into(), "1".into()]]),
            "| a | b |\n|---|---:|\n| \\| | 1 |\n"
        );
    }
}
