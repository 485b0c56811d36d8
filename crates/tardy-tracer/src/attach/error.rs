//! Why a program cannot be followed.

use std::io;

use tardy_machine::journal::JournalError;

use crate::instance::InstanceError;
use crate::tracer::NotTraced;

/// Why a program cannot be followed on this machine.
#[derive(Debug, thiserror::Error)]
pub enum NotAttached {
    /// The kernel's trace cannot be recorded.
    #[error("{}: {}", .0, .0.remedy())]
    NotTraced(#[from] NotTraced),
    /// The kernel hides the addresses of its functions. The kernel's addresses are needed because
    /// they identify the kinds of timers.
    #[error(
        "the kernel hides the addresses of its functions, so timers cannot be distinguished: run \
         with CAP_SYSLOG, and set kernel.kptr_restrict to 0 or 1"
    )]
    HiddenFunctions,
    /// The trace uses other thread IDs than this PID namespace.
    #[error(
        "the kernel's trace and the PID namespace of this container use different thread IDs: \
         run outside the container, or in one that uses the host's IDs (--pid=host)"
    )]
    OtherNumbers,
    /// The kernel could not make the events for the two functions.
    #[error("cannot measure between functions: {}", no_marks(.0))]
    NoMarks(InstanceError),
    /// The mark is not in the trace, because other events have overwritten it.
    #[error(
        "the kernel's trace lost the mark that tardy wrote into it, because other threads caused \
         too many events: try again when fewer threads run"
    )]
    MarkLost,
    /// Changes to the system could not be recorded in the journal, so nothing could undo them if
    /// the command were killed.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Returns why the kernel made no events for the functions of a program.
fn no_marks(error: &InstanceError) -> String {
    match error {
        InstanceError::System { path, error }
            if path == "uprobe_events" && error.kind() == io::ErrorKind::NotFound =>
        {
            "the kernel has no uprobe events (CONFIG_UPROBE_EVENTS)".to_owned()
        }
        error => error.to_string(),
    }
}
