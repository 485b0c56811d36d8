//! The size of the screen, and functions that break text into lines that fit.

/// The size of the screen on which text is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    pub columns: usize,
    /// Number of lines; `None` if it is unlimited.
    pub lines: Option<usize>,
}

/// Returns the text broken at blanks into lines of at most `columns`. Two blanks separate the cells
/// of a line. If a line is broken, its rest is aligned with the start of the line's last cell. If
/// this cell starts too far to the right, the rest is indented two columns more than the line.
#[must_use]
pub fn fitted(text: &str, columns: usize) -> String {
    let mut out = String::new();
    for line in text.lines() {
        if line.chars().count() <= columns {
            out.push_str(line);
            out.push('\n');
            continue;
        }
        let indent = line.chars().take_while(|&letter| letter == ' ').count();
        let cell = line
            .rfind("  ")
            .map(|blanks| line[..blanks + 2].chars().count())
            .filter(|&cell| cell > indent && 3 * cell <= 2 * columns);
        let head: String = line.chars().take(cell.unwrap_or(indent)).collect();
        let rest: String = line.chars().skip(head.chars().count()).collect();
        let start = out.len();
        push_wrapped(
            &mut out,
            &rest,
            columns,
            (head.chars().count(), cell.unwrap_or(indent + 2)),
        );
        out.replace_range(start..start + head.chars().count(), &head);
    }
    out
}

/// Appends `text`, broken at blanks. The first line starts at column `first`, and further lines
/// start at column `hanging`. A word that is too long for a line is not split, so that a command
/// can be copied.
pub(super) fn push_wrapped(
    out: &mut String,
    text: &str,
    columns: usize,
    (first, hanging): (usize, usize),
) {
    let mut indent = first;
    let mut length = 0;
    for word in words(text) {
        let width = word.chars().count();
        if length > 0 && indent + length + 1 + width > columns {
            out.push('\n');
            indent = hanging;
            length = 0;
        }
        if length == 0 {
            out.push_str(&" ".repeat(indent));
        } else {
            out.push(' ');
            length += 1;
        }
        out.push_str(word);
        length += width;
    }
    out.push('\n');
}

/// Splits a text into words. A number and its unit count as one word.
fn words(text: &str) -> impl Iterator<Item = &str> {
    const UNITS: [&str; 15] = [
        "%", "ns", "us", "ms", "s", "min", "h", "kB", "MB", "KiB", "MiB", "GiB", "Hz", "kHz", "MHz",
    ];
    let is_unit = |word: &str| UNITS.contains(&word.trim_end_matches([',', ';', ':', '.', ')']));
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut end = text.find(' ').unwrap_or(text.len());
        if text[..end].ends_with(|last: char| last.is_ascii_digit()) && end < text.len() {
            let next = text[end + 1..]
                .find(' ')
                .map_or(text.len(), |length| end + 1 + length);
            if is_unit(&text[end + 1..next]) {
                end = next;
            }
        }
        rest = text.get(end + 1..);
        Some(&text[..end])
    })
}

/// Returns as many parts of an enumeration, from its start, as fit one line, but at least the first
/// part.
pub(super) fn cut_at_commas(text: &str, columns: usize) -> &str {
    let mut end = text.len();
    while text[..end].chars().count() > columns {
        let Some(comma) = text[..end].rfind(", ") else {
            break;
        };
        end = comma;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_go_on_below_their_last_cell() {
        let text = "short\n  21 %  4.9 ms  kernel code of io, not preempted\n  one two three four \
                    five six\n";
        let expected = "short\n  21 %  4.9 ms  kernel\n                code of\n                \
                        io, not\n                preempted\n  one two three four five\n    six\n";
        assert_eq!(fitted(text, 25), expected);
        assert_eq!(fitted(text, usize::MAX), text);
        assert_eq!(
            fitted("µs  µs µs\n", 7),
            "µs  µs\n    µs\n",
            "columns are letters"
        );
    }

    #[test]
    fn text_is_broken_at_blanks_and_words_stay_whole() {
        let mut out = String::new();
        push_wrapped(
            &mut out,
            "! one two three_is_longer_than_a_line four",
            10,
            (0, 2),
        );
        assert_eq!(out, "! one two\n  three_is_longer_than_a_line\n  four\n");
    }

    #[test]
    fn a_number_stays_beside_its_unit() {
        assert_eq!(
            words("at 95 %, in 4.67 ms or 3 loads").collect::<Vec<_>>(),
            ["at", "95 %,", "in", "4.67 ms", "or", "3", "loads"]
        );
        assert_eq!(
            words("needs 1.2 MB; 8 KiB, 4 GiB or 2 kHz").collect::<Vec<_>>(),
            ["needs", "1.2 MB;", "8 KiB,", "4 GiB", "or", "2 kHz"]
        );
        assert_eq!(words("ends at 5").collect::<Vec<_>>(), ["ends", "at", "5"]);
    }

    #[test]
    fn an_enumeration_is_cut_between_its_parts() {
        assert_eq!(
            cut_at_commas("Linux 6.1, Debian, virtual machine", 20),
            "Linux 6.1, Debian"
        );
        assert_eq!(cut_at_commas("Linux 6.1, Debian", 3), "Linux 6.1");
        assert_eq!(cut_at_commas("Linux", 80), "Linux");
    }
}
