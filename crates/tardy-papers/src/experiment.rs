//! Experiments: command lines of this tool that repeat what papers did.
//!
//! A user can type each command line by hand; `tardy reproduce` starts nothing else. A test parses
//! all these command lines, including those of guests.
//!
//! A separate run finds what caused late samples. Recording a stack takes tens of microseconds, so
//! no claim is tested on such a run; a test checks that.

use serde::{Deserialize, Serialize};

/// Where experiments run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// The experiment runs on this machine, with the kernel that this machine runs.
    Local,
    /// In emulated machines, on the distribution's kernels, in virtual time.
    Lab,
}

/// How long experiments are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Extent {
    /// Short runs, so that all experiments together take only minutes.
    Quick,
    /// Runs that are as long as those of the paper.
    Full,
}

/// An experiment of a paper.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Name of the experiment, and of its folder.
    pub name: String,
    /// Which experiment of the paper is repeated, and how ours differs from it.
    pub about: String,
    /// Arguments of `tardy run`.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// Additional arguments for a quick experiment.
    #[serde(default)]
    pub quick: Vec<String>,
    /// Additional arguments for a full experiment, which runs as long as the experiment in the
    /// paper.
    #[serde(default)]
    pub full: Vec<String>,
    /// Services whose cost is measured with `tardy cost`; latencies are not measured then.
    pub cost: Option<Vec<String>>,
    /// Kernels of the lab: each kernel's name, followed by `preempt=MODEL` or other words for its
    /// command line. Empty if the experiment cannot run in the lab.
    #[serde(default)]
    pub kernels: Vec<String>,
    /// Further options of `tardy lab run`.
    #[serde(default)]
    pub lab: Vec<String>,
    /// Further options of `tardy run` on this machine.
    #[serde(default)]
    pub local: Vec<String>,
    /// Whether the experiment looks for what caused late samples. No claim is tested with such an
    /// experiment, because tracing takes time.
    #[serde(default)]
    pub is_for_culprits: bool,
    /// Whether quick reproductions omit this experiment.
    #[serde(default)]
    pub is_only_full: bool,
    /// Whether the experiment runs in the lab only, because its loads could harm this machine.
    #[serde(default)]
    pub is_only_lab: bool,
}

/// Time limits for a guest in which the experiment is as long as the paper's. The longest
/// experiment takes 48 h on the guest's clock, and the emulation takes even longer.
const GUEST_LIMITS: [&str; 4] = ["--time-limit", "60h", "--wall-limit", "10000h"];

impl Experiment {
    /// Returns the command without `--out`; `None` if the experiment cannot or must not run at
    /// `place`, or if quick reproductions leave it out.
    #[must_use]
    pub fn command(&self, place: Place, extent: Extent, replicas: u32) -> Option<Vec<String>> {
        let length = match extent {
            Extent::Quick => &self.quick,
            Extent::Full => &self.full,
        };
        let words = |words: &[&str]| {
            words
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<String>>()
        };
        let measured = self.arguments.iter().chain(length).cloned();
        let is_left_out = self.is_only_full && extent == Extent::Quick
            || self.is_only_lab && place == Place::Local;
        if is_left_out || self.arguments.is_empty() && self.cost.is_none() {
            return None;
        }
        match (place, &self.cost) {
            (Place::Local, Some(metrics)) => {
                let each = metrics
                    .iter()
                    .flat_map(|metric| ["--metric".to_owned(), metric.clone()]);
                Some(
                    words(&["cost"])
                        .into_iter()
                        .chain(each)
                        .chain(measured)
                        .collect(),
                )
            }
            (Place::Local, None) => Some(
                words(&["run"])
                    .into_iter()
                    .chain(measured)
                    .chain(self.local.iter().cloned())
                    .collect(),
            ),
            (Place::Lab, _) if self.kernels.is_empty() => None,
            (Place::Lab, metrics) => {
                // Without snapshots, boots would take most of the time of a short experiment.
                let mut command = words(&[
                    "lab",
                    "run",
                    "--snapshots",
                    "--replicas",
                    &replicas.to_string(),
                ]);
                if extent == Extent::Full {
                    command.extend(words(&GUEST_LIMITS));
                }
                for kernel in &self.kernels {
                    command.extend(kernel_arguments(kernel));
                }
                command.extend(self.lab.iter().cloned());
                if let Some(metrics) = metrics {
                    command.extend(words(&["--cost", &metrics.join(",")]));
                }
                command.push("--".to_owned());
                command.extend(measured);
                Some(command)
            }
        }
    }

    /// Returns the command that repeats the experiment in watched guests. Only kernels that are
    /// listed in `kernels` are used. Watched guests take the same samples as the guests of the
    /// experiment. Returns `None` if the experiment measures costs, or if the lab cannot run it.
    #[must_use]
    pub fn traced(&self, extent: Extent, kernels: &[String]) -> Option<Vec<String>> {
        let names = self.kernel_names();
        let is_asked = |(_, name): &(&String, &String)| kernels.contains(name);
        let chosen = self.kernels.iter().zip(&names).filter(is_asked);
        let watch = Some("--watch".to_owned()).filter(|word| !self.lab.contains(word));
        let watched = Self {
            kernels: chosen.map(|(kernel, _)| kernel.clone()).collect(),
            lab: self.lab.iter().cloned().chain(watch).collect(),
            ..self.clone()
        };
        match &self.cost {
            Some(_) => None,
            None => watched.command(Place::Lab, extent, 1),
        }
    }

