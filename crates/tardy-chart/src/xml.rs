//! Escapes text for XML.

/// Escapes text for an element or an attribute. Characters that XML 1.0 cannot represent become
/// U+FFFD.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\n' => out.push_str("&#10;"),
            '\t' | '\r' => out.push(' '),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            character => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_runs_cannot_break_out() {
        assert_eq!(
            escape("a\"><x>&'\u{1}"),
            "a&quot;&gt;&lt;x&gt;&amp;&apos;\u{fffd}"
        );
    }
}
