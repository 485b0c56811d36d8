//! Reasons why nothing can be followed.

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
    /// The function that a timer calls identifies its kind.
    #[error(
        "the kernel hides the addresses of its functions, so timers cannot be distinguished: run \
         with CAP_SYSLOG, and set kernel.kptr_restrict to 0 or 1"
    )]
    HiddenFunctions,
    /// The numbers of a container.
    #[error(
        "the kernel's trace and the PID namespace of this container use different thread IDs: \
         run outside the container, or in one that uses the host's IDs (--pid=host)"
    )]
    OtherNumbers,
    /// The functions between which time is to be measured cause no events.
    #[error("cannot measure between functions: {}", no_marks(.0))]
    NoMarks(InstanceError),
    /// Other events overwrote it.
    #[error(
        "the kernel's trace lost the mark that tardy wrote into it, because other threads caused \
         too many events: try again when fewer threads run"
    )]
    MarkLost,
    /// Changes to the system could not be journaled, so they could not be undone after a kill.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Why the kernel made no events of a program's functions.
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
