//! Cleans text that people paste. Such text may be in UTF-16, start with a byte order mark, contain
//! cursor escapes, be indented, be quoted in a mail, or have a log's prefix on each line. A mail
//! program may have broken a result into two lines.
//!
//! Readers then see the tool's own output. Line numbers stay the same.

use std::borrow::Cow;

/// Bytes of the head that are checked for an encoding.
const PROBED: usize = 512;
/// Lines of the head that are checked for a log's prefix.
const LINES_PROBED: usize = 128;
/// Maximum number of bytes of the head that [`is_wrapped`] reads.
const HEAD_PROBED: usize = 16 << 10;

/// Returns the text of `bytes` as the tool printed it. Bytes that are not UTF-8 become U+FFFD.
pub(super) fn cleaned(bytes: &[u8]) -> String {
    let text = decoded(bytes);
    // Most files need no cleaning.
    let is_wrapped = is_wrapped(bytes) || memchr::memchr2(b'\x1b', 8, text.as_bytes()).is_some();
    let is_comment = is_comment(&text);
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (body, end) = match line.strip_suffix('\n') {
            Some(body) => (body.strip_suffix('\r').unwrap_or(body), "\n"),
            None => (line, ""),
        };
        let body = if is_comment { uncommented(body) } else { body };
        let body = if is_wrapped || body.contains('\r') {
            cleaned_line(body)
        } else {
            Cow::Borrowed(body.trim_start_matches([' ', '\t']))
        };
        out.push_str(body.strip_prefix("^C").unwrap_or(&body));
        out.push_str(end);
    }
    joined(out)
}

/// Returns a line without its comment mark.
fn uncommented(line: &str) -> &str {
    let line = line.trim_start();
    let behind = line.strip_prefix('#').unwrap_or(line);
    behind.strip_prefix(' ').unwrap_or(behind)
}

/// Returns whether all lines are comments and one of them contains results, as in a report that was
/// pasted into a script. Tools do not print results after `# `.
fn is_comment(text: &str) -> bool {
    if !text.trim_start().starts_with("# ") {
        return false;
    }
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_result =
        |text: &str| text.starts_with("T:") || text.starts_with(|sign: char| sign.is_ascii_digit());
    let has_results = lines.clone().any(|line| is_result(uncommented(line)));
    has_results && lines.all(|line| line == "#" || line.starts_with("# "))
}

/// Joins the lines of each result about a thread (`T: 0 ...`) that a mail program broke. Line
/// numbers stay the same.
fn joined(text: String) -> String {
    let is_broken = |line: &str| line.starts_with("T:") && line.contains('(') && !is_ended(line);
    if !text.lines().any(is_broken) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut lines = text.split('\n').peekable();
    while let Some(line) = lines.next() {
        out.push_str(line);
        let next = lines.peek().filter(|next| is_broken(line) && is_rest(next));
        if let Some(next) = next.copied() {
            lines.next();
            out.push(' ');
            out.push_str(next);
            out.extend(lines.peek().map(|_| '\n'));
        }
        out.extend(lines.peek().map(|_| '\n'));
    }
    out
}

/// Returns whether a line about a thread is complete, which means that it has its last value.
fn is_ended(line: &str) -> bool {
    let behind = line.rsplit_once("Max:").map(|(_, behind)| behind.trim());
    behind.is_some_and(|value| !value.is_empty())
}

/// Returns whether a line is the second half of a broken line, which has the last names and values.
fn is_rest(line: &str) -> bool {
    let mut words = line.split_whitespace().peekable();
    words.peek().is_some()
        && words.all(|word| {
            let is_name = ["I:", "C:", "Min:", "Act:", "Avg:", "Max:"].contains(&word);
            is_name || word.parse::<i64>().is_ok()
        })
}

