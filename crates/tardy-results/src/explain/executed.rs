//! The code that was executed during late samples. Only the plugin trace shows this code.

use serde::Serialize;
use tardy_outside::late::{FunctionRow, SectionInTheWay};

/// Facts about how a guest was watched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OutsideFacts {
    /// For the worst samples of each phase, the run stores a record of the code that was executed
    /// before the sample. This is the number of samples with such a record.
    pub windows: u64,
    /// Number of worst samples for which no record of the executed code could be stored.
    pub left_out: u64,
    /// Number of samples of threads that are not probes of the run.
    pub of_nobody: u64,
    /// Virtual time that one instruction takes.
    pub instruction_ns: u64,
}

/// The code that was executed while a sample was late.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExecutedCode {
    /// Sections that delayed the sample, longest first.
    pub sections: Vec<SectionInTheWay>,
    /// Executed functions, sorted by the time spent in the function itself, largest first.
    pub functions: Vec<FunctionRow>,
}
