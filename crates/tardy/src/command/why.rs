//! Explains, function by function, why a latency of one watched guest differs from that of another.

use std::path::Path;

use tardy_report::report::why_text;
use tardy_results::document::Format;
use tardy_results::exit::Exit;
use tardy_results::why::{WhyQuestion, why};

use super::output;

/// Prints why the latency of the second folder differs from that of the first.
#[must_use]
pub fn show(
    (base, new): (&Path, &Path),
    question: &WhyQuestion,
    is_json: bool,
    is_full: bool,
) -> Exit {
    let found = match why(base, new, question) {
        Ok(found) => found,
        Err(error) => {
            output::complain(&error);
            return Exit::Usage;
        }
    };
    let text = if is_json {
        Format::WHY.document(&found)
    } else {
        output::fitted(&why_text::text(&found, is_full))
    };
    match output::print(&text) {
        Ok(()) => Exit::Done,
        Err(error) => {
            say!("tardy: cannot write the comparison: {error}");
            Exit::Machine
        }
    }
}
