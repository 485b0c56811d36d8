//! Divides an atlas into parts, so that several machines can share the work. Each machine makes one
//! part.

use std::fmt;
use std::str::FromStr;

/// `i/n`: every nth group of cells, from the ith on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Number of the part, counted from 0.
    part: usize,
    of: usize,
}

impl Shard {
    /// The only part of an undivided atlas.
    pub const WHOLE: Self = Self { part: 0, of: 1 };

    /// Returns whether the group with this index (from 0) belongs to this part.
    #[must_use]
    pub fn has(self, place: usize) -> bool {
        place % self.of == self.part
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.part + 1, self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text
            .split_once('/')
            .and_then(|(part, of)| Some((part.parse::<usize>().ok()?, of.parse::<usize>().ok()?)));
        let (part, of) = numbers
            .filter(|(part, of)| (1..=*of).contains(part))
            .ok_or_else(|| {
                format!("`{text}` is not a shard: write I/N with I from 1 to N, as in 2/8")
            })?;
        Ok(Self { part: part - 1, of })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_belongs_to_one_shard() {
        let shards: Vec<Shard> = ["1/3", "2/3", "3/3"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        for place in 0..10 {
            assert_eq!(
                shards.iter().filter(|shard| shard.has(place)).count(),
                1,
                "{place}"
            );
            assert!(Shard::WHOLE.has(place));
        }
    }

    #[test]
    fn what_names_no_part_is_refused() {
        for text in ["", "1", "0/2", "3/2", "1/0", "a/b", "-1/2"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }
}
