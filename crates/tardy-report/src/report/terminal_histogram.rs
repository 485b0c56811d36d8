//! A histogram for the terminal, a few lines high. Both scales are logarithmic, every bin with a
//! sample is visible, and the largest sample is at the right end.

use tardy_core::histogram::Histogram;
use tardy_core::units::three_digits;

use tardy_chart::bins::{Bins, resolution};
use tardy_chart::scale::{Scale, latency_name};

/// Maximum number of bins, one per column.
const COLUMNS: usize = 96;
/// Minimum number of bins.
const COLUMNS_MIN: usize = 24;
/// Width of the widest number at the left, including a space.
const MARGIN: usize = 7;

/// The characters that fill columns, by increasing height. The first character is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocks {
    /// Heights in eighths of a line.
    Unicode,
    /// Heights in thirds of a line, for terminals that may not support Unicode.
    Ascii,
}

impl Blocks {
    /// Returns the characters that the locale in the environment supports. The variables have the
    /// same precedence as in locale(7).
    #[must_use]
    pub fn of_environment() -> Self {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self::of_locale(
            ["LC_ALL", "LC_CTYPE", "LANG"]
                .into_iter()
                .find_map(set)
                .as_deref(),
        )
    }

    fn of_locale(locale: Option<&str>) -> Self {
        let codeset = locale
            .and_then(|locale| locale.split_once('.'))
            .map_or("", |(_, codeset)| codeset);
        let is_utf_8 = ["utf-8", "utf8"]
            .iter()
            .any(|name| codeset.to_ascii_lowercase().starts_with(name));
        if is_utf_8 { Self::Unicode } else { Self::Ascii }
    }

    fn glyphs(self) -> &'static [char] {
        match self {
            Self::Unicode => &[' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
            Self::Ascii => &[' ', '.', ':', '#'],
        }
    }
}

