//! The operations of the load `operations`, and programs made of them.
//!
//! All operations are listed in one table, [`OPERATIONS`]. The load executes the operations of this
//! table, and `tardy lab hunt` makes and changes programs from the same operations. The text of a
//! program is a list such as `timers=2000,fork=100,kill`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::nearest::did_you_mean;

/// The part of the kernel that an operation exercises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Area {
    Memory,
    Files,
    Pipes,
    Futexes,
    Timers,
    Processes,
    Time,
}

/// What an operation does, for the load that executes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the table describes each action")]
pub enum Action {
    Map,
    MapHuge,
    Unmap,
    Discard,
    Protect,
    Write,
    Read,
    Truncate,
    Duplicate,
    Close,
    Watch,
    Listen,
    Poke,
    Threads,
    Timers,
    TimerFiles,
    Fork,
    Signal,
    Kill,
    Orphans,
    Sleep,
    Align,
}

/// Upper limits of the resources that a program holds at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Need {
    /// Bytes of memory, including the kernel's.
    pub memory: u64,
    /// Number of processes and threads.
    pub processes: u64,
    /// Number of open files.
    pub files: u64,
    /// Number of signals that can be pending.
    pub signals: u64,
}

impl Need {
    fn times(self, amount: u64) -> Self {
        Self {
            memory: self.memory * amount,
            processes: self.processes * amount,
            files: self.files * amount,
            signals: self.signals * amount,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            memory: self.memory + other.memory,
            processes: self.processes + other.processes,
            files: self.files + other.files,
            signals: self.signals + other.signals,
        }
    }

    /// Returns whether every resource is within `limit`.
    #[must_use]
    pub fn fits(self, limit: Self) -> bool {
        self.memory <= limit.memory
            && self.processes <= limit.processes
            && self.files <= limit.files
            && self.signals <= limit.signals
    }
}

