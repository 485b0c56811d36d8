//! Variable-length integers: seven bits per byte, low bits first. Signed values are folded, so that
//! small magnitudes take few bytes.

/// Longest encoding of a 64-bit value, in bytes.
pub const VARINT_BYTES_MAX: usize = 10;

/// Appends `value`.
#[inline]
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Folds `value` and appends its encoding.
#[inline]
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, fold(value));
}

/// Maps 0, -1, 1, -2, ... to 0, 1, 2, 3, ...
#[must_use]
pub const fn fold(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Returns the inverse of [`fold`].
#[must_use]
pub const fn unfold(value: u64) -> i64 {
    ((value >> 1) as i64) ^ -((value & 1) as i64)
}

/// Reads values from a slice, one after another.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Creates a reader at the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the next value; `None` if the slice ends within a value, or the value has more than
    /// 64 bits.
    #[inline]
    pub fn take(&mut self) -> Option<u64> {
        // Lengths of one to three bytes alternate in a series, so a branch on the length would
        // often be mispredicted. Eight bytes are read at once, and only a value of more than four
        // bytes takes the loop.
        let Some(eight) = self.rest.first_chunk::<8>() else {
            return self.take_long();
        };
        let eight = u64::from_le_bytes(*eight);
        let ends = !eight & 0x8080_8080;
        if ends == 0 {
            return self.take_long();
        }
        let bits = ends.trailing_zeros() + 1;
        let value = eight & (u64::MAX >> (64 - bits));
        self.rest = &self.rest[bits as usize / 8..];
        Some(
            (value & 0x7f)
                | (value >> 1 & 0x3f80)
                | (value >> 2 & 0x1f_c000)
                | (value >> 3 & 0xfe0_0000),
        )
    }

    fn take_long(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for (index, &byte) in self.rest.iter().enumerate().take(VARINT_BYTES_MAX) {
            let bits = u64::from(byte & 0x7f);
            if index == 9 && bits > 1 {
                return None;
            }
            value |= bits << (7 * index);
            if byte < 0x80 {
                self.rest = &self.rest[index + 1..];
                return Some(value);
            }
        }
        None
    }

    /// Returns the next value, unfolded.
    #[inline]
    pub fn take_signed(&mut self) -> Option<i64> {
        self.take().map(unfold)
    }

    /// Returns the next `length` bytes.
    pub fn take_bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(bytes)
    }

    /// Returns whether everything was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_value_of_more_than_64_bits_is_refused() {
        assert_eq!(Reader::new(&[0xff; 9]).take(), None);
        assert_eq!(
            Reader::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]).take(),
            None
        );
        assert_eq!(
            Reader::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]).take(),
            Some(u64::MAX)
        );
        assert_eq!(Reader::new(&[]).take(), None);
    }

    proptest! {
        #[test]
        fn values_survive_a_round_trip(values in proptest::collection::vec(any::<i64>(), 0..50)) {
            let mut bytes = Vec::new();
            values.iter().for_each(|&value| put_signed(&mut bytes, value));
            let mut reader = Reader::new(&bytes);
            for &value in &values {
                prop_assert_eq!(reader.take_signed(), Some(value));
            }
            prop_assert!(reader.is_empty());
        }
    }
}
