//! Selects settings, and the CPUs for them.

use tardy_core::cause::without_numbers;
use tardy_core::cpu::{CpuId, CpuList};
use tardy_machine::processors::Processors;
use tardy_machine::root::Root;
use tardy_run::request::MeasuredCpus;
use tardy_tune::apply::{AppliedSettings, ApplyError, SettingsLock};
use tardy_tune::known::{self, Target};
use tardy_tune::setting::{Setting, Settings, Standing};

use super::error::TuneError;
use crate::cli::tune::TuneArgs;

/// Returns the CPUs for the real-time work, and all CPUs that this process can use.
pub(super) fn cpus(
    asked: Option<&MeasuredCpus>,
    root: &Root,
) -> Result<(CpuList, CpuList), TuneError> {
    let processors = Processors::read(root)
        .map_err(|error| TuneError::Machine(format!("cannot read this process's CPUs: {error}")))?;
    let online = processors.usable.clone();
    let found = match asked {
        Some(MeasuredCpus::List(list)) => list.and(&online),
        Some(MeasuredCpus::Isolated) => processors.set_apart(),
        Some(MeasuredCpus::Housekeeping) => processors.housekeeping(),
        Some(MeasuredCpus::All) => online.clone(),
        None if !processors.set_apart().is_empty() => processors.set_apart(),
        None if online.len() > 1 => online
            .iter()
            .skip(1)
            .collect::<Vec<CpuId>>()
            .into_iter()
            .collect(),
        None => online.clone(),
    };
    if found.is_empty() {
        Err(TuneError::NoCpu(online))
    } else {
        Ok((found, online))
    }
}

/// Returns the requested settings, from the known ones or from a file.
pub(super) fn settings(
    args: &TuneArgs,
    root: &Root,
    (cpus, online): &(CpuList, CpuList),
) -> Result<Vec<Setting>, TuneError> {
    let all = match &args.settings {
        Some(file) => Settings::read(file)?.settings,
        None => known::settings(&Target {
            root,
            profile: args.profile,
            cpus,
            online,
        }),
    };
    if let Some(missing) = args
        .only
        .iter()
        .chain(&args.with)
        .find(|name| !all.iter().any(|setting| setting.name == **name))
    {
        let names: Vec<&str> = all.iter().map(|setting| setting.name.as_str()).collect();
        return Err(TuneError::NoSetting(missing.clone(), names.join(", ")));
    }
    let is_chosen = |setting: &Setting| {
        if args.only.is_empty() {
            !setting.only_named || args.with.contains(&setting.name)
        } else {
            args.only.contains(&setting.name)
        }
    };
    Ok(all.into_iter().filter(is_chosen).collect())
}

/// Returns the settings that change something on this machine. A setting that this machine does not
/// support is reported and left out, or is an error if the user named it. A setting that takes
/// effect only after a restart is always an error.
pub(super) fn changing(
    settings: Vec<Setting>,
    lock: &SettingsLock,
    root: &Root,
    is_named: impl Fn(&Setting) -> bool,
) -> Result<Vec<Setting>, TuneError> {
    let mut found = Vec::new();
    let mut has_refused = false;
    for setting in settings {
        match setting.standing() {
            Standing::AsWanted => {}
            Standing::Changeable(_) if is_named(&setting) => found.push(setting),
            // Some files have a write bit but refuse the value, so each setting is tried before
            // hundreds of runs are made.
            Standing::Changeable(_) => match AppliedSettings::apply([&setting], lock, root) {
                Ok(applied) => {
                    drop(applied);
                    found.push(setting);
                }
                // Without a journal, no setting can be applied, so the first failure ends the
                // selection.
                Err(error @ ApplyError::Journal(_)) => {
                    return Err(TuneError::Machine(error.to_string()));
                }
                Err(error) => {
                    has_refused = true;
                    say!("tardy: left out: {}", without_numbers(&error.to_string()));
                }
            },
            Standing::TakesRestart(words) => {
                return Err(ApplyError::Restart(setting.name, words).into());
            }
            Standing::Absent(why) if is_named(&setting) => {
                return Err(ApplyError::Absent(setting.name, why).into());
            }
            Standing::Absent(why) => say!("tardy: left out {}: {why}", setting.name),
        }
    }
    if found.is_empty() && has_refused {
        Err(TuneError::NothingApplied)
    } else {
        Ok(found)
    }
}
