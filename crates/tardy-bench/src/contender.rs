//! The three compared tools with equal settings: one measuring thread on one CPU, SCHED_FIFO 95, 1
//! ms, memory locked.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::figure::Bench;
use super::threads::{self, Thread};
use crate::failure::{Failure, Result, While};
use crate::program;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contender {
    Tardy,
    Cyclictest,
    Jitterdebugger,
}

/// The tools, tardy first.
pub(crate) const CONTENDERS: [Contender; 3] = [
    Contender::Tardy,
    Contender::Cyclictest,
    Contender::Jitterdebugger,
];

/// Time between two wake-ups, in us.
pub(crate) const PERIOD_US: u64 = 1000;
const PRIORITY: u32 = 95;

impl Contender {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tardy => "tardy",
            Self::Cyclictest => "cyclictest",
            Self::Jitterdebugger => "jitterdebugger",
        }
    }

    /// Returns the command that takes `samples` samples on `cpu` and runs in `folder`. tardy and
    /// jitterdebugger write every sample. cyclictest counts in a histogram of 1 ns steps, because it
    /// has no other record that is both precise and cheap.
    pub(crate) fn command(
        self,
        bench: &Bench,
        cpu: u32,
        samples: u64,
        folder: &Path,
    ) -> Result<Command> {
        let (program, words) = match self {
            Self::Tardy => (
                bench.tardy.clone(),
                format!(
                    "run --cycles {samples} --cpus {cpu} --period 1ms --priority {PRIORITY} \
                     --quiet --json --out run"
                ),
            ),
            Self::Cyclictest => (
                program::required("cyclictest", "rt-tests")?,
                format!(
                    "-q -m -t 1 -a {cpu} -p {PRIORITY} -i {PERIOD_US} -l {samples} -N -h 200000"
                ),
            ),
            Self::Jitterdebugger => (
                program::required("jitterdebugger", "jitterdebugger")?,
                format!("-a {cpu} -p {PRIORITY} -i {PERIOD_US} -l {samples} -s -o jitter"),
            ),
        };
        let mut command = Command::new(program);
        command.args(words.split(' '));
        command.current_dir(folder);
        Ok(command)
    }

    /// Starts the command.
    pub(crate) fn start(self, mut command: Command) -> Result<Child> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .while_doing(|| format!("starting {}", self.name()))
    }

    /// Waits until the tool has started to measure, and returns its threads.
    pub(crate) fn when_measuring(self, child: &Child) -> Result<Vec<Thread>> {
        threads::when_measuring(child.id())
            .ok_or_else(|| Failure::new(format!("{} does not measure", self.name())))
    }

    /// Waits until the tool ends. Fails if the tool's exit code is not 0.
    pub(crate) fn finish(self, child: &mut Child) -> Result<()> {
        let status = child
            .wait()
            .while_doing(|| format!("waiting for {}", self.name()))?;
        if status.success() {
            Ok(())
        } else {
            Err(Failure::new(format!("{} failed ({status})", self.name())))
        }
    }
}
