//! `tardy cost`: measures costs and shows the results.

use std::io::IsTerminal;
use std::path::Path;

use tardy_costs::folder::CostError;
use tardy_costs::kernel_build::{BuildRequest, KernelBuild};
use tardy_costs::metrics;
use tardy_costs::program::{self, Repeats, UserCommand};
use tardy_costs::session::{self, CostRequest};
use tardy_machine::root::Root;
use tardy_report::report::cost_text;
use tardy_results::cost::reference::{Reference, published};
use tardy_results::cost::summary::{CostSummary, CostSummaryError, summarize};
use tardy_results::document::Format;
use tardy_results::exit::Exit;
use tardy_run::record::{RunRecord, State};
use tardy_sys::printable::printable;

use super::{folder_name, output};
use crate::cli::cost::{BuildArgs, CostArgs, CostWhole};

/// Default number of trials per metric and round, as in LMbench (TRIES in its bench.h).
const TRIALS: u32 = 11;

/// Default number of runs of a command, as in mckenney2009.
const COMMAND_TRIALS: u32 = 3;

/// Runs the command. Must be called before the process starts threads.
#[must_use]
pub fn run(args: &CostArgs) -> Exit {
    let shared = args.shared();
    let out = shared.out.clone().unwrap_or_else(folder_name::by_time);
    let is_live = !shared.quiet && std::io::stderr().is_terminal();
    let mut progress = |text: &str| {
        if is_live {
            tardy_sys::standard_error::write(&format!("\r\x1b[K{}", printable(text)));
        }
    };
    let measured = match &args.whole {
        Some(CostWhole::Build(build)) => a_build(build, &out, &mut progress),
        None if !args.command.is_empty() => a_command(args, &out, &mut progress),
        None => metrics_of(args, &out, &mut progress),
    };
    if is_live {
        tardy_sys::standard_error::write("\r\x1b[K");
    }
    match measured {
        Ok(record) => {
            let shown = show(&out, shared.paper, shared.json);
            if matches!(shown, Exit::Done | Exit::Inconclusive)
                && record.state == State::Interrupted
            {
                Exit::Interrupted
            } else {
                shown
            }
        }
        Err(Refusal(exit, text)) => {
            say!("tardy: {text}");
            exit
        }
    }
}

/// The reason why nothing was measured, with the exit code.
struct Refusal(Exit, String);

impl From<CostError> for Refusal {
    fn from(error: CostError) -> Self {
        let exit = match &error {
            CostError::Folder(error) if error.is_unwritable() => Exit::Machine,
            CostError::Folder(_) | CostError::Command(_) | CostError::UnknownCpu { .. } => {
                Exit::Usage
            }
            _ => Exit::Machine,
        };
        Self(exit, error.to_string())
    }
}

fn a_build(
    args: &BuildArgs,
    out: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<RunRecord, Refusal> {
    let processors = std::thread::available_parallelism().map_or(1, |count| {
        u32::try_from(count.get()).unwrap_or(u32::MAX / 2)
    });
    if let Some(tree) = args.tree().filter(|tree| !tree.exists()) {
        return Err(Refusal(
            Exit::Usage,
            format!(
                "--source {}: there is no such file or folder",
                tree.display()
            ),
        ));
    }
    let request = BuildRequest {
        source: args.tree(),
        config: args.config.clone(),
        jobs: args.jobs.unwrap_or(2 * processors),
    };
    let mut build = KernelBuild::resolve(&request).map_err(|absent| {
        Refusal(
            Exit::Machine,
            format!(
                "cannot build a kernel here, because the build needs {}: {}",
                absent.missing, absent.remedy
            ),
        )
    })?;
    Ok(program::run(
        &mut build,
        Repeats {
            warm_ups: 0,
            trials: args.trials,
        },
        out,
        &Root::system(),
        args.shared.quiet,
        progress,
    )?)
}

fn a_command(
    args: &CostArgs,
    out: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<RunRecord, Refusal> {
    let repeats = Repeats {
        warm_ups: args.warm_up,
        trials: args.trials.unwrap_or(COMMAND_TRIALS),
    };
    Ok(program::run(
        &mut UserCommand(args.command.clone()),
        repeats,
        out,
        &Root::system(),
        args.shared.quiet,
        progress,
    )?)
}

fn metrics_of(
    args: &CostArgs,
    out: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<RunRecord, Refusal> {
    let metrics = metrics::chosen(&args.metric).map_err(|unknown| {
        Refusal(
            Exit::Usage,
            format!("--metric: there is no metric or group `{unknown}`: see `tardy list costs`"),
        )
    })?;
    let request = CostRequest {
        metrics,
        rounds: args.rounds,
        trials: args.trials.unwrap_or(TRIALS),
        trial_length: args.trial_length,
        cpu: args.cpu(),
    };
    Ok(session::run(&request, out, &Root::system(), progress)?)
}

/// Prints the results in a folder. `tardy show` prints the same text.
#[must_use]
pub fn show(folder: &Path, reference: Option<Reference>, is_json: bool) -> Exit {
    let summary = match summarize(folder) {
        Ok(summary) => summary,
        Err(error) => {
            output::complain(&error);
            return if matches!(error, CostSummaryError::Series(_)) {
                Exit::Machine
            } else {
                Exit::Usage
            };
        }
    };
    let published = reference.map(published);
    let text = if is_json {
        json(&summary, published.as_ref())
    } else {
        output::fitted(&cost_text::text(&summary, published.as_ref()))
    };
    match output::print(&text) {
        Ok(()) if summary.state == State::Running || summary.metrics.is_empty() => {
            Exit::Inconclusive
        }
        Ok(()) => Exit::Done,
        Err(error) => {
            say!("tardy: cannot write the costs: {error}");
            Exit::Machine
        }
    }
}

fn json(
    summary: &CostSummary,
    published: Option<&tardy_results::cost::reference::PublishedTable>,
) -> String {
    let mut value =
        serde_json::to_value(summary).expect("keys are text and numbers finite, as JSON requires");
    if let Some(published) = published {
        value["reference"] = serde_json::to_value(published)
            .expect("keys are text and numbers finite, as JSON requires");
    }
    Format::COST.document(&value)
}
