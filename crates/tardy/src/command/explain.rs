//! `tardy explain`: shows the causes of late samples of a run, or of a late thread in a trace.

use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use tardy_report::report::{cycles_text, explain_run_text, explain_text};
use tardy_results::document::Format;
use tardy_results::exit::Exit;
use tardy_results::explain::cycles::explain_cycles;
use tardy_results::explain::run::{RunError, is_evidence, trace_dat};
use tardy_results::explain::source::{explain_run, perfetto};
use tardy_results::explain::stacks::write_folded;
use tardy_results::explain::{ExplainError, Explanation, explain};
use tardy_run::folder::folders;
use tardy_sys::regular_file;

use super::output;
use crate::cli::explain::{DueSource, ExplainArgs};

/// Maximum size of a trace in bytes, because it is read into memory.
const TRACE_BYTES_MAX: u64 = 64 << 30;

/// The reason why nothing is explained.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error("{}: cannot be read: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{}: {error}", path.display())]
    Trace { path: PathBuf, error: ExplainError },
    #[error("{}: {error}", path.display())]
    Run { path: PathBuf, error: RunError },
    #[error("--outside is for a lab run made with --watch, but {} is a file: leave out --outside", .0.display())]
    NotWatched(PathBuf),
    #[error("{flag} is for a trace.dat, but {} is a folder: leave out the option, or give the trace.dat that trace-cmd recorded", path.display())]
    NotOfRuns { flag: &'static str, path: PathBuf },
    #[error("{flag} needs the kernel's trace, but {} has none, because `tardy attach` made it: leave out the option", path.display())]
    NotOfAttached { flag: &'static str, path: PathBuf },
    #[error("{flag} is for a run that kept its trace or stacks, but {} is a file: leave out the option", path.display())]
    NotOfTraces { flag: &'static str, path: PathBuf },
    #[error("{}: the late samples have no stacks: measure with `tardy run --explain=stacks`", path.display())]
    NoStacks { path: PathBuf },
    #[error("{} has several runs: explain one of {}", path.display(), words(runs))]
    SeveralRuns { path: PathBuf, runs: Vec<PathBuf> },
    #[error("a trace.dat has many threads: use --task to name the thread to explain")]
    NoTask,
    #[error("--period is not used with --due-from hrtimer: leave one of the two out")]
    TwoSources,
    #[error("{}: {error}", path.display())]
    Write { path: PathBuf, error: io::Error },
}

fn words(runs: &[PathBuf]) -> String {
    runs.iter()
        .map(|run| run.display().to_string())
        .collect::<Vec<_>>()
        .join(", ")
}

impl CommandError {
    fn exit(&self) -> Exit {
        if matches!(self, Self::Write { .. }) {
            Exit::Machine
        } else {
            Exit::Usage
        }
    }
}

/// Writes the explanations of a run in another tool's format.
type RunWriter = fn(&Path, &mut dyn io::Write) -> Result<(), RunError>;

/// Runs the command.
#[must_use]
pub fn run(args: &ExplainArgs) -> Exit {
    let text = match if args.path.is_dir() {
        of_run(args)
    } else {
        of_trace(args)
    } {
        Ok(text) => text,
        Err(error) => {
            output::complain(&error);
            return error.exit();
        }
    };
    match output::print(&text) {
        Ok(()) => Exit::Done,
        Err(error) => {
            say!("tardy: cannot write the explanation: {error}");
            Exit::Machine
        }
    }
}

/// Returns the only run at or below a folder, or the folder itself if it has none.
fn run_in(folder: &Path) -> Result<PathBuf, CommandError> {
    match folders(folder).as_slice() {
        [only] => Ok(only.clone()),
        several => Err(CommandError::SeveralRuns {
            path: folder.to_owned(),
            runs: several.to_vec(),
        }),
    }
}

fn of_run(args: &ExplainArgs) -> Result<String, CommandError> {
    let path = run_in(&args.path)?;
    if let Some(flag) = args.only_for_traces() {
        return Err(CommandError::NotOfRuns { flag, path });
    }
    let question = args.run_question();
    let of_run = |error| CommandError::Run {
        path: path.clone(),
        error,
    };
    if let Some(found) = explain_cycles(&path, args.above, question.worst).map_err(of_run)? {
        if let Some(flag) = args.only_for_explained_runs() {
            return Err(CommandError::NotOfAttached { flag, path });
        }
        return Ok(if args.json {
            Format::EXPLAIN_CYCLES.document(&found)
        } else {
            output::fitted(&cycles_text::text(&found, output::screen_or_page().columns))
        });
    }
    let files: [(_, RunWriter); 2] = [(&args.perfetto, perfetto), (&args.trace_dat, trace_dat)];
    for (place, write) in files
        .into_iter()
        .filter_map(|(place, write)| Some((place.as_ref()?, write)))
    {
        let written = output::replace(place, |file| {
            write(&path, &mut BufWriter::with_capacity(1 << 18, file))
        });
        written.map_err(|error| match error {
            RunError::Write(error) => CommandError::Write {
                path: place.clone(),
                error,
            },
            error => CommandError::Run {
                path: path.clone(),
                error,
            },
        })?;
    }
    let explanation = explain_run(&path, question).map_err(of_run)?;
    if let Some(place) = &args.folded {
        if explanation.stacks.is_empty() {
            return Err(CommandError::NoStacks { path });
        }
        let written = output::replace(place, |file| {
            write_folded(&explanation.stacks, &mut BufWriter::new(file))
        });
        written.map_err(|error| CommandError::Write {
            path: place.clone(),
            error,
        })?;
    }
    Ok(if args.json {
        Format::EXPLAIN_RUN.document(&explanation)
    } else {
        output::fitted(&explain_run_text::text(&explanation))
    })
}

fn of_trace(args: &ExplainArgs) -> Result<String, CommandError> {
    if args.outside {
        return Err(CommandError::NotWatched(args.path.clone()));
    }
    let flags = [
        ("--trace-dat", args.trace_dat.is_some()),
        ("--folded", args.folded.is_some()),
    ];
    if let Some((flag, _)) = flags.into_iter().find(|&(_, is_given)| is_given) {
        return Err(CommandError::NotOfTraces {
            flag,
            path: args.path.clone(),
        });
    }
    let explanation = explained(args)?;
    Ok(if args.json {
        Format::EXPLAIN_TRACE.document(&explanation)
    } else {
        output::fitted(&explain_text::text(&explanation, is_evidence(&args.path)))
    })
}

fn explained(args: &ExplainArgs) -> Result<Explanation, CommandError> {
    let path = args.path.clone();
    if args.period.is_some() && args.due_from == Some(DueSource::Hrtimer) {
        return Err(CommandError::TwoSources);
    }
    let bytes = match regular_file::read(&path, TRACE_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) => return Err(CommandError::Unreadable { path, error }),
    };
    let question = args.question(args.task.as_deref().ok_or(CommandError::NoTask)?);
    let explained = match &args.perfetto {
        None => explain(&bytes, &question, None),
        Some(place) => output::replace(place, |file| {
            explain(&bytes, &question, Some(&mut BufWriter::new(file)))
        }),
    };
    explained.map_err(|error| match (error, &args.perfetto) {
        (ExplainError::Perfetto(error), Some(place)) => CommandError::Write {
            path: place.clone(),
            error,
        },
        (error, _) => CommandError::Trace { path, error },
    })
}
