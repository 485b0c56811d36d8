//! Follows the decision flow of mckenney2009, section 5, which is stored as a table of rules. Each
//! rule is answered from measurements if they suffice. If they do not, it is answered from the
//! user's statements. If the user stated nothing about it, the rule is answered from the properties
//! of most systems, and the answer is called assumed. The result is the whole path with its
//! reasons.
//!
//! If the user states whether the real-time work runs on a virtual machine, this overrides what the
//! tool detects. The user may type the command in a virtual machine, but run the work elsewhere.
//! Curves from the lab's runs are not used to answer a rule, because they compare only the lengths
//! of code paths.

use serde::Serialize;
use tardy_core::bytes::format_bytes;
use tardy_core::units::Nanos;
use tardy_machine::facts::MachineFacts;
use tardy_statistics::confidence::Interval;

use super::task::{Task, WorkKind};

/// Utilisation above which load peaks degrade response. The paper gives this value as an example of
/// a limit (mckenney2009, section 5, principle 2).
pub const UTILISATION_HIGH: f64 = 0.5;
/// Shortest work that counts as long: "hundreds of milliseconds" (mckenney2009, section 5).
pub const WORK_LONG: Nanos = Nanos::from_millis(100);
/// Shortest work that counts as long if it takes only system time. For such work, the lines of the
/// two kernels cross at "about one millisecond" (mckenney2009, section 3).
pub const WORK_LONG_IN_KERNEL: Nanos = Nanos::from_millis(1);

/// The kind of kernel that the rules choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// A kernel that starts work quickly (PREEMPT_RT).
    RealTime,
    /// A kernel with a high throughput.
    RealFast,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Does only throughput count?
    ThroughputOnly,
    /// Is the CPU utilisation so high that load peaks degrade response?
    Utilisation,
    /// Do parallel threads wait for each other at barriers?
    Barriers,
    /// Is there no memory left to lock?
    Memory,
    /// Is the machine virtual?
    Virtual,
    /// Does the work spend its time in kernel services?
    KernelServices,
    /// Is a unit of work so long that a late start hardly matters?
    LongWork,
}

/// The source of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The answer comes from runs, or from facts about this machine.
    Measured,
    /// The answer comes from the user's statements.
    Stated,
    /// The answer is assumed, because it is right for most systems.
    Assumed,
}

/// One step on the path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    pub rule: Rule,
    /// The rule, worded as a question.
    pub question: &'static str,
    /// Whether the answer was yes.
    pub is_yes: bool,
    /// The source of the answer.
    pub basis: Basis,
    /// The reason for the answer.
    pub reason: String,
    /// The section of the paper that has the rule.
    pub source: &'static str,
    /// The choice that follows from the answer; absent if the path continues.
    pub leads_to: Option<Choice>,
}

/// The path through the rules.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Path {
    /// The steps from the first question to the one that decided.
    pub steps: Vec<Step>,
    pub choice: Choice,
}

/// The data from which rules are answered.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// The user's statements.
    pub task: &'a Task,
    /// The measured machine; absent if none was measured.
    pub machine: Option<&'a MachineFacts>,
    /// The length of work at which the measured kernels' curves cross, in ns, and its confidence
    /// interval.
    pub crossover_ns: Option<(f64, Option<Interval>)>,
}

/// The next step after an answer.
#[derive(Clone, Copy)]
enum NextStep {
    Ask(Rule),
    End(Choice),
}

