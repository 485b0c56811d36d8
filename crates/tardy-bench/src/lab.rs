//! Figures of the lab. All but the time on the host's clock are exact: the same packages give the
//! same ones again.

mod atlas;
mod blame;
mod budget;
mod delays;
mod many_cpus;
mod order;
mod pairs;
mod sections;
mod wake_up_path;

pub(crate) use atlas::FIGURE as ATLAS;
pub(crate) use blame::FIGURE as BLAME;
pub(crate) use budget::FIGURE as BUDGET;
pub(crate) use delays::FIGURE as DELAYS;
pub(crate) use many_cpus::FIGURE as MANY_CPUS;
pub(crate) use order::FIGURE as ORDER;
pub(crate) use pairs::FIGURE as PAIRS;
pub(crate) use sections::FIGURE as SECTIONS;
pub(crate) use wake_up_path::FIGURE as WAKE_UP_PATH;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::figure::Bench;
use crate::failure::{Failure, Result, While};
use crate::{program, workspace};

/// The four models of the distribution's 6.1: three by its command line, one by another package.
const MODELS: [&str; 6] = [
    "--kernel",
    "debian:6.1",
    "--preempt",
    "none,voluntary,full",
    "--kernel",
    "debian:6.1-rt",
];

/// Below the workspace, so that commands name no path of this machine.
const FOLDER: &str = "target/bench-lab";

/// What `tardy lab run --json` said, and where its runs are.
struct Experiment {
    comparison: Value,
    out: PathBuf,
}

impl Experiment {
    /// Runs the lab; a guest that fails is a failure, whatever the others say.
    fn run(
        bench: &Bench,
        name: &str,
        arguments: &[&str],
        commands: &mut Vec<String>,
    ) -> Result<Self> {
        let out = Path::new(FOLDER).join(name);
        let whole = workspace::root().join(&out);
        if whole.exists() {
            std::fs::remove_dir_all(&whole)
                .while_doing(|| format!("removing {}", whole.display()))?;
        }
        let mut command = Command::new(&bench.tardy);
        command
            .args(["lab", "run", "--json", "--out"])
            .arg(&out)
            .args(arguments)
            .current_dir(workspace::root());
        eprintln!("$ {}", program::line(&command));
        let json = program::capture(&mut command)?;
        commands.push(program::line(&command));
        let comparison =
            serde_json::from_str(&json).while_doing(|| "reading the comparison".to_owned())?;
        Ok(Self {
            comparison,
            out: whole,
        })
    }

    fn variants(&self) -> impl Iterator<Item = &Value> {
        self.comparison["variants"].as_array().into_iter().flatten()
    }

    /// All guests with their variants' names.
    fn runs(&self) -> Vec<(&str, &Value)> {
        let of = |variant| runs_of(variant).iter().map(move |run| (name(variant), run));
        self.variants().flat_map(of).collect()
    }

    /// The largest latency of every run in a phase, in us.
    fn maxima(&self, variant: &str, phase: &str) -> Result<Vec<f64>> {
        let missing = || Failure::new(format!("the comparison has no phase {phase} of {variant}"));
        let variant = self
            .variants()
            .find(|one| name(one) == variant)
            .ok_or_else(missing)?;
        let mut phases = variant["phases"].as_array().into_iter().flatten();
        let found = phases
            .find(|one| one["phase"] == phase)
            .ok_or_else(missing)?;
        Ok(found["max_of_runs_ns"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_f64)
            .map(|max| max / 1000.0)
            .collect())
    }
}

fn name(variant: &Value) -> &str {
    variant["variant"]["name"].as_str().unwrap_or_default()
}

fn runs_of(variant: &Value) -> &[Value] {
    variant["runs"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// What ran: kernels' packages and QEMU's version, without which the figures are not these.
fn identity(experiment: &Experiment) -> String {
    let packages = experiment
        .variants()
        .filter_map(|variant| variant["variant"]["kernel"]["package"].as_str());
    let mut packages: Vec<&str> = packages.collect();
    packages.dedup();
    let version =
        program::capture(Command::new("qemu-system-x86_64").arg("--version")).unwrap_or_default();
    format!(
        "Kernels: {}. {}.",
        packages.join(", "),
        version.lines().next().unwrap_or("QEMU of unknown version")
    )
}

fn holds(is_held: bool) -> &'static str {
    if is_held { "holds" } else { "NOT reached" }
}