    /// Returns the names by which claims refer to the experiment's kernels in the lab.
    #[must_use]
    pub fn kernel_names(&self) -> Vec<String> {
        let name = |kernel: &String| {
            let mut words = kernel.split_whitespace();
            let source = words.next().unwrap_or_default();
            let rest: Vec<&str> = words.collect();
            let is_older = source
                .strip_prefix("debian:")
                .is_some_and(|release| release.starts_with("5."));
            let asked = rest.iter().find_map(|word| word.strip_prefix("preempt="));
            // Debian builds its kernels with PREEMPT_VOLUNTARY.
            let mode = asked.unwrap_or(if source.ends_with("-rt") {
                "rt"
            } else {
                "voluntary"
            });
            kernel_name(mode, is_older, rest.contains(&"highres=off"))
        };
        self.kernels.iter().map(name).collect()
    }
}

/// Returns the name by which claims refer to a kernel, made from its preemption model, its age and
/// its timers.
#[must_use]
pub fn kernel_name(mode: &str, is_older: bool, has_ticks: bool) -> String {
    format!(
        "{}{mode}{}",
        if is_older { "older-" } else { "" },
        if has_ticks { "+ticks" } else { "" }
    )
}

fn kernel_arguments(kernel: &str) -> Vec<String> {
    let mut words = kernel.split_whitespace();
    let mut arguments = vec![
        "--kernel".to_owned(),
        words.next().unwrap_or_default().to_owned(),
    ];
    let (models, line): (Vec<&str>, Vec<&str>) =
        words.partition(|word| word.starts_with("preempt="));
    for model in models {
        arguments.extend([
            "--preempt".to_owned(),
            model.trim_start_matches("preempt=").to_owned(),
        ]);
    }
    if !line.is_empty() {
        arguments.extend(["--cmdline".to_owned(), line.join(" ")]);
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment() -> Experiment {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Experiment {
            name: "x".into(),
            about: String::new(),
            arguments: words(&["--scenario", "abeni2002"]),
            quick: words(&["--for", "2s"]),
            full: Vec::new(),
            cost: None,
            kernels: words(&[
                "debian:6.1 preempt=none",
                "debian:6.1 highres=off nohz=off",
                "debian:6.1-rt",
                "debian:5.10",
            ]),
            lab: words(&["--module", "snd-dummy"]),
            local: words(&["--explain=stacks"]),
            is_for_culprits: false,
            is_only_full: false,
            is_only_lab: false,
        }
    }

    #[test]
    fn an_experiment_is_a_command_that_a_user_could_type() {
        let line = |place, extent| experiment().command(place, extent, 2).unwrap().join(" ");
        assert_eq!(
            line(Place::Local, Extent::Quick),
            "run --scenario abeni2002 --for 2s --explain=stacks"
        );
        assert_eq!(
            line(Place::Lab, Extent::Full),
            "lab run --snapshots --replicas 2 --time-limit 60h --wall-limit 10000h --kernel \
             debian:6.1 --preempt none --kernel debian:6.1 --cmdline highres=off nohz=off \
             --kernel debian:6.1-rt --kernel debian:5.10 --module snd-dummy -- --scenario \
             abeni2002"
        );
        let cost = Experiment {
            cost: Some(vec!["null-call".into(), "fork".into()]),
            arguments: Vec::new(),
            ..experiment()
        };
        assert!(
            cost.command(Place::Lab, Extent::Full, 1)
                .unwrap()
                .join(" ")
                .ends_with("--cost null-call,fork --")
        );
        let local_alone = Experiment {
            kernels: Vec::new(),
            ..experiment()
        };
        assert_eq!(local_alone.command(Place::Lab, Extent::Quick, 1), None);
        assert_eq!(
            cost.command(Place::Local, Extent::Quick, 1)
                .unwrap()
                .join(" "),
            "cost --metric null-call --metric fork --for 2s"
        );
        let long = Experiment {
            is_only_full: true,
            ..experiment()
        };
        let is_there = |extent| long.command(Place::Lab, extent, 1).is_some();
        assert_eq!(
            (is_there(Extent::Quick), is_there(Extent::Full)),
            (false, true)
        );
        let harmful = Experiment {
            is_only_lab: true,
            ..experiment()
        };
        let is_there = |place| harmful.command(place, Extent::Full, 1).is_some();
        assert_eq!(
            (is_there(Place::Local), is_there(Place::Lab)),
            (false, true)
        );
        let by_hand = Experiment {
            arguments: Vec::new(),
            ..experiment()
        };
        assert_eq!(by_hand.command(Place::Local, Extent::Full, 1), None);
    }

    #[test]
    fn a_traced_experiment_has_the_named_kernels_in_watched_guests() {
        let of = |experiment: Experiment| {
            let kernels = ["rt".to_owned(), "none".to_owned()];
            experiment
                .traced(Extent::Quick, &kernels)
                .map(|words| words.join(" "))
        };
        let line = "lab run --snapshots --replicas 1 --kernel debian:6.1 --preempt none --kernel \
                    debian:6.1-rt --module snd-dummy --watch -- --scenario abeni2002 --for 2s";
        assert_eq!(of(experiment()).as_deref(), Some(line));
        let others = Experiment {
            kernels: vec!["debian:5.10".to_owned()],
            ..experiment()
        };
        assert_eq!(of(others), None);
        let costs = Experiment {
            cost: Some(Vec::new()),
            ..experiment()
        };
        assert_eq!(of(costs), None);
    }

    #[test]
    fn kernels_have_the_names_that_claims_use() {
        assert_eq!(
            experiment().kernel_names(),
            ["none", "voluntary+ticks", "rt", "older-voluntary"]
        );
    }
}
