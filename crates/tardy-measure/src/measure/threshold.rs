//! Performs the actions of `--on-threshold` when a latency exceeds the threshold, for runs and for
//! threads that are followed. The main thread performs them, so that measuring threads start no
//! processes.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;
use tardy_core::warning::Warning;
use tardy_run::plan::Plan;
use tardy_run::threshold::ThresholdAction;
use tardy_sys::{process, signal};

/// How long the run waits for a command at its end. After this time, the run ends without waiting
/// for it.
const COMMAND_LIMIT: Duration = Duration::from_secs(10);

/// The actions of a run in progress.
#[derive(Debug)]
pub struct Threshold {
    actions: Vec<ThresholdAction>,
    limit: Nanos,
    run: PathBuf,
    /// The largest latency that has led to actions.
    worst: Nanos,
    commands: Vec<Child>,
    problems: Vec<String>,
}

impl Threshold {
    /// Returns the actions of `plan` with its threshold; `None` if it has no threshold or no
    /// actions.
    #[must_use]
    pub fn of(plan: &Plan, run: PathBuf) -> Option<Self> {
        Self::new(plan.on_threshold.clone(), plan.stop_above?, run)
    }

    /// Returns `actions` together with the threshold `limit`; `None` if `actions` is empty. `run`
    /// is the folder of the run, or an empty path if there is none.
    #[must_use]
    pub fn new(actions: Vec<ThresholdAction>, limit: Nanos, run: PathBuf) -> Option<Self> {
        (!actions.is_empty()).then_some(Self {
            actions,
            limit,
            run,
            worst: limit,
            commands: Vec::new(),
            problems: Vec::new(),
        })
    }

    /// Returns whether the run continues after a latency above the threshold.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.actions.contains(&ThresholdAction::Continue)
    }

    /// Returns whether [`Self::look`] would act on this latency.
    #[must_use]
    pub fn is_new(&self, latency: Nanos) -> bool {
        latency > self.worst
    }

    /// Acts on the first latency above the threshold, and later on each one that is larger than all
    /// latencies before it.
    pub fn look(&mut self, cpu: Option<CpuId>, latency: Nanos, due: Nanos) {
        if !self.is_new(latency) {
            return;
        }
        self.worst = latency;
        for action in &self.actions {
            let done = match action {
                // For these two actions, nothing has to be done here. For `trace`, the tracer
                // stores the trace around the worst samples anyway. For `continue`, the threads
                // continue because nobody stops them.
                ThresholdAction::Trace | ThresholdAction::Continue => Ok(()),
                ThresholdAction::Signal(process) => process::kill(*process, signal::TERMINATE),
                ThresholdAction::SignalNumber { num, pid } => {
                    process::kill(pid.unwrap_or_else(process::parent_id), *num)
                }
                ThresholdAction::Shell(command) => {
                    // The standard library starts the shell by posix_spawn(3). This call copies no
                    // page tables, so measuring threads get no page faults.
                    let mut shell = Command::new("sh");
                    shell
                        .args(["-c", command])
                        .stdin(Stdio::null())
                        .stdout(Stdio::null());
                    shell
                        .env("TARDY_RUN", &self.run)
                        .env("TARDY_LATENCY_NS", latency.get().to_string());
                    shell
                        .env("TARDY_DUE_NS", due.get().to_string())
                        .env("TARDY_LIMIT_NS", self.limit.get().to_string());
                    shell.env(
                        "TARDY_CPU",
                        cpu.map_or_else(String::new, |cpu| cpu.to_string()),
                    );
                    shell.spawn().map(|child| self.commands.push(child))
                }
            };
            if let Err(error) = done {
                self.problems
                    .push(format!("--on-threshold {action}: {error}"));
            }
        }
    }

    /// Waits for commands in progress, and returns their failures as warnings.
    pub fn finish(mut self) -> impl Iterator<Item = Warning> {
        let end = Instant::now() + COMMAND_LIMIT;
        for child in &mut self.commands {
            loop {
                match child.try_wait() {
                    Ok(None) if Instant::now() < end => {
                        std::thread::sleep(Duration::from_millis(10))
                    }
                    Ok(None) => {
                        self.problems.push(
                            "a command of --on-threshold was still running at the end of the run, \
                             and was left running"
                                .to_owned(),
                        );
                        break;
                    }
                    Ok(Some(status)) if !status.success() => {
                        self.problems.push(format!(
                            "a command of --on-threshold ended with {status}: run it by hand to \
                             see why"
                        ));
                        break;
                    }
                    _ => break,
                }
            }
        }
        self.problems.dedup();
        self.problems
            .into_iter()
            .map(|text| Warning::Problem { text })
    }
}
