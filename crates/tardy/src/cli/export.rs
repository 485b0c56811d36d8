//! Arguments of `tardy export`.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use tardy_formats::export::EXPORTERS;

use super::DeadlineArgs;

/// `tardy export`.
#[derive(Debug, Clone, Args)]
pub struct ExportArgs {
    /// Folder made by `tardy run`, `tardy import` or `tardy cost`, or a folder of such folders; for
    /// `tardy cost`, FORMAT is csv, json, markdown or openmetrics
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Format to write
    #[arg(long, short, value_name = "FORMAT", value_parser = formats())]
    pub format: String,
    /// File to write, or - for standard output [default: -]. For a folder of runs: a folder, which
    /// gets one file per run. An existing file is replaced only when the new one is complete
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write only this probe
    #[arg(long, value_name = "NAME")]
    pub probe: Option<String>,
    /// csv: write each value with its count, instead of each sample
    #[arg(long)]
    pub histogram: bool,
    /// kcidb: origin of the report [default: tardy]
    #[arg(long, value_name = "NAME", value_parser = origin)]
    pub origin: Option<String>,
    /// kcidb: ID of the tested kernel's build, as in origin:42
    #[arg(long, value_name = "ORIGIN:ID", value_parser = build_id)]
    pub build_id: Option<String>,
    #[command(flatten)]
    pub deadline: DeadlineArgs,
}

impl ExportArgs {
    /// Returns the file to write; `None` for standard output.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.output
            .as_deref()
            .filter(|path| *path != Path::new("-"))
    }
}

fn formats() -> PossibleValuesParser {
    PossibleValuesParser::new(
        EXPORTERS
            .iter()
            .map(|exporter| PossibleValue::new(exporter.name()).help(exporter.about())),
    )
}

/// Accepts the names that KCIDB's schema allows: `^[a-z0-9_]+$`.
fn origin(text: &str) -> Result<String, String> {
    let is_valid = !text.is_empty()
        && text
            .chars()
            .all(|character| matches!(character, 'a'..='z' | '0'..='9' | '_'));
    if is_valid {
        Ok(text.to_owned())
    } else {
        Err("use only lowercase letters, digits and _".to_owned())
    }
}

fn build_id(text: &str) -> Result<String, String> {
    match text.split_once(':') {
        Some((front, _)) if origin(front).is_ok() => Ok(text.to_owned()),
        _ => Err("write ORIGIN:ID, as in maestro:42".to_owned()),
    }
}
