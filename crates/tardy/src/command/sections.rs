//! Shows the sections of watched guests: the census of one folder, or the comparison of two.

use std::path::Path;

use serde::Serialize;
use tardy_core::units::Nanos;
use tardy_outside::census::{CensusError, census};
use tardy_outside::comparison::{Difference, compare};
use tardy_report::report::sections_text;
use tardy_results::document::Format;
use tardy_results::exit::Exit;

use super::output;

/// Smaller differences in length do not count as changes of a kernel, because a different alignment
/// of the same code causes them.
const LEAST: Nanos = Nanos(2000);

/// The output of `--format json`.
#[derive(Serialize)]
struct Differences {
    differences: Vec<Difference>,
}

/// Prints the census of a run folder, or of an experiment's folder.
#[must_use]
pub fn show(folder: &Path, is_json: bool) -> Exit {
    printed(census(folder).map(|census| {
        let text = || sections_text::census(&census, output::screen_or_page().columns);
        if is_json {
            Format::SECTIONS.document(&census)
        } else {
            text()
        }
    }))
}

/// Prints the differences between the censuses of two folders.
#[must_use]
pub fn show_comparison(base: &Path, candidate: &Path, is_json: bool) -> Exit {
    let compared = census(base).and_then(|base| Ok(compare(&base, &census(candidate)?, LEAST)));
    printed(compared.map(|differences| {
        if is_json {
            Format::SECTIONS_COMPARE.document(&Differences { differences })
        } else {
            sections_text::comparison(&differences)
        }
    }))
}

fn printed(text: Result<String, CensusError>) -> Exit {
    let text = match text {
        Ok(text) => text,
        Err(error) => {
            output::complain(&error);
            return Exit::Usage;
        }
    };
    match output::print(&text) {
        Ok(()) => Exit::Done,
        Err(error) => {
            say!("tardy: cannot write the sections: {error}");
            Exit::Machine
        }
    }
}
