//! Shows why the largest latency of one watched guest differs from that of another.

use maud::{Markup, html};
use tardy_results::why::Why;

use super::figure;
use super::flames;
use super::sections::of_text;
use crate::report::why_text::{headline, table};

/// Returns the section; empty if no guests are compared.
pub(super) fn section(why: Option<&Why>) -> Markup {
    html! {
        @if let Some(why) = why {
            section {
                h2 id="why" { "Why the largest latencies differ" }
                p { (headline(why)) }
                p class="note" { "Base: " (why.base.kernel) ", " (why.base.run.display()) ". New: " (why.new.kernel) ", " (why.new.run.display()) "." }
                (flames::difference(&why.paths))
                (figure::table(&of_text(table(why, true).parts()), "words"))
            }
        }
    }
}
