//! Reads JSON as rt-tests and jitterdebugger write it, with `nan` for numbers and with unescaped
//! quotes in command lines.

use serde_json::Value;
use tardy_core::units::Nanos;
use tardy_machine::facts::{CompiledPreemption, KernelFacts, MachineFacts, Preemption};
use tardy_report::report::date::from_rfc_2822;

use super::sink::ImportedRun;
use super::{ImportError, Source};

/// A document with the text that it was parsed from, because JSON values do not know their lines.
pub(super) struct Document {
    pub(super) value: Value,
    text: String,
}

/// Parses the document, after repairing the errors that the tools are known to make.
pub(super) fn document(source: &mut Source) -> Result<Document, ImportError> {
    let text = source.text()?;
    match serde_json::from_str(&mended(&text)) {
        Ok(value) => Ok(Document { value, text }),
        Err(error) => {
            let line = text
                .lines()
                .nth(error.line().saturating_sub(1))
                .unwrap_or_default();
            Err(source.expected(error.line().max(1) as u64, format!("JSON ({error})"), line))
        }
    }
}

impl Document {
    /// Makes the error for unexpected data in the member at `keys`.
    pub(super) fn expected(
        &self,
        source: &Source,
        keys: &[&str],
        expected: impl Into<String>,
        found: &str,
    ) -> ImportError {
        source.expected(self.line_of(keys), expected, found)
    }

    /// Searches for `keys` in this order, each after the previous one, until one is missing.
    /// Returns the line of the last key found, or the first line if none was found.
    fn line_of(&self, keys: &[&str]) -> u64 {
        let mut at = 0;
        for key in keys {
            let quoted = format!("\"{key}\"");
            let is_key = |begin: &usize| {
                self.text[begin + quoted.len()..]
                    .trim_start()
                    .starts_with(':')
            };
            let found = self.text[at..]
                .match_indices(&quoted)
                .map(|(begin, _)| at + begin)
                .find(is_key);
            let Some(found) = found else { break };
            at = found;
        }
        memchr::memchr_iter(b'\n', &self.text.as_bytes()[..at]).count() as u64 + 1
    }
}

/// Repairs a text line by line: `"avg": -nan` becomes null, and quotes within a command line are
/// escaped.
fn mended(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        match line.trim_start().split_once(':') {
            Some((key, value))
                if matches!(
                    value.trim().trim_end_matches(','),
                    "nan" | "-nan" | "inf" | "-inf"
                ) =>
            {
                let comma = if value.trim_end().ends_with(',') {
                    ","
                } else {
                    ""
                };
                out.push_str(&format!("{key}: null{comma}\n"));
            }
            Some(("\"cmdline", rest)) => out.push_str(&command_line(line, rest)),
            _ => out.push_str(line),
        }
    }
    out
}

/// Escapes the quotes in a line's command. `rest` is the text after the key's first colon, such as
/// `": "words of the "command"",`.
fn command_line(line: &str, rest: &str) -> String {
    let value = rest.trim_start_matches(['"', ':', ' ']);
    let body = value.trim_end().trim_end_matches(',').strip_suffix('"');
    match body {
        Some(body) if body.replace("\\\"", "").contains('"') => {
            let escaped = body.replace("\\\"", "\"").replace('"', "\\\"");
            format!("\"cmdline:\": \"{escaped}\",\n")
        }
        _ => line.to_owned(),
    }
}

/// Returns the first word of the command line in a document, which is the name of the tool.
pub(super) fn command(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("\"cmdline")?;
    let rest = rest.trim_start_matches([':', '"', ' ']);
    rest.split(['"', ' ', '\n']).next()
}

/// Reads the description of the tool and the machine, as rt-tests and jitterdebugger write it. Keys
/// may end in a colon.
pub(super) fn envelope(document: &Document, tool: &str) -> ImportedRun {
    let document = &document.value;
    let text = |key: &str| {
        let found = document
            .get(key)
            .or_else(|| document.get(format!("{key}:")));
        found.and_then(Value::as_str).map(str::to_owned)
    };
    let command_line = text("cmdline");
    let name = command_line
        .as_deref()
        .and_then(|line| line.split_whitespace().next())
        .map(|path| path.rsplit('/').next().unwrap_or(path));
    let name = name.unwrap_or(tool);
    let start = text("start_time").as_deref().and_then(from_rfc_2822);
    let end = text("end_time").as_deref().and_then(from_rfc_2822);
    ImportedRun {
        tool: text("rt_test_version")
            .map_or_else(|| name.to_owned(), |version| format!("{name} {version}")),
        started: start,
        length: start
            .zip(end)
            .and_then(|(start, end)| end.get().checked_sub(start.get()))
            .filter(|&length| length > 0)
            .map(Nanos),
        machine: document.get("sysinfo").map(machine).unwrap_or_default(),
        command_line,
        ..ImportedRun::default()
    }
}

