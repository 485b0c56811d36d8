//! `tardy tune --search`: makes runs of this program with different settings, and analyses them.
//! The search's folder has the question, the runs and the answer.

use std::fs;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tardy_core::units::Nanos;
use tardy_core::verdict::requirement::Requirement;
use tardy_machine::facts::MachineFacts;
use tardy_machine::journal;
use tardy_machine::root::Root;
use tardy_report::report::date::compact;
use tardy_report::report::tune_text;
use tardy_results::exit::Exit;
use tardy_results::summary::read;
use tardy_run::output_file;
use tardy_run::record::State;
use tardy_run::shell;
use tardy_statistics::confidence::Confidence;
use tardy_tune::apply::{AppliedSettings, SettingsLock};
use tardy_tune::question::{BEST, Question};
use tardy_tune::search::{self, Bench, Effort, SearchResult, Stage, search};
use tardy_tune::setting::{Setting, Settings};
use tardy_tune::waiting::Signals;

use super::chosen::{changing, cpus, settings};
use super::error::{RunError, TuneError};
use crate::cli::tune::{Goal, TuneArgs};
use crate::command::output;

const LENGTH: Nanos = Nanos::from_secs(5);
const GOAL: Goal = Goal::Quantile(0.999);
/// Time that a run takes beyond its length, for starting and stopping tardy and the loads, and for
/// writing samples.
const BESIDE: Nanos = Nanos::from_millis(700);
const QUESTION: &str = "search.json";
const ANSWER: &str = "result.json";
const RUNS: &str = "runs";
/// Loads that lengthen sections and wake-ups on most kernels, and have no requirements.
const LOADS: [&str; 2] = ["io", "memory"];

pub(super) fn begin(args: &TuneArgs) -> Result<Exit, TuneError> {
    let root = Root::system();
    let lock = SettingsLock::take(journal::folder())?;
    let cpus = cpus(args.cpus.as_ref(), &root)?;
    let is_named = |setting: &Setting| args.settings.is_some() || args.only.contains(&setting.name);
    let settings = changing(settings(args, &root, &cpus)?, &lock, &root, is_named)?;
    let length = args.length.unwrap_or(LENGTH);
    let runs = usize::try_from(args.budget.get() / (length + BESIDE).get()).unwrap_or(0);
    let facts = MachineFacts::read(&root);
    let question = Question {
        settings: Settings { settings },
        cpus: cpus.0,
        goal: args.goal.unwrap_or(GOAL).to_string(),
        loads: if args.load.is_empty() {
            LOADS.map(str::to_owned).to_vec()
        } else {
            args.load.clone()
        },
        length,
        runs,
        seed: args.seed,
        machine: facts.one_line(),
        boot_id: root.text("proc/sys/kernel/random/boot_id"),
    };
    let out = args.out.clone().unwrap_or_else(|| {
        PathBuf::from(format!(
            "search-{}",
            compact(Nanos(tardy_sys::clock::realtime()))
        ))
    });
    if out.exists() {
        return Err(TuneError::Usage(format!(
            "{} exists: give another --out, or continue with --resume",
            out.display()
        )));
    }
    search::check(question.settings.settings.len(), runs).map_err(Box::new)?;
    say!(
        "tardy: {}; the runs are stored in {}",
        planned(&question),
        out.display()
    );
    if args.dry_run {
        return Ok(Exit::Done);
    }
    if !is_agreed().map_err(|error| TuneError::Machine(error.to_string()))? {
        return Err(TuneError::Declined);
    }
    let json = serde_json::to_vec_pretty(&question)
        .map_err(|error| TuneError::Machine(error.to_string()))?;
    fs::create_dir_all(out.join(RUNS))
        .and_then(|()| put(&out.join(QUESTION), &json))
        .map_err(|error| TuneError::Machine(format!("{}: {error}", out.display())))?;
    go_on(&question, &out, args.json, &lock, &root)
}

pub(super) fn resume(folder: &Path, is_json: bool) -> Result<Exit, TuneError> {
    let path = folder.join(QUESTION);
    let usage = |error: String| TuneError::Usage(format!("--resume: {}: {error}", path.display()));
    let bytes =
        tardy_sys::regular_file::read(&path, 16 << 20).map_err(|error| usage(error.to_string()))?;
    let question: Question =
        serde_json::from_slice(&bytes).map_err(|error| usage(error.to_string()))?;
    let root = Root::system();
    let lock = SettingsLock::take(journal::folder())?;
    if question.boot_id != root.text("proc/sys/kernel/random/boot_id") {
        return Err(TuneError::Usage(format!(
            "--resume: the search in {} began before the last boot, or on another machine, so its \
             numbers are not comparable with new ones: start a new search",
            folder.display()
        )));
    }
    say!(
        "tardy: {}; the runs are stored in {}",
        planned(&question),
        folder.display()
    );
    go_on(&question, folder, is_json, &lock, &root)
}

