//! Tests that this crate reads from stored traces exactly what `trace-cmd report` prints, event by
//! event and field by field.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read;
use std::path::Path;

use tardy_trace::file::{Buffer, CpuPages, TraceFile};
use tardy_trace::format::{EventFormat, FieldKind};
use tardy_trace::page::{Page, Record};

fn data(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the events of one CPU in the form of `trace-cmd report -R -t`: number of the thread,
/// CPU, time, event, fields.
fn lines(file: &TraceFile<'_>, buffer: &Buffer<'_>, cpu: &CpuPages<'_>) -> Vec<(u64, String)> {
    let formats: BTreeMap<u16, &EventFormat> = file
        .formats
        .iter()
        .map(|format| (format.id, format))
        .collect();
    let mut lines = Vec::new();
    for chunk in cpu.chunks() {
        for page in chunk.expect("it is whole").chunks(buffer.layout.page_bytes) {
            for record in Page::new(page, buffer.layout).expect("a page") {
                let record = record.expect("an event");
                let format = formats[&u16::from_le_bytes([record.data[0], record.data[1]])];
                lines.push((record.time, line(file, format, cpu.cpu, &record)));
            }
        }
    }
    lines
}

fn line(file: &TraceFile<'_>, format: &EventFormat, cpu: u32, record: &Record<'_>) -> String {
    let pid = format
        .field("common_pid")
        .and_then(|field| field.number(record.data))
        .expect("every event has one");
    let (seconds, rest) = (record.time / 1_000_000_000, record.time % 1_000_000_000);
    let mut text = format!("{pid} [{cpu:03}] {seconds}.{rest:09} {}:", format.name);
    for field in format
        .fields
        .iter()
        .filter(|field| !field.name.starts_with("common_"))
    {
        let value = match field.kind {
            FieldKind::Text | FieldKind::Elsewhere { .. } => {
                String::from_utf8_lossy(field.bytes(record.data).expect("it lies in the data"))
                    .into_owned()
            }
            _ => field.number(record.data).expect("a number").to_string(),
        };
        write!(
            text,
            " {}={}",
            field.name,
            normal(&field.name, value.trim_end(), file)
        )
        .expect("it is text");
    }
    text
}

/// Returns a value in a form that can be compared. trace-cmd writes addresses in hexadecimal
/// digits, or as functions with or without the position in the function, depending on the field's
/// use in the print format. Addresses are therefore compared as functions, or as numbers.
fn normal(name: &str, value: &str, file: &TraceFile<'_>) -> String {
    let number = value
        .strip_prefix("0x")
        .and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let number = number.or_else(|| value.parse::<i64>().ok().map(i64::cast_unsigned));
    let is_function = matches!(name, "function" | "ip" | "callsite" | "func" | "callback");
    match number {
        Some(number) if is_function => file
            .symbols
            .nearest(number)
            .map_or_else(|| number.to_string(), |(name, _)| name.to_owned()),
        Some(number) => number.to_string(),
        None => value.split("+0x").next().unwrap_or_default().to_owned(),
    }
}

/// Parses a line that trace-cmd printed. Returns its event in the form that `lines` uses. The line
/// starts with the buffer's name. The thread's name before the number may contain spaces.
fn reported(line: &str, file: &TraceFile<'_>) -> Option<(u64, String)> {
    let (before, rest) = line.split_once(" [")?;
    let pid = before.rsplit_once('-')?.1.trim();
    let (cpu, rest) = rest.split_once("] ")?;
    let (time, rest) = rest.trim_start().split_once(": ")?;
    let (event, fields) = rest.trim().split_once(':')?;
    let (seconds, nanos) = time.split_once('.')?;
    let time: u64 =
        seconds.trim().parse::<u64>().ok()? * 1_000_000_000 + nanos.parse::<u64>().ok()?;
    let mut text = format!("{pid} [{cpu}] {}.{} {event}:", seconds.trim(), nanos);
    // A value ends before ` NAME=`, because names of threads may contain spaces.
    let format = file.formats.iter().find(|format| format.name == event)?;
    let mut rest = fields.trim();
    let names: Vec<&str> = format
        .fields
        .iter()
        .map(|field| field.name.as_str())
        .filter(|name| !name.starts_with("common_"))
        .collect();
    for (index, name) in names.iter().enumerate() {
        rest = rest
            .strip_prefix(&format!("{name}="))
            .unwrap_or_else(|| panic!("{line}: no {name}"));
        let end = names
            .get(index + 1)
            .and_then(|next| rest.find(&format!(" {next}=")))
            .unwrap_or(rest.len());
        write!(text, " {name}={}", normal(name, rest[..end].trim(), file)).expect("it is text");
        rest = rest[end..].trim_start();
    }
    Some((time, text))
}

fn events_equal_those_of_trace_cmd(name: &str, version: u32, events: usize) {
    let bytes = data(&format!("{name}.dat"));
    let file = TraceFile::parse(&bytes).expect("it is a trace.dat");
    assert_eq!(file.version, version);
    let buffer = file.buffer(None).expect("it has a buffer");
    // `trace-cmd extract` names the main buffer's clock, even if the instance had another clock.
    assert_eq!(
        (buffer.name.as_str(), buffer.clock.as_str()),
        ("tardy_test_data", "local")
    );
    let mut text = String::new();
    flate2::read::GzDecoder::new(&data(&format!("{name}.report.gz"))[..])
        .read_to_string(&mut text)
        .expect("it is text");
    let mut expected: Vec<_> = text
        .lines()
        .filter_map(|line| reported(line, &file))
        .collect();
    let mut read: Vec<_> = buffer
        .cpus
        .iter()
        .flat_map(|cpu| lines(&file, buffer, cpu))
        .collect();
    // Events of two CPUs at the same ns may be in any order.
    expected.sort();
    read.sort();
    assert_eq!(read.len(), events);
    for (read, expected) in read.iter().zip(&expected) {
        assert_eq!(read, expected);
    }
    assert_eq!(read.len(), expected.len());
}

#[test]
fn a_compressed_trace_of_version_7_is_read_as_trace_cmd_reads_it() {
    events_equal_those_of_trace_cmd("application", 7, 9453);
}

#[test]
fn a_trace_of_version_6_is_read_as_trace_cmd_reads_it() {
    events_equal_those_of_trace_cmd("local", 6, 1757);
}