/// A row of the table.
#[derive(Debug)]
pub struct Operation {
    /// Name in the text of a program.
    pub name: &'static str,
    /// The part of the kernel that the operation exercises.
    pub area: Area,
    /// Its work.
    pub action: Action,
    /// What the operation does, in one line.
    pub does: &'static str,
    /// Unit of the amount, and the largest amount; absent if the operation has no amount. The
    /// smallest amount is 1.
    pub amount: Option<(&'static str, u64)>,
    /// Resources for each unit of the amount.
    pub need: Need,
}

const NOTHING: Need = Need {
    memory: 0,
    processes: 0,
    files: 0,
    signals: 0,
};
/// The resources of a process. Its memory in the kernel was measured as 180 KiB on Linux 6.18, and
/// is rounded up (as for the load `fork`).
const PROCESS: Need = Need {
    memory: 256 << 10,
    processes: 1,
    ..NOTHING
};
/// The resources of a thread, including its stacks.
const THREAD: Need = Need {
    memory: 64 << 10,
    processes: 1,
    ..NOTHING
};
const MEBIBYTE: Need = Need {
    memory: 1 << 20,
    ..NOTHING
};
/// The resources of an open file, including its memory in the kernel, rounded up (as for the load
/// `timers`).
const FILE: Need = Need {
    memory: 1 << 10,
    files: 1,
    ..NOTHING
};

const fn row(
    name: &'static str,
    area: Area,
    action: Action,
    amount: Option<(&'static str, u64)>,
    need: Need,
    does: &'static str,
) -> Operation {
    Operation {
        name,
        area,
        action,
        does,
        amount,
        need,
    }
}

/// All operations.
#[rustfmt::skip]
pub const OPERATIONS: &[Operation] = &[
    row("map", Area::Memory, Action::Map, Some(("MiB", 256)), MEBIBYTE,
        "maps memory and writes to each of its pages"),
    row("map-huge", Area::Memory, Action::MapHuge, Some(("MiB", 256)), MEBIBYTE,
        "maps memory, asks for huge pages, and writes to each page"),
    row("unmap", Area::Memory, Action::Unmap, None, NOTHING,
        "unmaps the memory that was mapped first"),
    row("discard", Area::Memory, Action::Discard, None, NOTHING,
        "gives back all pages of the memory that was mapped last"),
    row("protect", Area::Memory, Action::Protect, None, NOTHING,
        "makes the memory that was mapped last read-only, and writable again"),
    row("write", Area::Files, Action::Write, Some(("MiB", 128)), MEBIBYTE,
        "appends to a file in memory"),
    row("read", Area::Files, Action::Read, None, NOTHING,
        "reads the file in memory from its start"),
    row("truncate", Area::Files, Action::Truncate, None, NOTHING,
        "truncates the file in memory to nothing"),
    row("duplicate", Area::Files, Action::Duplicate, Some(("descriptors", 20_000)),
        Need { files: 1, memory: 64, ..NOTHING },
        "duplicates the descriptor of the file in memory"),
    row("close", Area::Files, Action::Close, None, NOTHING,
        "closes the duplicated descriptors"),
    row("watch", Area::Pipes, Action::Watch, Some(("epoll sets", 900)), FILE,
        "makes epoll sets that watch one pipe"),
    row("listen", Area::Pipes, Action::Listen, Some(("processes", 1_000)), PROCESS,
        "starts processes that wait until the pipe is readable"),
    row("poke", Area::Pipes, Action::Poke, None, NOTHING,
        "writes a byte into the pipe, which wakes all who wait for it, and reads it"),
    row("threads", Area::Futexes, Action::Threads, Some(("threads", 1_000)), THREAD,
        "starts a process whose threads wait for one futex, wakes them with one call, and waits \
         for the end of the process"),
    row("timers", Area::Timers, Action::Timers, Some(("timers", 10_000)),
        Need { memory: 1 << 10, signals: 1, ..NOTHING },
        "makes timers that send signals, lets all fire at the same moment, and deletes them"),
    row("timer-files", Area::Timers, Action::TimerFiles, Some(("timers", 20_000)), FILE,
        "makes timers with descriptors, lets all fire at the same moment, and closes them"),
    row("fork", Area::Processes, Action::Fork, Some(("processes", 1_000)), PROCESS,
        "forks processes that wait"),
    row("signal", Area::Processes, Action::Signal, None, NOTHING,
        "sends a signal to all forked processes with one call"),
    row("kill", Area::Processes, Action::Kill, None, NOTHING,
        "kills all forked processes with one call, and reaps them"),
    row("orphans", Area::Processes, Action::Orphans, Some(("processes", 1_000)), PROCESS,
        "forks a process that forks others and ends before they do"),
    row("sleep", Area::Time, Action::Sleep, Some(("us", 20_000)), NOTHING,
        "sleeps"),
    row("align", Area::Time, Action::Align, Some(("us", 999)), NOTHING,
        "sleeps until the clock is this long after a whole ms; timers then fire at such a moment"),
];

/// A program that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages describe each error")]
pub enum ProgramError {
    #[error("there is no operation `{name}`{}: use {}", did_you_mean(name, names()), names().collect::<Vec<_>>().join(", "))]
    Unknown { name: String },
    #[error("`{step}`: write an amount from 1 to {most} {unit}, as in {name}=1")]
    Amount {
        step: String,
        name: &'static str,
        unit: &'static str,
        most: u64,
    },
    #[error("`{step}`: the operation `{name}` has no amount")]
    NoAmount { step: String, name: &'static str },
    #[error("the program has no operation: write a list, as in fork=100,kill")]
    Empty,
}

fn names() -> impl Iterator<Item = &'static str> {
    OPERATIONS.iter().map(|operation| operation.name)
}

/// An operation with its amount.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// The row of the table.
    pub operation: &'static Operation,
    /// The amount; 1 if the operation has none.
    pub amount: u64,
}

impl Eq for Step {}

impl PartialEq for Step {
    fn eq(&self, other: &Self) -> bool {
        (self.operation.name, self.amount) == (other.operation.name, other.amount)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.operation.amount {
            Some(_) => write!(formatter, "{}={}", self.operation.name, self.amount),
            None => formatter.write_str(self.operation.name),
        }
    }
}

impl FromStr for Step {
    type Err = ProgramError;

