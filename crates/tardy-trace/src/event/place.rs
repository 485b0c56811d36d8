//! Where fields are in the data of events.

use crate::format::{Field, FieldKind};

/// Where a field is, and which type it has. This is determined only once per trace, because there
/// are hundreds of thousands of events per second.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// The trace has no such field.
    Nowhere,
    Number(Number),
    Text(Field),
}

/// Where a number is in the data, how long it is, and whether it has a sign.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number {
    pub(super) offset: usize,
    pub(super) kind: NumberKind,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum NumberKind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    /// Eight bytes, whose value does not depend on whether the type has a sign.
    Whole,
}

impl Place {
    pub(super) fn of(field: Option<&Field>) -> Self {
        match field {
            None => Self::Nowhere,
            Some(field) => {
                Number::of(field).map_or_else(|| Self::Text(field.clone()), Self::Number)
            }
        }
    }
}

impl Number {
    pub(super) fn of(field: &Field) -> Option<Self> {
        let is_signed = match field.kind {
            FieldKind::Signed => true,
            FieldKind::Unsigned => false,
            _ => return None,
        };
        let kind = match (field.size, is_signed) {
            (1, false) => NumberKind::U8,
            (1, true) => NumberKind::I8,
            (2, false) => NumberKind::U16,
            (2, true) => NumberKind::I16,
            (4, false) => NumberKind::U32,
            (4, true) => NumberKind::I32,
            (8, _) => NumberKind::Whole,
            _ => return None,
        };
        Some(Self {
            offset: field.offset,
            kind,
        })
    }

    /// Returns the number, sign-extended; `None` if it is not within the data.
    #[inline]
    pub(super) fn read(self, data: &[u8]) -> Option<i64> {
        let rest = data.get(self.offset..)?;
        Some(match self.kind {
            NumberKind::U8 => i64::from(*rest.first()?),
            NumberKind::I8 => i64::from(i8::from_le_bytes(*rest.first_chunk()?)),
            NumberKind::U16 => i64::from(u16::from_le_bytes(*rest.first_chunk()?)),
            NumberKind::I16 => i64::from(i16::from_le_bytes(*rest.first_chunk()?)),
            NumberKind::U32 => i64::from(u32::from_le_bytes(*rest.first_chunk()?)),
            NumberKind::I32 => i64::from(i32::from_le_bytes(*rest.first_chunk()?)),
            NumberKind::Whole => i64::from_le_bytes(*rest.first_chunk()?),
        })
    }
}