/// A rule, and the next step after each answer.
struct Entry {
    rule: Rule,
    question: &'static str,
    source: &'static str,
    answer: fn(&Situation<'_>) -> Answer,
    yes: NextStep,
    no: NextStep,
}

type Answer = (bool, Basis, String);

const SECTION: &str = "mckenney2009, section 5";

/// The decision flow, with the first question first. The questions and their order are from the
/// paper.
const FLOW: &[Entry] = &[
    Entry {
        rule: Rule::ThroughputOnly,
        question: "does only throughput count?",
        source: SECTION,
        answer: throughput_only,
        yes: NextStep::End(Choice::RealFast),
        no: NextStep::Ask(Rule::Utilisation),
    },
    Entry {
        rule: Rule::Utilisation,
        question: "is the CPU so heavily used that peaks of load degrade response?",
        source: "mckenney2009, section 5, principle 2: \"for example, to limit CPU utilization to \
                 50%\"",
        answer: utilisation,
        yes: NextStep::Ask(Rule::Barriers),
        no: NextStep::Ask(Rule::Memory),
    },
    Entry {
        rule: Rule::Barriers,
        question: "do parallel threads wait for each other at barriers?",
        source: "mckenney2009, section 5: in parallel programs, the last thread to arrive delays \
                 all the others",
        answer: barriers,
        yes: NextStep::Ask(Rule::Memory),
        no: NextStep::End(Choice::RealFast),
    },
    Entry {
        rule: Rule::Memory,
        question: "does the work need so much memory that none is left to lock?",
        source: SECTION,
        answer: memory,
        yes: NextStep::End(Choice::RealFast),
        no: NextStep::Ask(Rule::Virtual),
    },
    Entry {
        rule: Rule::Virtual,
        question: "is the machine virtual?",
        source: "mckenney2009, section 5: true \"for now\", in 2009; a run on the machine shows \
                 the situation today, including delays caused by the host",
        answer: is_virtual,
        yes: NextStep::End(Choice::RealFast),
        no: NextStep::Ask(Rule::KernelServices),
    },
    Entry {
        rule: Rule::KernelServices,
        question: "does the work spend its time in the kernel's services?",
        source: "mckenney2009, section 5, principle 5, and section 3: a real-time kernel slows \
                 down work in the kernel, but hardly any work in user mode",
        answer: kernel_services,
        // Both answers lead to the same question; this answer selects the length that counts as
        // long there.
        yes: NextStep::Ask(Rule::LongWork),
        no: NextStep::Ask(Rule::LongWork),
    },
    Entry {
        rule: Rule::LongWork,
        question: "is a unit of work long enough that a late start hardly matters?",
        source: "mckenney2009, sections 3 and 5: long means hundreds of milliseconds, or about one \
                 millisecond in the kernel's services; if the crossover was measured, it replaces \
                 these limits",
        answer: long_work,
        yes: NextStep::End(Choice::RealFast),
        no: NextStep::End(Choice::RealTime),
    },
];

/// Follows the rules from the first question to a choice.
#[must_use]
pub fn path(situation: &Situation<'_>) -> Path {
    let mut steps = Vec::new();
    let mut rule = FLOW[0].rule;
    loop {
        let entry = FLOW
            .iter()
            .find(|entry| entry.rule == rule)
            .expect("every rule that a step leads to is in the table");
        let (is_yes, basis, reason) = (entry.answer)(situation);
        let next = if is_yes { entry.yes } else { entry.no };
        let leads_to = if let NextStep::End(choice) = next {
            Some(choice)
        } else {
            None
        };
        let Entry {
            question, source, ..
        } = *entry;
        steps.push(Step {
            rule,
            question,
            is_yes,
            basis,
            reason,
            source,
            leads_to,
        });
        match next {
            NextStep::Ask(asked) => rule = asked,
            NextStep::End(choice) => return Path { steps, choice },
        }
    }
}

fn throughput_only(situation: &Situation<'_>) -> Answer {
    match (
        situation.task.is_throughput_only,
        situation.task.deadline_ns,
    ) {
        (Some(is_only), _) => (
            is_only,
            Basis::Stated,
            format!("--throughput-only {}", yes_no(is_only)),
        ),
        (None, Some(deadline)) => (
            false,
            Basis::Stated,
            format!("there is a deadline, {}", deadline.exact()),
        ),
        (None, None) => (
            false,
            Basis::Assumed,
            "neither --throughput-only nor --deadline was given".to_owned(),
        ),
    }
}

fn utilisation(situation: &Situation<'_>) -> Answer {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let compared = |share: f64| {
        if share > UTILISATION_HIGH {
            "above"
        } else {
            "below"
        }
    };
    match (situation.task.utilisation, situation.task.own_utilisation()) {
        (Some(share), _) => (
            share > UTILISATION_HIGH,
            Basis::Stated,
            format!(
                "{} is {} {}",
                percent(share),
                compared(share),
                percent(UTILISATION_HIGH)
            ),
        ),
        (None, Some(own)) => {
            let basis = if own > UTILISATION_HIGH {
                Basis::Stated
            } else {
                Basis::Assumed
            };
            let reason = format!(
                "the work alone uses {}, which is {} {}; the load of other tasks was not given \
                 (--utilisation)",
                percent(own),
                compared(own),
                percent(UTILISATION_HIGH)
            );
            (own > UTILISATION_HIGH, basis, reason)
        }
        (None, None) => (
            false,
            Basis::Assumed,
            "neither --utilisation nor --work with --period was given".to_owned(),
        ),
    }
}

