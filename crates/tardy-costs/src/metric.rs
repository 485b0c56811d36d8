//! Describes one measurement of a cost, and the operations that it times.

use std::io;
use std::path::PathBuf;

use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;
use tardy_run::cost::{CacheState, Group, MetricRecord};
use tardy_sys::clock;

/// Operations that can be timed.
pub trait Work {
    /// Performs `operations` operations and returns how long they took. Preparation between the
    /// operations does not count.
    ///
    /// # Errors
    /// Returns an error if a system call fails.
    fn run(&mut self, operations: u64) -> io::Result<Nanos>;
}

/// The description of a metric.
#[derive(Debug)]
pub struct Metric {
    /// Name of the metric on the command line and in file names.
    pub name: &'static str,
    /// Group of the metric in tables.
    pub group: Group,
    /// Description of one operation, in a few words.
    pub operation: &'static str,
    /// Number of bytes that one operation moves; only for bandwidths.
    pub bytes: Option<u64>,
    /// State of the CPU's caches and the page cache while the operations are timed.
    pub state: CacheState,
    /// The program of LMbench 3 that measures the same cost, with its arguments.
    pub lmbench: Option<&'static str>,
    /// Prepares everything that the operations need.
    pub prepare: fn(&Place) -> Result<Box<dyn Work>, Unavailable>,
}

impl Metric {
    /// Returns the unit of the metric's figure: microseconds per operation, or 10^6 bytes per
    /// second.
    #[must_use]
    pub const fn unit(&self) -> &'static str {
        if self.bytes.is_some() { "MB/s" } else { "us" }
    }

    /// Returns the metric's properties that are known before the first trial.
    #[must_use]
    pub fn record(&self) -> MetricRecord {
        MetricRecord {
            name: self.name.to_owned(),
            group: self.group,
            operation: self.operation.to_owned(),
            bytes: self.bytes,
            state: self.state,
            lmbench: self.lmbench.map(str::to_owned),
            operations: 0,
            waiting: None,
            file: String::new(),
        }
    }
}

/// The CPUs and folders that a measurement uses.
#[derive(Debug, Clone)]
pub struct Place {
    /// CPU that all threads and processes are bound to.
    pub cpu: CpuId,
    /// A second CPU, for metrics that need two.
    pub other_cpu: Option<CpuId>,
    /// Folder for files, which is removed after the measurement.
    pub scratch: PathBuf,
}

/// Why a metric cannot be measured here.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// The machine lacks a requirement.
    #[error("{what}: {remedy}")]
    Missing {
        /// The missing requirement.
        what: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// A system call failed.
    #[error(
        "cannot {doing}: {error}: leave this metric out, or grant the right or limit that the \
         error names"
    )]
    System {
        /// The operation that failed.
        doing: &'static str,
        /// The error that the system returned.
        error: io::Error,
    },
}

impl Unavailable {
    /// Returns a function for `map_err` that adds the operation to an error.
    pub fn system(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::System { doing, error }
    }
}

/// Returns the time of `asked` operations, if `done` operations took `took`. Called by work that
/// does more operations than requested.
#[must_use]
pub fn share(took: Nanos, asked: u64, done: u64) -> Nanos {
    let part = i128::from(took.get()) * i128::from(asked) / i128::from(done.max(1));
    Nanos(i64::try_from(part).unwrap_or(i64::MAX))
}

/// Work that repeats one operation.
pub struct Repeat<F>(pub F);

impl<F: FnMut() -> io::Result<()>> Work for Repeat<F> {
    fn run(&mut self, operations: u64) -> io::Result<Nanos> {
        let begin = clock::monotonic();
        for _ in 0..operations {
            (self.0)()?;
        }
        Ok(Nanos(clock::monotonic() - begin))
    }
}

/// Returns work that repeats this operation.
pub fn repeated<F: FnMut() -> io::Result<()> + 'static>(operation: F) -> Box<dyn Work> {
    Box::new(Repeat(operation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_of_what_was_done() {
        assert_eq!(share(Nanos(1000), 7, 10), Nanos(700));
        assert_eq!(share(Nanos(i64::MAX), 3, 3), Nanos(i64::MAX));
        assert_eq!(share(Nanos(-9), 0, 0), Nanos(0));
    }
}
