//! `tardy lab run --cost`: measures the cost of services on each kernel, in instructions.

use tardy_costs::metrics::chosen;
use tardy_lab::cost_comparison::CostComparison;
use tardy_lab::experiment::Outcome;
use tardy_lab::guest_job::{OUTPUT_FOLDER, Program, Task};
use tardy_lab::variant::Variant;
use tardy_report::report::lab_cost_text;
use tardy_results::cost::summary::summarize;
use tardy_results::document::Format;
use tardy_results::exit::Exit;

use super::ensemble::{Ensemble, code, print_shard, run_task};
use super::setting::{LabError, Setting};
use crate::cli::lab::RunArguments;
use crate::command::output;

/// Checks that the metrics exist, before anything is booted.
pub(super) fn check(metrics: &[String]) -> Result<(), LabError> {
    let unknown = |name| {
        LabError::Usage(format!(
            "--cost: there is no metric or group `{name}`: see `tardy list costs`"
        ))
    };
    chosen(metrics).map(drop).map_err(unknown)
}

pub(super) fn run(
    arguments: &RunArguments,
    metrics: &[String],
    setting: &Setting,
    variants: &[Variant],
) -> Result<Exit, LabError> {
    let task = Task::Run(program(metrics, &arguments.measure.arguments));
    let outcomes = run_task(
        setting,
        variants,
        &arguments.measure,
        &task,
        Ensemble::of(arguments),
        &arguments.out,
    )?;
    let summary = |outcome: &Outcome| summarize(&outcome.folder).map_err(|error| error.to_string());
    let comparison = CostComparison::new(variants, &outcomes, &summary);
    let exit = code(comparison.variants.iter().flat_map(|variant| &variant.runs));
    if let Some(shard) = arguments.shard {
        return print_shard(shard, outcomes.len(), &arguments.out).map(|()| exit);
    }
    let text = if arguments.json {
        Format::LAB_COST.document(&comparison)
    } else {
        output::fitted(&lab_cost_text::text(&comparison))
    };
    output::print(&text)
        .map_err(|error| LabError::Unable(format!("cannot write the comparison: {error}")))?;
    Ok(exit)
}

/// Returns the guest's program: this binary, with the arguments of the command line.
fn program(metrics: &[String], further: &[String]) -> Program {
    let mut arguments: Vec<String> = ["cost", "--out", OUTPUT_FOLDER, "--quiet"]
        .map(str::to_owned)
        .to_vec();
    metrics
        .iter()
        .for_each(|metric| arguments.extend(["--metric".to_owned(), metric.clone()]));
    arguments.extend(further.iter().cloned());
    Program {
        path: None,
        arguments,
    }
}
