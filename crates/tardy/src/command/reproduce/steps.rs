//! Plans the steps of a reproduction, and estimates the time that they take. A step is an
//! experiment. A full experiment in the lab is divided into as many equal steps as it has replicas.
//! An interrupted reproduction repeats only the step that it was in, and other machines can do some
//! of the steps (`--shard`).

use clap::Parser;
use tardy_core::units::{Nanos, three_digits};
use tardy_lab::experiment::Shard;
use tardy_measure::request;
use tardy_papers::claim::Paper;
use tardy_papers::experiment::{Experiment, Extent, Place};
use tardy_results::reproduce::ExperimentCommand;

use crate::cli::reproduce::ReproduceArgs;
use crate::cli::{Cli, Command};

/// Ratio of the virtual time that passes in a guest to the CPU time that the host needs to execute
/// the guest. With two CPUs, the command `reproduce all --on lab --quick` measured for 310 s of
/// virtual time, and took 6 minutes, including boots and costs (2026-11-30).
const LAB_RATE: f64 = 0.5;

/// A command that is started once.
pub(super) struct Step {
    pub(super) command: ExperimentCommand,
    /// Number of runs. In the lab, each CPU executes one of them at a time.
    runs: u32,
    /// Length of each run, in virtual time in the lab; `None` for costs, because their trials have
    /// no fixed length.
    length: Option<Nanos>,
}

impl Step {
    /// Returns the time that the step takes on this many CPUs, in ns; 0 for costs.
    fn takes(&self, place: Place, cpus: u32) -> f64 {
        let length = self.length.unwrap_or_default().get() as f64;
        match place {
            Place::Local => length,
            Place::Lab => length * f64::from(self.runs.div_ceil(cpus)) / LAB_RATE,
        }
    }
}

/// Returns the steps that the arguments ask for, in the order of the papers.
pub(super) fn steps(papers: &[Paper], args: &ReproduceArgs) -> Vec<Step> {
    let shard = args.shard.unwrap_or(Shard::WHOLE);
    papers
        .iter()
        .flat_map(|paper| &paper.experiments)
        .flat_map(|experiment| of_experiment(experiment, args))
        .enumerate()
        .filter(|(place, _)| shard.has(*place))
        .map(|(_, step)| step)
        .collect()
}

fn of_experiment(experiment: &Experiment, args: &ReproduceArgs) -> Vec<Step> {
    let (place, extent, replicas) = (args.place(), args.extent(), args.replicas());
    let Some(words) = experiment.command(place, extent, replicas) else {
        return Vec::new();
    };
    let (length, name) = (length(&words), &experiment.name);
    let kernels = match place {
        Place::Local => 1,
        Place::Lab => experiment.kernels.len() as u32,
    };
    let step = |folder, words, runs| Step {
        command: ExperimentCommand { folder, words },
        runs,
        length,
    };
    match (place, extent) {
        // A part has one guest for each kernel of the experiment.
        (Place::Lab, Extent::Full) if replicas > 1 => (1..=replicas)
            .map(|part| {
                let folder = format!("{name}/{part}-of-{replicas}");
                step(folder, of_part(&words, part, replicas), kernels)
            })
            .collect(),
        (Place::Lab, _) => vec![step(name.clone(), words, kernels * replicas)],
        (Place::Local, _) => vec![step(name.clone(), words, 1)],
    }
}

/// Adds `--shard` with this part to the words of `lab run ...`.
fn of_part(words: &[String], number: u32, of: u32) -> Vec<String> {
    let (command, rest) = words.split_at(2);
    let shard = ["--shard".to_owned(), format!("{number}/{of}")];
    [command, &shard, rest].concat()
}

/// Returns how long one run of a command measures.
fn length(words: &[String]) -> Option<Nanos> {
    let of_run = match words {
        [run, rest @ ..] if run == "run" => rest,
        _ if words.iter().any(|word| word == "--cost") => return None,
        _ => words.split(|word| word == "--").nth(1)?,
    };
    let line = ["tardy", "run"]
        .into_iter()
        .chain(of_run.iter().map(String::as_str));
    let Ok(Command::Run(run)) = Cli::try_parse_from(line).map(|cli| cli.command) else {
        return None;
    };
    request::scenario(&run.request)
        .ok()
        .map(|scenario| scenario.length())
}

/// Returns a sentence that lists the experiments that only `--full` includes; empty if the
/// reproduction is full, or if there are no such experiments.
pub(super) fn left_out(papers: &[Paper], args: &ReproduceArgs) -> String {
    let names: Vec<&str> = papers
        .iter()
        .flat_map(|paper| &paper.experiments)
        .filter(|experiment| experiment.is_only_full && args.extent() == Extent::Quick)
        .map(|experiment| experiment.name.as_str())
        .collect();
    match names.as_slice() {
        [] => String::new(),
        names => format!("Only --full includes: {}\n", names.join(", ")),
    }
}

