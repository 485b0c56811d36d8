//! Defines the messages between the tool, the guardian and the init, each of which is one line of
//! JSON.

use serde::{Deserialize, Serialize};
use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;
use tardy_run::plan::{LoadPlan, Share};

/// A command from the tool, through the guardian, to the init.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Command {
    /// Start the processes of these workers, which then wait for their plans.
    Prepare { workers: Vec<WorkerKind> },
    /// Start these loads.
    Begin {
        /// The phase that the loads belong to.
        phase: u32,
        loads: Vec<LoadPlan>,
    },
    /// Ask the loads of a phase to stop.
    Finish {
        phase: u32,
        /// Time after which the remaining processes are killed, if it is shorter than the load's
        /// own limit; their death is then not an error. `None` for each load's own limit.
        within: Option<Nanos>,
    },
}

/// Properties of a worker that its process needs before it gets the worker's plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WorkerKind {
    /// Name of the load.
    pub(super) load: String,
    /// Whether the worker will make a session, which a leader of a process group cannot.
    pub(super) makes_session: bool,
}

impl WorkerKind {
    pub(super) fn of(load: &LoadPlan) -> Self {
        Self {
            load: load.name.clone(),
            makes_session: load.share == Share::Session,
        }
    }
}

/// A message to the tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Message {
    /// The first message: the guardian and the init are ready.
    Ready {
        /// The containment of the loads.
        containment: Containment,
    },
    /// Every message after the first.
    Event(LoadEvent),
}

/// The mechanism that ends the loads when the tool ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Containment {
    /// A PID namespace. When its init ends, the kernel ends all its processes.
    PidNamespace,
    /// A PID namespace in a user namespace. Loads have no rights beyond the user's.
    UserNamespace,
    /// Only signals that the kernel sends to children when their parent ends. If the tool and the
    /// guardian are killed together, processes that a user's own command abandons can survive.
    ParentSignals,
}

impl Containment {
    const ALL: [Self; 3] = [Self::PidNamespace, Self::UserNamespace, Self::ParentSignals];

    /// Returns the mechanism's name in files and arguments.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PidNamespace => "pid-namespace",
            Self::UserNamespace => "user-namespace",
            Self::ParentSignals => "parent-signals",
        }
    }

    /// Returns the mechanism of this name.
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
    /// The load ended on request, without being killed.
    Finished,
    /// The load did not stop in time, and was killed.
    Killed,
    /// The load died repeatedly and is not restarted again.
    Died {
        /// Status of the last death, such as `exit status: 1`.
        status: String,
    },
    /// The load could not run here. A [`LoadEvent::Absent`] gave the reason.
    Absent,
}

/// Events of loads. Unless a field's comment states another meaning, each time is the moment at
/// which the sender observed the event, on CLOCK_MONOTONIC. `load` is the label in the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "event")]
pub enum LoadEvent {
    /// The load is about to start its first process.
    Started {
        load: String,
        phase: u32,
        /// Time of the event.
        at: Nanos,
    },
    /// A worker of the load is ready, and starts its first operation next.
    Working {
        load: String,
        phase: u32,
        /// CPU of the worker; `None` if the worker uses several.
        cpu: Option<CpuId>,
        /// Time of the event.
        at: Nanos,
    },
    /// A worker has stopped working: it sleeps, or its processes are gone.
    Stopped {
        load: String,
        phase: u32,
        /// CPU of the worker; `None` if the worker uses several.
        cpu: Option<CpuId>,
        /// Time at which the worker saw the request to stop. If the worker was killed, the time at
        /// which it was asked to stop; if it died, the time of its death.
        at: Nanos,
        /// How the worker died, if it was not asked to stop.
        died: Option<String>,
    },
    /// The work of a worker in the phase so far. Sent once a second and at the end.
    Work {
        load: String,
        phase: u32,
        /// CPU of the worker; `None` if the worker uses several.
        cpu: Option<CpuId>,
        operations: u64,
        /// Bytes moved.
        bytes: u64,
        /// Operations that failed.
        errors: u64,
        /// CPU time of the worker and its ended children, and of living descendants if the load
        /// runs programs.
        cpu_time: Nanos,
        /// The part of `cpu_time` spent in the kernel.
        kernel_time: Nanos,
        /// Time of the event.
        at: Nanos,
    },
    /// The load's last process has been reaped, or only sleeps.
    Ended {
        load: String,
        phase: u32,
        /// Time of the event.
        at: Nanos,
        how: LoadEnd,
    },
    /// The load cannot run here. Only an attempt could show this.
    Absent {
        load: String,
        phase: u32,
        missing: String,
        /// How to provide the missing requirement.
        remedy: String,
    },
    /// A problem for the run's warnings.
    Problem {
        /// The load; `None` if the guardian has the problem.
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
