//! `cargo xtask golden`: records traces of each kernel series in a guest of the lab, and lists each
//! difference between the event formats of these traces and of the golden ones.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::failure::{Failure, Result, While};
use crate::kernels::{Guests, series};
use crate::{program, workspace};

#[derive(Debug, Args)]
pub(crate) struct GoldenArguments {
    /// Kernels, as for `tardy lab run --kernel` [default: the newest package of each series]
    #[arg(value_name = "KERNEL")]
    kernels: Vec<String>,
    /// Binary to use instead of a new build
    #[arg(long, value_name = "FILE")]
    tardy: Option<PathBuf>,
    /// Replace the golden traces by the new ones
    #[arg(long)]
    replace: bool,
}

const SCRIPT: &str = "xtask/src/golden/guest.sh";
/// Names of the traces that are recorded for each kernel.
const TRACES: [&str; 2] = ["run", "attach"];
const FOLDER: &str = "crates/tardy-trace/tests/data/kernels";

/// Records the traces of all kernels, and compares or replaces the golden ones.
pub(crate) fn run(arguments: &GoldenArguments) -> Result<()> {
    let tardy = workspace::given_or(arguments.tardy.as_ref(), workspace::build_tardy)?;
    let formats = workspace::build(&["--package", "tardy-trace", "--example", "formats"])?;
    let guests = Guests::here(&tardy)?;
    let kernels = if arguments.kernels.is_empty() {
        guests.newest()?
    } else {
        arguments.kernels.clone()
    };
    let mut changed = Vec::new();
    if arguments.kernels.is_empty() {
        for trace in without_kernel(&kernels)? {
            println!("{trace}: not recorded again, no kernel in the package sources");
        }
    }
    for kernel in &kernels {
        let series = series(kernel);
        let results = guests.run_script(kernel, SCRIPT, "golden", &[])?;
        for trace in TRACES {
            let new = results.join(format!("{trace}.dat"));
            let golden = workspace::root().join(format!("{FOLDER}/{series}-{trace}.dat.gz"));
            let changes = changes(&formats, &golden, &new)?;
            println!("{kernel}, {trace}: changes: {}", changes.len());
            for change in &changes {
                println!("  {change}");
            }
            if arguments.replace {
                program::run(Command::new("gzip").args(["-9", "-n"]).arg(&new))?;
                let packed = new.with_extension("dat.gz");
                std::fs::copy(&packed, &golden)
                    .while_doing(|| format!("writing {}", golden.display()))?;
            } else if !changes.is_empty() {
                changed.push(format!("{kernel} ({trace})"));
            }
        }
    }
    if changed.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "not as in the golden traces: {}. Check that the decoder of tardy-trace \
         reads the new fields, then keep them: cargo xtask golden --replace",
        changed.join(", ")
    )))
}

/// Returns those golden traces whose series is not among these kernels.
fn without_kernel(kernels: &[String]) -> Result<Vec<String>> {
    let folder = workspace::root().join(FOLDER);
    let entries =
        std::fs::read_dir(&folder).while_doing(|| format!("listing {}", folder.display()))?;
    let names = entries.flatten().map(|entry| entry.file_name());
    let traces = names.filter_map(|name| {
        let trace = name.to_str()?.strip_suffix(".dat.gz")?.to_owned();
        let (of, _) = trace.rsplit_once('-')?;
        let is_there = kernels.iter().any(|kernel| series(kernel) == of);
        (!is_there).then_some(trace)
    });
    Ok(traces.collect())
}

/// Returns the differences between the formats of two traces, one line for each.
fn changes(formats: &Path, golden: &Path, new: &Path) -> Result<Vec<String>> {
    if !new.exists() {
        let log = new.with_file_name("stdout.log");
        let said = workspace::read(&log)?;
        return Err(Failure::new(format!(
            "the guest recorded no {}:\n{said}",
            new.display()
        )));
    }
    if !golden.exists() {
        return Ok(vec![format!("there is no {}", golden.display())]);
    }
    let text = program::capture(Command::new(formats).arg(golden).arg(new))?;
    Ok(text.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_golden_trace_without_a_kernel_is_reported() {
        let kernels = ["debian:bullseye/5.10", "debian:5.10-rt"].map(str::to_owned);
        let missing = without_kernel(&kernels).unwrap();
        let is_missing = |trace: &str| missing.iter().any(|missing| missing == trace);
        assert!(!is_missing("5.10-run") && !is_missing("5.10-rt-run"));
        assert!(is_missing("6.1-run") && is_missing("7.3-rt-attach"));
    }
}
