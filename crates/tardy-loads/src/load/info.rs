//! The description of a load.

use std::io;

use tardy_run::parameter::Parameter;

use super::Unsupported;
use super::resolution::Resolution;
pub use super::rights::Rights;
use super::worker::Worker;

/// The CPUs of a load's workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// One worker on each load CPU, bound to it.
    EachCpu,
    /// One worker for all load CPUs; it and its children move among them.
    Once,
}

/// Works until [`Worker::go_on`] returns false.
pub type Job = Box<dyn FnOnce(&mut Worker) -> Result<(), WorkError>>;

/// How a worker starts its work, in a separate process.
#[derive(Debug, Clone, Copy)]
pub enum Run {
    /// With the rights that the load keeps, and no others.
    Plain(fn(&mut Worker) -> Result<(), WorkError>),
    /// Opens resources for the job with the tool's rights.
    Prepared(fn(&mut Worker) -> Result<Job, WorkError>),
}

/// A load's description of itself.
#[derive(Debug)]
pub struct LoadInfo {
    /// Its name in requests: lower case, digits, dashes.
    pub name: &'static str,
    /// Its work, in one line.
    pub does: &'static str,
    /// Why that costs latency, one line.
    pub effect: &'static str,
    /// The paper it comes from, or `today`.
    pub source: &'static str,
    /// Its parameters; values without names are in this order.
    pub parameters: &'static [Parameter],
    /// Whether it can do harm, so that no list contains it and only its own name asks for it.
    pub can_do_harm: bool,
    /// The CPUs of its workers.
    pub placement: Placement,
    /// Whether it writes files to a disk, and so needs a share of its space.
    pub uses_disk: bool,
    /// The rights of the tool that it keeps; its process drops all others before it starts to work.
    pub rights: Rights,
    /// Checks the machine's requirements, and states its budget; called in the measuring process,
    /// changes nothing.
    pub resolve: fn(&mut Resolution<'_>) -> Result<(), Unsupported>,
    /// Works until [`Worker::go_on`] returns false.
    pub run: Run,
}

/// Why a worker ended before it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// The machine lacks a requirement that only an attempt could show.
    #[error("{}: {}", .0.missing, .0.remedy)]
    Absent(Unsupported),
    /// A system call failed that has no reason to.
    #[error("{doing}: {source}; the load stopped")]
    System {
        /// The operation that failed.
        doing: &'static str,
        /// The error of the kernel.
        source: io::Error,
    },
    /// A bound was reached: the load stops rather than harm.
    #[error("{0}")]
    Bound(String),
}

/// Adds the operation to the error of a failed system call.
pub trait ErrorContext<T> {
    /// Turns the error into a [`WorkError::System`] about `doing`.
    ///
    /// # Errors
    /// Returns the error with the operation.
    fn doing(self, doing: &'static str) -> Result<T, WorkError>;
}

impl<T> ErrorContext<T> for io::Result<T> {
    fn doing(self, doing: &'static str) -> Result<T, WorkError> {
        self.map_err(|source| WorkError::System { doing, source })
    }
}
