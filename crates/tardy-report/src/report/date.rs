//! Formats wall-clock times in UTC.

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use tardy_core::units::Nanos;

/// Formats ns since 1970 as `2026-11-21 03:12:00`.
#[must_use]
pub fn date_and_time(realtime: Nanos) -> String {
    written(realtime, "%Y-%m-%d %H:%M:%S")
}

/// Formats ns since 1970 as `20261121-031200`, for names of files and folders.
#[must_use]
pub fn compact(realtime: Nanos) -> String {
    written(realtime, "%Y%m%d-%H%M%S")
}

/// Formats ns since 1970 as `2026-11-21T03:12:00+00:00` (RFC 3339).
#[must_use]
pub fn rfc_3339(realtime: Nanos) -> String {
    written(realtime, "%Y-%m-%dT%H:%M:%S+00:00")
}

/// Formats ns since 1970 as `Sat, 21 Nov 2026 03:12:00 +0000` (RFC 2822).
#[must_use]
pub fn rfc_2822(realtime: Nanos) -> String {
    written(realtime, "%a, %d %b %Y %H:%M:%S +0000")
}

/// Parses a date in the format of [`rfc_2822`], with any offset, as ns since 1970. Returns `None`
/// for other texts, and for years that 64 bits of ns cannot represent.
#[must_use]
pub fn from_rfc_2822(text: &str) -> Option<Nanos> {
    let timestamp = DateTimeParser::new().parse_timestamp(text).ok()?;
    i64::try_from(timestamp.as_nanosecond()).ok().map(Nanos)
}

fn written(realtime: Nanos, format: &str) -> String {
    // 64 bits of ns span 292 years, and jiff's calendar reaches the year 9999, so the conversion
    // cannot fail.
    Timestamp::from_nanosecond(realtime.get().into())
        .unwrap_or_default()
        .strftime(format)
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_survive_a_round_trip_through_a_mails_date() {
        let text = rfc_2822(Nanos(1_700_000_000_000_000_000));
        assert_eq!(text, "Tue, 14 Nov 2023 22:13:20 +0000");
        assert_eq!(from_rfc_2822(&text), Some(Nanos(1_700_000_000_000_000_000)));
        assert_eq!(
            from_rfc_2822("Wed, 15 Nov 2023 00:13:20 +0200"),
            Some(Nanos(1_700_000_000_000_000_000))
        );
        for wrong in [
            "",
            "Tue, 14 Nov 2023",
            "Tue, 14 Foo 2023 22:13:20 +0000",
            "Tue, 14 Nov 99999999999 22:13:20 +0000",
            "1 Jan 2000 1:2 +0",
        ] {
            assert_eq!(from_rfc_2822(wrong), None, "{wrong}");
        }
        assert_eq!(
            from_rfc_2822("Sat, 01 Jan 2500 00:00:00 +0000"),
            None,
            "beyond 64 bits of ns"
        );
    }

    #[test]
    fn a_moment_becomes_date_and_time() {
        let moment = Nanos(1_700_000_000_999_999_999);
        assert_eq!(date_and_time(moment), "2023-11-14 22:13:20");
        assert_eq!(compact(moment), "20231114-221320");
        assert_eq!(rfc_3339(moment), "2023-11-14T22:13:20+00:00");
        assert_eq!(date_and_time(Nanos(i64::MIN)), "1677-09-21 00:12:43");
    }
}
