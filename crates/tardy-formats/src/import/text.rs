//! Reads small text files into memory as a whole, and parses their lines and the numbers in them.

use std::io::Read;

use tardy_samples::far_time::FAR_NS;

use super::{ImportError, Source, Unit, pasted};

/// Maximum size of a text file, in bytes; histograms of other tools are far smaller.
const BYTES_MAX: u64 = 256 << 20;

impl Source {
    /// Returns the text as its tool printed it ([`pasted::cleaned`]). If it holds several
    /// measurements, the lines of those that were not selected are empty.
    pub(super) fn text(&mut self) -> Result<String, ImportError> {
        let mut bytes = Vec::new();
        (&mut self.input)
            .take(BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| self.unreadable(error))?;
        if bytes.len() as u64 > BYTES_MAX {
            return Err(self.expected(
                1,
                format!("a text of at most {} MiB in this format", BYTES_MAX >> 20),
                "more",
            ));
        }
        let text = pasted::cleaned(&bytes);
        match self.cut.take() {
            Some(cut) => cut.apply(self, text),
            None => Ok(text),
        }
    }
}

/// Returns the lines, numbered from 1.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (u64, String)> + '_ {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index as u64 + 1, line.to_owned()))
}

/// Returns whether the text ends within the value after `key`, which the tool pads to `width`
/// characters.
pub(super) fn is_cut_off(text: &str, key: &str, width: usize) -> bool {
    let last = text.lines().next_back().unwrap_or_default();
    !text.ends_with('\n')
        && last
            .rsplit_once(key)
            .is_some_and(|(_, value)| value.len() < width)
}

/// Returns the first lines of `head`, up to the first byte that is not text.
pub(super) fn head_lines(head: &[u8]) -> Vec<&str> {
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) => str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default(),
    };
    text.lines().collect()
}

/// The text that errors about a time state as the expected content.
pub(super) const NEAR_TIME: &str = "a time below 2^62 ns, which is 146 years";

/// Returns whether readers of runs accept the time, in ns.
pub(super) fn is_near(nanos: f64) -> bool {
    nanos.abs() < FAR_NS as f64
}

/// Parses a decimal number in `unit` to whole ns, without floating point for whole numbers; `None`
/// if it is not a number, or is too large.
pub(super) fn nanos(text: &str, unit: Unit) -> Option<i64> {
    // Readers of runs accept times below 2^62 ns.
    if let Ok(whole) = text.parse::<i64>() {
        return whole
            .checked_mul(unit.nanos())
            .filter(|nanos| nanos.unsigned_abs() < FAR_NS.unsigned_abs());
    }
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite())? * unit.nanos() as f64;
    is_near(value).then(|| value.round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_whole_nanoseconds() {
        assert_eq!(
            (
                nanos("20", Unit::Us),
                nanos("1.5", Unit::Ms),
                nanos("nan", Unit::Us)
            ),
            (Some(20_000), Some(1_500_000), None)
        );
        assert_eq!(
            (
                nanos("99999999999999999", Unit::S),
                nanos("1e300", Unit::Ns),
                nanos("", Unit::Ns)
            ),
            (None, None, None)
        );
    }
}
