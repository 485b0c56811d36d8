//! How the bytes of `--disk` are divided for a recording of threads.

use tardy_samples::rotation::DiskDivision;

/// Series of a recording without an end.
pub(super) const SERIES_MAX: usize = 256;
/// Of these, those of threads that have no series of their own: one for each kind of timer.
pub(super) const OTHERS_MAX: usize = 8;
/// Series of the smallest recording.
const SERIES_LEAST: usize = 16;
/// Bytes for one more series.
const BYTES_A_SERIES: u64 = 2 << 20;

/// The least that a recording takes, in bytes.
pub const DISK_LEAST: u64 = 16 << 20;

/// Parts of a folder with `--disk`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttachedDivision {
    /// Bytes of each series.
    pub samples: DiskDivision,
    /// How many series there may be.
    pub series: usize,
    /// Bytes of the raw traces around the worst wake-ups of each hour, all together.
    pub traces_bytes: u64,
    /// Bytes of `cycles.json`.
    pub cycles_bytes: u64,
}

impl AttachedDivision {
    /// Of a folder with so many bytes; of [`DISK_LEAST`] if these are fewer.
    #[must_use]
    pub fn of(bytes: u64) -> Self {
        let bytes = bytes.max(DISK_LEAST);
        let series = usize::try_from(bytes / BYTES_A_SERIES)
            .unwrap_or(SERIES_MAX)
            .clamp(SERIES_LEAST, SERIES_MAX);
        let (traces_bytes, cycles_bytes) = (bytes / 8, bytes / 32);
        // The new cycles lie beside the old ones for a moment.
        let rest = bytes - traces_bytes - 2 * cycles_bytes;
        Self {
            samples: DiskDivision::of(rest, series).expect("the least is enough for its series"),
            series,
            traces_bytes,
            cycles_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_each_size_fit_into_it() {
        for mib in (16..4096).step_by(7) {
            let bytes = mib << 20;
            let found = AttachedDivision::of(bytes);
            let of_series = found.samples.kept_bytes + 2 * found.samples.hours_bytes;
            let all = of_series * found.series as u64 + found.traces_bytes + 2 * found.cycles_bytes;
            assert!(all <= bytes, "{mib} MiB: {found:?}");
            assert!(found.series > OTHERS_MAX);
        }
        assert_eq!(AttachedDivision::of(0), AttachedDivision::of(DISK_LEAST));
    }
}
