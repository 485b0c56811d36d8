//! Arguments of `tardy run`.

use clap::{ArgMatches, Args, Command, Error, FromArgMatches};
use tardy_measure::configuration;
use tardy_run::request::{OPTIONS, Request};

use super::on::OnArgs;
use super::options::{request, with_options};

#[derive(Debug, Clone)]
pub struct RunArgs {
    /// The request that the options make.
    pub request: Request,
    /// The machines on which to run.
    pub on: OnArgs,
}

const EXAMPLES: &str = "Examples:
  tardy run                                 53 s: idle, then under load, on every CPU
  tardy run --scenario abeni2002 --out timeline
  tardy run --cycles 50000 --load io        50,000 samples per CPU idle, 50,000 under load
  tardy run --for 1h --cpus 1-3 --deadline 200us --out board7
  tardy run --until-stopped --metrics 9877 --out board7
  tardy run --for 10m -- ./my_loop          your own loop, under the usual loads
  tardy run --for 10s --load none --probe cyclic --probe nanosleep
  tardy run --for 10m --explain --out board7; tardy explain board7
  tardy run --for 10m --deadline 200us --on ssh://root@arm1 --on ssh://root@x86 --out rack";

impl Args for RunArgs {
    fn augment_args(command: Command) -> Command {
        let keys: Vec<String> = configuration::keys()
            .map(|key| format!("--{key}"))
            .collect();
        let (last, others) = keys.split_last().expect("some options can have a default");
        let command = command.after_help(format!(
            "{EXAMPLES}\n\nDefaults of {} and {last} can be set in /etc/tardy.toml and \
             ~/.config/tardy.toml, as in cpus = \"1-3\". Labels go into the table [labels].",
            others.join(", ")
        ));
        OnArgs::augment_args(with_options(command, OPTIONS.iter()))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for RunArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self {
            request: request(matches, OPTIONS.iter())?,
            on: OnArgs::from_arg_matches(matches)?,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
