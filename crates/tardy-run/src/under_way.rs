//! Whether a run goes on: the record of one that was killed stays as it was.

use tardy_machine::root::Root;

use crate::record::{RunRecord, State};

impl RunRecord {
    /// Whether the process that makes the run is there, on the machine below `root` and since the same boot. Its clock is then this machine's.
    #[must_use]
    pub fn is_under_way(&self, root: &Root) -> bool {
        let is_here = self.machine.boot_id.is_some() && self.machine.boot_id == root.text("proc/sys/kernel/random/boot_id");
        let name = root.text(format!("proc/{}/comm", self.tool.process));
        self.state == State::Running && is_here && name.is_some_and(|name| name.starts_with("tardy"))
    }
}
