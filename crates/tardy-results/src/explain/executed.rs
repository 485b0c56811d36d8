//! Code executed during late samples, which only the plugin trace shows.

use serde::Serialize;
use tardy_outside::late::{FunctionRow, SectionInTheWay};

/// How a guest was watched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OutsideFacts {
    /// Samples, the worst of each phase, with the code that was executed before them.
    pub windows: u64,
    /// Worst samples for which the preceding code could not be stored.
    pub left_out: u64,
    /// Samples of other threads than the run's probes.
    pub of_nobody: u64,
    /// Virtual time of an instruction.
    pub instruction_ns: u64,
}

/// The code that was executed while a sample was late.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExecutedCode {
    /// Sections that delayed it, the longest first.
    pub sections: Vec<SectionInTheWay>,
    /// The functions, sorted by self time, largest first.
    pub functions: Vec<FunctionRow>,
}
