//! Quotes words for a shell.

/// Quotes a word for a shell if necessary.
#[must_use]
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Returns the words on one line, quoted where necessary.
#[must_use]
pub fn line<S: AsRef<str>>(words: &[S]) -> String {
    words
        .iter()
        .map(|word| quoted(word.as_ref()))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(
            ["io:size=64MiB", "a b", "it's", ""].map(quoted),
            ["io:size=64MiB", "'a b'", "'it'\\''s'", "''"]
        );
        assert_eq!(line(&["./loop", "a b"]), "./loop 'a b'");
    }
}
