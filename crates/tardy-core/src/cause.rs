//! Formats system errors for people.

use std::fmt;

/// The text that precedes the error number at the end of a system error's message.
const NUMBER: &str = " (os error ";

/// Returns the text without the error numbers that Rust appends to system errors, because a text
/// such as "Operation not permitted" is clear without its number.
#[must_use]
pub fn without_numbers(text: &str) -> String {
    let mut parts = text.split(NUMBER);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest))
                if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                out.push_str(rest)
            }
            _ => {
                out.push_str(NUMBER);
                out.push_str(part);
            }
        }
    }
    out
}

/// Calls `write`, removes the error numbers from the resulting text ([`without_numbers`]), and
/// writes the text to `f`.
pub(crate) fn plainly(
    f: &mut fmt::Formatter<'_>,
    write: impl FnOnce(&mut String) -> fmt::Result,
) -> fmt::Result {
    let mut text = String::new();
    write(&mut text)?;
    f.write_str(&without_numbers(&text))
}

#[cfg(test)]
mod tests {
    use super::without_numbers;

    #[test]
    fn numbers_of_errors_are_cut_and_other_words_stay() {
        let error = std::io::Error::from_raw_os_error(1);
        assert_eq!(
            without_numbers(&format!("mlockall: {error}: raise memlock")),
            "mlockall: Operation not permitted: raise memlock"
        );
        assert_eq!(without_numbers("a (os error 2), b (os error 13)"), "a, b");
        assert_eq!(
            without_numbers("x (os error y) z (os error "),
            "x (os error y) z (os error "
        );
    }
}
