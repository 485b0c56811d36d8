//! Logs the state of the system during a run: one line of JSON per second in `state.jsonl`.
//!
//! The state is read on a CPU that is not measured. If all CPUs are measured, there is only one
//! line before the first sample and one after the last. Reading `/proc/interrupts` takes the kernel
//! hundreds of microseconds. On a kernel without preemption, this time would be added to a sample.

use std::fs::File;
use std::path::PathBuf;

use tardy_core::units::Nanos;
use tardy_machine::root::Root;
use tardy_machine::state_series::{StateOptions, StateReader, StateSample};
use tardy_run::folder::RunFolder;
use tardy_run::plan::Plan;

use super::keeper::BackgroundWriter;

const INTERVAL: Nanos = Nanos::from_secs(1);

/// The log of a run in progress. If the disk is full, only this log ends, because the samples are
/// more important.
#[derive(Debug)]
pub(super) struct StateLog {
    reader: StateReader,
    sample: StateSample,
    path: PathBuf,
    keeper: BackgroundWriter,
    line: Vec<u8>,
    /// When the next line is due; `None` if writing it would disturb the measurement.
    next: Option<Nanos>,
}

impl StateLog {
    /// Starts the log with its first line. `bytes_max` is the maximum length of the log, if it is
    /// bounded. Returns `None` if the log cannot be written.
    pub(super) fn create(
        now: Nanos,
        folder: &RunFolder,
        plan: &Plan,
        bytes_max: Option<u64>,
        root: &Root,
        keeper: BackgroundWriter,
    ) -> Option<Self> {
        let (measured, tool) = (&plan.measured_cpus, &plan.housekeeping_cpus);
        let cpus = root.online_cpus().unwrap_or_else(|| measured.clone());
        // Reading the frequency of a CPU may interrupt it, so only the frequencies of the tool's
        // CPUs are read.
        let options = StateOptions {
            frequency_of: tool.minus(measured),
            cpus,
            disturbing_sensors: false,
        };
        let path = folder.path().join("state.jsonl");
        // If another folder is now at the run's path, no file is created there.
        let is_there = folder.identity().is_there();
        is_there.then(|| File::create_new(&path).ok()).flatten()?;
        if let Some(bytes_max) = bytes_max {
            keeper.bound(&path, bytes_max);
        }
        let (reader, sample) = (StateReader::open(root, &options), StateSample::default());
        let is_apart = tool.minus(measured) == *tool;
        let mut log = Self {
            reader,
            sample,
            path,
            keeper,
            line: Vec::new(),
            next: is_apart.then_some(now + INTERVAL),
        };
        log.add_line(now);
        Some(log)
    }

    /// Adds a line if it is due.
    pub(super) fn update(&mut self, now: Nanos) {
        if let Some(due) = self.next.filter(|&due| due <= now) {
            self.add_line(now);
            self.next = Some(after(due, now));
        }
    }

    /// Adds the last line. Must be called when the run does not measure any more.
    pub(super) fn finish(&mut self, now: Nanos) {
        self.add_line(now);
    }

    fn add_line(&mut self, now: Nanos) {
        self.reader.read_into(now, &mut self.sample);
        self.line.clear();
        if serde_json::to_writer(&mut self.line, &self.sample).is_ok() {
            self.line.push(b'\n');
            self.keeper.append(&self.path, &self.line);
        }
    }
}

/// Returns the time at which the next line is due, if the last line was due at `due` and written at
/// `now`. The next line is due a second after `due`, so that the log has a line for each second. At
/// the start and after a pause, the next line is due a second after `now`.
fn after(due: Nanos, now: Nanos) -> Nanos {
    let next = due + INTERVAL;
    if next > now { next } else { now + INTERVAL }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_written_late_delays_no_other() {
        let millis = Nanos::from_millis;
        assert_eq!(after(Nanos::ZERO, millis(5_300)), millis(6_300));
        assert_eq!(after(millis(6_300), millis(6_310)), millis(7_300));
        assert_eq!(after(millis(7_300), millis(9_999)), millis(10_999));
    }
}