fn barriers(situation: &Situation<'_>) -> Answer {
    match situation.task.has_barriers {
        Some(has) => (has, Basis::Stated, format!("--barriers {}", yes_no(has))),
        None => (false, Basis::Assumed, "--barriers was not given".to_owned()),
    }
}

fn memory(situation: &Situation<'_>) -> Answer {
    let available = situation
        .machine
        .and_then(|machine| machine.memory.available_bytes);
    match (situation.task.memory_bytes, available) {
        (Some(needed), Some(available)) => {
            let is_full = needed > available;
            let compared = if is_full { "more" } else { "no more" };
            let reason = format!(
                "{} is {compared} than the {} of free memory",
                format_bytes(needed),
                format_bytes(available)
            );
            (is_full, Basis::Measured, reason)
        }
        (Some(needed), None) => (
            false,
            Basis::Assumed,
            format!(
                "the machine's memory is unknown; the work needs {}",
                format_bytes(needed)
            ),
        ),
        (None, _) => (false, Basis::Assumed, "--memory was not given".to_owned()),
    }
}

fn is_virtual(situation: &Situation<'_>) -> Answer {
    if let Some(is_virtual) = situation.task.is_virtual {
        return (
            is_virtual,
            Basis::Stated,
            format!("--virtual {}", yes_no(is_virtual)),
        );
    }
    let virtualization = situation.machine.map(|machine| &machine.virtualization);
    match virtualization.and_then(|found| Some((found, found.is_virtual()?))) {
        Some((found, true)) => {
            let sign = found
                .hypervisor
                .as_ref()
                .or(found.vendor.as_ref())
                .map_or_else(|| "flag of the CPU".to_owned(), Clone::clone);
            (
                true,
                Basis::Measured,
                format!(
                    "the machine runs under a hypervisor ({sign}); use --virtual no to ask about \
                     another machine"
                ),
            )
        }
        Some((_, false)) => (
            false,
            Basis::Measured,
            "there is no sign of a hypervisor".to_owned(),
        ),
        None => (false, Basis::Assumed, "--virtual was not given".to_owned()),
    }
}

fn kernel_services(situation: &Situation<'_>) -> Answer {
    match situation.task.kind {
        Some(kind) => (
            kind == WorkKind::Syscalls,
            Basis::Stated,
            format!("--kind {}", kind.name()),
        ),
        None => (false, Basis::Assumed, "--kind was not given".to_owned()),
    }
}

fn long_work(situation: &Situation<'_>) -> Answer {
    let Some(work) = situation.task.work_ns else {
        return (false, Basis::Assumed, "--work was not given".to_owned());
    };
    if work >= WORK_LONG {
        return (
            true,
            Basis::Stated,
            format!("{} is at least {}", work.exact(), WORK_LONG.exact()),
        );
    }
    let Some((crossover, interval)) = situation.crossover_ns else {
        let is_in_kernel = situation.task.kind == Some(WorkKind::Syscalls);
        let (long, of_what) = if is_in_kernel {
            (WORK_LONG_IN_KERNEL, " in the kernel's services")
        } else {
            (WORK_LONG, "")
        };
        let (is_long, compared) = if work >= long {
            (true, "at least")
        } else {
            (false, "shorter than")
        };
        let reason = format!(
            "{} is {compared} {}{of_what}; the crossover was not measured",
            work.exact(),
            long.exact()
        );
        return (is_long, Basis::Stated, reason);
    };
    let upper = interval.map_or(crossover, |interval| interval.upper);
    let is_longer = work.get() as f64 > upper;
    let compared = if is_longer {
        "longer"
    } else {
        "not clearly longer"
    };
    let at = Nanos(crossover.round() as i64);
    (
        is_longer,
        Basis::Measured,
        format!(
            "{} is {compared} than the measured crossover, {at}",
            work.exact()
        ),
    )
}

