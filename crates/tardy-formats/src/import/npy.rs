//! Reads NumPy arrays (.npy, format 1 to 3, numpy.lib.format) that have one dimension and consist
//! of numbers or of records. For records, --column selects a field. Pickled objects are refused,
//! because unpickling them runs code.

use std::io::Read;

use super::in_order::{InOrder, TIME_MAX};
use super::sink::{ImportedRun, Sink};
use super::{Format, ImportError, Settings, Source, Unit, parts};

pub(super) const FORMAT: Format = Format {
    name: "npy",
    about: "one-dimensional NumPy array (.npy); needs --unit",
    detect: |head| head.starts_with(MAGIC),
    reader: read,
    parts: parts::one,
    is_binary: true,
};

const MAGIC: &[u8] = b"\x93NUMPY";
/// Maximum length of the header. Arrays of numbers have shorter headers.
const HEAD_BYTES_MAX: u64 = 64 << 10;
/// Maximum length of a record. Measurements have shorter records.
const RECORD_BYTES_MAX: usize = 64 << 10;

/// The format of a stored number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Number {
    kind: Kind,
    bytes: usize,
    is_big_endian: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Signed,
    Unsigned,
    Float,
}

/// The layout from the header: position of the values in a record.
#[derive(Debug, PartialEq, Eq)]
struct Layout {
    record_bytes: usize,
    offset: usize,
    number: Number,
    samples: u64,
}

fn read(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let unit = settings.unit.ok_or_else(|| {
        source.ask(
            "an array of NumPy",
            "the unit of its values",
            "--unit ns (or us, ms, s)",
        )
    })?;
    let (layout, begin) = head(source, settings)?;
    let opened = InOrder::open(sink, ("values", None), settings, unit);
    let mut series = opened.map_err(|error| ImportError::Unwritable {
        path: source.path.clone(),
        error,
    })?;
    let mut record = vec![0; layout.record_bytes];
    let named = source.name_only();
    let mut input = std::io::BufReader::with_capacity(1 << 20, &mut source.input);
    for index in 0..layout.samples {
        let at = begin.saturating_add(index.saturating_mul(layout.record_bytes as u64));
        let read = fill(&mut input, &mut record).map_err(|error| named.unreadable(error))?;
        if read < record.len() {
            let found = format!("the end of the file after {index} values");
            return Err(named.expected_at(
                at + read as u64,
                format!("{} values, as its head states", layout.samples),
                &found,
            ));
        }
        let value = layout.number.nanos(
            &record[layout.offset..layout.offset + layout.number.bytes],
            unit,
        );
        let latency = value.map_err(|found| {
            named.expected_at(
                at + layout.offset as u64,
                format!("a number of {}", unit.word()),
                &found,
            )
        })?;
        let pushed = series
            .push(latency)
            .map_err(|error| ImportError::Unwritable {
                path: named.path.clone(),
                error,
            })?;
        pushed.ok_or_else(|| {
            named.expected_at(at, "a run of less than 70 years", &index.to_string())
        })?;
    }
    if fill(&mut input, &mut [0]).map_err(|error| named.unreadable(error))? > 0 {
        let end = begin.saturating_add(layout.samples.saturating_mul(layout.record_bytes as u64));
        return Err(named.expected_at(
            end,
            "the end of the file, as its head states",
            "more bytes",
        ));
    }
    Ok(series.close("NumPy"))
}

/// Reads until the buffer is full or the file ends.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