    fn from_str(text: &str) -> Result<Self, ProgramError> {
        let step = || text.to_owned();
        let (name, amount) = match text.split_once('=') {
            Some((name, amount)) => (name, Some(amount)),
            None => (text, None),
        };
        let operation = OPERATIONS
            .iter()
            .find(|operation| operation.name == name)
            .ok_or_else(|| ProgramError::Unknown {
                name: name.to_owned(),
            })?;
        let name = operation.name;
        let amount = match (operation.amount, amount) {
            (None, None) => 1,
            (None, Some(_)) => return Err(ProgramError::NoAmount { step: step(), name }),
            (Some((unit, most)), amount) => amount
                .and_then(|amount| amount.parse::<u64>().ok())
                .filter(|amount| (1..=most).contains(amount))
                .ok_or_else(|| ProgramError::Amount {
                    step: step(),
                    name,
                    unit,
                    most,
                })?,
        };
        Ok(Self { operation, amount })
    }
}

/// A list of operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program(pub Vec<Step>);

impl Program {
    /// Returns the resources that the program would hold at its end if it never released any.
    #[must_use]
    pub fn need(&self) -> Need {
        let each = |step: &Step| step.operation.need.times(step.amount);
        self.0
            .iter()
            .map(each)
            .fold(Need::default(), |sum, need| sum.plus(need))
    }
}

impl fmt::Display for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(formatter, "{comma}{step}")?;
        }
        Ok(())
    }
}

impl FromStr for Program {
    type Err = ProgramError;

    fn from_str(text: &str) -> Result<Self, ProgramError> {
        if text.trim().is_empty() {
            return Err(ProgramError::Empty);
        }
        let steps = text.split(',').map(|step| step.trim().parse());
        steps.collect::<Result<_, _>>().map(Self)
    }
}

impl Serialize for Program {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Program {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_its_text() {
        for text in ["sleep=5", "fork=1000,signal,kill", "align=1,timers=10000"] {
            let program: Program = text.parse().unwrap();
            assert_eq!(program.to_string(), text);
            let stored = serde_json::to_string(&program).unwrap();
            assert_eq!(serde_json::from_str::<Program>(&stored).unwrap(), program);
        }
    }

    #[test]
    fn what_is_no_program_is_refused_with_the_remedy() {
        for (text, remedy) in [
            ("", "write a list"),
            ("frok=3", "did you mean `fork`"),
            ("fork", "from 1 to 1000 processes, as in fork=1"),
            ("fork=0", "from 1 to 1000"),
            ("fork=1001", "from 1 to 1000"),
            ("kill=3", "has no amount"),
            ("kill,,kill", "there is no operation ``"),
        ] {
            let error = text.parse::<Program>().unwrap_err().to_string();
            assert!(error.contains(remedy), "{text}: {error}");
        }
    }

    #[test]
    fn a_program_needs_what_all_its_steps_need() {
        let need = "fork=10,map=2,timer-files=3,timers=4"
            .parse::<Program>()
            .unwrap()
            .need();
        assert_eq!((need.processes, need.files, need.signals), (10, 3, 4));
        assert_eq!(need.memory, (10 << 18) + (2 << 20) + (7 << 10));
        assert!(need.fits(need));
        assert!(!need.fits(Need { files: 2, ..need }));
    }

    #[test]
    fn the_page_about_loads_has_every_operation() {
        let page = include_str!("../../../docs/loads.md");
        for Operation {
            name, amount, does, ..
        } in OPERATIONS
        {
            let amount =
                amount.map_or_else(String::new, |(unit, most)| format!("1 to {most} {unit}"));
            let row = format!("| `{name}` | {amount} | {does} |");
            assert!(page.contains(&row), "docs/loads.md has no row {row}");
        }
    }

    #[test]
    fn names_are_unique_and_every_area_has_an_operation() {
        for (index, operation) in OPERATIONS.iter().enumerate() {
            let others = &OPERATIONS[..index];
            assert!(others.iter().all(|other| other.name != operation.name));
            assert!(others.iter().all(|other| other.action != operation.action));
        }
        use Area::{Files, Futexes, Memory, Pipes, Processes, Time, Timers};
        for area in [Memory, Files, Pipes, Futexes, Timers, Processes, Time] {
            assert!(OPERATIONS.iter().any(|operation| operation.area == area));
        }
    }
}
