//! Decides whether a deadline needs PREEMPT_RT. `advise`, `doctor`, `show` and reports all print
//! this answer.
//!
//! Measurements take precedence over facts about the machine, and facts about the machine take
//! precedence over the rules of a paper. The answer states which of these three was decisive.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};
use tardy_core::units::Nanos;
use tardy_core::verdict::Outcome;
use tardy_machine::facts::{CompiledPreemption, MachineFacts, Preemption};

/// Preemption models, sorted by how much throughput a kernel gives up for response time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PreemptionModel {
    /// `preempt=none` or `preempt=voluntary`.
    Ordinary,
    Lazy,
    Full,
    /// PREEMPT_RT.
    RealTime,
}

impl PreemptionModel {
    /// Returns the preemption model of a kernel; `None` if it is unknown.
    #[must_use]
    pub fn of(preemption: Option<&Preemption>) -> Option<Self> {
        let found = preemption?;
        match (found.compiled, found.mode.as_deref()) {
            (CompiledPreemption::Unknown, _) => None,
            (CompiledPreemption::RealTime, _) => Some(Self::RealTime),
            (CompiledPreemption::Full, _) | (_, Some("full")) => Some(Self::Full),
            (CompiledPreemption::Lazy, _) | (_, Some("lazy")) => Some(Self::Lazy),
            _ => Some(Self::Ordinary),
        }
    }
}

/// What was measured on one kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredKernel {
    pub name: String,
    pub model: Option<PreemptionModel>,
    /// The verdict on the deadline; absent if there is no deadline, or in virtual time.
    pub outcome: Option<Outcome>,
    /// Whether the verdict is "failed" only because too many periods were skipped.
    pub skipped_too_many: bool,
    /// The largest latency, plus the length of the work if it is known.
    pub largest: Nanos,
    /// Whether the measurement was made without load.
    pub is_idle: bool,
    pub is_virtual_time: bool,
}

impl MeasuredKernel {
    fn is_real_time(&self) -> bool {
        self.model == Some(PreemptionModel::RealTime)
    }

    /// Returns whether the kernel is known to lack PREEMPT_RT.
    fn is_without_real_time(&self) -> bool {
        self.model
            .is_some_and(|model| model != PreemptionModel::RealTime)
    }

    fn with_largest(&self) -> String {
        format!("{} (largest {})", self.name, self.largest)
    }
}

/// The answer that the rules of a paper give for the described work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleAnswer {
    pub needs_real_time: bool,
    /// The reason for the answer, as a clause of a sentence.
    pub reason: String,
    /// The paper and the section that contain the rule.
    pub source: String,
}

/// The facts from which the answer is derived.
#[derive(Debug, Clone, Default)]
pub struct Question {
    pub kernels: Vec<MeasuredKernel>,
    pub deadline: Option<Nanos>,
    /// Whether the measured machine is virtual; if none was measured, whether this machine is
    /// virtual.
    pub is_virtual_machine: bool,
    /// The answer of the rules; absent if the work was not described.
    pub rules: Option<RuleAnswer>,
}

/// Whether PREEMPT_RT is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    No,
    Yes,
    /// A kernel without PREEMPT_RT missed the deadline, and no kernel with PREEMPT_RT was measured.
    Perhaps,
    /// Even a kernel with PREEMPT_RT missed the deadline.
    NotEnough,
    Unknown,
}

/// The kind of fact that decided the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DecidedBy {
    Measurement,
    Machine,
    Rules,
}

/// The answer, with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    pub answer: Answer,
    pub decided_by: DecidedBy,
    /// The kernel to which the reason applies. If several kernels meet the deadline, it is the
    /// least preemptible of them; if none meets it, it is the kernel that comes closest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The complete answer as text.
    pub text: String,
}

/// Answers `question`.
#[must_use]
pub fn decision(question: &Question) -> Decision {
    let measured: Vec<&MeasuredKernel> = question
        .kernels
        .iter()
        .filter(|kernel| !kernel.is_virtual_time)
        .collect();
    match (measured.is_empty(), question.deadline) {
        (true, deadline) => without_measurement(question, deadline),
        (false, None) => without_deadline(&measured),
        (false, Some(deadline)) => by_measurement(question, &measured, deadline),
    }
}

