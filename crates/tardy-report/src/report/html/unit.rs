//! Times as a page prints them.

use maud::{Markup, html};
use tardy_core::units::Nanos;

/// Three digits and a unit.
pub(super) fn time(nanos: i64) -> String {
    Nanos(nanos).to_string()
}

/// A sentence whose flags are not broken behind their dashes.
pub(super) fn sentence(text: &str) -> Markup {
    let mut words = text.split(' ').enumerate();
    html! {
        @for (index, word) in &mut words {
            @if index > 0 { " " }
            @if word.trim_start_matches(['(', '`']).starts_with("--") { span class="flag" { (word) } } @else { (word) }
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
    }
}
