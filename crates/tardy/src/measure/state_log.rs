//! The state of the system along a run: one line of JSON a second in `state.jsonl`, read on a processor that is not measured where there is one.

use std::fs::File;
use std::io::{BufWriter, Write};

use tardy_core::cpu::CpuList;
use tardy_core::units::Nanos;

use crate::machine::root::Root;
use crate::machine::state_series::{StateOptions, StateReader, StateSample};
use crate::run::folder::RunFolder;

const INTERVAL: Nanos = Nanos::from_secs(1);

/// The log of a run under way. A disk that is full ends it, and nothing else: the samples matter more.
#[derive(Debug)]
pub(super) struct StateLog {
    reader: StateReader,
    sample: StateSample,
    file: BufWriter<File>,
    next: Nanos,
    is_broken: bool,
}

impl StateLog {
    /// Starts the log; `None` where it cannot be written.
    pub(super) fn create(folder: &RunFolder, measured: &CpuList, tool: &CpuList, root: &Root) -> Option<Self> {
        let cpus = root.online_cpus().unwrap_or_else(|| measured.clone());
        // Reading the frequency of a processor may interrupt it: only where the tool runs is that no matter.
        let options = StateOptions { frequency_of: tool.minus(measured), cpus, disturbing_sensors: false };
        let file = BufWriter::new(File::create_new(folder.path().join("state.jsonl")).ok()?);
        Some(Self { reader: StateReader::open(root, &options), sample: StateSample::default(), file, next: Nanos::ZERO, is_broken: false })
    }

    /// Adds a line if it is time.
    pub(super) fn update(&mut self, now: Nanos) {
        if now < self.next || self.is_broken {
            return;
        }
        self.reader.read_into(now, &mut self.sample);
        let written = serde_json::to_writer(&mut self.file, &self.sample).map_err(std::io::Error::from);
        self.is_broken = written.and_then(|()| self.file.write_all(b"\n")).and_then(|()| self.file.flush()).is_err();
        self.next = now + INTERVAL;
    }
}
