//! Times whole programs, as mckenney2009 does with kernel builds. Measures the elapsed time, and
//! the CPU time of the program and of those children that it waited for.
//!
//! By default, a command is run once before it is timed, to fill its caches (`--warm-up`); the
//! record states this. A command that must run only once needs `--warm-up 0 --trials 1`. Kernel
//! builds have no warm-up, because each starts in an empty folder.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use tardy_core::units::Nanos;
use tardy_core::warning::Warning;
use tardy_machine::root::Root;
use tardy_run::cost::{CacheState, CostRecord, CostSet, Group, MetricRecord};
use tardy_run::record::{RunRecord, State};
use tardy_sys::child::kill_with_parent;
use tardy_sys::clock;
use tardy_sys::process::{self, WaitResult};
use tardy_sys::signal::{self, SignalFd};
use tardy_sys::usage::{Usage, UsageScope, usage};

use super::folder::{CostError, CostFolder};
use super::session::unit;

/// Maximum time that a program may take to stop after it is asked to. After this time, the
/// program's process group is killed.
const TERMINATE_LIMIT: Nanos = Nanos::from_secs(5);

/// If the elapsed times of trials differ by more than this factor, the run gets a warning.
const SPREAD_MAX: f64 = 2.0;

/// How often a program is run.
#[derive(Debug, Clone, Copy)]
pub struct Repeats {
    /// Number of runs that fill caches before the first trial. These runs do not count as trials.
    pub warm_ups: u32,
    pub trials: u32,
}

/// A program or build whose trials can be repeated.
pub trait Experiment {
    /// Returns the kind of experiment (a command or a kernel build), for the record.
    fn set(&self) -> CostSet;

    /// Returns the program with its arguments, for the record.
    fn words(&self) -> Vec<String>;

    /// Does the work before a trial, and returns the program to time. Returns `None` if a signal
    /// asked the tool to stop.
    ///
    /// # Errors
    /// Returns [`CostError`].
    fn prepare(&mut self, runner: &Runner) -> Result<Option<Command>, CostError>;
}

/// A command of the user.
pub struct UserCommand(pub Vec<String>);

impl Experiment for UserCommand {
    fn set(&self) -> CostSet {
        CostSet::Command
    }

    fn words(&self) -> Vec<String> {
        self.0.clone()
    }

    fn prepare(&mut self, _: &Runner) -> Result<Option<Command>, CostError> {
        let (program, arguments) = self
            .0
            .split_first()
            .ok_or_else(|| CostError::Command("the command is empty".to_owned()))?;
        let mut command = Command::new(program);
        command.args(arguments);
        Ok(Some(command))
    }
}

/// The start of a trial, and its times in ns.
#[derive(Debug, Clone, Copy)]
struct TrialTimes {
    begin: Nanos,
    /// Elapsed time, and CPU time in user mode and in the kernel.
    times: [i64; 3],
}

/// How a program ended.
#[derive(Debug)]
pub enum ProgramEnd {
    /// The program ended by itself.
    Itself(ExitStatus),
    /// The program was ended because a signal asked the tool to end.
    Interrupted,
}

/// Runs programs one after the other, and ends them when the tool must end.
pub struct Runner {
    signals: SignalFd,
    is_quiet: bool,
}

impl Runner {
    /// Makes a runner. `is_quiet` hides the error output of programs.
    ///
    /// # Errors
    /// Returns [`CostError::System`].
    pub fn new(is_quiet: bool) -> Result<Self, CostError> {
        let awaited = [
            signal::INTERRUPT,
            signal::TERMINATE,
            signal::HANG_UP,
            signal::PIPE,
            process::CHILD_ENDED,
        ];
        let signals = SignalFd::block(&awaited).map_err(|error| CostError::System {
            doing: "wait for signals",
            error,
        })?;
        Ok(Self { signals, is_quiet })
    }

    /// Runs the program to its end, in a separate process group and without input. Its standard
    /// output is discarded.
    ///
    /// # Errors
    /// Returns [`CostError::Command`] if the program cannot be started, or [`CostError::System`] if
    /// a system call fails.
    pub fn run(&self, command: &mut Command) -> Result<ProgramEnd, CostError> {
        let errors = if self.is_quiet {
            Stdio::null()
        } else {
            Stdio::inherit()
        };
        command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors);
        let name = command.get_program().to_string_lossy().into_owned();
        let child = kill_with_parent(command).spawn().map_err(|error| {
            CostError::Command(format!(
                "cannot run `{name}`: {error}: give a program that this user may run"
            ))
        })?;
        let pid = i32::try_from(child.id()).unwrap_or(i32::MAX);
        self.wait(pid).map_err(|error| CostError::System {
            doing: "wait for a program",
            error,
        })
    }

    fn wait(&self, pid: i32) -> io::Result<ProgramEnd> {
        let mut kill_at = None;
        loop {
            if let WaitResult::Ended(_, status) = process::reap(pid, false)? {
                return Ok(if kill_at.is_some() {
                    ProgramEnd::Interrupted
                } else {
                    ProgramEnd::Itself(status)
                });
            }
            let now = clock::monotonic();
            if kill_at.is_some_and(|at| now >= at) {
                // The program, and with it the group, may have ended meanwhile.
                let _ = process::kill_group(pid, process::KILL);
            }
            let timeout = if kill_at.is_some() { 100 } else { -1 };
            signal::wait_readable(&[self.signals.as_fd()], timeout)?;
            while let Some(number) = self.signals.take()? {
                if number != process::CHILD_ENDED && number != signal::PIPE && kill_at.is_none() {
                    kill_at = Some(clock::monotonic() + TERMINATE_LIMIT.get());
                    let _ = process::kill_group(pid, signal::TERMINATE);
                }
            }
        }
    }

    fn timed(&self, command: &mut Command) -> Result<(TrialTimes, ProgramEnd), CostError> {
        let used = || {
            usage(UsageScope::Children).map_err(|error| CostError::System {
                doing: "ask for CPU time",
                error,
            })
        };
        let before: Usage = used()?;
        let begin = clock::monotonic();
        let ended = self.run(command)?;
        let elapsed = clock::monotonic() - begin;
        let after = used()?;
        let times = [
            elapsed,
            after.user - before.user,
            after.system - before.system,
        ];
        Ok((
            TrialTimes {
                begin: Nanos(begin),
                times,
            },
            ended,
        ))
    }
}

