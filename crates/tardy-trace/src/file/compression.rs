//! Decompresses parts of trace.dat: zlib, zstd, or uncompressed.

use std::borrow::Cow;
use std::io::{self, Read};

use flate2::read::ZlibDecoder;
use ruzstd::decoding::StreamingDecoder;

use crate::bytes::{Cursor, EndOfData};

/// Maximum decompressed size of a part other than pages. The symbols of a kernel take about 15 MB.
pub const SECTION_BYTES_MAX: usize = 256 << 20;
/// Maximum decompressed size of a chunk of pages. trace-cmd puts some dozens of pages into a chunk.
pub const CHUNK_BYTES_MAX: usize = 64 << 20;

/// Why a part cannot be decompressed.
#[derive(Debug, thiserror::Error)]
pub enum CompressionError {
    /// The compression method is not supported.
    #[error(
        "trace.dat is compressed with {0:?}: only zlib and zstd can be read; `trace-cmd convert \
         --compression none` helps"
    )]
    Unknown(String),
    /// The part would be too large when decompressed.
    #[error(
        "a compressed part of trace.dat claims to expand to {0} bytes, more than tardy reads at \
         once"
    )]
    TooMuch(usize),
    /// After decompression, the part's length differs from the one that the file states.
    #[error("a compressed part of trace.dat expanded to {became} bytes instead of {said}")]
    Length {
        /// The actual size.
        became: usize,
        /// The declared size.
        said: usize,
    },
    /// The compressed bytes are damaged.
    #[error("a compressed part of trace.dat is damaged: {0}")]
    Damaged(#[from] io::Error),
    /// The part is truncated.
    #[error("a compressed part of trace.dat is cut short: {0}")]
    End(#[from] EndOfData),
}

/// The method by which the parts of a file are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Uncompressed.
    None,
    /// zlib (RFC 1950).
    Zlib,
    /// zstd (RFC 8878).
    Zstd,
}

impl Compression {
    /// Returns the compression method with this name.
    ///
    /// # Errors
    /// Returns an error if the method is not supported.
    pub fn named(name: &[u8]) -> Result<Self, CompressionError> {
        match name {
            b"none" => Ok(Self::None),
            b"zlib" => Ok(Self::Zlib),
            b"zstd" => Ok(Self::Zstd),
            other => Err(CompressionError::Unknown(super::printable(other))),
        }
    }

    /// Decompresses a part. The part starts with two lengths, first that of the compressed bytes
    /// and then that of the decompressed ones; the compressed bytes come after them.
    pub(super) fn part<'a>(
        self,
        cursor: &mut Cursor<'a>,
        length_max: usize,
    ) -> Result<Cow<'a, [u8]>, CompressionError> {
        let (compressed, length) = (cursor.u32()? as usize, cursor.u32()? as usize);
        if length > length_max {
            return Err(CompressionError::TooMuch(length));
        }
        let bytes = cursor.take(compressed)?;
        // Stops one byte after the stated size, even if the input contains more.
        let limit = length as u64 + 1;
        let mut became = Vec::new();
        match self {
            Self::None => return Ok(Cow::Borrowed(bytes)),
            Self::Zlib => ZlibDecoder::new(bytes)
                .take(limit)
                .read_to_end(&mut became)?,
            Self::Zstd => StreamingDecoder::new(bytes)
                .map_err(io::Error::other)?
                .take(limit)
                .read_to_end(&mut became)?,
        };
        if became.len() == length {
            Ok(Cow::Owned(became))
        } else {
            Err(CompressionError::Length {
                became: became.len(),
                said: length,
            })
        }
    }

    /// Returns the pages of a CPU, either all at once or chunk by chunk.
    pub(super) fn chunks<'a>(
        self,
        bytes: &'a [u8],
    ) -> impl Iterator<Item = Result<Cow<'a, [u8]>, CompressionError>> + use<'a> {
        let mut cursor = Cursor::at(bytes, 0);
        let mut left = if bytes.is_empty() { Some(0) } else { None };
        std::iter::from_fn(move || {
            if self == Self::None {
                return (left.replace(0).is_none()).then_some(Ok(Cow::Borrowed(bytes)));
            }
            let mut next = || {
                let count = left.map_or_else(|| cursor.u32(), Ok)?;
                left = Some(count.saturating_sub(1));
                (count > 0)
                    .then(|| self.part(&mut cursor, CHUNK_BYTES_MAX))
                    .transpose()
            };
            let chunk = next().transpose();
            if matches!(chunk, Some(Err(_))) {
                left = Some(0);
            }
            chunk
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Encodes a part in the form that it has in a file. The part states that its decompressed size
    /// is `said` bytes.
    fn part(compressed: &[u8], said: usize) -> Vec<u8> {
        let number = |value: usize| u32::try_from(value).unwrap().to_le_bytes();
        [&number(compressed.len())[..], &number(said)[..], compressed].concat()
    }

    fn zlib(plain: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    fn read(compression: Compression, part: &[u8]) -> Result<Vec<u8>, CompressionError> {
        compression
            .part(&mut Cursor::at(part, 0), 1 << 20)
            .map(Cow::into_owned)
    }

    #[test]
    fn parts_become_what_they_were() {
        let plain = b"pages and pages and pages".repeat(100);
        assert_eq!(
            read(Compression::Zlib, &part(&zlib(&plain), plain.len())).unwrap(),
            plain
        );
        let zstd = ruzstd::encoding::compress_to_vec(
            &plain[..],
            ruzstd::encoding::CompressionLevel::Fastest,
        );
        assert_eq!(
            read(Compression::Zstd, &part(&zstd, plain.len())).unwrap(),
            plain
        );
    }

    #[test]
    fn a_part_never_becomes_more_than_it_says_or_than_is_allowed() {
        let bomb = zlib(&vec![0; 10 << 20]);
        assert!(matches!(
            read(Compression::Zlib, &part(&bomb, 1000)),
            Err(CompressionError::Length {
                became: 1001,
                said: 1000
            })
        ));
        assert!(matches!(
            read(Compression::Zlib, &part(&bomb, 10 << 20)),
            Err(CompressionError::TooMuch(_))
        ));
        assert!(matches!(
            read(Compression::Zstd, &part(&bomb, 1000)),
            Err(CompressionError::Damaged(_))
        ));
        assert!(
            Compression::named(b"lzma")
                .unwrap_err()
                .to_string()
                .contains("\"lzma\"")
        );
    }

    #[test]
    fn pages_come_chunk_by_chunk_and_end_at_damage() {
        let chunk = part(&zlib(&[7; 4096]), 4096);
        let bytes = [&2_u32.to_le_bytes()[..], &chunk, &chunk].concat();
        assert_eq!(
            Compression::Zlib
                .chunks(&bytes)
                .map(|chunk| chunk.unwrap().len())
                .collect::<Vec<_>>(),
            [4096, 4096]
        );
        let results: Vec<bool> = Compression::Zlib
            .chunks(&bytes[..bytes.len() - 1])
            .map(|chunk| chunk.is_ok())
            .collect();
        assert_eq!(results, [true, false]);
        assert_eq!(Compression::None.chunks(&[1; 10]).count(), 1);
        assert_eq!(Compression::None.chunks(&[]).count(), 0);
    }
}