fn machine(system: &Value) -> MachineFacts {
    let text = |key: &str| {
        system
            .get(key)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    };
    let is_real_time = system.get("realtime").and_then(Value::as_u64) == Some(1);
    let real_time = Preemption {
        compiled: CompiledPreemption::RealTime,
        ..Preemption::default()
    };
    let kernel = KernelFacts {
        release: text("release"),
        version: text("version"),
        architecture: text("machine"),
        preemption: is_real_time.then_some(real_time),
        ..KernelFacts::default()
    };
    MachineFacts {
        host_name: text("nodename"),
        kernel,
        ..MachineFacts::default()
    }
}

/// Returns the members of an object whose keys are numbers, in the order of the numbers.
pub(super) fn numbered<'a>(
    source: &Source,
    document: &'a Document,
    key: &str,
) -> Result<Vec<(u32, &'a Value)>, ImportError> {
    let object = document.value.get(key).and_then(Value::as_object);
    let object = object
        .ok_or_else(|| document.expected(source, &[key], format!("an object `{key}`"), ""))?;
    let mut members = Vec::new();
    for (name, value) in object {
        let wrong = |_| {
            document.expected(
                source,
                &[key, name],
                format!("only numbers as keys of `{key}`"),
                name,
            )
        };
        let number = name.parse().map_err(wrong)?;
        members.push((number, value));
    }
    members.sort_by_key(|&(number, _)| number);
    Ok(members)
}

/// Reads `histogram` of the thread at `keys`: buckets in the file's unit, ascending, and their
/// counts. The result is empty if there is no histogram.
pub(super) fn histogram(
    source: &Source,
    document: &Document,
    keys: [&str; 2],
    thread: &Value,
) -> Result<Vec<(f64, u64)>, ImportError> {
    let Some(object) = thread.get("histogram").and_then(Value::as_object) else {
        return Ok(Vec::new());
    };
    let mut buckets = Vec::new();
    for (bucket, count) in object {
        let found = bucket
            .parse::<f64>()
            .ok()
            .filter(|bucket| bucket.is_finite() && bucket.abs() < 1e15)
            .zip(count.as_u64());
        let wrong = || {
            let keys = [keys[0], keys[1], "histogram", bucket];
            document.expected(
                source,
                &keys,
                "numbers in `histogram`",
                &format!("{bucket}: {count}"),
            )
        };
        buckets.push(found.ok_or_else(wrong)?);
    }
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(buckets)
}

/// Returns a number of a thread in ns. The file's unit is `nanos` long.
pub(super) fn nanos(thread: &Value, key: &str, nanos: i64) -> Option<f64> {
    thread
        .get(key)
        .and_then(Value::as_f64)
        .map(|value| value * nanos as f64)
        .filter(|value| value.abs() < 4.6e18)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cyclictest_is_known_to_break_is_mended() {
        let text = "{\n  \"cmdline:\": \"cyclictest --json=\"a b\".json -q\",\n  \"thread\": \
                    {\"0\": {\n  \"avg\": -nan,\n  \"cpu\": 0\n}}}\n";
        assert!(serde_json::from_str::<Value>(text).is_err());
        let value: Value = serde_json::from_str(&mended(text)).unwrap();
        assert_eq!(value["cmdline:"], "cyclictest --json=\"a b\".json -q");
        assert_eq!(
            value["thread"]["0"],
            serde_json::json!({"avg": null, "cpu": 0})
        );
    }

    #[test]
    fn a_member_is_found_on_its_line() {
        let text = "{\"a\": \"thread\",\n\"thread\": {\n\"0\": {\"cycles\": \
                    1},\n\"1\":\n{\"cycles\": \"1\"}}}"
            .to_owned();
        let document = Document {
            value: Value::Null,
            text,
        };
        let line = |keys: &[&str]| document.line_of(keys);
        assert_eq!(
            (
                line(&["thread"]),
                line(&["thread", "1"]),
                line(&["thread", "1", "cycles"])
            ),
            (2, 4, 5)
        );
        // For a missing key, the line of its parent is reported.
        assert_eq!(
            (line(&["thread", "1", "min"]), line(&["nothing"]), line(&[])),
            (4, 1, 1)
        );
    }

    #[test]
    fn what_is_whole_stays_as_it_is() {
        for text in [
            "{\"cmdline:\": \"a \\\"b\\\" c\",\n \"a\": 1}",
            "{\"cmdline\": \"x\"}",
            "{}",
        ] {
            assert_eq!(mended(text), text);
        }
    }

    #[test]
    fn the_tool_is_told_by_the_first_word_of_its_command_line() {
        let of = |line: &str| command(line).map(str::to_owned);
        assert_eq!(
            of("\"cmdline:\": \"./signaltest -t2\","),
            Some("./signaltest".to_owned())
        );
        assert_eq!(
            of("\"cmdline\": \"cyclictest --json=signaltest\","),
            Some("cyclictest".to_owned())
        );
        assert_eq!(of("{}"), None);
    }
}