/// Returns whether `head` has more to clean than indentation and carriage returns. Such a text must
/// be cleaned as a whole before it is read.
pub(super) fn is_wrapped(head: &[u8]) -> bool {
    let head = &head[..head.len().min(HEAD_PROBED)];
    let has_mark =
        matches!(head, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) || head.starts_with(UTF_8_MARK);
    if has_mark || head.contains(&0) || head.contains(&b'\x1b') {
        return true;
    }
    let text = String::from_utf8_lossy(head);
    if is_comment(&text) {
        return true;
    }
    text.lines()
        .take(LINES_PROBED)
        .map(str::trim_start)
        .any(|line| printed(line).len() < line.len() || lava_message(line).is_some())
}

const UTF_8_MARK: &[u8] = b"\xef\xbb\xbf";

fn decoded(bytes: &[u8]) -> Cow<'_, str> {
    let probed = &bytes[..bytes.len().min(PROBED)];
    let zeros_at = |odd: usize| {
        let (zeros, all) = probed
            .iter()
            .skip(odd)
            .step_by(2)
            .fold((0, 0), |(zeros, all), &byte| {
                (zeros + usize::from(byte == 0), all + 1)
            });
        all >= 8 && zeros * 10 >= all * 9
    };
    let utf_16 = |bytes: &[u8], of: fn([u8; 2]) -> u16| {
        let units = bytes.chunks_exact(2).map(|pair| of([pair[0], pair[1]]));
        let characters = char::decode_utf16(units);
        Cow::Owned(
            characters
                .map(|found| found.unwrap_or('\u{fffd}'))
                .collect::<String>(),
        )
    };
    match probed {
        [0xff, 0xfe, ..] => utf_16(&bytes[2..], u16::from_le_bytes),
        [0xfe, 0xff, ..] => utf_16(&bytes[2..], u16::from_be_bytes),
        _ if zeros_at(1) && !zeros_at(0) => utf_16(bytes, u16::from_le_bytes),
        _ if zeros_at(0) && !zeros_at(1) => utf_16(bytes, u16::from_be_bytes),
        _ => String::from_utf8_lossy(bytes.strip_prefix(UTF_8_MARK).unwrap_or(bytes)),
    }
}

/// Returns a line as the tool printed it, without indentation.
fn cleaned_line(line: &str) -> Cow<'_, str> {
    let line = if line.contains(['\x1b', '\r', '\u{8}']) {
        Cow::Owned(without_escapes(line))
    } else {
        Cow::Borrowed(line)
    };
    if let Some(message) = lava_message(&line) {
        return Cow::Owned(printed(message.trim_start()).to_owned());
    }
    match line {
        Cow::Borrowed(line) => Cow::Borrowed(printed(line)),
        Cow::Owned(line) => Cow::Owned(printed(&line).to_owned()),
    }
}

/// Returns `line` as a terminal shows it, without control sequences (`ESC [ ... letter`), and only
/// with the text after the last carriage return. cyclictest prints such sequences before it
/// rewrites its lines.
fn without_escapes(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '\x1b' => {
                if characters.next() == Some('[') {
                    characters.by_ref().find(char::is_ascii_alphabetic);
                }
            }
            '\r' if characters.as_str().is_empty() => {}
            '\r' => out.clear(),
            '\u{8}' => {
                out.pop();
            }
            _ => out.push(character),
        }
    }
    out
}

/// Returns the message of a line of LAVA's log:
/// `- {"dt": "...", "lvl": "target", "msg": "T: 0 ..."}`.
fn lava_message(line: &str) -> Option<String> {
    let object = line.trim_start().strip_prefix("- {")?;
    let value: serde_json::Value = serde_json::from_str(&format!("{{{object}")).ok()?;
    value.get("dt")?;
    Some(value.get("msg")?.as_str()?.to_owned())
}

/// Returns the tool's part of a log line: without indentation, quote marks of a mail, and the log's
/// own time, host, program and stream.
fn printed(line: &str) -> &str {
    let mut rest = line;
    let mut has_time = false;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '>']);
        if let Some(behind) = time(rest) {
            (rest, has_time) = (behind, true);
        } else if let Some(behind) = bracketed(rest) {
            (rest, has_time) = (behind, true);
        } else if let Some(behind) = container(rest) {
            rest = behind;
        } else if let Some(behind) = has_time.then(|| writer(rest)).flatten() {
            return behind.trim_start_matches([' ', '\t']);
        } else {
            return rest;
        }
    }
}

