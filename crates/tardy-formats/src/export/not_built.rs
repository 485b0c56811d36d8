//! Formats that this build leaves out: named on the command line as any other, and refused with how
//! to get them.

use std::io::Write;

use super::run::ExportedRun;
use super::{ExportError, Exporter, Options};

/// A format whose feature was not built.
pub(super) struct NotBuilt {
    name: &'static str,
    about: &'static str,
    instead: &'static str,
}

/// The exporter of Arrow files, where it is left out.
pub(super) const ARROW: NotBuilt = NotBuilt {
    name: "arrow",
    about: "samples as an Arrow file (Feather); this build leaves it out, `--features arrow` has \
            it",
    instead: "npy and csv hold the same samples",
};

impl NotBuilt {
    fn refusal(&self) -> ExportError {
        ExportError::NotBuilt {
            format: self.name,
            instead: self.instead,
        }
    }
}

impl Exporter for NotBuilt {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn write(&self, _: &ExportedRun, _: &Options, _: &mut dyn Write) -> Result<(), ExportError> {
        Err(self.refusal())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_refused_with_how_to_get_it() {
        assert_eq!(
            ARROW.refusal().to_string(),
            "this tardy was built without arrow: build it with `cargo build --release --features \
             arrow`; npy and csv hold the same samples"
        );
    }
}
