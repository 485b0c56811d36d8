//! Reads plain numbers, one per line, or a column of a table. The values of any tool can be
//! converted to this form. The user must give the unit, and the column if there are several. The
//! order of values is that of the file.

use std::io::{BufRead, BufReader, Read};

use super::in_order::{InOrder, TIME_MAX};
use super::sink::{ImportedRun, Sink};
use super::text::{head_lines, nanos};
use super::{Format, ImportError, Settings, Source, parts};

pub(super) const FORMAT: Format = Format {
    name: "values",
    about: "plain numbers, one per line, or one column (--column) of a table; needs --unit",
    detect,
    reader: read,
    parts: parts::one,
    is_binary: false,
};

const LINE_BYTES_MAX: u64 = 1 << 20;
/// Number of lines at the start of the file that are checked.
const LINES_LOOKED_AT: usize = 50;
const SEPARATORS: [char; 3] = [',', ';', '\t'];

/// Detects numbers, one per line, and tables: lines with the same number of fields, with at least
/// one number in each line. The first line may contain only names.
fn detect(head: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(whole_lines(head)) else {
        return false;
    };
    let lines = head_lines(text.as_bytes());
    let mut rows = lines
        .iter()
        .filter(|line| !is_skipped(line))
        .take(LINES_LOOKED_AT);
    let Some(first) = rows.next() else {
        return false;
    };
    let separator = separator(first);
    let (first, rest): (_, Vec<Vec<String>>) = (
        fields(first, separator),
        rows.map(|line| fields(line, separator)).collect(),
    );
    let has_number = |row: &Vec<String>| row.iter().any(|field| is_number(field));
    let all_alike = rest
        .iter()
        .all(|row| row.len() == first.len() && has_number(row));
    all_alike && (has_number(&first) || !rest.is_empty())
}

/// Returns whether a table looks like a histogram: its first column rises in equal steps, and the
/// other columns are whole numbers, some of them zero. Latencies rarely look like this.
pub(super) fn is_histogram(text: &str) -> bool {
    let whole_lines = text.rfind('\n').map_or(text, |end| &text[..end]);
    let rows = whole_lines.lines().filter(|line| !is_skipped(line));
    let rows: Vec<Vec<String>> = rows
        .take(LINES_LOOKED_AT)
        .map(|line| fields(line, separator(line)))
        .skip_while(|row| !row.iter().all(|field| is_number(field)))
        .collect();
    let width = rows.first().map_or(0, Vec::len);
    if rows.len() < 3 || width < 2 || rows.iter().any(|row| row.len() != width) {
        return false;
    }
    let steps: Option<Vec<i64>> = rows.iter().map(|row| row[0].parse().ok()).collect();
    let rises_evenly = steps.is_some_and(|steps| {
        let step = steps[1] - steps[0];
        step > 0 && steps.windows(2).all(|pair| pair[1] - pair[0] == step)
    });
    let counts = rows.iter().flat_map(|row| &row[1..]);
    let counts: Option<Vec<u64>> = counts.map(|field| field.parse().ok()).collect();
    rises_evenly && counts.is_some_and(|counts| counts.contains(&0))
}

/// Removes the last line, which may be truncated.
fn whole_lines(head: &[u8]) -> &[u8] {
    let end = head.iter().rposition(|&byte| byte == b'\n');
    end.map_or(head, |end| &head[..end])
}

fn is_skipped(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with('#')
}

fn is_number(field: &str) -> bool {
    field.parse::<f64>().is_ok()
}

/// Returns the first of [`SEPARATORS`] that occurs in the line; `None` if fields are separated by
/// blanks.
fn separator(line: &str) -> Option<char> {
    SEPARATORS
        .into_iter()
        .find(|&separator| line.contains(separator))
}

/// Splits a line into fields. A quoted field may contain separators.
fn fields(line: &str, separator: Option<char>) -> Vec<String> {
    let Some(separator) = separator else {
        return line.split_whitespace().map(str::to_owned).collect();
    };
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    for character in line.trim_end_matches(['\n', '\r']).chars() {
        match fields.last_mut() {
            _ if character == '"' => is_quoted = !is_quoted,
            _ if character == separator && !is_quoted => fields.push(String::new()),
            Some(field) => field.push(character),
            None => {}
        }
    }
    fields.iter().map(|field| field.trim().to_owned()).collect()
}

/// The layout of the lines, derived from the first line.
struct Layout {
    separator: Option<char>,
    fields: usize,
    /// Index of the column with the values.
    column: usize,
    /// Name of the values in messages.
    name: String,
}

