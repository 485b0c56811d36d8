//! Reads one histogram in HdrHistogram's encoding V2, plain or deflated.
//!
//! ```text
//! deflated   i32 0x1c849314, i32 bytes, zlib of the plain encoding
//! plain      i32 0x1c849313, i32 bytes of the payload, i32 index of normalisation, i32 significant digits,
//!            i64 least and i64 largest value, f64 ratio, payload
//! payload    ZigZag LEB128 of 64 bits, at most nine bytes: a count, or below 0 how many counts are 0
//! ```
//! All big-endian. Source: HdrHistogram (Java), `AbstractHistogram.encodeIntoByteBuffer` and
//! `ZigZagEncoding`. The crate `hdrhistogram` is not used, because it allocates as many bytes as a
//! file claims to contain.

use std::io::Read;

use flate2::read::ZlibDecoder;

const COOKIE_PLAIN: u32 = 0x1c84_9313;
const COOKIE_DEFLATED: u32 = 0x1c84_9314;
const HEAD_BYTES: usize = 40;
/// Maximum size of a payload in bytes; the counts of any histogram with 5 digits take less.
const BYTES_MAX: u64 = 64 << 20;

/// Returns values and their counts, in ascending order. The value of a bucket is the largest that
/// it can hold. An error states the expected content.
pub(super) fn decode(bytes: &[u8]) -> Result<Vec<(i64, u64)>, &'static str> {
    let cookie = word(bytes, 0).ok_or("the head of a histogram")?;
    match cookie {
        COOKIE_PLAIN => plain(bytes),
        COOKIE_DEFLATED => {
            let length = word(bytes, 4).ok_or("the length of a histogram")? as usize;
            let deflated = bytes
                .get(8..)
                .and_then(|rest| rest.get(..length))
                .ok_or("as many bytes as the histogram states")?;
            let mut inflated = Vec::new();
            ZlibDecoder::new(deflated)
                .take(BYTES_MAX)
                .read_to_end(&mut inflated)
                .map_err(|_| "a deflated histogram")?;
            plain(&inflated)
        }
        _ => Err("a histogram in encoding V2 (older encodings are not supported)"),
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk::<4>()?))
}

fn long(bytes: &[u8], at: usize) -> Option<i64> {
    Some(i64::from_be_bytes(*bytes.get(at..)?.first_chunk::<8>()?))
}

fn plain(bytes: &[u8]) -> Result<Vec<(i64, u64)>, &'static str> {
    const HEAD: &str = "the head of a histogram in encoding V2";
    if word(bytes, 0) != Some(COOKIE_PLAIN) {
        return Err(HEAD);
    }
    let length = word(bytes, 4).ok_or(HEAD)? as usize;
    let digits = word(bytes, 12)
        .filter(|digits| *digits <= 5)
        .ok_or("0 to 5 significant digits")?;
    let least = long(bytes, 16)
        .filter(|&least| least >= 1)
        .ok_or("a lowest value of at least 1")?;
    if word(bytes, 8) != Some(0) {
        return Err("a histogram that is not shifted");
    }
    let payload = bytes
        .get(HEAD_BYTES..)
        .and_then(|rest| rest.get(..length))
        .ok_or("as many bytes as the histogram states")?;
    let buckets = Buckets::new(digits, least);
    let (mut index, mut counts, mut place) = (0_u64, Vec::new(), 0);
    while place < payload.len() {
        let count = zig_zag(payload, &mut place).ok_or("a count")?;
        if count < 0 {
            index = index
                .checked_add(count.unsigned_abs())
                .ok_or("fewer than 2^64 counts")?;
        } else {
            if count > 0 {
                counts.push((
                    buckets.end_of(index).ok_or("values below 2^63")?,
                    count as u64,
                ));
            }
            index = index.checked_add(1).ok_or("fewer than 2^64 counts")?;
        }
    }
    Ok(counts)
}

fn zig_zag(payload: &[u8], place: &mut usize) -> Option<i64> {
    let mut value = 0_u64;
    for step in 0..9 {
        let byte = *payload.get(*place)?;
        *place += 1;
        if step == 8 {
            value |= u64::from(byte) << 56;
            break;
        }
        value |= u64::from(byte & 0x7f) << (7 * step);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some((value >> 1) as i64 ^ -((value & 1) as i64))
}

/// Converts indices of counts to values.
struct Buckets {
    unit_bits: u32,
    half_bits: u32,
}

impl Buckets {
    fn new(digits: u32, least: i64) -> Self {
        let exact_up_to = 2 * 10_u64.pow(digits);
        let bits = exact_up_to.next_power_of_two().trailing_zeros();
        Self {
            unit_bits: least.ilog2(),
            half_bits: bits.max(1) - 1,
        }
    }

    /// Returns the largest value of the bucket `index`; `None` if this value is 2^63 or larger.
    fn end_of(&self, index: u64) -> Option<i64> {
        let half = 1_u64 << self.half_bits;
        let (bucket, within) = match index >> self.half_bits {
            0 => (0, index),
            bucket => (bucket - 1, (index & (half - 1)) + half),
        };
        let shift = u32::try_from(bucket)
            .ok()?
            .checked_add(self.unit_bits)
            .filter(|&shift| shift < 63)?;
        let end = u128::from(within + 1) << shift;
        i64::try_from(end - 1).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_index_ends_where_the_next_one_begins() {
        // With three digits and unit 1, there are 2048 buckets of width 1, then 1024 each of width
        // 2, 4 and so on.
        let buckets = Buckets::new(3, 1);
        assert_eq!(
            [0, 2047, 2048, 3071, 3072].map(|index| buckets.end_of(index)),
            [0, 2047, 2049, 4095, 4099].map(Some)
        );
        assert_eq!(buckets.end_of(u64::MAX), None);
    }

    #[test]
    fn counts_are_of_any_size() {
        for (bytes, value) in [
            (&[0_u8][..], 0),
            (&[1], -1),
            (&[2], 1),
            (&[0x80, 1], 64),
            (&[0xff; 9], i64::MIN),
            (&[0xfe, 255, 255, 255, 255, 255, 255, 255, 255], i64::MAX),
        ] {
            assert_eq!(zig_zag(bytes, &mut 0), Some(value), "{bytes:?}");
        }
        assert_eq!(zig_zag(&[0x80], &mut 0), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(mut bytes in proptest::collection::vec(any::<u8>(), 40..200)) {
            let _ = decode(&bytes);
            bytes[..4].copy_from_slice(&COOKIE_PLAIN.to_be_bytes());
            bytes[8..12].fill(0);
            bytes[12..16].copy_from_slice(&[0, 0, 0, 3]);
            let _ = decode(&bytes);
        }
    }
}