/// Returns the histogram in `height` lines of at most `width` characters, plus a line for its axis;
/// empty if there are no samples or there is no space.
#[must_use]
pub fn text(
    histogram: &Histogram,
    quantity: &str,
    (width, height): (usize, usize),
    blocks: Blocks,
) -> String {
    let columns = width.saturating_sub(MARGIN).min(COLUMNS);
    if columns < COLUMNS_MIN {
        return String::new();
    }
    let (Some(min), Some(max)) = (histogram.min(), histogram.max()) else {
        return String::new();
    };
    let scale = Scale::of_latency(min);
    let bins = Bins::over(min, max, scale, columns, resolution([histogram]));
    let counts = bins.counts(histogram);
    let highest = counts.iter().copied().max().unwrap_or(1);
    let levels: Vec<usize> = counts
        .iter()
        .map(|&count| level(count, highest, height, blocks))
        .collect();
    let mut lines: Vec<String> = (0..height)
        .rev()
        .map(|row| line(row, height, highest, &levels, blocks))
        .collect();
    lines.push(axis(&bins, scale, (min, max), quantity, width));
    lines
        .iter()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

/// Returns the filled height of a column: 0 for no samples, at least 1 for any sample, and the full
/// height for the largest count.
fn level(count: u64, highest: u64, height: usize, blocks: Blocks) -> usize {
    let parts = height * (blocks.glyphs().len() - 1);
    if count == 0 {
        return 0;
    }
    let share = if highest > 1 {
        (count as f64).ln() / (highest as f64).ln()
    } else {
        1.0
    };
    1 + (share * (parts - 1) as f64).round() as usize
}

fn line(row: usize, height: usize, highest: u64, levels: &[usize], blocks: Blocks) -> String {
    let glyphs = blocks.glyphs();
    let parts = glyphs.len() - 1;
    let label = match row {
        row if row + 1 == height => short_count(highest),
        0 => "1".to_owned(),
        _ => String::new(),
    };
    let column = |level: &usize| glyphs[level.saturating_sub(row * parts).min(parts)];
    format!(
        "{label:>width$} {}",
        levels.iter().map(column).collect::<String>(),
        width = MARGIN - 1
    )
}

/// Returns the axis, with each value below its column. Powers of ten are preferred, and the largest
/// value is always shown.
fn axis(bins: &Bins, scale: Scale, (min, max): (i64, i64), quantity: &str, width: usize) -> String {
    let largest = format!("max {}", three_digits(max as f64));
    let end = (MARGIN + bins.len())
        .saturating_sub(largest.len())
        .max(MARGIN);
    let mut line = vec![' '; end];
    let mut ticks = scale.ticks(min as f64, max as f64, 8);
    ticks.retain(|tick| tick.is_named);
    ticks.sort_by_key(|tick| !is_decade(tick.value));
    for tick in ticks {
        // Each mark is below the column of its value, and the value's text follows the mark.
        let name: Vec<char> = format!("'{}", latency_name(tick.value)).chars().collect();
        let at = MARGIN + bins.index(tick.value as i64);
        let room = at.saturating_sub(1)..at + name.len() + 1;
        if line
            .get(room)
            .is_some_and(|room| room.iter().all(|&c| c == ' '))
        {
            line[at..at + name.len()].copy_from_slice(&name);
        }
    }
    let axis = line.into_iter().chain(largest.chars()).collect::<String>();
    let named = format!("{axis}   {quantity}, both scales logarithmic");
    if named.chars().count() <= width {
        named
    } else {
        axis
    }
}

fn is_decade(value: f64) -> bool {
    value == 0.0 || (value.abs().log10() - value.abs().log10().round()).abs() < 1e-9
}

fn short_count(count: u64) -> String {
    let (divisor, unit) = match count {
        0..10_000 => return count.to_string(),
        10_000..1_000_000 => (1e3, "k"),
        1_000_000..1_000_000_000 => (1e6, "M"),
        _ => (1e9, "G"),
    };
    let value = count as f64 / divisor;
    if value < 100.0 {
        format!("{value:.1}{unit}")
    } else {
        format!("{value:.0}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_core::histogram::Budget;

    fn histogram(values: impl IntoIterator<Item = i64>) -> Histogram {
        let mut histogram = Histogram::new(Budget::ANALYSIS);
        values.into_iter().for_each(|value| histogram.record(value));
        histogram
    }

    #[test]
    fn one_late_sample_among_many_is_seen_at_the_right_end() {
        let values = (0..100_000_i64)
            .map(|index| 8_000 + index * 7_919 % 10_007)
            .chain([1_000_000]);
        for blocks in [Blocks::Ascii, Blocks::Unicode] {
            let text = text(&histogram(values.clone()), "latency", (200, 3), blocks);
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(lines.len(), 4, "{text}");
            assert_eq!(lines[2].chars().count(), MARGIN + COLUMNS, "{text}");
            assert!(lines[2].ends_with(['.', '▁']), "{text}");
            assert!(
                lines[3].contains("'10 us")
                    && lines[3].contains("'100 us")
                    && lines[3].contains("max 1.00 ms"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_single_value_and_early_wake_ups_are_drawn() {
        assert!(
            text(&histogram([5_000]), "latency", (200, 2), Blocks::Ascii).contains("max 5.00 us")
        );
        let early = text(
            &histogram([-40_000, -2_000, 0, 3_000, 90_000]),
            "interval error",
            (200, 2),
            Blocks::Ascii,
        );
        assert!(
            early.contains("'-10 us")
                && early.contains("'10 us")
                && early.contains("interval error"),
            "{early}"
        );
        assert_eq!(text(&histogram([]), "latency", (200, 2), Blocks::Ascii), "");
    }

    #[test]
    fn a_narrow_screen_has_fewer_columns_and_a_very_narrow_one_none() {
        let all = histogram([1_000, 2_000, 500_000]);
        let narrow = text(&all, "latency", (60, 3), Blocks::Ascii);
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 60),
            "{narrow}"
        );
        assert!(
            text(&all, "latency", (120, 3), Blocks::Ascii)
                .lines()
                .any(|line| line.chars().count() > 60)
        );
        assert_eq!(text(&all, "latency", (30, 3), Blocks::Ascii), "");
    }

    #[test]
    fn blocks_follow_the_locale() {
        let blocks = ["C.UTF-8", "de_DE.utf8@euro", "C", "en_US.ISO-8859-1"]
            .map(|locale| Blocks::of_locale(Some(locale)));
        assert_eq!(
            blocks,
            [
                Blocks::Unicode,
                Blocks::Unicode,
                Blocks::Ascii,
                Blocks::Ascii
            ]
        );
        assert_eq!(Blocks::of_locale(None), Blocks::Ascii);
    }
}
