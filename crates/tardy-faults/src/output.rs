//! An output file that a command replaces. After a fault, the file must be either the complete old
//! file or the complete new one.

use std::path::Path;
use std::process::Command;

use xtask::failure::{Failure, Result, While};
use xtask::workspace;

use crate::place::{PATIENCE, Place, last_line};

/// Name of the output file in the command lines.
pub(crate) const NAME: &str = "output.svg";
const OLD: &[u8] = b"an older output\n";

pub(crate) fn write_old(path: &Path) -> Result<()> {
    workspace::write(path, OLD)
}

pub(crate) fn is_old(path: &Path) -> bool {
    std::fs::read(path).is_ok_and(|now| now == OLD)
}

/// Returns a violation if the output is neither the old file nor a new file of this size.
pub(crate) fn partly_replaced(path: &Path, whole: u64) -> Option<String> {
    let bytes = std::fs::metadata(path).map_or(0, |data| data.len());
    (!is_old(path) && bytes != whole)
        .then(|| format!("the output has {bytes} bytes, whole it has {whole}"))
}

/// Runs a command, which is `tardy LINE`, without a fault. Returns the size of its output, if it
/// writes one.
pub(crate) fn of_undisturbed(place: &Place, command: Command, line: &str) -> Result<Option<u64>> {
    let outcome = place.start(command)?.end(place, PATIENCE)?;
    if !matches!(outcome.code, Some(0 | 1 | 4)) {
        return Err(Failure::new(format!(
            "`tardy {line}` does not work here ({}): {}",
            outcome.ending(),
            last_line(&outcome.said)
        )));
    }
    if !line.contains(NAME) {
        return Ok(None);
    }
    let data = std::fs::metadata(place.path(NAME));
    data.map(|data| Some(data.len()))
        .while_doing(|| format!("reading what `tardy {line}` wrote"))
}
