//! Wall-clock times as people read them, in UTC.

use tardy_core::units::Nanos;

/// As in `2026-11-21 03:12:00`, from ns since 1970.
#[must_use]
pub fn date_and_time(realtime: Nanos) -> String {
    let seconds = realtime.get().div_euclid(1_000_000_000);
    let (year, month, day) = civil_from_days(seconds.div_euclid(86_400));
    let of_day = seconds.rem_euclid(86_400);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

/// As in `2026-11-21T03:12:00+00:00` (RFC 3339), from ns since 1970.
#[must_use]
pub fn rfc_3339(realtime: Nanos) -> String {
    date_and_time(realtime).replacen(' ', "T", 1) + "+00:00"
}

const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// As in `Sat, 21 Nov 2026 03:12:00 +0000` (RFC 2822), from ns since 1970.
#[must_use]
pub fn rfc_2822(realtime: Nanos) -> String {
    let seconds = realtime.get().div_euclid(1_000_000_000);
    let days = seconds.div_euclid(86_400);
    let (year, month, day) = civil_from_days(days);
    let of_day = seconds.rem_euclid(86_400);
    // 1970-01-01 was a Thursday.
    let weekday = WEEKDAYS[(days + 3).rem_euclid(7) as usize];
    let month = MONTHS[(month - 1) as usize];
    format!("{weekday}, {day:02} {month} {year} {:02}:{:02}:{:02} +0000", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

/// The ns since 1970 of a text as [`rfc_2822`] writes it, with any offset; `None` where it is none.
#[must_use]
pub fn from_rfc_2822(text: &str) -> Option<Nanos> {
    let text = text.split_once(',').map_or(text, |(_, rest)| rest);
    let [day, month, year, clock, offset] = text.split_whitespace().collect::<Vec<_>>()[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let [hour, minute, second] = clock.split(':').filter_map(|part| part.parse::<i64>().ok()).collect::<Vec<_>>()[..] else { return None };
    let offset: i64 = offset.parse().ok().filter(|offset: &i64| offset.abs() < 10_000)?;
    let offset_seconds = (offset / 100 * 60 + offset % 100) * 60;
    let seconds = days_from_civil(year.parse().ok()?, month, day.parse().ok()?)?.checked_mul(86_400)?;
    let of_day = hour.checked_mul(3600)?.checked_add(minute.checked_mul(60)?)?.checked_add(second)?;
    seconds.checked_add(of_day)?.checked_sub(offset_seconds)?.checked_mul(1_000_000_000).map(Nanos)
}

/// The days from 1970-01-01 to a date of the Gregorian calendar; `None` for years that no clock shows.
fn days_from_civil(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(0..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let year_of_era = year.rem_euclid(400);
    Some(era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468)
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar.
#[must_use]
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    // Years are counted from March, so that the leap day is the last one: 400 years have 146097 days, 4 have 1461, five months 153.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        for (days, date) in [(0, (1970, 1, 1)), (59, (1970, 3, 1)), (11_016, (2000, 2, 29)), (20_778, (2026, 11, 21)), (-1, (1969, 12, 31))]
        {
            assert_eq!(civil_from_days(days), date);
        }
    }

    #[test]
    fn moments_survive_a_round_trip_through_a_mails_date() {
        let text = rfc_2822(Nanos(1_700_000_000_000_000_000));
        assert_eq!(text, "Tue, 14 Nov 2023 22:13:20 +0000");
        assert_eq!(from_rfc_2822(&text), Some(Nanos(1_700_000_000_000_000_000)));
        assert_eq!(from_rfc_2822("Wed, 15 Nov 2023 00:13:20 +0200"), Some(Nanos(1_700_000_000_000_000_000)));
        for days in (-700_000..2_000_000).step_by(997) {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), Some(days));
        }
        for wrong in
            ["", "Tue, 14 Nov 2023", "Tue, 14 Foo 2023 22:13:20 +0000", "Tue, 14 Nov 99999999999 22:13:20 +0000", "1 Jan 2000 1:2 +0"]
        {
            assert_eq!(from_rfc_2822(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_moment_becomes_date_and_time() {
        assert_eq!(date_and_time(Nanos(1_700_000_000_999_999_999)), "2023-11-14 22:13:20");
    }
}
