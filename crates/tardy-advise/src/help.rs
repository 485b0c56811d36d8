//! What would help most: settings of the machine that are not as they should be. Those that made
//! tasks late in these runs come first.

use serde::Serialize;
use tardy_core::cpu::CpuList;
use tardy_core::warning::Warning;
use tardy_machine::checks::{CheckInput, Finding, State, look};
use tardy_machine::facts::MachineFacts;
use tardy_machine::root::Root;

use tardy_results::decision::Answer;

/// One thing that may help.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Help {
    /// What was found.
    #[serde(flatten)]
    pub finding: Finding,
    /// What the runs warn of that this explains; absent where they show nothing of it.
    pub seen_in_run: Option<String>,
}

/// What was looked at, and what of it can be improved.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Improvements {
    /// The machine that was looked at.
    pub machine: String,
    /// Settings that can be improved, what matters most first.
    pub improvable: Vec<Help>,
    /// A setting that could be improved and is in no number here, because PREEMPT_RT is not
    /// needed.
    pub left_out: Option<&'static str>,
    /// How many settings are as they should be.
    pub good: usize,
    /// Those that could not be read, by name, with what is missing.
    pub unknown: Vec<(&'static str, String)>,
}

/// Looks at `facts`, and at the files of this machine where `here` shows that they are of the same
/// start of the same system. `cpus` are the CPUs that were measured, or all.
#[must_use]
pub fn helps(
    facts: &MachineFacts,
    here: &MachineFacts,
    root: &Root,
    cpus: &CpuList,
    warnings: &[Warning],
    answer: Answer,
) -> Improvements {
    let is_here = facts.boot_id.is_some() && facts.boot_id == here.boot_id;
    let all = here.processors.online.clone().unwrap_or_default();
    let cpus = if cpus.is_empty() { &all } else { cpus };
    let findings = look(&CheckInput::new(facts, is_here.then_some(root), cpus));
    // Measurements have just shown that it is not needed.
    let is_unwanted =
        |finding: &&Finding| answer == Answer::No && finding.check == "real-time-kernel";
    let seen = |finding: &Finding| {
        warnings
            .iter()
            .find(|warning| explains(finding.check, warning))
            .map(Warning::to_string)
    };
    let help = |finding: &Finding| Help {
        finding: finding.clone(),
        seen_in_run: seen(finding),
    };
    let faults = || findings.iter().filter(|finding| finding.is_improvable());
    let mut improvable: Vec<Help> = faults()
        .filter(|finding| !is_unwanted(finding))
        .map(help)
        .collect();
    improvable.sort_by_key(|help| (help.seen_in_run.is_none(), help.finding.importance));
    let unknown = findings.iter().filter_map(|finding| match &finding.state {
        State::Unknown { missing } => Some((finding.check, missing.clone())),
        _ => None,
    });
    Improvements {
        machine: facts.one_line(),
        improvable,
        left_out: faults().find(is_unwanted).map(|finding| finding.check),
        good: findings
            .iter()
            .filter(|finding| matches!(finding.state, State::Good { .. }))
            .count(),
        unknown: unknown.collect(),
    }
}

/// Whether the setting that `check` looks at leads to what `warning` tells of.
fn explains(check: &str, warning: &Warning) -> bool {
    match warning {
        Warning::TimeStolen { .. } => check == "virtual-machine",
        Warning::LooksLikeThrottling { .. } => {
            ["real-time-throttling", "fair-server", "ext-server"].contains(&check)
        }
        Warning::CgroupThrottled { .. } => check == "cpu-quota",
        Warning::NoHighResolutionTimers { .. } => check == "high-resolution-timers",
        Warning::CpuLatencyNotSet { .. } => check == "idle-states",
        Warning::InterruptsNotMoved { .. } => check == "interrupt-affinity",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_core::cpu::CpuId;
    use tardy_core::units::Nanos;
    use tardy_machine::facts::{CompiledPreemption, Preemption};

    fn facts() -> MachineFacts {
        let mut facts = MachineFacts {
            boot_id: Some("then".into()),
            ..MachineFacts::default()
        };
        facts.kernel.preemption = Some(Preemption {
            compiled: CompiledPreemption::VoluntaryOrNone,
            ..Preemption::default()
        });
        facts.virtualization.processor_flag = Some(true);
        facts.processors.smt_active = Some(true);
        facts
    }

    fn of(warnings: &[Warning], answer: Answer) -> Improvements {
        // A root that is not there: a check that looked into it would find nothing, and say so by
        // another reason.
        helps(
            &facts(),
            &MachineFacts::default(),
            &Root::at("/nowhere"),
            &"0".parse().unwrap(),
            warnings,
            answer,
        )
    }

    #[test]
    fn what_the_run_shows_comes_before_what_matters_in_general() {
        let names = |helps: Improvements| {
            helps
                .improvable
                .iter()
                .map(|help| help.finding.check)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            names(of(&[], Answer::Unknown)),
            [
                "virtual-machine",
                "real-time-kernel",
                "preemption-mode",
                "smt"
            ]
        );
        let stolen = [Warning::TimeStolen {
            cpu: CpuId(0),
            stolen: Nanos::from_millis(20),
        }];
        let found = of(&stolen, Answer::Unknown);
        assert!(
            found.improvable[0]
                .seen_in_run
                .as_ref()
                .unwrap()
                .contains("20.0 ms")
        );
        assert_eq!(
            names(found),
            [
                "virtual-machine",
                "real-time-kernel",
                "preemption-mode",
                "smt"
            ]
        );
    }

    #[test]
    fn a_real_time_kernel_is_no_help_where_it_is_not_needed() {
        let found = of(&[], Answer::No);
        assert!(
            found
                .improvable
                .iter()
                .all(|help| help.finding.check != "real-time-kernel")
        );
        assert_eq!(
            (found.left_out, of(&[], Answer::Unknown).left_out),
            (Some("real-time-kernel"), None)
        );
    }

    #[test]
    fn files_of_this_machine_say_nothing_of_an_earlier_start() {
        let found = of(&[], Answer::Unknown);
        let (_, why) = found
            .unknown
            .iter()
            .find(|(check, _)| *check == "irqbalance")
            .unwrap();
        assert!(why.contains("before the last restart"), "{why}");
    }
}
