//! Parameters that papers used for their statistics.

use tardy_core::units::Nanos;

/// The paper whose buckets and limits are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// The statistics of williams2002: buckets of 100 us, and nine limits.
    Williams2002,
}

impl Preset {
    pub const ALL: [Self; 1] = [Self::Williams2002];

    /// Returns the preset's name, as used on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        "williams2002"
    }

    /// Returns the width of the buckets.
    #[must_use]
    pub fn bucket(self) -> Nanos {
        Nanos::from_micros(100)
    }

    /// Returns the limits in ascending order.
    #[must_use]
    pub fn limits(self) -> Vec<Nanos> {
        [100, 200, 500, 700, 1_000, 5_000, 10_000, 50_000, 100_000]
            .map(Nanos::from_micros)
            .to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_papers::published;

    #[test]
    fn the_limits_are_the_columns_of_the_published_table() {
        let table = published::find("williams2002_below").unwrap();
        let columns: Vec<Nanos> = table.head()[1..]
            .iter()
            .map(|column| column.parse().unwrap())
            .collect();
        assert_eq!(Preset::Williams2002.limits(), columns);
    }
}
