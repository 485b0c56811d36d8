//! Arguments of `tardy history`.

use std::path::PathBuf;

use clap::Args;
use tardy_formats::history_table::{EXTENSIONS, is_table};
use tardy_results::compare::margin::Margin;

use super::compare::CompareFormat;

/// `tardy history`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct HistoryArgs {
    /// Folders of runs, or tables of runs (.csv or .csv.gz, see --table), from any number of boards
    /// and builds
    #[arg(value_name = "FOLDER|TABLE", required = true)]
    pub runs: Vec<PathBuf>,
    /// Accept the changes in this build as the new normal; they are stored in accepted.json, in the
    /// first folder or beside the first table
    #[arg(long, value_name = "BUILD")]
    pub accept: Vec<String>,
    /// Difference to ignore: a time, or a percentage of the value before the change
    #[arg(long, value_name = "TIME|SHARE", default_value_t = Margin::default(), allow_hyphen_values = true)]
    pub margin: Margin,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = CompareFormat::Text)]
    pub format: CompareFormat,
    /// Also write an HTML page with a map of boards by builds, and each change with its numbers.
    /// `-` prints the page instead of the text
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Also write the runs' numbers as a table (.csv or .csv.gz), which later calls of `tardy
    /// history` can read instead of the runs
    #[arg(long, value_name = "FILE", value_parser = table)]
    pub table: Option<PathBuf>,
}

/// Accepts file names that `tardy history` will recognise as tables.
fn table(name: &str) -> Result<PathBuf, String> {
    let file = PathBuf::from(name);
    if is_table(&file) {
        return Ok(file);
    }
    Err(format!(
        "the file's name must end with {}",
        EXTENSIONS.join(" or ")
    ))
}

const AFTER_HELP: &str = "Labels name the build and board of a run (tardy run --label build=NAME \
                          --label board=NAME). Without labels, each day is a build, and each host \
                          a board.
tardy follows the median and a high quantile of each load on each board, separately and in \
                          groups: all loads of a board, one load on all boards, and all loads on \
                          all boards.
A change lasts at least two builds; one odd build is not a change. All tests together raise a \
                          false alarm in one of a thousand builds.
Exit codes: 0 no number is worse, or every worse number was accepted; 1 a number is worse; 2 wrong \
                          use; 4 too few builds.";
