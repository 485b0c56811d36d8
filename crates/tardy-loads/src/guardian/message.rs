//! Messages between the tool, the supervisor and the init: one JSON line each.

use serde::{Deserialize, Serialize};
use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;
use tardy_run::plan::LoadPlan;

/// From the tool, through the guardian, to the init.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Command {
    /// Start these loads.
    Begin {
        /// The phase that they belong to.
        phase: u32,
        loads: Vec<LoadPlan>,
    },
    /// Let the loads of a phase end by themselves.
    Finish {
        phase: u32,
        /// Time after which the remaining processes are killed, which is not an error; each load's
        /// own limit if absent.
        within: Option<Nanos>,
    },
}

/// To the tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Message {
    /// The first message: all is ready.
    Ready {
        /// How the loads are held.
        containment: Containment,
    },
    /// Anything later.
    Event(LoadEvent),
}

/// The mechanism that keeps loads from outliving the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Containment {
    /// A PID namespace: the kernel ends everything in it, whatever happens.
    PidNamespace,
    /// The same, in a user namespace: loads have no rights that the user has not.
    UserNamespace,
    /// Signals from parents to children only: processes that a user's own command abandons can
    /// survive a SIGKILL of tool and supervisor together.
    ParentSignals,
}

impl Containment {
    const ALL: [Self; 3] = [Self::PidNamespace, Self::UserNamespace, Self::ParentSignals];

    /// As it is written in files and arguments.
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
    /// By itself, when asked to.
    Finished,
    /// It did not end by itself in the time that it was given, and was killed.
    Killed,
    /// It died again and again and is not restarted any more.
    Died {
        /// How it died the last time, as in `exit status: 1`.
        status: String,
    },
    /// It could not run; an [`LoadEvent::Absent`] told why.
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
        /// When it saw the request to stop; when it was asked, if it had to be killed; otherwise
        /// when it died.
        at: Nanos,
        /// How it died, if nobody had asked it to end.
        died: Option<String>,
    },
    /// How much was done in the phase so far; once a second and at the end.
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
    /// It cannot run here, as only trying could tell.
    Absent {
        load: String,
        phase: u32,
        missing: String,
        /// How to get it.
        remedy: String,
    },
    /// Something went wrong that the run's warnings must tell.
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
