//! `tardy lab sections`: watches guests with the QEMU plugin, and shows all sections of their
//! kernels.

use tardy_results::exit::Exit;

use super::ensemble::{Ensemble, code, compare, refuse_used_folder, run_all};
use super::request;
use super::setting::{LabError, Setting};
use crate::cli::lab::{MeasureArguments, SectionsArguments};
use crate::command::sections;

/// Value of `--load` that runs all loads of a scenario, one after another.
const ALL: &str = "all";
const SCENARIO_OF_ALL: &str = "lab";

pub(super) fn run(arguments: &SectionsArguments) -> Result<Exit, LabError> {
    let measure = measured(&arguments.measure);
    request::check(&measure)?;
    refuse_used_folder(&arguments.out)?;
    let setting = Setting::new(&arguments.machine)?;
    let variants = arguments.kernels.variants(
        setting.machine.architecture,
        &setting.cache,
        arguments.machine.refresh,
    )?;
    let outcomes = run_all(
        &setting,
        &variants,
        &measure,
        Ensemble::all(arguments.replicas, false),
        &arguments.out,
    )?;
    let comparison = compare(&setting, &variants, &outcomes);
    let shown = sections::show(&arguments.out, arguments.json);
    match code(comparison.variants.iter().flat_map(|variant| &variant.runs)) {
        Exit::Done => Ok(shown),
        code => Ok(code),
    }
}

fn measured(measure: &MeasureArguments) -> MeasureArguments {
    let mut measure = MeasureArguments {
        watch: true,
        watch_worst: measure.watch_worst.or(Some(0)),
        ..measure.clone()
    };
    if measure.load == [ALL] {
        measure.load.clear();
        measure
            .scenario
            .get_or_insert_with(|| SCENARIO_OF_ALL.to_owned());
    }
    measure
}
