//! Messages between the tool, the supervisor and the init: one JSON line each.

use serde::{Deserialize, Serialize};
use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;
use tardy_run::plan::LoadPlan;

/// A command from the tool, through the guardian, to the init.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Command {
    /// Start these loads.
    Begin {
        /// The phase that they belong to.
        phase: u32,
        loads: Vec<LoadPlan>,
    },
    /// Ask the loads of a phase to stop.
    Finish {
        phase: u32,
        /// Time after which the remaining processes are killed, which is not an error; each load's
        /// own limit if absent.
        within: Option<Nanos>,
    },
}

/// A message to the tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Message {
    /// The first message: all is ready.
    Ready {
        /// The containment of the loads.
        containment: Containment,
    },
    /// Anything later.
    Event(LoadEvent),
}

/// The mechanism that keeps loads from outliving the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Containment {
    /// A PID namespace: the kernel ends everything in it in any case.
    PidNamespace,
    /// A PID namespace in a user namespace: loads have no rights beyond the user's.
    UserNamespace,
    /// Signals from parents to children only: processes that a user's own command abandons can
    /// survive a SIGKILL of tool and supervisor together.
    ParentSignals,
}

impl Containment {
    const ALL: [Self; 3] = [Self::PidNamespace, Self::UserNamespace, Self::ParentSignals];

    /// Returns its name in files and arguments.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PidNamespace => "pid-namespace",
            Self::UserNamespace => "user-namespace",
            Self::ParentSignals => "parent-signals",
        }
    }

    /// Returns the one of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|containment| containment.name() == name)
    }
}

/// How a load ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadEnd {
    /// By itself, on request.
    Finished,
    /// It did not stop in time, and was killed.
    Killed,
    /// It died again and again and is not restarted any more.
    Died {
        /// The status of its last death, such as `exit status: 1`.
        status: String,
    },
    /// It could not run; an [`LoadEvent::Absent`] gave the reason.
    Absent,
}

/// Events of loads. Points in time are CLOCK_MONOTONIC, as observed; `load` is the plan's label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "event")]
pub enum LoadEvent {
    /// Right before its first process is made.
    Started {
        load: String,
        phase: u32,
        /// When.
        at: Nanos,
    },
    /// One of its workers is at work: everything is in place, and its first operation comes next.
    Working {
        load: String,
        phase: u32,
        /// The CPU; `None` if one worker uses several.
        cpu: Option<CpuId>,
        /// When.
        at: Nanos,
    },
    /// A worker works no more: it rests, or its processes are gone.
    Stopped {
        load: String,
        phase: u32,
        /// The CPU; `None` if one worker uses several.
        cpu: Option<CpuId>,
        /// When it saw the request to stop; when it was asked, if it was killed; otherwise when it
        /// died.
        at: Nanos,
        /// How it died, if it was not asked to stop.
        died: Option<String>,
    },
    /// The work in the phase so far; once a second and at the end.
    Work {
        load: String,
        phase: u32,
        /// The CPU; `None` if one worker uses several.
        cpu: Option<CpuId>,
        operations: u64,
        /// Bytes moved.
        bytes: u64,
        /// Operations that failed.
        errors: u64,
        /// CPU time of the worker and its ended children.
        cpu_time: Nanos,
        /// The part of it in the kernel.
        kernel_time: Nanos,
        /// When.
        at: Nanos,
    },
    /// Its last process is reaped or rests.
    Ended {
        load: String,
        phase: u32,
        /// When.
        at: Nanos,
        how: LoadEnd,
    },
    /// It cannot run here, which only an attempt could show.
    Absent {
        load: String,
        phase: u32,
        missing: String,
        /// How to get the missing requirement.
        remedy: String,
    },
    /// A problem for the run's warnings.
    Problem {
        /// The load; `None` if the message is about the supervisor.
        load: Option<String>,
        text: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_containment_is_the_same_in_arguments_and_files() {
        for containment in Containment::ALL {
            assert_eq!(
                serde_json::to_string(&containment).unwrap(),
                format!("\"{}\"", containment.name())
            );
            assert_eq!(
                Containment::from_name(containment.name()),
                Some(containment)
            );
        }
    }

    #[test]
    fn messages_survive_a_round_trip_on_one_line() {
        let event = LoadEvent::Ended {
            load: "io:folder=/a\nb".into(),
            phase: 2,
            at: Nanos(5),
            how: LoadEnd::Died {
                status: "exit status: 1".into(),
            },
        };
        let line = serde_json::to_string(&Message::Event(event.clone())).unwrap();
        assert!(!line.contains('\n'));
        assert_eq!(
            serde_json::from_str::<Message>(&line).unwrap(),
            Message::Event(event)
        );
        let command = Command::Finish {
            phase: 7,
            within: Some(Nanos(3)),
        };
        assert_eq!(
            serde_json::from_str::<Command>(&serde_json::to_string(&command).unwrap()).unwrap(),
            command
        );
    }
}
