//! Uses defaults from the user's files ([`tardy_measure::configuration`]) as defaults of flags.

use clap::Command;
use tardy_measure::configuration::{Configuration, ConfigurationError};

/// Returns the definition of `tardy run` with these defaults.
///
/// # Errors
/// Returns an error if a flag refuses its default.
pub fn with_defaults(
    mut run: Command,
    configuration: &Configuration,
) -> Result<Command, ConfigurationError> {
    for (flag, default) in &configuration.flags {
        // Each default is parsed as a separate command line, so that an error can name the file.
        if let Err(error) = run
            .clone()
            .try_get_matches_from(["run".to_owned(), format!("--{flag}={}", default.value)])
        {
            let said = error.to_string();
            let reason = said
                .lines()
                .next()
                .unwrap_or_default()
                .trim_start_matches("error: ")
                .to_owned();
            return Err(ConfigurationError::Refused {
                path: default.path.clone(),
                key: (*flag).to_owned(),
                reason,
            });
        }
        // clap needs values that live as long as the process.
        let value: &'static str = default.value.clone().leak();
        run = run.mut_args(|arg| {
            if arg.get_long() == Some(*flag) {
                arg.default_value(value)
            } else {
                arg
            }
        });
    }
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;
    use std::path::PathBuf;
    use tardy_measure::configuration::{DefaultValue, keys};

    fn run() -> Command {
        Cli::command().find_subcommand("run").unwrap().clone()
    }

    #[test]
    fn every_key_is_a_flag_of_run_that_takes_a_value() {
        let run = run();
        for key in keys() {
            let flag = run
                .get_arguments()
                .find(|flag| flag.get_long() == Some(key))
                .unwrap_or_else(|| panic!("--{key}"));
            assert!(flag.get_action().takes_values(), "--{key}");
        }
    }

    #[test]
    fn a_value_that_its_flag_refuses_names_its_file() {
        let default = DefaultValue {
            value: "200".to_owned(),
            path: PathBuf::from("t.toml"),
        };
        let configuration = Configuration {
            flags: [("deadline", default)].into(),
            ..Configuration::default()
        };
        let said = with_defaults(run(), &configuration)
            .unwrap_err()
            .to_string();
        assert!(
            said.starts_with("t.toml: deadline: invalid value '200'"),
            "{said}"
        );
    }
}
