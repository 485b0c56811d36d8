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
    fn a_moment_becomes_date_and_time() {
        assert_eq!(date_and_time(Nanos(1_700_000_000_999_999_999)), "2023-11-14 22:13:20");
    }
}
