//! Decides whether a run is in progress, because the record of a killed run does not change.
//!
//! The process and the boot of a run show whether it is still running. A killed run leaves the same
//! `run.json`; a folder that was copied from another machine, or is older than a reboot, must not
//! look alive because a process happens to have its number.

use tardy_core::units::Nanos;
use tardy_machine::root::Root;
use tardy_sys::clock;

use crate::record::{RunRecord, State};

/// Number of the start time in proc_pid_stat(5).
const FIELD_OF_START: usize = 22;
/// USER_HZ is 100 on every architecture that this tool runs on.
const NANOS_A_TICK: i64 = 10_000_000;

impl RunRecord {
    /// Returns whether the process that makes the run exists, on the machine below `root` and in
    /// the same boot. Its clock is then this machine's.
    #[must_use]
    pub fn is_under_way(&self, root: &Root) -> bool {
        let is_here = self.machine.boot_id.is_some()
            && self.machine.boot_id == root.text("proc/sys/kernel/random/boot_id");
        self.state == State::Running && is_here && self.is_process_its_own(root)
    }

    /// Returns whether the process of that number makes the run, whatever its name: it existed when
    /// the run started, so it is not a later process with the same number.
    fn is_process_its_own(&self, root: &Root) -> bool {
        let stat = root.text(format!("proc/{}/stat", self.tool.process));
        // The fields after the name, which may have spaces and brackets: field 3 of
        // proc_pid_stat(5) and later ones.
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
        // The process's start is on the clock that includes suspend, which is never behind the
        // run's.
        let ahead = Nanos(clock::boottime() - clock::monotonic());
        let began = self
            .interruptions
            .last()
            .map_or(self.started.monotonic_ns, |last| last.to_ns);
        Nanos(ticks.saturating_mul(NANOS_A_TICK)) <= began.saturating_add(ahead)
    }
}
