//! `cargo xtask perfetto`: reads the trace of `tardy explain --perfetto` with Perfetto's published
//! schema, and compares it with the output of trace-cmd and `tardy explain` for the same trace,
//! field by field.
//!
//! This task is not part of `cargo xtask test`, because it fetches the schema with a Python
//! package. The tests of tardy-trace check the same with the schema's numbers.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use crate::failure::{Result, While};
use crate::{program, workspace};

/// The package with the schema, and the package that parses it.
const PACKAGES: &[&str] = &["perfetto==0.59.1", "protobuf"];

/// Fetches the schema, then compares.
pub(crate) fn run() -> Result<()> {
    let folder = workspace::target_folder()?.join("perfetto");
    let python = program::python(&folder, PACKAGES)?;
    let tardy = workspace::build(&["--package", "tardy"])?;
    let data = workspace::root().join("crates/tardy-trace/tests/data");
    let [trace, explanation, text] = ["application.pftrace", "application.json", "application.txt"]
        .map(|name| folder.join(name));
    let explain = |out: &PathBuf, arguments: &[&str]| {
        let file = File::create(out).while_doing(|| format!("writing {}", out.display()))?;
        let mut command = Command::new(&tardy);
        command
            .arg("explain")
            .arg(data.join("application.dat"))
            .args(["--task", "my_loop", "--above", "1ns", "--worst", "1000"])
            .args(arguments);
        program::run(command.stdout(file))
    };
    explain(&text, &["--perfetto", &trace.to_string_lossy()])?;
    explain(&explanation, &["--json"])?;
    let script = workspace::root().join("crates/tardy/tests/support/perfetto_schema.py");
    program::run(
        Command::new(&python)
            .arg(script)
            .arg(trace)
            .arg(data.join("application.report.gz"))
            .arg(explanation)
            .arg(text),
    )
}