fn read(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let unit = settings
        .unit
        .ok_or_else(|| source.ask("a file of values", "their unit", "--unit ns (or us, ms, s)"))?;
    let named = source.name_only();
    let unwritable = |error| ImportError::Unwritable {
        path: named.path.clone(),
        error,
    };
    let mut input = BufReader::with_capacity(1 << 20, &mut source.input);
    let (mut bytes, mut line) = (Vec::new(), 0_u64);
    let mut sink = Some(sink);
    let mut known: Option<(Layout, InOrder<'_>)> = None;
    loop {
        bytes.clear();
        if (&mut input)
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut bytes)
            .map_err(|error| named.unreadable(error))?
            == 0
        {
            break;
        }
        line += 1;
        let text = String::from_utf8_lossy(&bytes);
        let text = if line == 1 {
            text.trim_start_matches('\u{feff}')
        } else {
            &text
        };
        if is_skipped(text) {
            continue;
        }
        if let Some(sink) = sink.take() {
            let (layout, is_head) = layout(&named, settings, line, text)?;
            let series =
                InOrder::open(sink, ("values", None), settings, unit).map_err(unwritable)?;
            known = Some((layout, series));
            if is_head {
                continue;
            }
        }
        let Some((layout, series)) = &mut known else {
            continue;
        };
        let value = value(&named, layout, line, text)?;
        let latency = nanos(&value, unit).filter(|latency| latency.abs() < TIME_MAX);
        let latency = latency.ok_or_else(|| {
            named.expected(
                line,
                format!("a number of {} in {}", unit.word(), layout.name),
                &value,
            )
        })?;
        series
            .push(latency)
            .map_err(unwritable)?
            .ok_or_else(|| named.expected(line, "a run of less than 70 years", text))?;
    }
    match known {
        Some((_, series)) if !series.is_empty() => Ok(series.close("values")),
        _ => Err(named.expected(line.max(1), "numbers, one per line", "the end of the file")),
    }
}

/// Derives the layout from the first line. Also returns whether this line contains names.
fn layout(
    source: &Source,
    settings: &Settings,
    line: u64,
    text: &str,
) -> Result<(Layout, bool), ImportError> {
    let separator = separator(text);
    let first = fields(text, separator);
    let is_head = !first.iter().any(|field| is_number(field));
    let names = || {
        if is_head {
            first.join(", ")
        } else {
            format!("1 to {}", first.len())
        }
    };
    let column = match &settings.column {
        None if first.len() == 1 => 0,
        None => {
            return Err(source.ask(
                "a table",
                "which column holds the values",
                format!("--column, one of {}", names()),
            ));
        }
        Some(wanted) => {
            let by_name = first.iter().position(|name| is_head && name == wanted);
            let by_number = || {
                wanted
                    .parse::<usize>()
                    .ok()
                    .filter(|number| (1..=first.len()).contains(number))
                    .map(|number| number - 1)
            };
            let found = by_name.or_else(by_number);
            found.ok_or_else(|| {
                source.expected(
                    line,
                    format!("a column `{wanted}`"),
                    &format!("columns {}", names()),
                )
            })?
        }
    };
    let name = if is_head {
        format!("column {}", first[column])
    } else {
        format!("column {}", column + 1)
    };
    Ok((
        Layout {
            separator,
            fields: first.len(),
            column,
            name,
        },
        is_head,
    ))
}

fn value(source: &Source, layout: &Layout, line: u64, text: &str) -> Result<String, ImportError> {
    let mut fields = fields(text, layout.separator);
    if fields.len() != layout.fields {
        let expected = if layout.fields == 1 {
            "one number".to_owned()
        } else {
            format!("{} fields, as in the first line", layout.fields)
        };
        return Err(source.expected(line, expected, text));
    }
    Ok(fields.swap_remove(layout.column))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_tables_are_told_from_text() {
        for values in [
            "1\n2\n",
            "latency\n1.5\n-2e3\n",
            "# of today\n7\n",
            "a,b\n1,2\n",
            "cpu;us\n0;1\n1;2\n",
            "\"a,b\",c\n1,2\n",
            "5",
        ] {
            assert!(detect(values.as_bytes()), "{values}");
        }
        for other in [
            "",
            "hello\n",
            "nothing known\n",
            "hello world\nof text\n",
            "1,2\n3\n",
            "a\nb\n",
            "{\"a\": 1}\n",
            "\u{0}\u{1}\n",
        ] {
            assert!(!detect(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn a_quoted_field_may_hold_separators() {
        assert_eq!(fields("\"a,b\", c ,\"\"\r\n", Some(',')), ["a,b", "c", ""]);
        assert_eq!(fields(" 1  2\n", None), ["1", "2"]);
    }
}
