//! Formats that this build leaves out: named on the command line as any other, and refused with how to get them.

use std::io::Write;

use super::run::ExportedRun;
use super::{ExportError, Exporter, Options};

/// A format whose feature was not built.
pub(super) struct Absent {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) instead: &'static str,
}

impl Exporter for Absent {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn write(&self, _: &ExportedRun, _: &Options, _: &mut dyn Write) -> Result<(), ExportError> {
        Err(ExportError::NotBuilt { format: self.name, instead: self.instead })
    }
}
