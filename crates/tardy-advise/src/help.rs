//! Finds the most effective improvements: settings of the machine that differ from the
//! recommendation. Settings that explain a warning of the runs come first.

use serde::Serialize;
use tardy_core::cpu::CpuList;
use tardy_core::warning::Warning;
use tardy_machine::checks::{CheckInput, Finding, State, look};
use tardy_machine::facts::MachineFacts;
use tardy_machine::root::Root;

use tardy_results::decision::Answer;

/// One possible improvement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Help {
    /// The finding of the check.
    #[serde(flatten)]
    pub finding: Finding,
    /// A warning of the runs that this setting can cause; absent if the runs have no such warning.
    pub seen_in_run: Option<String>,
}

/// The checked settings, and those that can be improved.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Improvements {
    /// The machine that was checked.
    pub machine: String,
    /// Settings that can be improved. Those that explain a warning come before all others. Within
    /// both groups, the most important come first.
    pub improvable: Vec<Help>,
    /// The check that recommends PREEMPT_RT, if its advice is left out because PREEMPT_RT is not
    /// needed.
    pub left_out: Option<&'static str>,
    /// Number of settings that have the recommended value.
    pub good: usize,
    /// Settings that could not be checked, each with the missing file.
    pub unknown: Vec<(&'static str, String)>,
}

/// Checks the settings of the machine with `facts`. Reads files of this machine only if `facts` and
/// `here` have the same boot ID. `cpus` are the measured CPUs; if it is empty, all CPUs are
/// checked.
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
    // Measurements have just shown that PREEMPT_RT is not needed.
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

/// Returns whether the setting that `check` examines can cause `warning`.
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
        // The root does not exist, so a check that reads files would find none and report a
        // different reason.
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
        assert!(why.contains("before its last restart"), "{why}");
    }
}
