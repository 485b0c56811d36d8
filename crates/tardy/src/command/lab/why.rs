//! `tardy lab why`: compares two kernels, and shows the functions that make one of them slower.

use tardy_results::exit::Exit;
use tardy_results::why::WhyQuestion;

use super::ensemble::{Ensemble, code, compare, refuse_used_folder, run_all};
use super::request;
use super::setting::{LabError, Setting};
use crate::cli::lab::{MeasureArguments, WhyArguments};
use crate::command::why;

/// Number of samples whose code is stored if a quantile is requested: the maximum of
/// `--watch-worst`.
const WORST_MAX: u32 = 1024;

pub(super) fn run(arguments: &WhyArguments) -> Result<Exit, LabError> {
    let measure = measured(arguments);
    request::check(&measure)?;
    refuse_used_folder(&arguments.out)?;
    let setting = Setting::new(&arguments.machine)?;
    tardy_lab::watch::check(&setting.machine)?;
    let variants = arguments.kernels.variants(
        setting.machine.architecture,
        &setting.cache,
        arguments.machine.refresh,
    )?;
    let [base, new] = &variants[..] else {
        return Err(LabError::Usage(format!(
            "`lab why` compares two kernels, not {}: give --kernel twice, or --preempt with two \
             models",
            variants.len()
        )));
    };
    let outcomes = run_all(
        &setting,
        &variants,
        &measure,
        Ensemble::all(1, false),
        &arguments.out,
    )?;
    let comparison = compare(&setting, &variants, &outcomes);
    match code(comparison.variants.iter().flat_map(|variant| &variant.runs)) {
        Exit::Done => {}
        code => return Ok(code),
    }
    let folder = |name: &str| arguments.out.join(name);
    let question = WhyQuestion {
        phase: None,
        quantile: arguments.quantile,
    };
    Ok(why::show(
        (&folder(&base.name), &folder(&new.name)),
        &question,
        arguments.json,
        false,
    ))
}

fn measured(arguments: &WhyArguments) -> MeasureArguments {
    let measure = &arguments.measure;
    MeasureArguments {
        watch: true,
        watch_worst: measure
            .watch_worst
            .or(arguments.quantile.map(|_| WORST_MAX)),
        ..measure.clone()
    }
}
