//! Times as a page prints them.

use maud::{Markup, html};
use tardy_core::units::Nanos;

/// Three digits and a unit.
pub(super) fn time(nanos: i64) -> String {
    micro(&Nanos(nanos).to_string())
}

/// A text for print, where microseconds have their sign; commands keep theirs.
pub(super) fn micro(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find(" us") {
        let (before, found) = rest.split_at(place);
        let is_unit = before.ends_with(|last: char| last.is_ascii_digit())
            && !found[3..].starts_with(|next: char| next.is_alphanumeric());
        out.push_str(before);
        out.push_str(if is_unit { " µs" } else { " us" });
        rest = &found[3..];
    }
    out + rest
}

/// A sentence for print: as [`micro`], and its flags are not broken behind their dashes.
pub(super) fn sentence(text: &str) -> Markup {
    let text = micro(text);
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
    fn microseconds_have_their_sign_and_other_words_stay() {
        assert_eq!(
            micro("4.67 us of 12 us, give us 200us"),
            "4.67 µs of 12 µs, give us 200us"
        );
        assert_eq!(micro("3 used"), "3 used");
    }

    #[test]
    fn flags_of_a_sentence_stay_whole_and_the_rest_is_text() {
        let written = sentence("wait 3 us (--for 1s), a-b <c>").into_string();
        assert_eq!(
            written,
            "wait 3 µs <span class=\"flag\">(--for</span> 1s), a-b &lt;c&gt;"
        );
    }
}
