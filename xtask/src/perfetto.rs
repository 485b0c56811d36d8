//! `cargo xtask perfetto`: reads the trace of `tardy explain --perfetto` with Perfetto's published
//! schema, and compares it with the output of trace-cmd and `tardy explain` for the same trace,
//! field by field. The task compares a whole trace, and the trace that `tardy attach` keeps around
//! the worst wake-ups.
//!
//! This task is not part of `cargo xtask test`, because it fetches the schema with a Python
//! package. The tests of tardy-trace make the same comparison without the schema; they only use its
//! field numbers.

use std::fs::File;
use std::path::{Path, PathBuf};
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
    let whole = Recording {
        trace: data.join("application.dat"),
        report: data.join("application.report.gz"),
        task: "my_loop",
    };
    for recording in [whole, evidence(&data, &folder)?] {
        recording.compare(&tardy, &python, &folder)?;
    }
    Ok(())
}

/// A trace, and what trace-cmd prints for it.
struct Recording {
    trace: PathBuf,
    /// Compressed output of `trace-cmd report -R -t`.
    report: PathBuf,
    /// The thread whose wake-ups are explained.
    task: &'static str,
}

/// Unpacks the trace that `tardy attach` kept around the worst wake-ups, and reports it with
/// trace-cmd.
fn evidence(data: &Path, folder: &Path) -> Result<Recording> {
    let [trace, text] = ["evidence.dat", "evidence.report"].map(|name| folder.join(name));
    let write = |command: &mut Command, path: &Path| {
        let file = File::create(path).while_doing(|| format!("writing {}", path.display()))?;
        program::run(command.stdout(file))
    };
    let packed = data.join("kernels/7.3-rt-attach.dat.gz");
    write(Command::new("gzip").arg("-dc").arg(packed), &trace)?;
    let mut report = Command::new(program::required("trace-cmd", "trace-cmd")?);
    write(report.args(["report", "-R", "-t", "-i"]).arg(&trace), &text)?;
    program::run(Command::new("gzip").args(["-f", "-n"]).arg(&text))?;
    Ok(Recording {
        trace,
        report: text.with_extension("report.gz"),
        task: "cyclic/0",
    })
}

impl Recording {
    fn compare(&self, tardy: &Path, python: &Path, folder: &Path) -> Result<()> {
        let [trace, explanation, text] =
            ["trace.pftrace", "explanation.json", "explanation.txt"].map(|name| folder.join(name));
        if trace.exists() {
            std::fs::remove_file(&trace).while_doing(|| format!("removing {}", trace.display()))?;
        }
        let explain = |out: &PathBuf, arguments: &[&str]| {
            let file = File::create(out).while_doing(|| format!("writing {}", out.display()))?;
            let mut command = Command::new(tardy);
            command
                .arg("explain")
                .arg(&self.trace)
                .args(["--task", self.task, "--above", "1ns", "--worst", "1000"])
                .args(arguments);
            program::run(command.stdout(file))
        };
        explain(&text, &["--perfetto", &trace.to_string_lossy()])?;
        explain(&explanation, &["--json"])?;
        let script = workspace::root().join("crates/tardy/tests/support/perfetto_schema.py");
        let mut python = Command::new(python);
        program::run(
            python
                .arg(script)
                .args([&trace, &self.report, &explanation, &text]),
        )
    }
}
