//! `tardy run`: resolve, measure, show.

use std::path::{Path, PathBuf};

use super::exit::Exit;
use super::{output, show};
use crate::cli::run::RunArgs;
use crate::machine::root::Root;
use crate::measure::session::{self, SessionError};
use crate::plan::resolve::resolve;
use crate::report::date::civil_from_days;
use crate::report::plan_text;
use crate::request;

/// Runs the command. Call it before the process has threads.
#[must_use]
pub fn run(args: &RunArgs) -> Exit {
    let root = Root::system();
    let out = args.out.clone().unwrap_or_else(name_by_time);
    let scenario = match request::scenario(args) {
        Ok(scenario) => scenario,
        Err(error) => {
            eprintln!("tardy: --scenario: {error}");
            return Exit::Usage;
        }
    };
    let plan = match resolve(args, &scenario, &out, &root) {
        Ok(plan) => plan,
        Err(error) => {
            eprintln!("tardy: {error}");
            return if error.is_of_the_machine() { Exit::Machine } else { Exit::Usage };
        }
    };
    if args.dry_run {
        let text = if args.json {
            serde_json::to_string_pretty(&plan).expect("all keys are text and all numbers finite or null") + "\n"
        } else {
            plan_text::text(&plan)
        };
        return output::print(&text).map_or(Exit::Machine, |()| Exit::Done);
    }
    if !args.quiet {
        announce(&out, &plan);
    }
    match session::run(plan, &out, args.quiet, &root) {
        Ok(_) => show::show(&out, None, None, args.json),
        Err(error) => {
            eprintln!("tardy: {error}");
            if matches!(error, SessionError::Folder(_)) { Exit::Usage } else { Exit::Machine }
        }
    }
}

/// What is changed on the machine is said before it is changed.
fn announce(out: &Path, plan: &crate::plan::Plan) {
    eprintln!("measuring into {}", out.display());
    for change in &plan.changes {
        eprintln!("changing {change}");
    }
}

/// A folder named after the time (UTC), as in `tardy-20261121-031200`; the first that does not exist.
pub(super) fn name_by_time() -> PathBuf {
    let seconds = tardy_sys::clock::realtime() / 1_000_000_000;
    let (year, month, day) = civil_from_days(seconds.div_euclid(86_400));
    let of_day = seconds.rem_euclid(86_400);
    let name = format!("tardy-{year:04}{month:02}{day:02}-{:02}{:02}{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60);
    let numbered = (2..).map(|number| PathBuf::from(format!("{name}-{number}")));
    std::iter::once(PathBuf::from(&name)).chain(numbered).find(|path| !path.exists()).unwrap_or_else(|| PathBuf::from(&name))
}
