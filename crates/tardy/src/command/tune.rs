//! `tardy tune`: lists the settings of this machine, applies them for a time, or measures the
//! effect of each.

mod chosen;
mod error;
mod lab;
mod search;

use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};

use tardy_machine::checks::Profile;
use tardy_machine::facts::MachineFacts;
use tardy_machine::journal;
use tardy_machine::root::Root;
use tardy_report::report::tune_text;
use tardy_results::exit::Exit;
use tardy_run::request::MeasuredCpus;
use tardy_tune::apply::{AppliedSettings, SettingsLock};
use tardy_tune::boot;
use tardy_tune::known::{self, Target};
use tardy_tune::setting::{Setting, Settings, Standing};
use tardy_tune::waiting::Signals;

use super::output;
use crate::cli::tune::TuneArgs;
use chosen::{changing, cpus, settings};
pub(super) use error::TuneError;

/// Runs the command. Must be called before the process starts threads.
#[must_use]
pub fn run(args: &TuneArgs) -> ExitCode {
    let result = match (&args.resume, args.search, args.apply) {
        (Some(folder), ..) => search::resume(folder, args.json).map(ExitCode::from),
        (None, true, _) if args.lab_search.lab => lab::search(args).map(ExitCode::from),
        (None, true, _) => search::begin(args).map(ExitCode::from),
        (None, _, true) => apply(args),
        _ => plan(args).map(ExitCode::from),
    };
    result.unwrap_or_else(|error| {
        output::complain(&error);
        error.exit().into()
    })
}

fn plan(args: &TuneArgs) -> Result<Exit, TuneError> {
    let root = Root::system();
    let cpus = cpus(args.cpus.as_ref(), &root)?;
    let settings = settings(args, &root, &cpus)?;
    let facts = MachineFacts::read(&root);
    let command_line = root.text("proc/cmdline").unwrap_or_default();
    let is_real_time = root.text("sys/kernel/realtime").as_deref() == Some("1");
    let words = boot::words(
        args.profile,
        &cpus.0,
        &cpus.1.minus(&cpus.0),
        &command_line,
        is_real_time,
    );
    let rows: Vec<(&Setting, Standing)> = settings
        .iter()
        .map(|setting| (setting, setting.standing()))
        .collect();
    let text = if args.json {
        tune_text::plan_json(
            &facts.one_line(),
            args.profile.name(),
            &cpus.0,
            &rows,
            &words,
        )
    } else {
        let is_debugfs_missing = root.names("sys/kernel/debug").is_empty();
        let columns = output::screen_or_page().columns;
        output::fitted(&tune_text::plan(
            &facts.one_line(),
            args.profile.name(),
            &cpus.0,
            &rows,
            &words,
            is_debugfs_missing,
            columns,
        ))
    };
    output::print(&text).map_err(|error| TuneError::Machine(error.to_string()))?;
    Ok(Exit::Done)
}

fn apply(args: &TuneArgs) -> Result<ExitCode, TuneError> {
    let root = Root::system();
    let lock = SettingsLock::take(journal::folder())?;
    let cpus = cpus(args.cpus.as_ref(), &root)?;
    let is_named = |setting: &Setting| args.settings.is_some() || args.only.contains(&setting.name);
    let settings = changing(settings(args, &root, &cpus)?, &lock, &root, is_named)?;
    let signals = Signals::block()
        .map_err(|error| TuneError::Machine(format!("cannot wait for signals: {error}")))?;
    let applied = AppliedSettings::apply(&settings, &lock, &root)?;
    for change in &applied.changes {
        say!(
            "tardy: {}: {} -> {}",
            change.path.display(),
            change.now,
            change.wanted
        );
    }
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]);
    let status = signals.wait_for(&mut command);
    let mut is_back = true;
    for undone in applied.undo() {
        if let Err(error) = &undone.result {
            is_back = false;
            say!("tardy: {}: NOT restored: {error}", undone.setting);
        }
    }
    let (status, _) = status.map_err(|error| TuneError::Program(args.command[0].clone(), error))?;
    if is_back {
        Ok(code_of(status))
    } else {
        Ok(Exit::Machine.into())
    }
}

/// Settings that are in force until this value is dropped.
pub(super) struct RunSettings {
    pub(super) names: Vec<String>,
    _applied: AppliedSettings,
    _lock: SettingsLock,
}

/// Applies the settings of a file, or the known settings for the run's CPUs.
pub(super) fn for_run(
    file: Option<&Path>,
    asked: Option<&MeasuredCpus>,
    root: &Root,
) -> Result<RunSettings, TuneError> {
    let lock = SettingsLock::take(journal::folder())?;
    let settings = match file {
        Some(file) => Settings::read(file)?.settings,
        None => {
            let (cpus, online) = cpus(asked.or(Some(&MeasuredCpus::All)), root)?;
            let known = known::settings(&Target {
                root,
                profile: Profile::default(),
                cpus: &cpus,
                online: &online,
            });
            known
                .into_iter()
                .filter(|setting| !setting.only_named)
                .collect()
        }
    };
    let settings = changing(settings, &lock, root, |_| file.is_some())?;
    let applied = AppliedSettings::apply(&settings, &lock, root)?;
    Ok(RunSettings {
        names: settings.into_iter().map(|setting| setting.name).collect(),
        _applied: applied,
        _lock: lock,
    })
}

/// Runs `tardy doctor --against FILE`.
pub(super) fn against(file: &Path) -> Exit {
    let settings = match Settings::read(file) {
        Ok(settings) => settings.settings,
        Err(error) => {
            say!("tardy: --against: {error}");
            return Exit::Usage;
        }
    };
    let rows: Vec<(&Setting, Standing)> = settings
        .iter()
        .filter(|setting| setting.while_on.is_empty())
        .map(|setting| (setting, setting.standing()))
        .collect();
    match output::print(&output::fitted(&tune_text::against(&rows))) {
        Ok(())
            if rows
                .iter()
                .all(|(_, standing)| *standing == Standing::AsWanted) =>
        {
            Exit::Done
        }
        Ok(()) => Exit::Failed,
        Err(_) => Exit::Machine,
    }
}

/// Returns the exit code as a shell would: 128 plus the number of the signal, if a signal ended the
/// program.
fn code_of(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}