/// Describes the plan of the search, and its duration.
fn planned(question: &Question) -> String {
    let names: Vec<&str> = question
        .settings
        .settings
        .iter()
        .map(|setting| setting.name.as_str())
        .collect();
    format!(
        "the search makes at most {} runs of {} each under the loads {} ({} in all), to find the \
         effect of these settings: {}",
        question.runs,
        question.length.exact(),
        question.loads.join(" and "),
        time_of(question.length, question.runs).exact(),
        names.join(", ")
    )
}

/// Returns the duration of a number of runs, including the additional time of each. The duration is
/// rounded up to whole minutes if it is at least two minutes, otherwise to whole seconds.
fn time_of(length: Nanos, runs: usize) -> Nanos {
    let exact = (length + BESIDE) * i64::try_from(runs).unwrap_or(i64::MAX);
    if exact < Nanos::from_secs(120) {
        return Nanos::from_secs(exact.get() / 1_000_000_000 + 1);
    }
    Nanos::from_secs((exact.get() / 60_000_000_000 + 1) * 60)
}

/// Asks on a terminal whether to start.
fn is_agreed() -> std::io::Result<bool> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(true);
    }
    write!(std::io::stderr(), "Start? [Y/n] ")?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(["", "y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

fn go_on(
    question: &Question,
    out: &Path,
    is_json: bool,
    lock: &SettingsLock,
    root: &Root,
) -> Result<Exit, TuneError> {
    if let Some(process) = another_run(root) {
        return Err(TuneError::Machine(format!(
            "process {process} measures or loads this machine with tardy: wait until it ends"
        )));
    }
    let goal: Goal = match question.goal.parse::<f64>() {
        Ok(percent) => Goal::Quantile(percent / 100.0),
        Err(_) => Goal::Max,
    };
    let signals = Signals::block()
        .map_err(|error| TuneError::Machine(format!("cannot wait for signals: {error}")))?;
    let mut bench = Runs {
        question,
        goal,
        out,
        lock,
        root,
        signals,
        number: 0,
        kept: 0,
    };
    let effort = Effort {
        runs: question.runs,
        confidence: Confidence::NINETY_FIVE,
        seed: question.seed,
    };
    let found = search(question.settings.settings.len(), effort, &mut bench).map_err(Box::new)?;
    if bench.kept > 0 {
        say!("tardy: {} of the runs were already done", bench.kept);
    }
    write(question, &found, out)
        .map_err(|error| TuneError::Machine(format!("{}: {error}", out.display())))?;
    let shown = if is_json {
        tune_text::found_json(question, &found)
    } else {
        output::fitted(&tune_text::found(question, &found, out))
    };
    output::print(&shown).map_err(|error| TuneError::Machine(error.to_string()))?;
    Ok(Exit::Done)
}

fn write(question: &Question, found: &SearchResult, out: &Path) -> std::io::Result<()> {
    put(
        &out.join(ANSWER),
        tune_text::found_json(question, found).as_bytes(),
    )?;
    let useful = Settings {
        settings: found
            .useful()
            .into_iter()
            .map(|place| question.settings.settings[place].clone())
            .collect(),
    };
    let toml = useful.to_toml().map_err(std::io::Error::other)?;
    put(&out.join(BEST), toml.as_bytes())
}

fn put(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    output_file::replace(path, |mut file| file.write_all(bytes))
}

/// Returns another process, if there is one, in which tardy measures or loads the machine.
fn another_run(root: &Root) -> Option<u32> {
    let mine = std::process::id();
    let is_another = |process: &u32| {
        let line = root
            .read(format!("proc/{process}/cmdline"))
            .unwrap_or_default();
        let mut words = line.split('\0');
        let program = words
            .next()
            .unwrap_or_default()
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        program == "tardy"
            && words
                .next()
                .is_some_and(|verb| ["run", "cost", "load", "reproduce"].contains(&verb))
    };
    root.names("proc")
        .iter()
        .filter_map(|name| name.parse().ok())
        .filter(|process| *process != mine)
        .find(is_another)
}

/// The runs of a search, in the order given by the seed.
struct Runs<'a> {
    question: &'a Question,
    goal: Goal,
    out: &'a Path,
    lock: &'a SettingsLock,
    root: &'a Root,
    signals: Signals,
    number: usize,
    /// Number of runs that were not made, because an earlier start had finished them.
    kept: usize,
}

impl Bench for Runs<'_> {
    type Error = RunError;

    fn measure(&mut self, on: &[bool]) -> Result<f64, RunError> {
        self.number += 1;
        let folder = self.out.join(RUNS).join(format!("{:04}", self.number));
        let settings: Vec<&Setting> = self
            .question
            .settings
            .settings
            .iter()
            .zip(on)
            .filter(|(_, on)| **on)
            .map(|(setting, _)| setting)
            .collect();
        let names = settings
            .iter()
            .map(|setting| setting.name.as_str())
            .collect::<Vec<_>>()
            .join(" ");
        if let Some(value) = kept(&folder, &names, self.goal) {
            self.kept += 1;
            return Ok(value);
        }
        let mut command = self.command(&folder, &names)?;
        let applied = AppliedSettings::apply(settings, self.lock, self.root)?;
        let waited = self.signals.wait_for(&mut command);
        drop(applied);
        let (status, is_asked) =
            waited.map_err(|error| RunError::Start(line_of(&command), error))?;
        if is_asked || self.signals.have_come() {
            let folder = self.out.to_string_lossy();
            return Err(RunError::Interrupted(shell::quoted(&folder)));
        }
        goal_of(&folder, self.goal).map_err(|why| RunError::NoNumber {
            folder,
            why: format!("{why}; the run ended with {status}"),
            command: line_of(&command),
        })
    }

    fn begin(&mut self, stage: Stage, runs: usize) {
        let names = |settings: &[usize]| {
            settings
                .iter()
                .map(|&place| self.question.settings.settings[place].name.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let what = match &stage {
            Stage::Screening { replicates } => {
                format!(
                    "all {} settings at once, in a balanced design, {replicates} times",
                    self.question.settings.settings.len()
                )
            }
            Stage::Pairs { settings } => {
                format!("pairs of runs with and without {}", names(settings))
            }
            Stage::Together { settings } => format!(
                "pairs of runs with {} together and with none of them",
                names(settings)
            ),
        };
        say!(
            "tardy: {what}: at most {runs} runs, {}",
            time_of(self.question.length, runs).exact()
        );
    }
}

impl Runs<'_> {
    fn command(&self, folder: &Path, names: &str) -> Result<Command, RunError> {
        let program =
            std::env::current_exe().map_err(|error| RunError::Start("tardy".to_owned(), error))?;
        let mut command = Command::new(program);
        command.args([
            "run",
            "--quiet",
            "--no-live",
            "--cpus",
            &self.question.cpus.to_string(),
            "--for",
            &self.question.length.to_string(),
        ]);
        for load in &self.question.loads {
            command.args(["--load", load]);
        }
        command
            .args([
                "--label",
                &format!(
                    "settings={}",
                    if names.is_empty() { "as found" } else { names }
                ),
                "--out",
            ])
            .arg(folder);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Ok(command)
    }
}

/// Returns the result of a run that an earlier start had finished with the same settings. Otherwise,
/// removes the run so that it can be repeated: it is unfinished, has other settings, or gave no
/// number.
fn kept(folder: &Path, names: &str, goal: Goal) -> Option<f64> {
    let names = if names.is_empty() { "as found" } else { names };
    let is_whole = |record: &tardy_run::record::RunRecord| {
        record.state == State::Finished
            && record
                .plan
                .labels
                .get("settings")
                .is_some_and(|label| label == names)
    };
    let value = tardy_run::folder::open(folder)
        .ok()
        .filter(is_whole)
        .and_then(|_| goal_of(folder, goal).ok());
    if value.is_none() {
        let _ = fs::remove_dir_all(folder);
    }
    value
}

fn line_of(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns the run's value of the metric to minimise, in ns: for its first probe, over all CPUs.
fn goal_of(folder: &Path, goal: Goal) -> Result<f64, String> {
    let run = read::read(folder, &Requirement::default()).map_err(|error| error.to_string())?;
    let probe = run
        .probes()
        .first()
        .map(|probe| (*probe).to_owned())
        .ok_or("the run has no probe")?;
    let latency = run.of_probe(&probe).latency;
    let samples = latency.count();
    let rank = match goal {
        Goal::Max => samples,
        Goal::Quantile(share) => ((share * samples as f64).ceil() as u64).clamp(1, samples.max(1)),
    };
    let value = latency.values_at(&[rank]).first().copied().flatten();
    value
        .map(|value| value as f64)
        .ok_or_else(|| "the run has no sample".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finished_run_without_a_number_is_removed_and_repeated() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1/nanosleep");
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("0001");
        fs::create_dir_all(folder.join("samples")).unwrap();
        for name in ["run.json", "samples/nanosleep.cpu1.series"] {
            fs::copy(golden.join(name), folder.join(name)).unwrap();
        }
        tardy_run::folder::rewrite(&folder, |record| {
            record
                .plan
                .labels
                .insert("settings".to_owned(), "quiet".to_owned());
        })
        .unwrap();
        assert!(kept(&folder, "quiet", Goal::Max).unwrap() > 0.0);
        assert!(folder.exists());

        fs::remove_dir_all(folder.join("samples")).unwrap();
        assert_eq!(kept(&folder, "quiet", Goal::Max), None);
        assert!(!folder.exists());
    }
}
