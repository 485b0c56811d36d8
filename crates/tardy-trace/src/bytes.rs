//! Bounded reading of little-endian numbers and texts from untrusted bytes.

/// The bytes end before the expected data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the data ends at byte {at}, but {wanted} more bytes are expected")]
pub struct EndOfData {
    /// Position at which reading failed, in bytes from the start.
    pub at: usize,
    /// How many bytes were expected there.
    pub wanted: usize,
}

/// A slice of bytes, and the position from which the next bytes are read.
#[derive(Debug, Clone, Copy)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at byte `at`. If `at` is past the end, every read fails.
    #[must_use]
    pub fn at(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// Returns the position, in bytes from the start.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// Returns the next `length` bytes.
    ///
    /// # Errors
    /// Returns an error if fewer bytes are left.
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], EndOfData> {
        let end = self.at.checked_add(length);
        let taken = end
            .and_then(|end| self.bytes.get(self.at..end))
            .ok_or(EndOfData {
                at: self.at,
                wanted: length,
            })?;
        self.at += length;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], EndOfData> {
        Ok(self.take(N)?.try_into().expect("take gave N bytes"))
    }

    /// Returns the next byte.
    ///
    /// # Errors
    /// Returns an error if no byte is left.
    pub fn u8(&mut self) -> Result<u8, EndOfData> {
        Ok(self.array::<1>()?[0])
    }

    /// Returns a number of two bytes, low byte first.
    ///
    /// # Errors
    /// Returns an error if fewer bytes are left.
    pub fn u16(&mut self) -> Result<u16, EndOfData> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Returns a number of four bytes, low byte first.
    ///
    /// # Errors
    /// Returns an error if fewer bytes are left.
    pub fn u32(&mut self) -> Result<u32, EndOfData> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Returns a number of eight bytes, low byte first.
    ///
    /// # Errors
    /// Returns an error if fewer bytes are left.
    pub fn u64(&mut self) -> Result<u64, EndOfData> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Returns the bytes before the next zero byte, and skips the zero byte.
    ///
    /// # Errors
    /// Returns an error if there is no zero byte.
    pub fn terminated(&mut self) -> Result<&'a [u8], EndOfData> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let length = rest.iter().position(|&byte| byte == 0).ok_or(EndOfData {
            at: self.at,
            wanted: rest.len() + 1,
        })?;
        self.at += length + 1;
        Ok(&rest[..length])
    }
}

/// Returns an unsigned number of 1, 2, 4 or 8 bytes at `offset`, or `None` if it lies outside
/// `bytes`.
#[must_use]
pub fn unsigned(bytes: &[u8], offset: usize, size: usize) -> Option<u64> {
    let field = bytes.get(offset..offset.checked_add(size)?)?;
    Some(match size {
        1 => u64::from(field[0]),
        2 => u64::from(u16::from_le_bytes(field.try_into().ok()?)),
        4 => u64::from(u32::from_le_bytes(field.try_into().ok()?)),
        8 => u64::from_le_bytes(field.try_into().ok()?),
        _ => return None,
    })
}

/// Returns a signed number; otherwise like [`unsigned`].
#[must_use]
#[expect(clippy::cast_possible_wrap, reason = "the sign is what is asked for")]
pub fn signed(bytes: &[u8], offset: usize, size: usize) -> Option<i64> {
    let value = unsigned(bytes, offset, size)?;
    let unused = 64 - 8 * size;
    Some(((value << unused) as i64) >> unused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_sign() {
        assert_eq!(signed(&[0xff, 0xff, 0xff, 0xff], 0, 4), Some(-1));
        assert_eq!(unsigned(&[0xff, 0xff, 0xff, 0xff], 0, 4), Some(0xffff_ffff));
        assert_eq!(signed(&[1, 0x80], 0, 2), Some(-0x7fff));
        assert_eq!(signed(&[1], 0, 2), None);
        assert_eq!(unsigned(&[1], usize::MAX, 1), None);
    }

    #[test]
    fn nothing_is_read_behind_the_end() {
        let mut cursor = Cursor::at(&[1, 2, 3], 1);
        assert_eq!(cursor.u16(), Ok(0x0302));
        assert_eq!(cursor.u8(), Err(EndOfData { at: 3, wanted: 1 }));
        assert!(Cursor::at(&[0], usize::MAX).take(2).is_err());
        assert!(Cursor::at(&[1, 2], 0).terminated().is_err());
    }
}
