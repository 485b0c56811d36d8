//! The event formats of a trace, in a form in which two kernels can be compared field by field.

use std::collections::BTreeMap;
use std::fmt;

use tardy_trace::file::TraceFile;
use tardy_trace::format::{Field, FieldKind};

/// Key in [`Formats`] for the fields that all events share.
pub(crate) const SHARED: &str = "every event";
/// Key in [`Formats`] for the layout of pages.
const PAGES: &str = "pages";

/// How a field is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shape {
    /// Offset in bytes. Offsets of shared fields count from the start of the event, those of other
    /// fields from the first field that is not shared.
    pub(crate) offset: usize,
    /// Size in bytes.
    pub(crate) size: usize,
    /// The field's [`FieldKind`] as text.
    pub(crate) kind: &'static str,
}

impl Shape {
    fn of(field: &Field, start: usize) -> Self {
        Self {
            offset: field.offset.saturating_sub(start),
            size: field.size,
            kind: match field.kind {
                FieldKind::Unsigned => "unsigned",
                FieldKind::Signed => "signed",
                FieldKind::Text => "text",
                FieldKind::Array => "array",
                FieldKind::Elsewhere { is_relative: false } => "offset and length",
                FieldKind::Elsewhere { is_relative: true } => "relative offset and length",
            },
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, size, kind } = self;
        let unit = if *size == 1 { "byte" } else { "bytes" };
        let text = format!("{kind}, {size} {unit} at {offset}");
        formatter.pad(&text)
    }
}

/// The shapes of all fields, by event and field. The numbers of events are left out, because they
/// differ from build to build.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Formats(pub(crate) BTreeMap<String, BTreeMap<String, Shape>>);

impl Formats {
    pub(crate) fn of(file: &TraceFile<'_>) -> Self {
        let layout = file.layout;
        let page = |offset, size| Shape {
            offset,
            size,
            kind: "unsigned",
        };
        let pages = [
            ("length", page(8, layout.long_bytes)),
            ("data", page(layout.data_offset, layout.page_bytes)),
        ];
        let mut events = BTreeMap::new();
        events.insert(PAGES.to_owned(), named(pages.into_iter()));
        for format in &file.formats {
            let (shared, own): (Vec<&Field>, Vec<&Field>) = format
                .fields
                .iter()
                .partition(|field| field.name.starts_with("common_"));
            let start = own.iter().map(|field| field.offset).min();
            let of = |fields: Vec<&Field>, start| {
                let shapes = fields.into_iter();
                named(shapes.map(|field| (&*field.name, Shape::of(field, start))))
            };
            events.insert(SHARED.to_owned(), of(shared, 0));
            let name = format!("{}:{}", format.system, format.name);
            events.insert(name, of(own, start.unwrap_or_default()));
        }
        Self(events)
    }

    /// Returns a line for each difference from these formats to newer ones.
    pub(crate) fn changes(&self, newer: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        for (event, fields) in &self.0 {
            let Some(newer) = newer.0.get(event) else {
                changes.push(format!("{event}: gone"));
                continue;
            };
            for (field, shape) in fields {
                match newer.get(field) {
                    None => changes.push(format!("{event}, {field}: gone; it was {shape}")),
                    Some(new) if new != shape => {
                        changes.push(format!("{event}, {field}: {new}; it was {shape}"));
                    }
                    Some(_) => {}
                }
            }
            let added = newer
                .iter()
                .filter(|(field, _)| !fields.contains_key(*field));
            changes.extend(added.map(|(field, shape)| format!("{event}, {field}: new, {shape}")));
        }
        let added = newer.0.keys().filter(|event| !self.0.contains_key(*event));
        changes.extend(added.map(|event| format!("{event}: new")));
        changes
    }
}

fn named<'a>(shapes: impl Iterator<Item = (&'a str, Shape)>) -> BTreeMap<String, Shape> {
    shapes
        .map(|(name, shape)| (name.to_owned(), shape))
        .collect()
}
