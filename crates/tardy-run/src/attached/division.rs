//! Divides the disk budget of `--disk` among the files of `tardy attach`.

use tardy_samples::rotation::DiskDivision;

/// Maximum number of series in a recording with `--until-stopped`.
pub(super) const SERIES_MAX: usize = 256;
/// Number of series that are reserved for threads without a separate series. These threads share
/// one series for each kind of timer, one for each other waker, and one for the time between two
/// functions.
pub(super) const OTHERS_MAX: usize = 8;
/// Minimum number of series, for which even the smallest disk budget suffices.
const SERIES_LEAST: usize = 16;
/// Disk budget per series, in bytes.
const BYTES_A_SERIES: u64 = 2 << 20;

/// Minimum disk budget, in bytes.
pub const DISK_LEAST: u64 = 16 << 20;

/// How the disk budget of a folder is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttachedDivision {
    /// Disk budget of each series.
    pub samples: DiskDivision,
    /// Maximum number of series.
    pub series: usize,
    /// Disk budget of all raw traces around the worst wake-ups of each hour, in bytes.
    pub traces_bytes: u64,
    /// Disk budget of `cycles.json`, in bytes.
    pub cycles_bytes: u64,
}

impl AttachedDivision {
    /// Divides a disk budget of `bytes`, or of [`DISK_LEAST`] if `bytes` is smaller.
    #[must_use]
    pub fn of(bytes: u64) -> Self {
        let bytes = bytes.max(DISK_LEAST);
        let series = usize::try_from(bytes / BYTES_A_SERIES)
            .unwrap_or(SERIES_MAX)
            .clamp(SERIES_LEAST, SERIES_MAX);
        let (traces_bytes, cycles_bytes) = (bytes / 8, bytes / 32);
        // While `cycles.json` is replaced, both the old and the new file exist.
        let rest = bytes - traces_bytes - 2 * cycles_bytes;
        Self {
            samples: DiskDivision::of(rest, series)
                .expect("every allowed budget has room for its series"),
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
