//! `tardy lab run`.

use tardy_lab::comparison::Comparison;
use tardy_report::report::lab_text;
use tardy_results::document::Format;
use tardy_results::exit::Exit;

use super::ensemble::{Ensemble, code, compare, print_shard, refuse_used_folder, run_all};
use super::setting::{LabError, Setting};
use super::{cost, request};
use crate::cli::lab::RunArguments;
use crate::command::output;

pub(super) fn run(arguments: &RunArguments) -> Result<Exit, LabError> {
    match &arguments.cost {
        Some(metrics) => cost::check(metrics)?,
        None => request::check(&arguments.measure)?,
    }
    let arguments = &lengthened(arguments);
    if arguments.shard.is_none() {
        refuse_used_folder(&arguments.out)?;
    }
    let costs = arguments.with_cost.then(|| of_costs(arguments));
    if let Some(costs) = &costs {
        refuse_used_folder(&costs.out)?;
    }
    let setting = Setting::new(&arguments.machine)?;
    arguments
        .measure
        .watch
        .then(|| tardy_lab::watch::check(&setting.machine))
        .transpose()?;
    let (variants, absent) = arguments.kernels.variants_there(
        setting.machine.architecture,
        &setting.cache,
        arguments.machine.refresh,
    )?;
    for (kernel, error) in &absent {
        say!("tardy: {kernel} is left out: {error}");
    }
    let setting = setting.with_working_accelerator(&variants[0]);
    if let Some(metrics) = &arguments.cost {
        return cost::run(arguments, metrics, &setting, &variants)
            .map(|exit| with_absent(exit, absent.len()));
    }
    let outcomes = run_all(
        &setting,
        &variants,
        &arguments.measure,
        Ensemble::of(arguments),
        &arguments.out,
    )?;
    let comparison = compare(&setting, &variants, &outcomes);
    match &arguments.shard {
        None => {
            print(&comparison, arguments.json)?;
            if !arguments.json {
                let is_of_program = arguments.measure.program.is_some();
                let shown = if is_of_program {
                    lab_text::said(&outcomes)
                } else {
                    lab_text::next(&arguments.out)
                };
                output::print(&output::fitted(&shown))
                    .map_err(|error| LabError::Unable(error.to_string()))?;
            }
        }
        Some(shard) => print_shard(*shard, outcomes.len(), &arguments.out)?,
    }
    let mut exit = code(comparison.variants.iter().flat_map(|variant| &variant.runs));
    if let Some(costs) = &costs {
        let of_costs = cost::run(costs, &[], &setting, &variants)?;
        if exit == Exit::Done {
            exit = of_costs;
        }
    }
    Ok(with_absent(exit, absent.len()))
}

/// Returns the arguments of the same experiment with costs instead of latencies.
fn of_costs(arguments: &RunArguments) -> RunArguments {
    let mut costs = arguments.clone();
    costs.cost = Some(Vec::new());
    costs.measure.arguments = Vec::new();
    costs.measure.watch = false;
    costs.out.as_mut_os_string().push("-cost");
    costs
}

/// Returns the arguments with a length that suffices for all loads.
fn lengthened(arguments: &RunArguments) -> RunArguments {
    let mut arguments = arguments.clone();
    if arguments.cost.is_none()
        && let Some((length, load)) = request::length_needed(&arguments.measure)
    {
        let asked = arguments.measure.length.unwrap_or_default();
        say!(
            "tardy: {asked} is too short: {load} takes longer to start in a guest. Each guest \
             therefore measures for {length} of virtual time"
        );
        arguments.measure.length = Some(length);
    }
    arguments
}

/// Returns the exit code. If kernels were absent, this is the exit code of an incomplete
/// comparison.
fn with_absent(exit: Exit, absent: usize) -> Exit {
    if absent > 0 { Exit::Machine } else { exit }
}

pub(super) fn print(comparison: &Comparison, is_json: bool) -> Result<(), LabError> {
    let text = if is_json {
        Format::LAB_RUN.document(comparison)
    } else {
        output::fitted(&lab_text::text(
            comparison,
            output::screen_or_page().columns,
        ))
    };
    output::print(&text)
        .map_err(|error| LabError::Unable(format!("cannot write the comparison: {error}")))
}
