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

/// The work of a worker. Runs until [`Worker::go_on`] returns false.
pub type Job = Box<dyn FnOnce(&mut Worker) -> Result<(), WorkError>>;

/// How a worker starts its work, in a separate process.
#[derive(Debug, Clone, Copy)]
pub enum Run {
    /// The whole work runs with only the rights that the load keeps.
    Plain(fn(&mut Worker) -> Result<(), WorkError>),
    /// The first function opens resources with the tool's rights. The returned job then runs with
    /// the rights that the load keeps.
    Prepared(fn(&mut Worker) -> Result<Job, WorkError>),
}

/// A load's description of itself.
#[derive(Debug)]
pub struct LoadInfo {
    /// Name in requests: lower case, digits, dashes.
    pub name: &'static str,
    /// Description of what the load does, in one line.
    pub does: &'static str,
    /// Why the load causes latency, in one line.
    pub effect: &'static str,
    /// The paper that the load comes from, or `today`.
    pub source: &'static str,
    /// The load's parameters, in the order in which a request gives values without names.
    pub parameters: &'static [Parameter],
    /// Whether the load can do harm. A load that can do harm runs only if the user requests it by
    /// its own name, or requests a list that is marked as containing such loads
    /// ([`super::composite::Composite::names_dangers`]).
    pub can_do_harm: bool,
    /// The CPUs of the load's workers.
    pub placement: Placement,
    /// Whether the load writes files to a disk, and so needs a share of the disk's space.
    pub uses_disk: bool,
    /// The rights of root that the load keeps. The load's process drops all other rights before it
    /// starts to work.
    pub rights: Rights,
    /// Checks the machine's requirements, and states the load's budget. Runs in the measuring
    /// process and changes nothing.
    pub resolve: fn(&mut Resolution<'_>) -> Result<(), Unsupported>,
    /// Starts the work of a worker.
    pub run: Run,
}

/// The files beside tardy that a guest of the lab needs for a load.
#[derive(Debug)]
pub struct GuestNeeds {
    /// Name of the load.
    pub load: &'static str,
    /// Kernel modules.
    pub modules: &'static [&'static str],
    /// Programs of the host.
    pub programs: &'static [&'static str],
}

/// Why a worker ended before it was asked to stop.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// The machine lacks something that the load needs. Only an attempt to run the load could show
    /// this.
    #[error("{}: {}", .0.missing, .0.remedy)]
    Absent(Unsupported),
    /// A system call failed that should not fail.
    #[error("cannot {doing}: {source}; the load stopped")]
    System {
        /// The operation that failed.
        doing: &'static str,
        /// The error that the kernel returned.
        source: io::Error,
    },
    /// The load cannot continue, because a bound was reached, a program failed or the plan lacks an
    /// entry.
    #[error("{0}")]
    Bound(String),
}

/// Adds the failed operation to the error of a system call.
pub trait ErrorContext<T> {
    /// Turns the error into a [`WorkError::System`] about `doing`.
    ///
    /// # Errors
    /// Returns the error together with the failed operation.
    fn doing(self, doing: &'static str) -> Result<T, WorkError>;
}

impl<T> ErrorContext<T> for io::Result<T> {
    fn doing(self, doing: &'static str) -> Result<T, WorkError> {
        self.map_err(|source| WorkError::System { doing, source })
    }
}
