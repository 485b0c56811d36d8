//! `tardy run`: resolves the request, measures, and shows the run.

use std::path::Path;

use tardy_core::verdict::requirement::Requirement;
use tardy_core::warning::{Severity, Warning};
use tardy_live::view;
use tardy_machine::root::Root;
use tardy_measure::configuration::{self, Configuration};
use tardy_measure::measure::live::{ProgressDisplay, ProgressListener};
use tardy_measure::measure::metrics;
use tardy_measure::measure::session;
use tardy_measure::plan::resolve::resolve;
use tardy_measure::request;
use tardy_report::report::plan_text;
use tardy_results::document;
use tardy_results::exit::Exit;
use tardy_run::request::{Request, TUNED};

use super::show::{self, Format};
use super::{folder_name, output, tune};

/// Runs the command. If a listener is given, it receives the progress, and no progress is shown.
/// Must be called before the process starts threads.
#[must_use]
pub fn run(
    request: &Request,
    configuration: &Configuration,
    listener: Option<ProgressListener>,
) -> Exit {
    if let Some(reason) = request::contradiction(request) {
        say!("tardy: {reason}");
        return Exit::Usage;
    }
    let root = Root::system();
    let out = request.out.clone().unwrap_or_else(folder_name::by_time);
    let scenario = match request::scenario(request) {
        Ok(scenario) => scenario,
        Err(error) => {
            output::complain(&error);
            return Exit::Usage;
        }
    };
    let tuned = match request
        .tune
        .as_ref()
        .map(|tuning| tune::for_run(tuning.file(), request.cpus.as_ref(), &root))
        .transpose()
    {
        Ok(tuned) => tuned,
        Err(error) => {
            say!("tardy: --tune: {error}");
            return error.exit();
        }
    };
    let mut plan = match resolve(request, &scenario, &out, &root) {
        Ok(plan) => plan,
        Err(error) => {
            output::complain(&error);
            return if error.is_unsupported_here() {
                Exit::Machine
            } else {
                Exit::Usage
            };
        }
    };
    plan.defaults = configuration::sentences(
        configuration
            .flags
            .iter()
            .map(|(flag, default)| (*flag, default)),
    );
    for (name, default) in &configuration.labels {
        plan.labels
            .entry(name.clone())
            .or_insert_with(|| default.value.clone());
    }
    if let Some(tuned) = &tuned {
        plan.labels
            .entry(TUNED.to_owned())
            .or_insert_with(|| tuned.names.join(" "));
    }
    if request.dry_run {
        let text = if request.json {
            document::Format::PLAN.document(&plan)
        } else {
            output::fitted(&plan_text::text(&plan))
        };
        return output::print(&text).map_or(Exit::Machine, |()| Exit::Done);
    }
    let metrics = match request.metrics.as_deref().map(metrics::listen).transpose() {
        Ok(metrics) => metrics,
        Err(error) => {
            say!("tardy: --metrics: {error}");
            return Exit::Usage;
        }
    };
    // If port 0 was requested, the kernel has chosen a free port.
    let address = metrics
        .as_ref()
        .and_then(|listener| listener.local_addr().ok());
    if let Some(address) = address.filter(|_| {
        let place = request.metrics.as_deref().unwrap_or_default();
        place == "0" || place.ends_with(":0")
    }) {
        say!("metrics at http://{address}/metrics");
    }
    if !request.quiet {
        announce(&out, &plan);
    }
    let measure = if request.resume {
        session::resume
    } else {
        session::run
    };
    let shown = listener.map_or_else(|| shown(request), ProgressDisplay::Told);
    match measure(plan, &out, shown, metrics, &root) {
        Ok(_) => {
            let format = if request.json {
                Format::Json
            } else if request.full {
                Format::Full
            } else {
                Format::Screen
            };
            show::show(&out, &Requirement::default(), format)
        }
        Err(error) => {
            output::complain(&error);
            if error.is_wrong_use() {
                Exit::Usage
            } else {
                Exit::Machine
            }
        }
    }
}

fn shown(request: &Request) -> ProgressDisplay {
    match (request.quiet, request.no_live || !view::is_possible()) {
        (true, _) => ProgressDisplay::Nothing,
        (false, true) => ProgressDisplay::Lines,
        (false, false) => ProgressDisplay::Screen(output::look()),
    }
}

/// Prints missing requirements, and changes to the machine, before the measurement.
fn announce(out: &Path, plan: &tardy_run::plan::Plan) {
    say!("measuring into {}", out.display());
    let is_said_first = |warning: &&Warning| {
        warning.severity() == Severity::Degraded
            || matches!(
                warning,
                Warning::LoadAbsent { .. } | Warning::LoadProblem { .. }
            )
    };
    for warning in plan.warnings.iter().filter(is_said_first) {
        say!("{}", warning.line());
    }
    for sentence in &plan.defaults {
        say!("{sentence}");
    }
    for line in plan.device_writes() {
        say!("loads write {line}");
    }
    for change in &plan.changes {
        say!("changing {change}");
    }
}