/// Reads the header. Returns the layout, and the offset of the data.
fn head(source: &mut Source, settings: &Settings) -> Result<(Layout, u64), ImportError> {
    let mut fixed = [0; 8];
    let cut = |source: &Source, at: u64| {
        source.expected_at(at, "the head of a NumPy array", "the end of the file")
    };
    let read = fill(&mut source.input, &mut fixed).map_err(|error| source.unreadable(error))?;
    if !fixed.starts_with(MAGIC) {
        return Err(source.expected_at(
            0,
            "`\\x93NUMPY`",
            &String::from_utf8_lossy(&fixed[..read]),
        ));
    }
    let length_bytes = match fixed[6] {
        1 => 2,
        2 | 3 => 4,
        other => {
            return Err(source.expected_at(
                6,
                "version 1, 2 or 3 of the format",
                &other.to_string(),
            ));
        }
    };
    let mut length = [0; 4];
    let read = fill(&mut source.input, &mut length[..length_bytes])
        .map_err(|error| source.unreadable(error))?;
    let text_begin = 8 + length_bytes as u64;
    let length = u64::from(u32::from_le_bytes(length));
    if read < length_bytes {
        return Err(cut(source, 8 + read as u64));
    }
    if length > HEAD_BYTES_MAX {
        return Err(source.expected_at(
            8,
            format!("a head of at most {HEAD_BYTES_MAX} bytes"),
            &length.to_string(),
        ));
    }
    let mut text = vec![0; length as usize];
    let read = fill(&mut source.input, &mut text).map_err(|error| source.unreadable(error))?;
    if read < text.len() {
        return Err(cut(source, text_begin + read as u64));
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    let layout = layout(source, settings, &text, text_begin)?;
    Ok((layout, text_begin + length))
}

/// Parses the header's dictionary, which starts at byte `at`.
fn layout(
    source: &Source,
    settings: &Settings,
    text: &str,
    at: u64,
) -> Result<Layout, ImportError> {
    let expected = |expected: &str, found: &str| source.expected_at(at, expected, found);
    let member = |key: &str| {
        text.split_once(&format!("'{key}':"))
            .map(|(_, rest)| rest.trim_start())
    };
    let shape = member("shape")
        .and_then(|rest| rest.strip_prefix('(')?.split_once(')'))
        .map(|(shape, _)| shape);
    let shape = shape.ok_or_else(|| expected("`'shape': (N,)` in its head", text))?;
    let lengths: Vec<&str> = shape
        .split(',')
        .map(str::trim)
        .filter(|length| !length.is_empty())
        .collect();
    let [length] = lengths[..] else {
        return Err(expected(
            "an array with one dimension",
            &format!("({shape})"),
        ));
    };
    let samples: u64 = length
        .parse()
        .map_err(|_| expected("a whole number of values", length))?;
    if samples == 0 {
        return Err(expected("at least one value", "none"));
    }
    let described = member("descr").ok_or_else(|| expected("`'descr':` in its head", text))?;
    if described.starts_with('[') {
        let fields =
            fields(described).ok_or_else(|| expected("records of plain numbers", described))?;
        let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        let asked = || {
            source.ask(
                "an array of records",
                "which field holds the values",
                format!("--column, one of {}", names.join(", ")),
            )
        };
        let wanted = settings.column.as_ref().ok_or_else(asked)?;
        let by_number = || {
            wanted
                .parse::<usize>()
                .ok()
                .filter(|number| (1..=names.len()).contains(number))
                .map(|number| number - 1)
        };
        let place = names
            .iter()
            .position(|name| name == wanted)
            .or_else(by_number);
        let place =
            place.ok_or_else(|| expected(&format!("a field `{wanted}`"), &names.join(", ")))?;
        let sizes = || fields.iter().map(|(_, number)| number.bytes);
        let record_bytes = sizes().sum();
        if record_bytes > RECORD_BYTES_MAX {
            return Err(expected(
                &format!("records of at most {RECORD_BYTES_MAX} bytes"),
                &format!("{record_bytes}"),
            ));
        }
        return Ok(Layout {
            record_bytes,
            offset: sizes().take(place).sum(),
            number: fields[place].1,
            samples,
        });
    }
    let name = described
        .strip_prefix('\'')
        .and_then(|rest| rest.split_once('\''))
        .map_or(described, |(name, _)| name);
    let number = Number::parse(name)
        .ok_or_else(|| expected("numbers (f8, f4, i8, i4, u8, u4, ...)", name))?;
    Ok(Layout {
        record_bytes: number.bytes,
        offset: 0,
        number,
        samples,
    })
}

/// Parses a list such as `[('a', '<f8'), ('b', '<i4')]` into names and number types; `None` if a
/// field has another type.
fn fields(described: &str) -> Option<Vec<(String, Number)>> {
    let (list, _) = described.strip_prefix('[')?.split_once(']')?;
    let mut fields = Vec::new();
    for field in list.split('(').skip(1) {
        let (field, _) = field.split_once(')')?;
        let mut words = field.split(',').map(|word| word.trim().trim_matches('\''));
        let (name, number) = (words.next()?.to_owned(), Number::parse(words.next()?)?);
        if words.next().is_some_and(|word| !word.is_empty()) {
            return None;
        }
        fields.push((name, number));
    }
    Some(fields).filter(|fields| !fields.is_empty())
}

impl Number {
    /// Parses a type such as `<f8`.
    fn parse(name: &str) -> Option<Self> {
        let mut characters = name.chars();
        let is_big_endian = match characters.next()? {
            '<' | '|' => false,
            '>' => true,
            _ => return None,
        };
        let kind = match characters.next()? {
            'i' => Kind::Signed,
            'u' => Kind::Unsigned,
            'f' => Kind::Float,
            _ => return None,
        };
        let bytes = match (kind, characters.as_str()) {
            (_, "8") => 8,
            (_, "4") => 4,
            (Kind::Signed | Kind::Unsigned, "2") => 2,
            (Kind::Signed | Kind::Unsigned, "1") => 1,
            _ => return None,
        };
        Some(Self {
            kind,
            bytes,
            is_big_endian,
        })
    }

    /// Converts a value to ns. If the value is not a time, the error describes the value.
    fn nanos(self, bytes: &[u8], unit: Unit) -> Result<i64, String> {
        // The least significant byte comes first; the rest of the word is filled with the sign, or
        // with zeros.
        let mut word = [0_u8; 8];
        for (place, byte) in word.iter_mut().zip(bytes) {
            *place = *byte;
        }
        if self.is_big_endian {
            word[..self.bytes].reverse();
        }
        let raw = u64::from_le_bytes(word);
        let unused = 64 - 8 * self.bytes as u32;
        let whole = match self.kind {
            Kind::Signed => Some((raw << unused) as i64 >> unused),
            Kind::Unsigned => i64::try_from(raw).ok(),
            Kind::Float => {
                let value = if self.bytes == 4 {
                    f64::from(f32::from_bits(raw as u32))
                } else {
                    f64::from_bits(raw)
                };
                let nanos = value * unit.nanos() as f64;
                let is_time = nanos.abs() < TIME_MAX as f64;
                return if is_time {
                    Ok(nanos.round() as i64)
                } else {
                    Err(value.to_string())
                };
            }
        };
        let nanos = whole
            .and_then(|whole| whole.checked_mul(unit.nanos()))
            .filter(|nanos| nanos.abs() < TIME_MAX);
        nanos.ok_or_else(|| whole.map_or_else(|| raw.to_string(), |whole| whole.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_kind_become_nanoseconds() {
        let of = |name: &str, bytes: &[u8]| Number::parse(name).unwrap().nanos(bytes, Unit::Us);
        assert_eq!(of("<f8", &1.5_f64.to_le_bytes()), Ok(1_500));
        assert_eq!(of("<f4", &(-2.0_f32).to_le_bytes()), Ok(-2_000));
        assert_eq!(of("<i8", &(-7_i64).to_le_bytes()), Ok(-7_000));
        assert_eq!(of(">i4", &(-7_i32).to_be_bytes()), Ok(-7_000));
        assert_eq!(of("<u4", &u32::MAX.to_le_bytes()), Ok(4_294_967_295_000));
        assert_eq!(
            (of("|i1", &[0xff]), of("<u2", &[1, 1])),
            (Ok(-1_000), Ok(257_000))
        );
        for (name, bytes) in [
            ("<u8", u64::MAX.to_le_bytes()),
            ("<f8", f64::NAN.to_le_bytes()),
            ("<f8", 1e300_f64.to_le_bytes()),
        ] {
            assert!(of(name, &bytes).is_err(), "{name}");
        }
        for other in [
            "", "<", "O", "|O", "<f2", "<c16", "<M8[ns]", "|S3", "<i", "<i8x",
        ] {
            assert_eq!(Number::parse(other), None, "{other}");
        }
    }

    #[test]
    fn records_are_known_by_their_fields() {
        let found = fields("[('cpu', '<i4'), ('latency_ns', '<i8')], 'shape'").unwrap();
        assert_eq!(
            found
                .iter()
                .map(|(name, number)| (name.as_str(), number.bytes))
                .collect::<Vec<_>>(),
            [("cpu", 4), ("latency_ns", 8)]
        );
        for other in [
            "[",
            "[]",
            "[('a', '<i4', (2,))]",
            "[('a', [('b', '<i4')])]",
            "[('a', '|O')]",
        ] {
            assert_eq!(fields(other), None, "{other}");
        }
    }
}
