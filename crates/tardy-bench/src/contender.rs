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
    /// jitterdebugger write every sample into `folder/NAME`. cyclictest writes a histogram of 1 ns
    /// steps, because it has no other record that is both precise and cheap.
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

    /// Starts the command with its output in `folder/NAME.out`.
    pub(crate) fn start(self, mut command: Command, folder: &Path) -> Result<Child> {
        let output = std::fs::File::create(folder.join(format!("{}.out", self.name())))
            .while_doing(|| "making a file".to_owned())?;
        let starting = || format!("starting {}", self.name());
        command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(Stdio::null())
            .spawn()
            .while_doing(starting)
    }

    /// Waits until the tool measures, and returns its threads.
    pub(crate) fn when_measuring(self, child: &Child) -> Result<Vec<Thread>> {
        threads::when_measuring(child.id())
            .ok_or_else(|| Failure::new(format!("{} does not measure", self.name())))
    }

    /// Waits for the end, which must be a success, and returns the output.
    pub(crate) fn finish(self, child: &mut Child, folder: &Path) -> Result<String> {
        let status = child
            .wait()
            .while_doing(|| format!("waiting for {}", self.name()))?;
        let output = std::fs::read_to_string(folder.join(format!("{}.out", self.name())))
            .unwrap_or_default();
        if status.success() {
            Ok(output)
        } else {
            Err(Failure::new(format!("{} failed ({status})", self.name())))
        }
    }
}

/// Returns the median latency in us from the tool's output; `None` for jitterdebugger, because its
/// histogram has steps of 1 us.
pub(crate) fn median_latency_us(contender: Contender, output: &str) -> Option<f64> {
    match contender {
        Contender::Tardy => {
            let summary: serde_json::Value = serde_json::from_str(output).ok()?;
            Some(
                summary
                    .pointer("/series/0/numbers/percentiles/0/value_ns")?
                    .as_f64()?
                    / 1000.0,
            )
        }
        Contender::Cyclictest => cyclictest_median_ns(output).map(|median| median as f64 / 1000.0),
        Contender::Jitterdebugger => None,
    }
}

/// Returns the median from a histogram of 1 ns steps. Samples beyond its end count as larger than
/// all others.
fn cyclictest_median_ns(output: &str) -> Option<u64> {
    let rows = output
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let (latency, count) = line.split_once(' ')?;
            Some((
                latency.parse::<u64>().ok()?,
                count.trim().parse::<u64>().ok()?,
            ))
        });
    let rows: Vec<(u64, u64)> = rows.filter(|&(_, count)| count > 0).collect();
    let overflows = output.lines().find_map(|line| {
        line.strip_prefix("# Histogram Overflows: ")?
            .trim()
            .parse::<u64>()
            .ok()
    })?;
    let total = rows.iter().map(|&(_, count)| count).sum::<u64>() + overflows;
    let mut seen = 0;
    rows.iter().find_map(|&(latency, count)| {
        seen += count;
        (2 * seen >= total).then_some(latency)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_counts_what_lies_beyond_the_histogram() {
        let output = "# Histogram\n000010 000001\n000011 000000\n000020 000002\n000030 000001\n# \
                      Total: 000000004\n# Histogram Overflows: 00002\n";
        assert_eq!(cyclictest_median_ns(output), Some(20));
        assert_eq!(
            cyclictest_median_ns(&output.replace("Overflows: 00002", "Overflows: 00004")),
            Some(30)
        );
    }

    #[test]
    fn the_tools_own_summary_gives_its_median() {
        let json = r#"{"series": [{"numbers": {"percentiles": [{"probability": 0.5, "value_ns": 20500}]}}]}"#;
        assert_eq!(median_latency_us(Contender::Tardy, json), Some(20.5));
    }
}
