//! Formats times and sentences for a page.

use maud::{Markup, html};
use tardy_core::units::Nanos;

/// Formats a time with three digits and a unit.
pub(super) fn time(nanos: i64) -> String {
    Nanos(nanos).to_string()
}

/// Formats a sentence. Flags are not broken after their dashes, and commands in backticks are set
/// as code.
pub(super) fn sentence(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    // With an odd number of backticks, they are ordinary characters.
    let has_pairs = parts.len() % 2 == 1;
    html! {
        @if has_pairs {
            @for (index, part) in parts.iter().enumerate() {
                @if index % 2 == 1 { code { (flags(part)) } } @else { (flags(part)) }
            }
        } @else { (flags(text)) }
    }
}

fn flags(text: &str) -> Markup {
    let mut words = text.split(' ').enumerate();
    html! {
        @for (index, word) in &mut words {
            @if index > 0 { " " }
            @if word.trim_start_matches('(').starts_with("--") { span class="flag" { (word) } } @else { (word) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_a_sentence_stay_whole_and_the_rest_is_text() {
        let written = sentence("wait 3 us (--for 1s), a-b <c>").into_string();
        assert_eq!(
            written,
            "wait 3 us <span class=\"flag\">(--for</span> 1s), a-b &lt;c&gt;"
        );
        assert_eq!(
            sentence("use `tardy run --for 1s`").into_string(),
            "use <code>tardy run <span class=\"flag\">--for</span> 1s</code>"
        );
        assert_eq!(sentence("a ` b").into_string(), "a ` b");
    }
}