/// Returns the text after a time of day, which may follow a date in the form of RFC 3339 or syslog.
fn time(text: &str) -> Option<&str> {
    let behind_date = iso_date(text)
        .and_then(|rest| rest.strip_prefix(['T', ' ', '_']))
        .or_else(|| syslog_date(text));
    let mut rest = clock(behind_date.unwrap_or(text))?;
    rest = rest
        .strip_prefix('Z')
        .or_else(|| zone(rest))
        .unwrap_or(rest);
    let behind = rest.strip_prefix(':').unwrap_or(rest);
    (behind.is_empty() || behind.starts_with([' ', '\t'])).then_some(behind)
}

fn digits(text: &str, count: usize) -> Option<&str> {
    let is_number = text.len() >= count && text.as_bytes()[..count].iter().all(u8::is_ascii_digit);
    is_number.then(|| &text[count..])
}

/// Returns the text after a date such as `2026-07-15` or `2026/07/15`.
fn iso_date(text: &str) -> Option<&str> {
    let rest = digits(digits(text, 4)?.strip_prefix(['-', '/'])?, 2)?;
    digits(rest.strip_prefix(['-', '/'])?, 2)
}

/// Returns the text after a date such as `Jul 15 `, as in syslog and journald.
fn syslog_date(text: &str) -> Option<&str> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let rest = MONTHS.iter().find_map(|month| text.strip_prefix(month))?;
    let rest = rest.strip_prefix(' ')?.trim_start_matches(' ');
    let rest = digits(rest, 2).or_else(|| digits(rest, 1))?;
    rest.strip_prefix(' ')
}

/// Returns the text after a time such as `22:56:02`, with or without a fraction.
fn clock(text: &str) -> Option<&str> {
    let rest = digits(text, 2)?.strip_prefix(':')?;
    let rest = digits(digits(rest, 2)?.strip_prefix(':')?, 2)?;
    Some(match rest.strip_prefix(['.', ',']) {
        Some(fraction) => fraction.trim_start_matches(|sign: char| sign.is_ascii_digit()),
        None => rest,
    })
}

/// Returns the text after a time zone such as `+02:00` or `+0200`.
fn zone(text: &str) -> Option<&str> {
    let rest = digits(text.strip_prefix(['+', '-'])?, 2)?;
    digits(rest.strip_prefix(':').unwrap_or(rest), 2)
}

/// Returns the text after brackets with a time (dmesg, Jenkins, journald) or with a pod's name.
fn bracketed(text: &str) -> Option<&str> {
    let (inside, rest) = text.strip_prefix('[')?.split_once(']')?;
    let inside = inside.trim();
    let is_time = time(inside).is_some_and(str::is_empty)
        || inside.split_once('.').is_some_and(|(seconds, fraction)| {
            [seconds, fraction]
                .iter()
                .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
        });
    (is_time || inside.starts_with("pod/")).then_some(rest)
}

/// Returns the text after `service-1  | `, as Docker Compose prints it.
fn container(text: &str) -> Option<&str> {
    let (name, rest) = text.split_once('|')?;
    let (name, rest) = (name.strip_suffix(' ')?.trim_end(), rest.strip_prefix(' ')?);
    let is_name = name.contains(|sign: char| sign.is_ascii_alphabetic())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    is_name.then_some(rest)
}