/// Returns the number of steps and runs, and the time that they take, in a sentence or two.
pub(super) fn estimate(steps: &[Step], place: Place, cpus: u32) -> String {
    let sum = |of: &dyn Fn(&Step) -> f64| three_digits(steps.iter().map(of).sum());
    let takes = sum(&|step| step.takes(place, cpus));
    let costs = steps.iter().filter(|step| step.length.is_none()).count();
    let count = |number: usize| match number {
        1 => "1 step".to_owned(),
        several => format!("{several} steps"),
    };
    let without = match costs {
        0 => String::new(),
        some => format!(", not counting {} for costs", count(some)),
    };
    let steps_in_all = count(steps.len());
    match place {
        Place::Local => format!("{steps_in_all}, about {takes}{without}"),
        Place::Lab => {
            let guests: u32 = steps.iter().map(|step| step.runs).sum();
            let length =
                |step: &Step| f64::from(step.runs) * step.length.unwrap_or_default().get() as f64;
            format!(
                "{steps_in_all}, {guests} guests, {} of virtual time{without}. At {LAB_RATE} s of \
                 virtual time per second and CPU, the steps take about {takes} on {cpus} CPUs",
                sum(&length)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use tardy_papers::claim::papers;

    use super::*;

    fn asked(words: &str) -> ReproduceArgs {
        let line = format!("tardy reproduce all --on lab {words}");
        let Command::Reproduce(args) = Cli::parse_from(line.split_whitespace()).command else {
            panic!("{line}")
        };
        args
    }

    #[test]
    fn shards_share_all_steps_and_no_step_is_in_two() {
        let papers = papers();
        let folders = |words: &str| -> Vec<String> {
            steps(&papers, &asked(words))
                .iter()
                .map(|step| step.command.folder.clone())
                .collect()
        };
        for extent in ["--quick", "--full"] {
            let mut all = folders(extent);
            let mut shared: Vec<String> = (1..=3)
                .flat_map(|number| folders(&format!("{extent} --shard {number}/3")))
                .collect();
            assert!(all.len() >= 25, "{all:?}");
            all.sort();
            shared.sort();
            assert_eq!(shared, all);
            all.dedup();
            assert_eq!(shared.len(), all.len(), "each has its own folder");
        }
    }

    /// Each replica of each kernel is in exactly one part.
    #[test]
    fn a_full_experiment_has_a_part_per_replica_with_as_many_guests_as_kernels() {
        let papers = papers();
        let all = steps(&papers, &asked("--full --replicas 4"));
        let parts: Vec<&Step> = all
            .iter()
            .filter(|step| step.command.folder.starts_with("koolwal-cyclictest/"))
            .collect();
        let number = |step: &&Step| (step.command.folder.clone(), step.runs, step.length);
        let two_days = Some(Nanos::from_secs(48 * 3_600));
        assert_eq!(
            parts.iter().map(number).collect::<Vec<_>>(),
            (1..=4)
                .map(|part| (format!("koolwal-cyclictest/{part}-of-4"), 3, two_days))
                .collect::<Vec<_>>()
        );
        assert_eq!(
            parts[1].command.words[..4],
            ["lab", "run", "--shard", "2/4"]
        );
        let line = ["tardy"]
            .into_iter()
            .chain(parts[1].command.words[..2].iter().map(String::as_str))
            .chain(["--out", "x"])
            .chain(parts[1].command.words[2..].iter().map(String::as_str));
        assert!(
            Cli::try_parse_from(line).is_ok(),
            "{:?}",
            parts[1].command.words
        );
    }

    #[test]
    fn the_estimate_is_the_sum_of_all_runs_at_the_stated_rate() {
        let papers = papers();
        let all = steps(&papers, &asked("--quick"));
        // Three kernels of 36 s each need two rounds on two CPUs.
        let cyclictest = all
            .iter()
            .find(|step| step.command.folder == "koolwal-cyclictest")
            .unwrap();
        assert_eq!(
            (cyclictest.runs, cyclictest.length),
            (3, Some(Nanos::from_secs(36)))
        );
        let takes = |cpus| (cyclictest.takes(Place::Lab, cpus) * LAB_RATE / 1e9).round();
        assert_eq!(
            [takes(1), takes(2), takes(3), takes(64)],
            [108.0, 72.0, 36.0, 36.0]
        );
        let costs = all.iter().filter(|step| step.length.is_none());
        assert_eq!(
            costs
                .map(|step| step.command.folder.as_str())
                .collect::<Vec<_>>(),
            [
                "mckenney-overhead",
                "koolwal-lmbench",
                "koolwal-lmbench-shell"
            ]
        );
        let local = ReproduceArgs {
            on: crate::cli::reproduce::PlaceArgument::Local,
            ..asked("--quick")
        };
        for step in steps(&papers, &local) {
            let is_of_costs = step.command.words[0] == "cost";
            assert_eq!(
                (step.length.is_none(), step.runs),
                (is_of_costs, 1),
                "{}",
                step.command.folder
            );
        }
    }
}
