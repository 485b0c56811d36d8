//! Arguments of `tardy import`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use tardy_core::units::Nanos;
use tardy_formats::import::{FORMATS, Settings, Unit};

use super::{choice, positive_duration};

/// `tardy import`.
#[derive(Debug, Clone, Args)]
pub struct ImportArgs {
    /// Output of another tool; each file becomes a run
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Format of the files [default: detected]
    #[arg(long = "as", value_name = "FORMAT", value_parser = formats())]
    pub format: Option<String>,
    /// Folder for the run, or for the runs of several files [default: the file's name with
    /// -imported added, in the current folder]
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Unit of the values, if the file lacks it or states it wrongly
    #[arg(long, value_parser = choice::parser::<Unit>())]
    pub unit: Option<Unit>,
    /// Time between two due times, if the file lacks it
    #[arg(long, value_name = "TIME", value_parser = positive_duration, allow_hyphen_values = true)]
    pub period: Option<Nanos>,
    /// Column to read from a table: its name in the first line, or its number, counted from 1
    #[arg(long, value_name = "NAME")]
    pub column: Option<String>,
    /// Measurement to read, if a file holds several: 1 is the first
    #[arg(long, value_name = "N")]
    pub part: Option<usize>,
}

impl ImportArgs {
    /// Returns the settings for information that a file may lack.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings {
            unit: self.unit,
            period: self.period,
            column: self.column.clone(),
            part: self.part,
        }
    }
}

fn formats() -> PossibleValuesParser {
    PossibleValuesParser::new(
        FORMATS
            .iter()
            .map(|format| PossibleValue::new(format.name).help(format.about)),
    )
}
