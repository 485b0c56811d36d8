//! The glossary of a report, for readers who do not have the tool's documentation.

use maud::{Markup, html};

/// The terms and their explanations, which use the words of the README.
const WORDS: [(&str, &str); 7] = [
    (
        "skipped",
        "periods that passed while the previous wake-up was still late",
    ),
    (
        "misses",
        "wake-ups later than the deadline, and skipped periods whose deadline passed before the \
         thread woke up",
    ),
    (
        "upper bound (95 %)",
        "the true percentile is at most this, for any distribution",
    ),
    (
        "with skipped",
        "the percentiles, including the latency that each skipped period would have had",
    ),
    (
        "an hour, 95 %",
        "at most this many misses an hour under the row's load",
    ),
    (
        "sampling gap",
        "the probe samples once a period, so a shorter delay can stay unseen",
    ),
    (
        "not active on",
        "the load did nothing on these CPUs, so its row leaves out their samples",
    ),
];

pub(super) fn section() -> Markup {
    html! {
        section {
            h2 id="words" { "Words" }
            div class="scroll" tabindex="0" role="region" aria-label="Words" {
                table class="facts" {
                    thead { tr { th scope="col" { "word" } th scope="col" { "meaning" } } }
                    tbody { @for (word, meaning) in WORDS { tr { td { (word) } td { (meaning) } } } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_mean_what_the_readme_says() {
        let readme = include_str!("../../../../../README.md");
        for (word, meaning) in WORDS {
            assert!(
                readme.contains(&format!("| {word} | {meaning} |")),
                "{word}"
            );
        }
    }
}
