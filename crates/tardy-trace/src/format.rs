//! Event formats: the file `format` of an event in tracefs defines the positions of its fields.
//!
//! The line `print fmt` is ignored: it is a program that prints the event, and events are read by
//! their fields.

use crate::bytes;

/// Maximum length of a format; longer formats are not read. The longest format of Linux 6.18 (a
/// print format with all system calls' flags) has 40 kB.
pub const FORMAT_BYTES_MAX: usize = 1 << 20;
/// Maximum number of an event's fields; formats with more are not read.
pub const FIELDS_MAX: usize = 512;

/// Why a text is not an event's format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The text is too long.
    #[error("an event format has {0} bytes, but tardy reads at most {FORMAT_BYTES_MAX}")]
    TooLong(usize),
    /// A required line is missing.
    #[error("an event format lacks {0}")]
    Missing(&'static str),
    /// A line cannot be understood.
    #[error("line {line} of an event format cannot be read: {text:?}")]
    Line {
        /// Number of the line, counted from 1.
        line: usize,
        /// The line, truncated.
        text: String,
    },
    /// There are too many fields.
    #[error("an event format has more than {FIELDS_MAX} fields")]
    Fields,
}

/// Describes how the data of an event are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFormat {
    /// The folder below `events` that contains the event, such as `sched`.
    pub system: String,
    /// Name of the event, such as `sched_switch`.
    pub name: String,
    /// The number that the first two bytes of the event's data contain.
    pub id: u16,
    /// The fields, in the order in which the file lists them. The fields that all events share are
    /// at the start.
    pub fields: Vec<Field>,
}

/// One field of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Name of the field, such as `prev_comm`.
    pub name: String,
    /// Position of the field, in bytes from the start of the data.
    pub offset: usize,
    /// Length of the field in bytes; 0 if it is an array that takes the rest of the data.
    pub size: usize,
    /// How the bytes are read.
    pub kind: FieldKind,
}

/// How the bytes of a field are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// An unsigned number, or a pointer.
    Unsigned,
    /// A signed number.
    Signed,
    /// A text within the field itself, up to a zero byte.
    Text,
    /// Four bytes that contain where data of variable length are: the offset in the low half, the
    /// length in the high one.
    Elsewhere {
        /// Whether the offset counts from the end of the field (`__rel_loc`) rather than from the
        /// start of the data (`__data_loc`).
        is_relative: bool,
    },
    /// An array of numbers.
    Array,
}

impl EventFormat {
    /// Parses the content of a file `format` in a folder `events/SYSTEM`.
    ///
    /// # Errors
    /// Returns an error if the text is not an event's format.
    pub fn parse(system: &str, text: &str) -> Result<Self, FormatError> {
        if text.len() > FORMAT_BYTES_MAX {
            return Err(FormatError::TooLong(text.len()));
        }
        let (mut name, mut id, mut fields) = (None, None, Vec::new());
        for (index, line) in text.lines().enumerate() {
            let refused = || FormatError::Line {
                line: index + 1,
                text: line.chars().take(80).collect(),
            };
            let line = line.trim();
            if line.starts_with("print fmt") {
                break;
            } else if let Some(given) = line.strip_prefix("name:") {
                name = Some(given.trim().to_owned());
            } else if let Some(given) = line.strip_prefix("ID:") {
                id = Some(given.trim().parse().map_err(|_| refused())?);
            } else if line.starts_with("field") {
                if fields.len() == FIELDS_MAX {
                    return Err(FormatError::Fields);
                }
                fields.push(Field::parse(line).ok_or_else(refused)?);
            }
        }
        let name = name.ok_or(FormatError::Missing("a name"))?;
        Ok(Self {
            system: system.to_owned(),
            name,
            id: id.ok_or(FormatError::Missing("an ID"))?,
            fields,
        })
    }