fn made(
    answer: Answer,
    decided_by: DecidedBy,
    kernel: Option<&MeasuredKernel>,
    reason: &str,
) -> Decision {
    let short = match answer {
        Answer::No => "No",
        Answer::Yes => "Yes",
        Answer::Perhaps => "Perhaps",
        Answer::NotEnough => "PREEMPT_RT is not enough",
        Answer::Unknown => "Not known",
    };
    let by = match (answer, decided_by) {
        (Answer::Unknown, _) => "",
        (_, DecidedBy::Measurement) => " Decided by the measurement.",
        (_, DecidedBy::Machine) => " Decided by the kind of machine.",
        (_, DecidedBy::Rules) => " Decided by the rules of a paper, not by a measurement.",
    };
    let text = format!("Do you need PREEMPT_RT? {short}: {reason}.{by}");
    Decision {
        answer,
        decided_by,
        kernel: kernel.map(|kernel| kernel.name.clone()),
        text,
    }
}

fn without_measurement(question: &Question, deadline: Option<Nanos>) -> Decision {
    let time = deadline.map_or_else(|| "TIME".to_owned(), Nanos::exact);
    let measure = format!("run `tardy run --deadline {time}` under your loads");
    let shortest = question.kernels.iter().min_by_key(|kernel| kernel.largest);
    if let Some(shortest) = shortest {
        let reason = format!(
            "virtual time only compares lengths of code paths; {} has the shortest, but this does \
             not show that any kernel meets a deadline; {measure} on the machine",
            shortest.with_largest()
        );
        return made(
            Answer::Unknown,
            DecidedBy::Measurement,
            Some(shortest),
            &reason,
        );
    }
    if question.is_virtual_machine {
        let reason = format!(
            "a measurement is missing, and the host of a virtual machine can delay every kernel; \
             {measure}"
        );
        return made(Answer::Unknown, DecidedBy::Machine, None, &reason);
    }
    match &question.rules {
        Some(rules) => {
            let answer = if rules.needs_real_time {
                Answer::Yes
            } else {
                Answer::No
            };
            let reason = format!(
                "{} {}, but a measurement is missing; {measure}",
                rules.source, rules.reason
            );
            made(answer, DecidedBy::Rules, None, &reason)
        }
        None => {
            let reason = format!("a measurement is missing; {measure}");
            made(Answer::Unknown, DecidedBy::Machine, None, &reason)
        }
    }
}

fn without_deadline(measured: &[&MeasuredKernel]) -> Decision {
    let listed: Vec<String> = measured
        .iter()
        .map(|kernel| kernel.with_largest())
        .collect();
    let reason = format!(
        "the answer depends on the deadline (--deadline); measured: {}",
        listed.join(", ")
    );
    made(Answer::Unknown, DecidedBy::Measurement, None, &reason)
}

fn by_measurement(question: &Question, measured: &[&MeasuredKernel], deadline: Nanos) -> Decision {
    let met = deadline.exact();
    let of = |outcome: Outcome| {
        let mut found: Vec<&MeasuredKernel> = measured
            .iter()
            .copied()
            .filter(|kernel| kernel.outcome == Some(outcome))
            .collect();
        // The least preemptible kernel comes first. Kernels that ran without load, or whose model
        // is unknown, come last, because they decide nothing.
        found.sort_by_key(|kernel| {
            (
                kernel.is_idle,
                kernel.model.is_none(),
                kernel.model,
                kernel.largest,
            )
        });
        found
    };
    let (passed, failed, open) = (
        of(Outcome::Passed),
        of(Outcome::Failed),
        of(Outcome::Inconclusive),
    );
    let by =
        |answer, kernel, reason: &str| made(answer, DecidedBy::Measurement, Some(kernel), reason);
    if let Some(&best) = passed.first() {
        let best_met = format!("{} met the deadline of {met}", best.with_largest());
        if best.is_idle {
            let reason =
                format!("{best_met}, but no load ran; measure this kernel under your loads");
            return by(Answer::Unknown, best, &reason);
        }
        if best.model.is_none() {
            let reason = format!("{best_met}, but its preemption model is unknown");
            return by(Answer::Unknown, best, &reason);
        }
        if !best.is_real_time() {
            let late = failed
                .iter()
                .find(|kernel| kernel.model.is_some() && kernel.model < best.model);
            let than = late.map_or_else(String::new, |late| {
                format!("; {} did not", late.with_largest())
            });
            return by(Answer::No, best, &format!("{best_met}{than}"));
        }
        if let Some(late) = failed.iter().find(|kernel| kernel.is_without_real_time()) {
            let reason = format!("{best_met}; {} did not", late.with_largest());
            return by(Answer::Yes, best, &reason);
        }
        let without = measured.iter().find(|kernel| kernel.is_without_real_time());
        let reason = match without {
            Some(other) if other.outcome == Some(Outcome::Passed) => {
                format!("{best_met}, and no load ran on {}", other.name)
            }
            Some(other) => format!(
                "{best_met}, and the samples of {} do not decide whether it does",
                other.name
            ),
            None => format!("{best_met}, and no kernel without PREEMPT_RT was measured"),
        };
        return by(Answer::Unknown, best, &reason);
    }
    let nearest = |kernels: &[&MeasuredKernel]| {
        kernels
            .iter()
            .copied()
            .min_by_key(|kernel| (kernel.largest, Reverse(kernel.model)))
            .cloned()
    };
    if let Some(late) = nearest(&failed)
        && open.is_empty()
    {
        let missed = if late.skipped_too_many {
            format!(
                "{} skipped more periods than are allowed",
                late.with_largest()
            )
        } else {
            format!("{} missed the deadline of {met}", late.with_largest())
        };
        let host = if question.is_virtual_machine {
            "the host of this virtual machine may be the cause; "
        } else {
            ""
        };
        if failed.iter().any(|kernel| kernel.is_real_time()) {
            let nearest = if failed.len() > 1 {
                ", but came nearest"
            } else {
                ""
            };
            let reason = format!("{missed}{nearest}; {host}`tardy run --explain` names the cause");
            return by(Answer::NotEnough, &late, &reason);
        }
        let next = match late.model {
            Some(PreemptionModel::Ordinary) => "preempt=full, then a PREEMPT_RT kernel,",
            _ => "a PREEMPT_RT kernel",
        };
        let reason = format!("{missed}; {host}measure {next} under the same loads");
        return by(Answer::Perhaps, &late, &reason);
    }
    match nearest(&open) {
        Some(open) => {
            let reason = format!(
                "the samples of {} do not decide whether it meets the deadline of {met}; the \
                 verdict states what is needed",
                open.name
            );
            by(Answer::Unknown, &open, &reason)
        }
        None => without_deadline(measured),
    }
}