fn yes_no(answer: bool) -> &'static str {
    if answer { "yes" } else { "no" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task() -> Task {
        let us = |us| Some(Nanos::from_micros(us));
        Task {
            work_ns: us(100),
            deadline_ns: us(250),
            period_ns: us(1000),
            utilisation: Some(0.4),
            ..Task::default()
        }
    }

    fn machine(hypervisor: Option<&str>, available: u64) -> MachineFacts {
        let mut facts = MachineFacts::default();
        facts.virtualization.processor_flag = Some(hypervisor.is_some());
        facts.virtualization.hypervisor = hypervisor.map(str::to_owned);
        facts.memory.available_bytes = Some(available);
        facts
    }

    fn walk(task: &Task, machine: &MachineFacts) -> (Vec<(Rule, bool, Basis)>, Choice) {
        let found = path(&Situation {
            task,
            machine: Some(machine),
            crossover_ns: None,
        });
        assert_eq!(found.steps.last().unwrap().leads_to, Some(found.choice));
        (
            found
                .steps
                .iter()
                .map(|step| (step.rule, step.is_yes, step.basis))
                .collect(),
            found.choice,
        )
    }

    #[test]
    fn every_rule_is_led_to_and_every_path_ends() {
        for entry in FLOW {
            let leads =
                |next: &NextStep| matches!(next, NextStep::Ask(rule) if *rule == entry.rule);
            let is_led_to = entry.rule == FLOW[0].rule
                || FLOW
                    .iter()
                    .any(|other| leads(&other.yes) || leads(&other.no));
            assert!(is_led_to, "{:?}", entry.rule);
            // Steps only lead forward, so no path can loop.
            for next in [entry.yes, entry.no] {
                let place = |rule: Rule| FLOW.iter().position(|other| other.rule == rule).unwrap();
                assert!(
                    !matches!(next, NextStep::Ask(asked) if place(asked) <= place(entry.rule)),
                    "{:?}",
                    entry.rule
                );
            }
        }
    }

    #[test]
    fn a_short_task_on_a_real_machine_goes_to_the_end() {
        let task = Task {
            memory_bytes: Some(1 << 20),
            ..task()
        };
        let (steps, choice) = walk(&task, &machine(None, 1 << 30));
        assert_eq!(choice, Choice::RealTime);
        let rules: Vec<Rule> = steps.iter().map(|step| step.0).collect();
        assert_eq!(
            rules,
            [
                Rule::ThroughputOnly,
                Rule::Utilisation,
                Rule::Memory,
                Rule::Virtual,
                Rule::KernelServices,
                Rule::LongWork
            ]
        );
        assert!(steps.iter().all(|step| !step.1));
        assert_eq!(
            steps
                .iter()
                .map(|step| step.2)
                .filter(|basis| *basis == Basis::Measured)
                .count(),
            2
        );
    }

    #[test]
    fn each_reason_against_real_time_ends_the_path() {
        let plain = machine(None, 1 << 30);
        let ends = |task: &Task, machine: &MachineFacts| {
            let (steps, choice) = walk(task, machine);
            assert_eq!(choice, Choice::RealFast);
            steps.last().unwrap().0
        };
        assert_eq!(
            ends(
                &Task {
                    is_throughput_only: Some(true),
                    ..task()
                },
                &plain
            ),
            Rule::ThroughputOnly
        );
        assert_eq!(
            ends(
                &Task {
                    utilisation: Some(0.9),
                    ..task()
                },
                &plain
            ),
            Rule::Barriers
        );
        assert_eq!(
            ends(
                &Task {
                    memory_bytes: Some(2 << 30),
                    ..task()
                },
                &plain
            ),
            Rule::Memory
        );
        assert_eq!(ends(&task(), &machine(Some("kvm"), 1 << 30)), Rule::Virtual);
        let long = Task {
            work_ns: Some(Nanos::from_millis(200)),
            deadline_ns: Some(Nanos::from_secs(1)),
            period_ns: None,
            ..task()
        };
        assert_eq!(ends(&long, &plain), Rule::LongWork);
        let filled = Task {
            utilisation: None,
            work_ns: Some(Nanos::from_micros(200)),
            period_ns: Some(Nanos::from_micros(250)),
            ..task()
        };
        assert_eq!(ends(&filled, &plain), Rule::Barriers);
    }

    #[test]
    fn work_in_the_kernel_is_long_sooner() {
        let of = |work_ms, kind| Task {
            work_ns: Some(Nanos::from_millis(work_ms)),
            deadline_ns: None,
            period_ns: None,
            kind,
            ..task()
        };
        let plain = machine(None, 1 << 30);
        let choice = |work_ms, kind| walk(&of(work_ms, kind), &plain).1;
        assert_eq!(choice(2, Some(WorkKind::Syscalls)), Choice::RealFast);
        assert_eq!(choice(2, Some(WorkKind::Compute)), Choice::RealTime);
        assert_eq!(choice(2, None), Choice::RealTime);
        assert_eq!(choice(150, Some(WorkKind::Compute)), Choice::RealFast);
        let (steps, _) = walk(&of(2, Some(WorkKind::Syscalls)), &plain);
        assert_eq!(steps[4], (Rule::KernelServices, true, Basis::Stated));
    }

    #[test]
    fn what_is_said_of_the_machine_goes_before_what_it_is() {
        let guest = machine(Some("kvm"), 1 << 30);
        let (steps, choice) = walk(
            &Task {
                is_virtual: Some(false),
                ..task()
            },
            &guest,
        );
        assert_eq!(
            (steps[3], choice),
            ((Rule::Virtual, false, Basis::Stated), Choice::RealTime)
        );
        let (steps, choice) = walk(
            &Task {
                is_virtual: Some(true),
                ..task()
            },
            &machine(None, 1 << 30),
        );
        assert_eq!(
            (*steps.last().unwrap(), choice),
            ((Rule::Virtual, true, Basis::Stated), Choice::RealFast)
        );
    }

    #[test]
    fn parallel_work_at_barriers_gains_from_real_time_however_full_the_cpu_is() {
        let (steps, choice) = walk(
            &Task {
                utilisation: Some(0.99),
                has_barriers: Some(true),
                ..task()
            },
            &machine(None, 1),
        );
        assert_eq!(
            (choice, steps[2].0, steps[2].1),
            (Choice::RealTime, Rule::Barriers, true)
        );
    }

    #[test]
    fn a_measured_crossover_decides_only_where_all_of_its_interval_does() {
        let task = Task {
            work_ns: Some(Nanos::from_millis(5)),
            deadline_ns: None,
            period_ns: None,
            ..task()
        };
        let ends = |lower: f64, upper: f64| {
            let crossover_ns = Some((lower.midpoint(upper), Some(Interval { lower, upper })));
            path(&Situation {
                task: &task,
                machine: None,
                crossover_ns,
            })
            .choice
        };
        assert_eq!(ends(1e6, 3e6), Choice::RealFast);
        assert_eq!(ends(1e6, 8e6), Choice::RealTime);
        assert_eq!(ends(1e6, f64::INFINITY), Choice::RealTime);
    }

    #[test]
    fn without_any_answer_everything_is_assumed_and_says_what_to_give() {
        let found = path(&Situation {
            task: &Task::default(),
            machine: None,
            crossover_ns: None,
        });
        assert_eq!(found.choice, Choice::RealTime);
        assert!(found.steps.iter().all(|step| step.basis == Basis::Assumed));
        assert!(
            found
                .steps
                .iter()
                .filter(|step| step.reason.contains("--"))
                .count()
                >= 4
        );
    }
}
