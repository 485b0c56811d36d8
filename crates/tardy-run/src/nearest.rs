//! Suggests the name that a user meant when a name is mistyped.

/// Minimum similarity for a suggestion; 1 means equal. The value was found by experiment: if one
/// letter of a name of this tool is omitted, added, changed or swapped, the similarity stays above
/// this value.
const LIKENESS_MIN: f64 = 0.6;

/// Returns ` (did you mean NAME?)` with the name most similar to `given`, or nothing if no name is
/// similar.
#[must_use]
pub fn did_you_mean<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    nearest(given, names).map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"))
}

/// Returns the name that is most similar to `given`; `None` if no name is similar enough.
#[must_use]
pub fn nearest<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_lowercase();
    let likeness = |name: &str| {
        let edits = strsim::normalized_damerau_levenshtein(&given, &name.to_lowercase());
        // If `given` is the beginning of a name, that name is meant.
        if given.chars().count() > 2 && name.starts_with(&given) {
            edits.max(LIKENESS_MIN)
        } else {
            edits
        }
    };
    let found = names
        .into_iter()
        .map(|name| (name, likeness(name)))
        .max_by(|one, other| one.1.total_cmp(&other.1));
    found
        .filter(|(_, likeness)| *likeness >= LIKENESS_MIN)
        .map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_understood_and_another_word_is_not() {
        let names = [
            "cyclic",
            "nanosleep",
            "usleep",
            "timerfd",
            "hackbench",
            "for",
            "force",
            "load",
        ];
        for (given, meant) in [
            ("cyclik", "cyclic"),
            ("cylic", "cyclic"),
            ("hackbnech", "hackbench"),
            ("fro", "for"),
            ("hack", "hackbench"),
        ] {
            assert_eq!(nearest(given, names), Some(meant), "{given}");
        }
        assert_eq!(nearest("disco", names), None);
        assert_eq!(did_you_mean("TIMERFD", names), " (did you mean `timerfd`?)");
    }
}
