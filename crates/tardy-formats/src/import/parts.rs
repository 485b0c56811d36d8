//! Selects one of several measurements in a file, such as a log of two runs, or two outputs pasted
//! together. If the measurements were combined, the numbers would describe none of them.

use super::{ImportError, Source};

/// Finds the lines, counted from 0, at which measurements start. With fewer than two such lines,
/// the text holds one measurement.
pub(super) type Parts = fn(&[&str]) -> Vec<usize>;

/// Selects the requested part of a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    pub(super) parts: Parts,
    /// The requested part, counted from 1.
    pub(super) wanted: Option<usize>,
}

impl Cut {
    /// Returns the text with the lines of other parts made empty, so that line numbers stay the
    /// same.
    pub(super) fn apply(self, source: &Source, text: String) -> Result<String, ImportError> {
        let lines: Vec<&str> = text.lines().collect();
        let mut begins = (self.parts)(&lines);
        if begins.is_empty() {
            begins.push(0);
        }
        let wanted = match self.wanted {
            None if begins.len() == 1 => return Ok(text),
            Some(wanted) if (1..=begins.len()).contains(&wanted) => wanted - 1,
            _ => {
                return Err(ImportError::Several {
                    path: source.path.clone(),
                    parts: begins.len(),
                    lines: listed(&begins),
                });
            }
        };
        let from = if wanted == 0 { 0 } else { begins[wanted] };
        let end = begins.get(wanted + 1).copied().unwrap_or(lines.len());
        let mut out = String::with_capacity(text.len());
        for (at, line) in lines.iter().enumerate() {
            if (from..end).contains(&at) {
                out.push_str(line);
            }
            out.push('\n');
        }
        Ok(out)
    }
}

/// Formats line numbers, counted from 1, as a list such as `1, 45 and 99`.
fn listed(begins: &[usize]) -> String {
    let numbers: Vec<String> = begins.iter().map(|line| (line + 1).to_string()).collect();
    match numbers.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => numbers.concat(),
    }
}

/// Finds no starts. This function is for formats with only one measurement per file, and for
/// formats with a reader that detects a second measurement itself.
pub(super) fn one(_: &[&str]) -> Vec<usize> {
    Vec::new()
}

/// Returns the lines that `is_begin` recognises.
pub(super) fn at(lines: &[&str], is_begin: impl Fn(&str) -> bool) -> Vec<usize> {
    let found = lines.iter().enumerate();
    found
        .filter(|(_, line)| is_begin(line))
        .map(|(at, _)| at)
        .collect()
}

/// Returns the lines with the braces that open JSON documents.
pub(super) fn documents(lines: &[&str]) -> Vec<usize> {
    let (mut begins, mut depth, mut is_text) = (Vec::new(), 0_i64, false);
    for (at, line) in lines.iter().enumerate() {
        let mut is_escaped = false;
        for byte in line.bytes() {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => is_text = !is_text,
                b'{' if !is_text => {
                    if depth == 0 {
                        begins.push(at);
                    }
                    depth += 1;
                }
                b'}' if !is_text => depth -= 1,
                _ => {}
            }
        }
        // Tools do not escape quotes within a command line, so no string extends beyond its line.
        is_text = false;
    }
    begins
}

/// Finds runs among repeated summary lines. Counts grow within a run, so a new run starts when the
/// count of a thread falls or its process changes. `summary` returns thread, process and count of a
/// line.
pub(super) fn summaries(
    lines: &[&str],
    summary: impl Fn(&str) -> Option<(u32, String, u64)>,
) -> Vec<usize> {
    let mut begins = Vec::new();
    let mut seen: Vec<(u32, String, u64)> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some((thread, process, count)) = summary(line) else {
            continue;
        };
        let before = seen.iter_mut().find(|(other, ..)| *other == thread);
        match before {
            Some(before) if before.1 == process && before.2 <= count => before.2 = count,
            Some(_) => {
                begins.push(at);
                seen = vec![(thread, process, count)];
            }
            None => {
                if begins.is_empty() {
                    begins.push(at);
                }
                seen.push((thread, process, count));
            }
        }
    }
    begins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_begin_at_the_outermost_braces() {
        let lines = ["", "{ \"a}\": {", "}}", "noise", "{\"b\": 1} {", "}"];
        assert_eq!(documents(&lines), [1, 4, 4]);
    }

    #[test]
    fn a_run_ends_where_counts_fall_or_the_process_changes() {
        let summary = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            Some((
                words[0].parse().ok()?,
                words.get(1)?.to_string(),
                words.get(2)?.parse().ok()?,
            ))
        };
        let of = |lines: &[&str]| summaries(lines, summary);
        assert_eq!(of(&["0 7 1", "1 8 1", "0 7 5", "1 8 5"]), [0]);
        assert_eq!(of(&["", "0 7 5", "1 8 5", "0 7 1", "1 8 1"]), [1, 3]);
        assert_eq!(of(&["0 7 5", "0 9 50"]), [0, 1]);
    }

    #[test]
    fn one_part_is_read_and_lines_keep_their_numbers() {
        let source = Source::of_bytes(Vec::new());
        let text = "pre\nrun\n1\nrun\n2\n";
        let cut = |wanted| Cut {
            parts: |lines| at(lines, |line| line == "run"),
            wanted,
        };
        let of = |wanted| cut(wanted).apply(&source, text.to_owned());
        assert_eq!(of(Some(1)).unwrap(), "pre\nrun\n1\n\n\n");
        assert_eq!(of(Some(2)).unwrap(), "\n\n\nrun\n2\n");
        for wanted in [None, Some(0), Some(3)] {
            let refused = of(wanted).unwrap_err().to_string();
            assert!(
                refused.contains("2 measurements, at lines 2 and 4"),
                "{refused}"
            );
        }
    }
}