/// Returns the text after the fields that a log adds after the time: `host program[123]:` of
/// journald, `stdout F` of a container's runtime, `00O` of GitLab.
fn writer(text: &str) -> Option<&str> {
    for stream in ["stdout F ", "stderr F ", "stdout P ", "stderr P "] {
        if let Some(rest) = text.strip_prefix(stream) {
            return Some(rest);
        }
    }
    if let Some(rest) = digits(text, 2).and_then(|rest| rest.strip_prefix(['O', 'E']))
        && (rest.is_empty() || rest.starts_with([' ', '+']))
    {
        return Some(rest.trim_start_matches('+'));
    }
    let (words, rest) = text
        .split_once("]: ")
        .or_else(|| text.strip_suffix("]:").map(|words| (words, "")))?;
    let (name, process) = words.rsplit_once('[')?;
    let is_program = process.bytes().all(|byte| byte.is_ascii_digit())
        && !process.is_empty()
        && name.split(' ').count() <= 2
        && !name.contains([':', '(']);
    is_program.then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str =
        "T: 0 (  437) P:48 I:1000 C: 540000 Min:      4 Act:    5 Avg:   18 Max:     217";

    #[test]
    fn what_a_log_puts_before_a_line_is_left_out() {
        for before in [
            "  ",
            "\t",
            "> ",
            "> > ",
            ">> ",
            "2026-07-15T22:56:06.243696Z ",
            "2026-07-15T22:56:06Z ",
            "2026-07-15T22:56:06.243696+02:00 ",
            "2026-07-15 22:56:06,243 ",
            "22:56:06 ",
            "22:56:06.243 ",
            "[22:56:06] ",
            "[2026-07-15T22:56:06.243Z] ",
            "[   12.345678] ",
            "Jul 15 22:56:06 board7 cyclictest[437]: ",
            "Jul  5 22:56:06.243696 board7 run.sh[437]: ",
            "2026-07-15T22:56:06+0200 board7 cyclictest[437]: ",
            "[  123.456789] board7 cyclictest[437]: ",
            "2026-07-15T22:56:06.243696789Z stdout F ",
            "2026-07-15T22:56:06.243696Z 00O ",
            "2026-07-15T22:56:06.243696Z 01E+",
            "rt-test-1  | ",
            "[pod/rt-test-abc/cyclictest] ",
            "\x1b[2K",
            "\x1b[0;32m22:56:06 \x1b[0m",
            "0 %\r",
        ] {
            let text = format!("{before}{ROW}\r\n");
            assert_eq!(cleaned(text.as_bytes()), format!("{ROW}\n"), "{before}");
        }
        let lava = format!(
            "- {{\"dt\": \"2026-07-15T22:56:06\", \"lvl\": \"target\", \"msg\": \"{ROW}\"}}\n"
        );
        assert_eq!(cleaned(lava.as_bytes()), format!("{ROW}\n"));
    }

    #[test]
    fn rows_of_tools_stay_as_they_are() {
        for row in [
            ROW,
            "000021 000070\t000067",
            "0:       1:      12",
            "10:      10:      10",
            "RTD|      1.207|      1.502|      9.817|       0|     0|      1.207|      9.817",
            "HSD|    avg|  12 - 13 |     9876",
            "{\"start_time\": \"2026-07-15T22:56:06Z\"}",
            "- 1",
            "1.5,2,3",
            "-3",
        ] {
            assert_eq!(cleaned(row.as_bytes()), row);
            assert!(!is_wrapped(row.as_bytes()), "{row}");
        }
    }

    #[test]
    fn other_encodings_are_read() {
        let wide =
            |bytes: fn(u16) -> [u8; 2]| ROW.encode_utf16().flat_map(bytes).collect::<Vec<u8>>();
        let (little, big) = (wide(u16::to_le_bytes), wide(u16::to_be_bytes));
        let marked = |mark: &[u8], bytes: &[u8]| [mark, bytes].concat();
        for bytes in [
            marked(UTF_8_MARK, ROW.as_bytes()),
            marked(b"\xff\xfe", &little),
            marked(b"\xfe\xff", &big),
            little.clone(),
            big.clone(),
        ] {
            assert_eq!(cleaned(&bytes), ROW);
            assert!(is_wrapped(&bytes));
        }
        assert_eq!(cleaned(b"a\xffb"), "a\u{fffd}b");
    }
}