    /// Returns the field of this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl Field {
    /// Parses a line `field:TYPE NAME; offset:8; size:16; signed:0;` (tabs between), also `field
    /// special:`.
    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.split(';').map(str::trim);
        let (_, declaration) = parts.next()?.split_once(':')?;
        let (mut offset, mut size, mut is_signed) = (None, None, false);
        for part in parts.filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once(':')?;
            match key {
                "offset" => offset = Some(value.parse().ok()?),
                "size" => size = Some(value.parse().ok()?),
                "signed" => is_signed = value == "1",
                _ => {}
            }
        }
        let declaration = declaration.trim();
        // The name is the last word. An array's length may follow it: `char prev_comm[16]`,
        // `unsigned long args[6]`, `__data_loc char[] name`.
        let is_array = declaration.ends_with(']');
        let bare = if is_array {
            &declaration[..declaration.rfind('[')?]
        } else {
            declaration
        };
        let split =
            bare.rfind(|character: char| character.is_ascii_whitespace() || character == '*')?;
        let (kind, name) = (bare[..=split].trim(), &bare[split + 1..]);
        let offset_and_length = [("__data_loc", false), ("__rel_loc", true)];
        let elsewhere = offset_and_length
            .iter()
            .find(|(prefix, _)| kind.starts_with(prefix));
        let kind = match elsewhere {
            Some(&(_, is_relative)) => FieldKind::Elsewhere { is_relative },
            None if is_array && kind.ends_with("char") => FieldKind::Text,
            None if is_array => FieldKind::Array,
            None if is_signed => FieldKind::Signed,
            None => FieldKind::Unsigned,
        };
        (!name.is_empty()).then(|| {
            Some(Self {
                name: name.to_owned(),
                offset: offset?,
                size: size?,
                kind,
            })
        })?
    }

    /// Returns the field's value as a number, sign-extended. Returns `None` if the field is not a
    /// number, or is not within the data.
    #[must_use]
    #[expect(clippy::cast_possible_wrap, reason = "addresses keep their bits")]
    pub fn number(&self, data: &[u8]) -> Option<i64> {
        match self.kind {
            FieldKind::Unsigned => Some(bytes::unsigned(data, self.offset, self.size)? as i64),
            FieldKind::Signed => bytes::signed(data, self.offset, self.size),
            _ => None,
        }
    }

    /// Returns the bytes of the field, wherever they are in the data. If the field is a text,
    /// returns only the bytes before its first zero byte.
    #[must_use]
    pub fn bytes<'a>(&self, data: &'a [u8]) -> Option<&'a [u8]> {
        self.place(data).map(|bytes| match self.kind {
            FieldKind::Array | FieldKind::Signed | FieldKind::Unsigned => bytes,
            _ => bytes.split(|&byte| byte == 0).next().unwrap_or_default(),
        })
    }

    /// Returns all bytes of the field. If the field is a text, this includes its zero byte and the
    /// bytes after that, which [`Field::bytes`] leaves out.
    pub(crate) fn place<'a>(&self, data: &'a [u8]) -> Option<&'a [u8]> {
        match self.kind {
            FieldKind::Elsewhere { is_relative } => {
                let place = usize::try_from(bytes::unsigned(data, self.offset, 4)?).ok()?;
                let base = if is_relative { self.offset + 4 } else { 0 };
                let start = base + (place & 0xffff);
                data.get(start..start + (place >> 16))
            }
            // The print events of trace_marker: text to the end of the data.
            _ if self.size == 0 => data.get(self.offset..),
            _ => data.get(self.offset..self.offset.checked_add(self.size)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SWITCH: &str = "name: sched_switch\nID: 372\nformat:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:void * hrtimer;\toffset:24;\tsize:8;\tsigned:0;
\tfield:__data_loc char[] name;\toffset:32;\tsize:4;\tsigned:0;
\tfield:unsigned long args[6];\toffset:40;\tsize:48;\tsigned:0;
\tfield special:char buf[];\toffset:88;\tsize:0;\tsigned:0;

print fmt: \"field:%s\", REC->prev_comm\n";

    #[test]
    fn fields_are_found_by_name_and_read_by_kind() {
        let format = EventFormat::parse("sched", SWITCH).expect("it is a format");
        assert_eq!(
            (format.name.as_str(), format.id, format.fields.len()),
            ("sched_switch", 372, 7)
        );
        let kinds: Vec<_> = format
            .fields
            .iter()
            .map(|field| (field.name.as_str(), field.kind))
            .collect();
        let elsewhere = FieldKind::Elsewhere { is_relative: false };
        assert_eq!(
            kinds,
            [
                ("common_type", FieldKind::Unsigned),
                ("common_pid", FieldKind::Signed),
                ("prev_comm", FieldKind::Text),
                ("hrtimer", FieldKind::Unsigned),
                ("name", elsewhere),
                ("args", FieldKind::Array),
                ("buf", FieldKind::Text),
            ]
        );
        let mut data = vec![0; 88];
        data[8..13].copy_from_slice(b"loop\0");
        data[32..36].copy_from_slice(&(88_u32 | 5 << 16).to_le_bytes());
        data.extend_from_slice(b"eth0\0");
        let read = |name| format.field(name).and_then(|field| field.bytes(&data));
        assert_eq!(read("prev_comm"), Some(&b"loop"[..]));
        assert_eq!(read("name"), Some(&b"eth0"[..]));
        assert_eq!(read("buf"), Some(&b"eth0"[..]));
    }

    #[test]
    fn a_blank_of_two_bytes_is_no_end_of_a_word() {
        // The fuzz target trace_format found this case: U+0085 counts as white space.
        let line = "name: a\nID: 1\n\tfield:unsigned\u{85}int a;\toffset:0;\tsize:4;\tsigned:0;\n";
        let format = EventFormat::parse("sched", line).expect("it is a format");
        assert_eq!(format.fields[0].name, "a");
        assert!(
            EventFormat::parse(
                "sched",
                "name: a\nID: 1\nfield:unsigned\u{85}a;offset:0;size:4;"
            )
            .is_err()
        );
    }

    #[test]
    fn what_is_no_format_is_refused_by_line() {
        assert_eq!(
            EventFormat::parse("", "ID: 4"),
            Err(FormatError::Missing("a name"))
        );
        assert_eq!(
            EventFormat::parse("", "name: a"),
            Err(FormatError::Missing("an ID"))
        );
        let line = EventFormat::parse("", "name: a\nID: many").expect_err("no number");
        assert_eq!(
            line.to_string(),
            "line 2 of an event format cannot be read: \"ID: many\""
        );
        let many = format!(
            "name: a\nID: 1\n{}",
            "field:int a;offset:0;size:4;\n".repeat(FIELDS_MAX + 1)
        );
        assert_eq!(EventFormat::parse("", &many), Err(FormatError::Fields));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "(name: a\n|ID: \
                          1\n|field:|[a-z]|\\*|\\[|\\]|;|offset:|size:|signed:1|[0-9]{1,20}|\n|ä| \
                                                   ){0,60}") {
            if let Ok(format) = EventFormat::parse("", &text) {
                for field in &format.fields {
                    let _ = (field.number(&[7; 40]), field.bytes(&[255; 40]));
                }
            }
        }
    }
}
