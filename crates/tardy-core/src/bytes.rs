//! Sizes in bytes, parsed and formatted with binary units.

const UNITS: [(&str, u64); 4] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

/// Parses `4096B`, `64KiB`, `64MiB`, `2GiB`, and `64M`, the form of dd and of kernels. Refuses a
/// number without a unit.
#[must_use]
pub fn parse_bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let (_, factor) = UNITS
        .iter()
        .find(|(name, _)| *name == unit || (name.len() == 3 && name[..1] == *unit))?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// Formats a size in the largest unit that divides it. If the number in this unit has more than
/// four digits, it is written with two decimals in the largest unit that is not larger than the
/// size.
#[must_use]
pub fn format_bytes(bytes: u64) -> String {
    let exact = UNITS
        .iter()
        .find(|(_, factor)| bytes >= *factor && bytes.is_multiple_of(*factor))
        .unwrap_or(&UNITS[3]);
    if bytes / exact.1 < 10_000 {
        return format!("{}{}", bytes / exact.1, exact.0);
    }
    let (unit, factor) = UNITS
        .iter()
        .find(|(_, factor)| bytes >= *factor)
        .unwrap_or(&UNITS[3]);
    format!("{:.2}{unit}", bytes as f64 / *factor as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_need_a_unit() {
        assert_eq!(parse_bytes("64MiB"), Some(64 << 20));
        assert_eq!(parse_bytes("64M"), Some(64 << 20));
        assert_eq!(parse_bytes("100B"), Some(100));
        for text in [
            "64",
            "MiB",
            "1.5MiB",
            "-1KiB",
            "99999999999GiB",
            "",
            "1i",
            "1MB",
        ] {
            assert_eq!(parse_bytes(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn printed_sizes_that_are_whole_are_read_back(count in 0_u64..10_000, unit in 0_usize..4) {
            let bytes = count * UNITS[unit].1;
            prop_assert_eq!(parse_bytes(&format_bytes(bytes)), Some(bytes));
        }

        #[test]
        fn no_text_makes_the_size_parser_panic(text in ".{0,20}") {
            let _ = parse_bytes(&text);
        }
    }
}
