//! The result of `tardy lab hunt`, which searches for a kernel's longest section with IRQs or
//! preemption off: the executed programs, their sections, and those findings that were reduced to a
//! reproducer.

use serde::{Deserialize, Serialize};
use tardy_core::units::Nanos;
use tardy_outside::kind::Kind;
use tardy_run::operations::Program;

/// The longest section of one kind that occurred while a program ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LongSection {
    pub kind: Kind,
    pub length_ns: Nanos,
    /// The function in which the section starts.
    pub begin: String,
    /// The function in which the section ends.
    pub end: String,
    /// The task that had the CPU at the start of the section.
    pub task: String,
    /// The function that was executing at the start of the section, followed by its callers,
    /// innermost first.
    pub path: Vec<String>,
}

/// Functions through which the CPU enters the kernel. A call path ends at such a function. The code
/// before it varies, because an interrupt can come at any moment.
const ENTRIES: [&str; 4] = [
    "asm_sysvec_",
    "asm_common_interrupt",
    "asm_exc_",
    "entry_SYSCALL_64",
];

impl LongSection {
    /// Returns the functions that identify a section: the one in which it starts, its callers up to
    /// the entry into the kernel, and the one in which it ends.
    #[must_use]
    pub fn call_path(&self) -> String {
        let is_entry = |name: &str| ENTRIES.iter().any(|entry| name.starts_with(entry));
        let mut functions = vec![self.begin.as_str()];
        if !is_entry(&self.begin) {
            // The path may start with functions that only take a lock for their caller. They are
            // left out, because the section really begins in the caller.
            let inside = self.path.iter().position(|name| *name == self.begin);
            for caller in &self.path[inside.map_or(0, |inside| inside + 1)..] {
                functions.push(caller.as_str());
                if is_entry(caller) {
                    break;
                }
            }
        }
        format!("{} -> {}", functions.join(" < "), self.end)
    }
}

/// The latency and the sections that a program caused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramResult {
    pub program: Program,
    /// The largest latency of the probe while the program ran; absent if there is no sample.
    pub largest_latency_ns: Option<Nanos>,
    /// The longest section of each kind.
    pub sections: Vec<LongSection>,
}

impl ProgramResult {
    /// Returns the longest section during which no other task could run.
    #[must_use]
    pub fn longest(&self) -> Option<&LongSection> {
        let blocked = self.sections.iter();
        blocked
            .filter(|section| section.kind == Kind::Blocked)
            .max_by_key(|section| section.length_ns)
    }

    /// Returns the length of [`Self::longest`]; zero if there is none.
    #[must_use]
    pub fn longest_ns(&self) -> Nanos {
        self.longest()
            .map_or(Nanos::ZERO, |section| section.length_ns)
    }
}

/// What a hunt examines, and its settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HuntQuestion {
    /// Name of the kernel with its preemption model.
    pub kernel: String,
    /// The package from which the kernel comes, if any.
    pub package: Option<String>,
    /// Digest of everything that determines how the guest behaves: kernel, command line, binary,
    /// QEMU.
    pub guest: String,
    pub seed: u64,
    /// Number of guests in a round. Each round is a separate search, independent of the others.
    pub guests_a_round: u32,
    /// Number of programs that a guest executes, one after the other.
    pub programs_a_guest: u32,
    /// What the figures mean.
    pub meaning: String,
}

/// The programs of a search.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Search {
    /// Whether earlier results guided the choice of programs. A search that chooses programs at
    /// random serves as control.
    pub is_guided: bool,
    /// Number of rounds with at least one guest.
    pub rounds: u32,
    pub guests: u32,
    /// Number of guests without a result, for example because the kernel panicked.
    pub failed_guests: u32,
    pub programs: u32,
    /// Time that all guests together took on the host, in seconds.
    pub wall_s: f64,
    pub programs_a_minute: f64,
    /// The program with the longest section; absent if there is no program.
    pub longest: Option<ProgramResult>,
    /// The largest latency that any program caused.
    pub largest_latency_ns: Option<Nanos>,
    /// Number of different call paths of the sections in which no other task could run. A section
    /// does not count if an idle guest has one with the same call path that is about as long or
    /// longer.
    pub call_paths: u32,
}

/// A long section, and the programs that cause it. The programs are reduced to the operations
/// without which the section does not occur.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The functions that identify the section.
    pub call_path: String,
    /// All programs of the guest in which the search found the section.
    pub found: Vec<Program>,
    /// Length of the section when the search found it.
    pub found_ns: Nanos,
    /// The reduced programs. A guest executes them one after the other.
    pub reduced: Vec<Program>,
    /// The result of the reduced program that runs during the section.
    pub result: ProgramResult,
    /// Number of guests that the reduction took.
    pub reductions: u32,
    /// Maximum number of guests of the reduction.
    pub reductions_max: u32,
    /// Whether the reduction ended before it reached this maximum.
    pub is_complete: bool,
    /// Number of times that the reproducer was run. `equal` is the number of these runs that gave
    /// `result` and whose samples are identical to those of the first run.
    pub repeats: u32,
    pub equal: u32,
    /// Folder of the reproducer, in the folder of the hunt.
    pub folder: String,
}

/// What a hunt found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LabHunt {
    pub question: HuntQuestion,
    /// The longest section that occurred while no program ran.
    pub idle_ns: Nanos,
    /// The longest section in a census (`tardy lab sections`) of the same kernel; absent if no
    /// census was named.
    pub census_ns: Option<Nanos>,
    pub searches: Vec<Search>,
    /// The findings, the longest section first.
    pub findings: Vec<Finding>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_path_ends_where_the_kernel_is_entered() {
        let section = |begin: &str, path: &[&str]| LongSection {
            kind: Kind::Blocked,
            length_ns: Nanos(1),
            begin: begin.to_owned(),
            end: "e".to_owned(),
            task: String::new(),
            path: path.iter().map(|name| (*name).to_owned()).collect(),
        };
        let inside = section("b", &["b", "c", "asm_exc_page_fault", "d"]);
        assert_eq!(inside.call_path(), "b < c < asm_exc_page_fault -> e");
        let behind_a_lock = section("b", &["lock", "b", "c"]);
        assert_eq!(behind_a_lock.call_path(), "b < c -> e");
        let timer = "asm_sysvec_apic_timer_interrupt";
        let one = section(timer, &["x", "entry_SYSCALL_64"]);
        assert_eq!(one.call_path(), section(timer, &["y"]).call_path());
    }
}
