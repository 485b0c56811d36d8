//! The holder of the CPU, described without references into a trace.

use serde::Serialize;
use tardy_samples::delays::DelayHolder;
use tardy_trace::explain::{Cause, Certainty, Holder};
use tardy_trace::symbols::Symbols;

/// The holder of the CPU, and how certain it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct HolderFacts {
    /// Why the thread had to wait.
    pub cause: Cause,
    /// Name of the interrupt, softirq or thread; empty if there is none.
    pub name: String,
    /// The thread's priority in the kernel's notation; absent for interrupts and softirqs.
    pub priority: Option<i32>,
    /// The function that a kernel worker ran, or that an interrupt from another CPU ran on this
    /// CPU: its name, or its address if the name is unknown.
    pub work: Option<String>,
    /// If the holder is an interrupt from another CPU: the thread that ran on the sending CPU. If
    /// the holder is the owner of a kernel lock: the thread that waits for the lock and in whose
    /// place the owner ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// How certain it is that this is the holder: `seen`, `inferred` or `cannot_tell`.
    pub known: &'static str,
    /// The other possible cause, if there are two.
    pub or: Option<Cause>,
}

impl HolderFacts {
    /// Converts a holder in a trace; the trace gives the names of its functions.
    pub(super) fn of(holder: &Holder, known: Certainty, symbols: &Symbols) -> Self {
        let work = holder.work.map(|address| symbols.name_or_address(address));
        let sender = holder.sender.map(|sender| sender.to_string());
        Self {
            sender,
            ..Self::new(
                holder.cause,
                holder.name.to_string(),
                holder.priority,
                work,
                known,
            )
        }
    }

    pub(super) fn of_run(holder: &DelayHolder) -> Self {
        let known = Self::new(
            holder.cause,
            holder.name.clone(),
            holder.priority,
            holder.work.clone(),
            holder.known,
        );
        Self {
            sender: holder.sender.clone(),
            ..known
        }
    }

    fn new(
        cause: Cause,
        name: String,
        priority: Option<i32>,
        work: Option<String>,
        known: Certainty,
    ) -> Self {
        let (word, or) = match known {
            Certainty::Seen => ("seen", None),
            Certainty::Inferred => ("inferred", None),
            Certainty::CannotTell(other) => ("cannot_tell", Some(other)),
        };
        Self {
            cause,
            name,
            priority,
            work,
            sender: None,
            known: word,
            or,
        }
    }
}
