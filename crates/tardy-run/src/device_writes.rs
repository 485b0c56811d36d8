//! Estimates how much a run's loads write to devices. Flash storage wears out when it is written,
//! so the amount is announced before the loads start.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tardy_core::bytes::format_bytes;
use tardy_core::units::Nanos;

/// How much a load writes to a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceWrites {
    /// The device, or the file system's kind if the device is unknown.
    pub device: String,
    /// Bytes per second, over all workers.
    pub rate: u64,
    /// Whether the rate is only typical of such work, so that the load may exceed it. Otherwise the
    /// load never exceeds the rate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_estimate: bool,
}

impl DeviceWrites {
    /// Returns the maximum number of bytes written in this time. A load may write the bytes of one
    /// second as soon as it starts.
    #[must_use]
    pub fn bytes_in(&self, length: Nanos) -> u64 {
        let bytes = u128::from(self.rate)
            * u128::from((length.get().max(0) as u64).saturating_add(1_000_000_000))
            / 1_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

/// Formats one line per device: the maximum number of bytes written to it, and the loads that write
/// them. Each load is given as its label, its writes and its run time.
pub fn lines<'a>(
    loads: impl IntoIterator<Item = (&'a str, &'a DeviceWrites, Nanos)>,
) -> Vec<String> {
    let mut devices = BTreeMap::<&str, BTreeMap<&str, (u64, bool)>>::new();
    for (label, writes, length) in loads {
        let entry = devices
            .entry(&writes.device)
            .or_default()
            .entry(label)
            .or_default();
        *entry = (
            entry.0.saturating_add(writes.bytes_in(length)),
            writes.is_estimate,
        );
    }
    devices
        .into_iter()
        .map(|(device, loads)| line(device, &loads))
        .collect()
}

fn line(device: &str, loads: &BTreeMap<&str, (u64, bool)>) -> String {
    let sum = loads
        .values()
        .fold(0_u64, |sum, (bytes, _)| sum.saturating_add(*bytes));
    let is_estimate = loads.values().any(|(_, is_estimate)| *is_estimate);
    let parts: Vec<String> = loads
        .iter()
        .map(|(label, (bytes, is_estimate))| {
            format!(
                "{label} {}{}",
                if *is_estimate { "about " } else { "" },
                format_bytes(*bytes)
            )
        })
        .collect();
    format!(
        "{} {} to {device}: {} (writing wears out flash)",
        if is_estimate { "about" } else { "at most" },
        format_bytes(sum),
        parts.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes(rate: u64, is_estimate: bool) -> DeviceWrites {
        DeviceWrites {
            device: "/dev/mmcblk0".into(),
            rate,
            is_estimate,
        }
    }

    #[test]
    fn each_phase_of_a_load_counts_with_the_second_that_it_may_write_at_once() {
        let (io, fs) = (writes(1 << 20, false), writes(2 << 20, false));
        let second = Nanos::from_secs(1);
        assert!(lines([]).is_empty());
        let lines = lines([
            ("io", &io, second),
            ("fs", &fs, second),
            ("io", &io, second * 3),
        ]);
        assert_eq!(
            lines,
            ["at most 10MiB to /dev/mmcblk0: fs 4MiB, io 6MiB (writing wears out flash)"]
        );
    }

    #[test]
    fn what_is_no_bound_is_not_called_one() {
        let lines = lines([
            ("io", &writes(1 << 20, false), Nanos::ZERO),
            ("kernel-build", &writes(1 << 20, true), Nanos::ZERO),
        ]);
        assert_eq!(
            lines,
            [
                "about 2MiB to /dev/mmcblk0: io 1MiB, kernel-build about 1MiB (writing wears out \
                 flash)"
            ]
        );
    }
}
