//! Errors of tuning, and their exit codes.

use std::path::PathBuf;

use tardy_core::cpu::CpuList;
use tardy_results::exit::Exit;
use tardy_tune::apply::{ApplyError, InForce};
use tardy_tune::search::SearchError;
use tardy_tune::setting::SettingsError;

use crate::command::lab::LabError;

/// The reason why nothing was tuned.
#[derive(Debug, thiserror::Error)]
pub(in crate::command) enum TuneError {
    #[error("--settings: {0}")]
    Settings(#[from] SettingsError),
    #[error("unknown setting `{0}`: choose one of {1}")]
    NoSetting(String, String),
    #[error("--cpus: these CPUs are not online: name some of {0}")]
    NoCpu(CpuList),
    #[error("could not apply any setting: run as root")]
    NothingApplied,
    #[error(
        "{0}: tardy changes a setting only if it can store the old value for the restoration, and \
         if the new value stays in effect"
    )]
    Apply(#[from] ApplyError),
    #[error(transparent)]
    InForce(#[from] InForce),
    #[error("cannot run {0:?}: {1}")]
    Program(String, std::io::Error),
    #[error("the search was not started")]
    Declined,
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Machine(String),
    #[error(transparent)]
    Lab(#[from] LabError),
    #[error(transparent)]
    Search(#[from] Box<SearchError<RunError>>),
}

impl TuneError {
    pub(in crate::command) fn exit(&self) -> Exit {
        match self {
            Self::Settings(_) | Self::NoSetting(..) | Self::NoCpu(_) | Self::Usage(_) => {
                Exit::Usage
            }
            Self::Lab(error) => error.exit_code(),
            Self::Search(error) => match **error {
                SearchError::Run(RunError::Interrupted(_)) => Exit::Interrupted,
                SearchError::Run(_) => Exit::Machine,
                _ => Exit::Usage,
            },
            Self::Declined => Exit::Interrupted,
            Self::NothingApplied
            | Self::Apply(_)
            | Self::InForce(_)
            | Self::Program(..)
            | Self::Machine(_) => Exit::Machine,
        }
    }
}

/// The reason why a run of a search gave no number.
#[derive(Debug, thiserror::Error)]
pub(in crate::command) enum RunError {
    #[error("interrupted: the runs so far are kept; continue with `tardy tune --resume {0}`")]
    Interrupted(String),
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error(
        "{folder}: the run produced no number ({why}): to see more, run the command by hand: \
         {command}"
    )]
    NoNumber {
        folder: PathBuf,
        why: String,
        command: String,
    },
    #[error("cannot run {0}: {1}")]
    Start(String, std::io::Error),
}
