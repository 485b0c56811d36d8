//! Makes text safe for a terminal.

use std::borrow::Cow;

/// Returns whether a terminal only draws the character and does nothing else. Control characters
/// have other effects. Characters that change the direction of the surrounding text (Unicode UAX 9,
/// section 2) are excluded too, because they can disguise a line as a different one.
#[must_use]
pub fn is_printable(character: char) -> bool {
    !character.is_control()
        && !matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// Replaces characters that could control a terminal by U+FFFD. Line feeds and tabs stay.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_kept = |character| is_printable(character) || matches!(character, '\n' | '\t');
    if text.chars().all(is_kept) {
        return Cow::Borrowed(text);
    }
    let replaced = |character| {
        if is_kept(character) {
            character
        } else {
            char::REPLACEMENT_CHARACTER
        }
    };
    text.chars().map(replaced).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_cannot_steer_a_terminal() {
        assert_eq!(
            printable("a\tb\n\u{1b}[31mPASSED\u{9b}2J\r\u{202e}x"),
            "a\tb\n\u{fffd}[31mPASSED\u{fffd}2J\u{fffd}\u{fffd}x"
        );
        assert!(matches!(printable("12 µs, größer\n"), Cow::Borrowed(_)));
    }
}
