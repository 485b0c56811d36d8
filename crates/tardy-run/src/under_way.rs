//! Decides whether a run is in progress. The record alone does not show this, because nobody
//! changes the record of a killed run.
//!
//! A run is in progress if its process exists and the machine has not rebooted since the boot that
//! the record names. Without the second condition, a folder from another machine or from before a
//! reboot would seem to be in progress if any process had the recorded number.

use tardy_core::units::Nanos;
use tardy_machine::root::Root;
use tardy_sys::clock;

use crate::record::{RunRecord, State};

/// Number of the field in /proc/PID/stat that contains the start time (proc_pid_stat(5)).
const FIELD_OF_START: usize = 22;
/// Length of a tick in ns. USER_HZ is 100 on every architecture on which this tool runs.
const NANOS_A_TICK: i64 = 10_000_000;

impl RunRecord {
    /// Returns whether the run is in progress on the machine whose files are below `root`: its
    /// process still exists, and the machine has not restarted since the boot that the record
    /// names. If so, the run's clock is this machine's clock.
    #[must_use]
    pub fn is_under_way(&self, root: &Root) -> bool {
        let is_here = self.machine.boot_id.is_some()
            && self.machine.boot_id == root.text("proc/sys/kernel/random/boot_id");
        self.state == State::Running && is_here && self.is_process_its_own(root)
    }

    /// Returns whether the process with the recorded number makes the run. Its name does not
    /// matter. It must have existed when the run started or was last resumed, because a later
    /// process can have the same number.
    fn is_process_its_own(&self, root: &Root) -> bool {
        let stat = root.text(format!("proc/{}/stat", self.tool.process));
        // These are the fields after the process's name: field 3 of proc_pid_stat(5) and later
        // ones. The name may contain spaces and parentheses.
        let fields = stat
            .as_deref()
            .and_then(|stat| stat.rsplit_once(") "))
            .map(|(_, fields)| fields.split(' ').collect::<Vec<_>>());
        let Some(fields) = fields else { return false };
        let is_alive = fields
            .first()
            .is_some_and(|state| !["Z", "X", "x"].contains(state));
        let ticks = fields
            .get(FIELD_OF_START - 3)
            .and_then(|ticks| ticks.parse::<i64>().ok());
        let Some(ticks) = ticks.filter(|_| is_alive) else {
            return false;
        };
        // The start time of the process is on the clock that also advances while the machine is
        // suspended. This clock is never behind the run's clock.
        let ahead = Nanos(clock::boottime() - clock::monotonic());
        let began = self
            .interruptions
            .last()
            .map_or(self.started.monotonic_ns, |last| last.to_ns);
        Nanos(ticks.saturating_mul(NANOS_A_TICK)) <= began.saturating_add(ahead)
    }
}
