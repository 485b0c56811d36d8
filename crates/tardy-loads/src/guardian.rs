//! Provides the guardian (called supervisor in messages), which is the process that owns all
//! processes of loads, so that none of them outlives the measuring process.
//!
//! The measuring process never forks, because copy on write would cause page faults in its locked
//! memory. It may also die at any moment, and the loads must then end. Before it starts any thread,
//! it therefore starts its own binary as one more process:
//!
//! ```text
//! tardy (measures)  --commands, one JSON line each-->  guardian  --the same lines-->  init  --plan; end of input = stop-->  workers
//!                   <------------------ events, one JSON line each ------------------  init  <--work, once a second--------  worker
//! ```
//!
//! - The *guardian* has a separate session, so that Ctrl-C at the terminal does not end loads
//!   before the tool ends. The guardian makes a PID namespace. If it lacks the right to do so, it
//!   makes a user namespace and, inside it, the PID namespace. The end of the guardian's input
//!   means that the tool is gone. The guardian then kills the init, waits until the kernel has
//!   ended all processes of the namespace, undoes the changes of loads, and ends.
//! - The *init* is the first process of that namespace. The init starts workers, restarts those
//!   that die, reaps processes, and reports. When it ends, the kernel ends every process of the
//!   namespace, and thereby their mount and network namespaces. The init ends when its input ends.
//!   With PR_SET_PDEATHSIG, the kernel also ends the init when the guardian is killed, so no
//!   process is left even if SIGKILL ends both the tool and the guardian.
//! - If no namespace is available, each process is tied to its parent by PR_SET_PDEATHSIG, and the
//!   guardian, as their subreaper, kills the remaining ones. Processes that a user's own command
//!   forks and abandons can then survive a SIGKILL of both the tool and the guardian;
//!   [`Containment`] reports that.
//!
//! The tool limits every wait for the guardian. Commands do not block, loads that still run 5 s
//! after they should be gone are abandoned, and a stopped guardian is killed. A run counts as
//! incomplete if a load died and was absent for a tenth of a phase.

pub mod client;
mod guard;
mod init;
pub mod message;
mod reserve;
mod running;

pub use client::{Guardian, GuardianError, GuardianOptions};
pub use message::{Containment, LoadEnd, LoadEvent};

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use crate::children::{TIED_COMMAND, become_tied_command};

/// Hidden first argument of the guardian.
const GUARDIAN: &str = "__guardian";
/// Hidden first argument of the namespace's init.
const INIT: &str = "__guardian-init";
/// Hidden first argument of a worker.
const WORKER: &str = "__load";

/// Runs the process that a hidden first argument selects. `arguments` are the arguments of this
/// process, starting with its name. Returns `None` for an ordinary command line.
#[must_use]
pub fn dispatch(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter();
    let own_name = arguments.next()?;
    let role = arguments.next()?;
    let role = role
        .to_str()
        .filter(|role| [GUARDIAN, INIT, WORKER, TIED_COMMAND].contains(role))?;
    // Without this name, which ps and traces show, the kernel would name the process `exe`, after
    // /proc/self/exe. The name has no other effect.
    let _ = std::fs::write("/proc/self/comm", own_name.as_encoded_bytes());
    match role {
        GUARDIAN => Some(guard::run(
            &arguments.next()?.to_string_lossy(),
            &arguments.next()?.to_string_lossy(),
            Path::new(&arguments.next()?),
        )),
        INIT => Some(init::run(&arguments.next()?.to_string_lossy())),
        WORKER => Some(crate::load::worker_process::run()),
        TIED_COMMAND => Some(become_tied_command(arguments.next()?, arguments)),
        _ => None,
    }
}
