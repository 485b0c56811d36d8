//! Names of threads and interrupts, stored without memory allocation.

use std::fmt;
use std::hash::{Hash, Hasher};

/// Text of up to 24 bytes. A thread's name has at most 15 bytes; longer names of interrupts are
/// truncated.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Text {
    bytes: [u8; 24],
    length: u8,
}

impl Text {
    /// Copies the bytes before the first zero byte. Replaces control characters, which could act on
    /// a terminal, and invalid UTF-8 by `?`.
    #[must_use]
    pub fn new(given: &[u8]) -> Self {
        if let Ok(name) = <[u8; 16]>::try_from(given)
            && let Some(text) = Self::plain(u128::from_le_bytes(name))
        {
            return text;
        }
        let mut text = Self::default();
        // This is the fast path, which nearly every name takes. It matters because each event of
        // the scheduler has two names.
        let end = memchr::memchr(0, given).unwrap_or(given.len());
        if end <= text.bytes.len()
            && given[..end].iter().fold(true, |is_plain, byte| {
                is_plain & matches!(byte, b' '..=b'~')
            })
        {
            text.bytes[..end].copy_from_slice(&given[..end]);
            text.length = u8::try_from(end).expect("the name fits into 24 bytes");
            return text;
        }
        let given = &given[..end.min(64)];
        for character in String::from_utf8_lossy(given).chars() {
            let printed = if character.is_control() || character == char::REPLACEMENT_CHARACTER {
                '?'
            } else {
                character
            };
            let start = usize::from(text.length);
            let Some(room) = text.bytes.get_mut(start..start + printed.len_utf8()) else {
                break;
            };
            printed.encode_utf8(room);
            text.length +=
                u8::try_from(printed.len_utf8()).expect("a character has at most four bytes");
        }
        text
    }

    /// Copies a thread's name in the form in which the kernel stores it. Nearly every event has a
    /// name, so all bytes are handled at once to save time. Returns `None` if a byte is not
    /// printable ASCII.
    fn plain(name: u128) -> Option<Self> {
        const ONES: u128 = u128::MAX / 255;
        const TOPS: u128 = ONES << 7;
        // The lowest of these bits belongs to the first zero byte (Hacker's Delight, 6-1).
        let zeros = name.wrapping_sub(ONES) & !name & TOPS;
        let length = zeros.trailing_zeros() / 8;
        let kept = if zeros == 0 {
            u128::MAX
        } else {
            (1 << (8 * length)) - 1
        };
        let (kept, filled) = (name & kept, name & kept | (ONES * u128::from(b' ')) & !kept);
        let is_odd =
            (filled | filled.wrapping_sub(ONES * u128::from(b' ')) | filled.wrapping_add(ONES))
                & TOPS
                != 0;
        if is_odd {
            return None;
        }
        let mut text = Self::default();
        text.bytes[..16].copy_from_slice(&kept.to_le_bytes());
        text.length = u8::try_from(length).ok()?;
        Some(text)
    }

    /// Returns the stored text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)])
            .expect("whole characters were written")
    }

    /// Returns whether the text is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// Hashes whole words, because names are hashed for every piece of every sample. This is correct
/// because equal texts also have equal padding.
impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for word in self.bytes.chunks_exact(8) {
            state.write_u64(u64::from_ne_bytes(
                word.try_into().expect("chunks of eight"),
            ));
        }
    }
}

impl From<&str> for Text {
    fn from(given: &str) -> Self {
        Self::new(given.as_bytes())
    }
}

impl fmt::Display for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

impl serde::Serialize for Text {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn a_name_of_sixteen_bytes_is_read_as_any_other(name in proptest::collection::vec(proptest::prop_oneof![b'a'..=b'z', 0_u8..=255, proptest::strategy::Just(0)], 16)) {
            let longer = [&name[..], &[0]].concat();
            proptest::prop_assert_eq!(Text::new(&name), Text::new(&longer));
        }
    }

    #[test]
    fn a_name_ends_at_its_zero_and_is_inert() {
        assert_eq!(Text::new(b"my_loop\0rest").as_str(), "my_loop");
        assert_eq!(Text::new(b"\x1b[31mred\xff").as_str(), "?[31mred?");
        assert_eq!(
            Text::new("äöü".repeat(9).as_bytes()).as_str(),
            "äöü".repeat(4)
        );
        assert_eq!(
            Text::new("name ".repeat(9).as_bytes()).as_str(),
            "name name name name name"
        );
        assert!(Text::new(b"").is_empty());
        assert!(Text::new(&[0; 16]).is_empty());
    }
}