/// Returns the name of a kernel: its release and preemption model.
#[must_use]
pub fn kernel_name(machine: &MachineFacts) -> String {
    let kernel = &machine.kernel;
    let preemption = kernel
        .preemption
        .as_ref()
        .map_or_else(String::new, |preemption| format!(" {preemption}"));
    format!(
        "Linux {}{preemption}",
        kernel.release.as_deref().unwrap_or("of unknown release")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Nanos = Nanos::from_micros(250);

    fn kernel(model: PreemptionModel, outcome: Outcome, largest_us: i64) -> MeasuredKernel {
        MeasuredKernel {
            name: format!("{model:?}"),
            model: Some(model),
            outcome: Some(outcome),
            skipped_too_many: false,
            largest: Nanos::from_micros(largest_us),
            is_idle: false,
            is_virtual_time: false,
        }
    }

    fn of(kernels: &[MeasuredKernel]) -> Decision {
        decision(&Question {
            kernels: kernels.to_vec(),
            deadline: Some(DEADLINE),
            ..Question::default()
        })
    }

    #[test]
    fn a_kernel_that_only_skipped_periods_missed_no_deadline() {
        let skipping = MeasuredKernel {
            skipped_too_many: true,
            ..kernel(PreemptionModel::Ordinary, Outcome::Failed, 200)
        };
        let text = of(&[skipping]).text;
        assert!(
            text.contains("skipped more periods than are allowed") && !text.contains("missed"),
            "{text}"
        );
    }

    #[test]
    fn the_least_change_that_meets_the_deadline_suffices() {
        use Outcome::{Failed, Inconclusive, Passed};
        use PreemptionModel::{Full, Lazy, Ordinary, RealTime};
        let cases = [
            (vec![kernel(Ordinary, Passed, 90)], Answer::No, "Ordinary"),
            (
                vec![kernel(RealTime, Passed, 40), kernel(Full, Passed, 90)],
                Answer::No,
                "Full",
            ),
            (
                vec![kernel(Ordinary, Failed, 9000), kernel(Lazy, Passed, 200)],
                Answer::No,
                "Lazy",
            ),
            (
                vec![kernel(Ordinary, Failed, 9000), kernel(RealTime, Passed, 40)],
                Answer::Yes,
                "RealTime",
            ),
            (
                vec![kernel(RealTime, Passed, 40)],
                Answer::Unknown,
                "RealTime",
            ),
            (
                vec![
                    kernel(Ordinary, Inconclusive, 40),
                    kernel(RealTime, Passed, 40),
                ],
                Answer::Unknown,
                "RealTime",
            ),
            (
                vec![kernel(Ordinary, Failed, 9000)],
                Answer::Perhaps,
                "Ordinary",
            ),
            (
                vec![
                    kernel(Ordinary, Failed, 9000),
                    kernel(RealTime, Failed, 400),
                ],
                Answer::NotEnough,
                "RealTime",
            ),
            (
                vec![
                    kernel(Ordinary, Failed, 9000),
                    kernel(RealTime, Inconclusive, 90),
                ],
                Answer::Unknown,
                "RealTime",
            ),
        ];
        for (kernels, answer, name) in cases {
            let found = of(&kernels);
            assert_eq!(
                (found.answer, found.kernel.as_deref(), found.decided_by),
                (answer, Some(name), DecidedBy::Measurement),
                "{kernels:?}: {found:?}"
            );
        }
    }

    #[test]
    fn a_kernel_that_no_load_disturbed_decides_nothing() {
        let idle = MeasuredKernel {
            is_idle: true,
            ..kernel(PreemptionModel::Ordinary, Outcome::Passed, 90)
        };
        let found = of(&[idle]);
        assert_eq!(found.answer, Answer::Unknown);
        assert!(found.text.contains("no load ran"), "{}", found.text);
    }

    #[test]
    fn a_kernel_of_unknown_model_neither_suffices_nor_shows_that_real_time_is_needed() {
        let unknown = |outcome| MeasuredKernel {
            name: "unknown".to_owned(),
            model: None,
            ..kernel(PreemptionModel::Ordinary, outcome, 90)
        };
        let real_time = kernel(PreemptionModel::RealTime, Outcome::Passed, 40);
        let ordinary = kernel(PreemptionModel::Ordinary, Outcome::Passed, 95);
        assert_eq!(of(&[unknown(Outcome::Passed)]).answer, Answer::Unknown);
        let found = of(&[unknown(Outcome::Failed), real_time.clone()]);
        assert_eq!(found.answer, Answer::Unknown, "{}", found.text);
        let found = of(&[unknown(Outcome::Passed), ordinary.clone()]);
        assert_eq!(found.answer, Answer::No, "{}", found.text);
        // A kernel on which no load ran does not decide the answer either.
        let idle = MeasuredKernel {
            is_idle: true,
            ..ordinary
        };
        let found = of(&[idle, real_time]);
        assert_eq!(found.answer, Answer::Unknown);
        assert!(
            found.text.contains("no load ran on Ordinary"),
            "{}",
            found.text
        );
    }

    #[test]
    fn measurements_go_before_the_machine_and_the_machine_before_the_rules() {
        let rules = Some(RuleAnswer {
            needs_real_time: false,
            reason: "only throughput counts".to_owned(),
            source: "a paper".to_owned(),
        });
        let mut question = Question {
            kernels: vec![
                kernel(PreemptionModel::Ordinary, Outcome::Failed, 9000),
                kernel(PreemptionModel::RealTime, Outcome::Passed, 40),
            ],
            deadline: Some(DEADLINE),
            is_virtual_machine: true,
            rules,
        };
        let decided = |question: &Question| {
            let found = decision(question);
            (found.answer, found.decided_by)
        };
        assert_eq!(decided(&question), (Answer::Yes, DecidedBy::Measurement));
        question.kernels.clear();
        assert_eq!(decided(&question), (Answer::Unknown, DecidedBy::Machine));
        question.is_virtual_machine = false;
        assert_eq!(decided(&question), (Answer::No, DecidedBy::Rules));
        question.rules = None;
        assert_eq!(decided(&question), (Answer::Unknown, DecidedBy::Machine));
    }

    #[test]
    fn virtual_time_and_a_missing_deadline_decide_nothing() {
        let mut kernels = vec![
            kernel(PreemptionModel::Ordinary, Outcome::Failed, 9000),
            kernel(PreemptionModel::RealTime, Outcome::Passed, 40),
        ];
        let without = decision(&Question {
            kernels: kernels.clone(),
            ..Question::default()
        });
        assert_eq!(without.answer, Answer::Unknown);
        assert!(
            without.text.contains("Ordinary (largest 9.00 ms)"),
            "{}",
            without.text
        );
        kernels
            .iter_mut()
            .for_each(|kernel| kernel.is_virtual_time = true);
        let found = of(&kernels);
        assert_eq!(
            (found.answer, found.kernel.as_deref()),
            (Answer::Unknown, Some("RealTime"))
        );
        assert!(found.text.contains("virtual time"), "{}", found.text);
    }
}
