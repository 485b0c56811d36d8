//! `tardy export`: writes a run in another tool's format.

use std::io::{self, BufWriter, IsTerminal, Write};

use tardy_formats::export::run::ExportedRun;
use tardy_formats::export::{self, ExportError, Exporter, Options};
use tardy_results::cost::run::{CostRun, is_cost};
use tardy_results::exit::Exit;
use tardy_run::folder::folders;

use super::output;
use crate::cli::export::ExportArgs;

/// Runs the command.
#[must_use]
pub fn run(args: &ExportArgs) -> Exit {
    match exported(args) {
        Ok(()) => Exit::Done,
        Err(ExportError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
        Err(error @ ExportError::Write(_)) => {
            let file = args
                .file()
                .map(|file| format!("{}: ", file.display()))
                .unwrap_or_default();
            output::complain(&format!("{file}{error}: give another file with --output"));
            Exit::Machine
        }
        Err(error) => {
            output::complain(&error);
            Exit::Usage
        }
    }
}

fn exported(args: &ExportArgs) -> Result<(), ExportError> {
    let runs = folders(&args.run);
    if runs.len() < 2 && runs.first() == Some(&args.run) {
        return exported_run(args);
    }
    let Some(into) = args.file() else {
        let why = "the run folder holds several runs, and each becomes a file in the output folder";
        return Err(ExportError::Needs {
            format: export_name(args),
            flag: "--output FOLDER",
            why,
        });
    };
    std::fs::create_dir_all(into)?;
    for run in runs {
        let below = run
            .strip_prefix(&args.run)
            .unwrap_or(&run)
            .display()
            .to_string()
            .replace('/', "-");
        let output = Some(into.join(format!("{below}.{}", args.format)));
        exported_run(&ExportArgs {
            run,
            output,
            ..args.clone()
        })?;
    }
    Ok(())
}

fn export_name(args: &ExportArgs) -> &'static str {
    export::find(&args.format).map_or("this", Exporter::name)
}

fn exported_run(args: &ExportArgs) -> Result<(), ExportError> {
    let file = args.file();
    let exporter =
        export::find(&args.format).expect("the command line accepts only names of exporters");
    if exporter.is_binary() && file.is_none() && io::stdout().is_terminal() {
        let why = "this format is binary, and would garble a terminal";
        return Err(ExportError::Needs {
            format: exporter.name(),
            flag: "--output FILE",
            why,
        });
    }
    if is_cost(&args.run) {
        let run = CostRun::read(&args.run)?;
        return match file {
            None => export::costs::write(&run, &args.format, &mut io::stdout().lock()),
            Some(path) => output::replace(path, |mut file| {
                export::costs::write(&run, &args.format, &mut file)
            }),
        };
    }
    let run = ExportedRun::open(&args.run, &args.deadline.requirement, args.probe.as_deref())?;
    let options = Options {
        is_histogram: args.histogram,
        origin: args.origin.clone(),
        build_id: args.build_id.clone(),
    };
    let unstored: u64 = run
        .summary
        .series
        .iter()
        .map(|series| series.counts.unstored)
        .sum();
    match file {
        None => write(exporter, &run, &options, io::stdout().lock())?,
        Some(path) => output::replace(path, |file| write(exporter, &run, &options, file))?,
    }
    if unstored > 0 && matches!(args.format.as_str(), "csv" | "npy") && !args.histogram {
        say!(
            "tardy: {unstored} samples were not stored individually, so the export lacks them: \
             --histogram includes them"
        );
    }
    Ok(())
}

fn write(
    exporter: &dyn Exporter,
    run: &ExportedRun,
    options: &Options,
    out: impl Write,
) -> Result<(), ExportError> {
    let mut out = BufWriter::with_capacity(1 << 16, out);
    exporter.write(run, options, &mut out)?;
    out.flush()?;
    Ok(())
}
