//! Joins a player's reports for each frame: whether it was shown (from the statistics), and its
//! skew (from the properties).
//!
//! The player sends statistics and properties separately. The statistics have no frame numbers, but
//! contain every frame in order. The properties have numbers, but two quick changes of a property
//! are reported only once.

use std::collections::{BTreeMap, VecDeque};

use tardy_core::units::Nanos;

/// Whether a frame was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// The frame was shown, at this time on the run's clock.
    Shown(Nanos),
    /// The frame was too late to be shown.
    Dropped,
}

/// A frame whose reports are complete, or about which no more reports are expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    /// Number of the frame in the clip, from 0.
    pub(super) number: i64,
    pub(super) fate: Fate,
    /// The audio time minus the video time; absent if the player did not report it.
    pub(super) skew: Option<Nanos>,
}

/// Frames about which further reports are expected.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    /// Number of the first waiting frame.
    number: i64,
    waiting: VecDeque<Fate>,
    skews: BTreeMap<i64, Nanos>,
}

/// Maximum number of frames that wait for their skew. If the player reports no skew, frames must
/// not wait for it forever.
const WAITING_MAX: usize = 256;

impl Timeline {
    /// Adds the next frame of the statistics.
    pub(super) fn fate(&mut self, fate: Fate) {
        self.waiting.push_back(fate);
    }

    /// Records the skew that the player reported for a frame. Ignores the report if the frame was
    /// already passed on.
    pub(super) fn skew(&mut self, number: i64, skew: Nanos) {
        if number >= self.number {
            self.skews.insert(number, skew);
        }
    }

    /// Returns the next frame in order, if its skew has arrived or cannot arrive any more. If
    /// `is_over` is set, does not wait for the skew.
    pub(super) fn next(&mut self, is_over: bool) -> Option<Frame> {
        let latest = self.skews.last_key_value().map(|(&number, _)| number);
        if !is_over
            && self.waiting.len() <= WAITING_MAX
            && latest.is_none_or(|latest| latest < self.number)
        {
            return None;
        }
        let fate = self.waiting.pop_front()?;
        let number = self.number;
        self.number += 1;
        Some(Frame {
            number,
            fate,
            skew: self.skews.remove(&number),
        })
    }
}

/// Parses a line of mpv's statistics (`--dump-stats`). Returns the time stamp, in the unit of mpv's
/// version, and whether the frame was shown. mpv 0.32 to 0.40 writes `end video-flip`
/// (video/out/vo.c) after showing a frame, and `drop-vo` after dropping one. Returns `None` for
/// other lines.
pub(super) fn statistic(line: &str) -> Option<(i64, bool)> {
    let (stamp, what) = line.trim_end().split_once(' ')?;
    let is_shown = match what {
        "end video-flip" => true,
        "drop-vo" => false,
        _ => return None,
    };
    Some((stamp.parse().ok()?, is_shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(timeline: &mut Timeline, is_over: bool) -> Vec<Frame> {
        std::iter::from_fn(|| timeline.next(is_over)).collect()
    }

    #[test]
    fn a_frame_is_handed_on_with_its_skew_and_without_one_that_was_merged_with_the_next() {
        let mut timeline = Timeline::default();
        let shown = |at| Fate::Shown(Nanos(at));
        for fate in [shown(10), shown(20), Fate::Dropped, shown(40)] {
            timeline.fate(fate);
        }
        assert_eq!(frames(&mut timeline, false), [], "skews are missing");
        timeline.skew(0, Nanos(-3));
        timeline.skew(2, Nanos(7));
        let frame = |number, fate, skew| Frame { number, fate, skew };
        let expected = [
            frame(0, shown(10), Some(Nanos(-3))),
            frame(1, shown(20), None),
            frame(2, Fate::Dropped, Some(Nanos(7))),
        ];
        assert_eq!(frames(&mut timeline, false), expected);
        timeline.skew(1, Nanos(5));
        assert_eq!(frames(&mut timeline, false), [], "that was too late");
        assert_eq!(frames(&mut timeline, true), [frame(3, shown(40), None)]);
        assert!(timeline.skews.is_empty());
    }

    #[test]
    fn a_player_that_reports_no_skew_is_not_waited_for() {
        let mut timeline = Timeline::default();
        (0..WAITING_MAX as i64 + 3).for_each(|at| timeline.fate(Fate::Shown(Nanos(at))));
        assert_eq!(frames(&mut timeline, false).len(), 3);
    }

    #[test]
    fn statistics_are_read_as_the_player_writes_them() {
        assert_eq!(
            statistic("10449569 end video-flip\n"),
            Some((10_449_569, true))
        );
        assert_eq!(statistic("10449569 drop-vo"), Some((10_449_569, false)));
        for other in [
            "10449565 start video-flip",
            "10449746 value -0.000001 audio-diff",
            "end video-flip",
            "x end video-flip",
            "",
        ] {
            assert_eq!(statistic(other), None, "{other}");
        }
    }
}
