//! The result of `tardy doctor`: the checks for one profile, and the overall verdict.

use serde::Serialize;
use tardy_core::cpu::CpuList;
use tardy_machine::checks::{Finding, Importance, Profile, State};

use crate::decision::Decision;
use crate::exit::Exit;

/// The result of checking whether a machine suits one kind of work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// The machine in one line.
    pub machine: String,
    /// The kind of work.
    pub profile: Profile,
    /// The CPUs of the real-time tasks.
    pub cpus: CpuList,
    /// Name and process ID of the checked program, if the user named one.
    pub program: Option<String>,
    /// Whether PREEMPT_RT is needed, as judged only from the facts about the machine, without a
    /// measurement.
    pub decision: Decision,
    /// The findings of all checks, most important first.
    pub findings: Vec<Finding>,
}

impl Diagnosis {
    /// Returns the findings that are faults, most important first. Faults of equal importance stay
    /// in the order of the table.
    pub fn faults(&self) -> impl Iterator<Item = &Finding> {
        self.findings
            .iter()
            .filter(|finding| finding.is_improvable())
    }

    /// Returns the number of findings whose state is selected by `is_wanted`.
    pub fn count(&self, is_wanted: fn(&State) -> bool) -> usize {
        self.findings
            .iter()
            .filter(|finding| is_wanted(&finding.state))
            .count()
    }

    /// Returns the exit code. Without `fail_on`, it is always [`Exit::Done`]. With `fail_on`, only
    /// findings of at least this importance count: a fault makes the command fail, and an unknown
    /// state makes the result inconclusive.
    #[must_use]
    pub fn exit(&self, fail_on: Option<Importance>) -> Exit {
        let Some(least) = fail_on else {
            return Exit::Done;
        };
        let counts = |finding: &&Finding| finding.importance <= least;
        let is_unknown = |finding: &Finding| matches!(finding.state, State::Unknown { .. });
        if self.faults().any(|finding| counts(&finding)) {
            Exit::Failed
        } else if self.findings.iter().filter(counts).any(is_unknown) {
            Exit::Inconclusive
        } else {
            Exit::Done
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(importance: Importance, state: State) -> Finding {
        Finding {
            check: "a",
            importance,
            state,
            why: "",
            source: "",
            reads: &[],
        }
    }

    fn fault(importance: Importance) -> Finding {
        let text = String::new;
        finding(
            importance,
            State::Improvable {
                current: text(),
                expected: text(),
                remedy: text(),
                needs_restart: false,
            },
        )
    }

    fn exit(findings: Vec<Finding>, fail_on: Option<Importance>) -> Exit {
        let (machine, profile) = (String::new(), Profile::Periodic);
        Diagnosis {
            decision: crate::decision::decision(&Default::default()),
            machine,
            profile,
            cpus: CpuList::default(),
            program: None,
            findings,
        }
        .exit(fail_on)
    }

    #[test]
    fn faults_fail_from_the_importance_that_was_asked_for_and_unknown_rows_decide_nothing() {
        let unknown = || {
            finding(
                Importance::High,
                State::Unknown {
                    missing: String::new(),
                },
            )
        };
        assert_eq!(exit(vec![fault(Importance::Fatal)], None), Exit::Done);
        assert_eq!(
            exit(vec![fault(Importance::Fatal)], Some(Importance::High)),
            Exit::Failed
        );
        assert_eq!(
            exit(vec![fault(Importance::Medium)], Some(Importance::High)),
            Exit::Done
        );
        assert_eq!(
            exit(
                vec![fault(Importance::Medium), unknown()],
                Some(Importance::High)
            ),
            Exit::Inconclusive
        );
        assert_eq!(
            exit(
                vec![fault(Importance::High), unknown()],
                Some(Importance::High)
            ),
            Exit::Failed
        );
        assert_eq!(exit(vec![unknown()], Some(Importance::Fatal)), Exit::Done);
    }
}