/// Runs all trials into a folder of kind `cost`, and reports each step to `progress`.
///
/// # Errors
/// Returns [`CostError`]. A program that fails ends the run. If this was the first trial, the
/// folder is removed.
pub fn run(
    experiment: &mut dyn Experiment,
    repeats: Repeats,
    out: &Path,
    root: &Root,
    is_quiet: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<RunRecord, CostError> {
    let runner = Runner::new(is_quiet)?;
    let mut folder = CostFolder::create(out, record(experiment, repeats.trials, root), root)?;
    match all_trials(experiment, repeats, &runner, &mut folder, progress) {
        Ok(state) => {
            folder.end_round()?;
            folder.finish(state)
        }
        Err(error) => {
            folder.give_up()?;
            Err(error)
        }
    }
}

/// The measured times of each trial.
const TIMES: [(&str, &str); 3] = [
    ("real", "elapsed time"),
    ("user", "CPU time in user mode"),
    ("sys", "CPU time in the kernel"),
];

fn all_trials(
    experiment: &mut dyn Experiment,
    Repeats { warm_ups, trials }: Repeats,
    runner: &Runner,
    folder: &mut CostFolder,
    progress: &mut dyn FnMut(&str),
) -> Result<State, CostError> {
    let places = TIMES
        .iter()
        .map(|(name, operation)| folder.add(metric(name, operation)))
        .collect::<Result<Vec<usize>, _>>()?;
    folder.begin_round(1);
    let mut elapsed = Vec::new();
    for turn in 1..=warm_ups + trials {
        let is_counted = turn > warm_ups;
        let name = if is_counted {
            format!("trial {} of {trials}", turn - warm_ups)
        } else {
            "warm-up, not counted".to_owned()
        };
        progress(&format!("{name}: preparing"));
        let Some(mut command) = experiment.prepare(runner)? else {
            return Ok(State::Interrupted);
        };
        let words = experiment.words().join(" ");
        progress(&format!("{name}: {words}"));
        let (took, ended) = runner.timed(&mut command)?;
        match ended {
            ProgramEnd::Interrupted => return Ok(State::Interrupted),
            ProgramEnd::Itself(status) if !status.success() => return Err(failed(&words, status)),
            ProgramEnd::Itself(_) if !is_counted => continue,
            ProgramEnd::Itself(_) => elapsed.push(took.times[0]),
        }
        for (place, time) in places.iter().zip(took.times) {
            folder.push(*place, took.begin, time.saturating_mul(1000));
            folder.flush(*place)?;
        }
        folder.update()?;
    }
    if let Some(warning) = spread(&elapsed) {
        folder.warn(warning);
    }
    Ok(State::Finished)
}

/// Returns a warning if the elapsed times of the trials, in ns, differ by a large factor. Their
/// average is then not typical of any trial.
fn spread(elapsed: &[i64]) -> Option<Warning> {
    let (least, most) = (*elapsed.iter().min()?, *elapsed.iter().max()?);
    let factor = most as f64 / least.max(1) as f64;
    (factor > SPREAD_MAX).then(|| {
        let (least, most) = (Nanos(least), Nanos(most));
        let text = format!(
            "trials took from {least} to {most}, a factor of {factor:.1}: the average represents \
             none of them; keep the machine idle, take more trials (--trials), or more warm-ups \
             (--warm-up)"
        );
        Warning::Note { text }
    })
}

/// Returns the error for a program that failed.
#[must_use]
pub fn failed(words: &str, status: ExitStatus) -> CostError {
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "did not end".to_owned(),
    };
    CostError::Command(format!(
        "`{words}` {how}: give a command that succeeds, because the time of a failure is \
         meaningless"
    ))
}

fn record(experiment: &dyn Experiment, trials: u32, root: &Root) -> CostRecord {
    CostRecord {
        set: experiment.set(),
        command: experiment.words(),
        cpu: None,
        other_cpu: None,
        rounds: 1,
        trials,
        trial_length_ns: Nanos::ZERO,
        // A clock read is negligible compared with a program's time, so it is not subtracted.
        clock_read_ns: Nanos::ZERO,
        unit: unit(root),
        metrics: Vec::new(),
        left_out: Vec::new(),
    }
}

fn metric(name: &str, operation: &str) -> MetricRecord {
    MetricRecord {
        name: name.to_owned(),
        group: Group::Program,
        operation: operation.to_owned(),
        bytes: None,
        state: CacheState::Warm,
        lmbench: None,
        operations: 1,
        waiting: None,
        file: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_that_differ_by_a_large_factor_are_told() {
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[10_000_000, 20_000_000]), None);
        let told = spread(&[52_000_000, 2_000_000, 2_100_000])
            .unwrap()
            .to_string();
        assert!(
            told.contains("from 2.00 ms to 52.0 ms, a factor of 26.0")
                && told.contains("--warm-up"),
            "{told}"
        );
    }
}
