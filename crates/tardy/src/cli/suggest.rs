//! Parses the command line of this process, with the defaults of files. For a mistyped flag,
//! suggests the most similar one; clap's own measure would suggest `--force` for `--fro`.

use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory, Error, FromArgMatches};
use tardy_measure::configuration::{Configuration, ConfigurationError};
use tardy_run::nearest::nearest;

use super::Cli;
use super::configuration::with_defaults;
use super::purposes::by_purpose;

/// The command whose flags can have defaults in files.
const RUN: &str = "run";
/// Name of a link to this program that makes it run the command `cyclictest`.
const CYCLICTEST: &str = "cyclictest";

/// Parses the command line of this process. Returns the parsed command line, and the settings that
/// it uses from files. If the command line has an error or requests help, prints the message and
/// ends the process.
///
/// # Errors
/// Returns the errors of reading the files with defaults; only `tardy run` reads these files.
pub fn parse() -> Result<(Cli, Configuration), ConfigurationError> {
    let words = words();
    let arguments: Vec<String> = words
        .iter()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let mut command = by_purpose(Cli::command());
    let mut configuration = Configuration::default();
    if arguments.get(1).is_some_and(|name| name == RUN) {
        configuration = Configuration::read()?;
        let mut applied = Ok(());
        command = command.mut_subcommand(RUN, |run| {
            with_defaults(run.clone(), &configuration).unwrap_or_else(|error| {
                applied = Err(error);
                run
            })
        });
        applied?;
    }
    let parsed = command.try_get_matches_from(words).and_then(|matches| {
        keep_used(&mut configuration, &matches);
        Cli::from_arg_matches(&matches)
    });
    Ok((
        parsed.unwrap_or_else(|error| refused(error, &arguments)),
        configuration,
    ))
}

/// Ends the process with the error. Scripts that call cyclictest get it on one line.
fn refused(error: Error, arguments: &[String]) -> ! {
    let is_cyclictest = arguments.get(1).is_some_and(|name| name == CYCLICTEST);
    if !is_cyclictest || !error.use_stderr() {
        with_flag_meant(error, arguments).exit();
    }
    say!(
        "tardy: {}: tardy cyclictest --help lists the options",
        in_a_line(&error)
    );
    std::process::exit(error.exit_code());
}

/// Returns the error on one line, without clap's advice.
pub(super) fn in_a_line(error: &Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

/// Returns the words of the command line. If a link named cyclictest was called, the command
/// `cyclictest` is inserted.
fn words() -> Vec<OsString> {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    if words
        .first()
        .and_then(|name| Path::new(name).file_name())
        .is_some_and(|name| name == CYCLICTEST)
    {
        words.insert(1, CYCLICTEST.into());
    }
    words
}

/// Removes the defaults that flags on the command line replace.
fn keep_used(configuration: &mut Configuration, matches: &ArgMatches) {
    let Some(run) = matches.subcommand_matches(RUN) else {
        return;
    };
    configuration
        .flags
        .retain(|flag, _| run.value_source(flag) == Some(ValueSource::DefaultValue));
}

/// Options of cyclictest, short and long, with the corresponding option of `tardy run`.
const CYCLICTEST_OPTIONS: [(&str, &str, &str); 8] = [
    ("-D", "--duration", "--for"),
    ("-p", "--priority", "--priority"),
    ("-i", "--interval", "--period"),
    ("-l", "--loops", "--cycles"),
    ("-t", "--threads", "--cpus"),
    ("-a", "--affinity", "--cpus"),
    ("-b", "--breaktrace", "--stop-above"),
    ("-q", "--quiet", "--quiet"),
];

/// Returns a tip for an option of cyclictest.
fn of_cyclictest(given: &str) -> Option<String> {
    let is_it = |option: &&(&str, &str, &str)| {
        // A value may follow the letter directly, as in -p95.
        given == option.1 || (!given.starts_with("--") && given.starts_with(option.0))
    };
    let (_, _, meant) = CYCLICTEST_OPTIONS.iter().find(is_it)?;
    Some(format!(
        "use '{meant}'; 'tardy cyclictest' takes the options of cyclictest"
    ))
}

/// Adds the most similar flag or command to an error about an unknown flag.
fn with_flag_meant(mut error: Error, arguments: &[String]) -> Error {
    match error.kind() {
        ErrorKind::UnknownArgument => {}
        ErrorKind::InvalidSubcommand => return with_command_meant(error, arguments),
        _ => return error,
    }
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let is_run = arguments.get(1).is_some_and(|name| name == RUN);
    if let Some(tip) = is_run.then(|| of_cyclictest(given)).flatten() {
        error.remove(ContextKind::SuggestedArg);
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![tip.into()]),
        );
        return error;
    }
    let command = Cli::command();
    let flags: Vec<&str> = deepest(&command, arguments)
        .get_arguments()
        .filter(|flag| !flag.is_hide_set())
        .filter_map(|flag| flag.get_long())
        .collect();
    if let Some(meant) = given
        .strip_prefix("--")
        .and_then(|given| nearest(given, flags.iter().copied()))
    {
        error.insert(
            ContextKind::SuggestedArg,
            ContextValue::String(format!("--{meant}")),
        );
    }
    error
}

/// Adds the most similar command to an error about an unknown command.
fn with_command_meant(mut error: Error, arguments: &[String]) -> Error {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let command = Cli::command();
    let names: Vec<&str> = deepest(&command, arguments)
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .map(Command::get_name)
        .collect();
    let meant = nearest(given, names).map(str::to_owned);
    let is_version = given == "version";
    error.remove(ContextKind::SuggestedSubcommand);
    if is_version {
        let tip = "use '--version'".into();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    } else if let Some(meant) = meant {
        error.insert(
            ContextKind::SuggestedSubcommand,
            ContextValue::Strings(vec![meant]),
        );
    }
    error
}

/// Returns the innermost subcommand that the arguments name.
fn deepest<'a>(command: &'a Command, arguments: &[String]) -> &'a Command {
    let mut found = command;
    for argument in arguments.iter().skip(1) {
        match found.find_subcommand(argument) {
            Some(next) => found = next,
            None => break,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn a_mistyped_flag_is_answered_with_the_one_that_was_meant() {
        let said = |line: &str| {
            let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            with_flag_meant(Cli::try_parse_from(&arguments).unwrap_err(), &arguments).to_string()
        };
        for (line, meant) in [
            ("tardy run --fro 10s", "'--for'"),
            ("tardy show x --jsno", "'--json'"),
            ("tardy compare a b --margn 1us", "'--margin'"),
        ] {
            assert!(said(line).contains(meant), "{}", said(line));
        }
        for (line, meant) in [
            (
                "tardy run -D 10s",
                "tip: use '--for'; 'tardy cyclictest' takes",
            ),
            ("tardy run -p95", "'--priority'"),
            ("tardy run -i 200", "'--period'"),
            ("tardy run -t 5", "'--cpus'"),
            ("tardy run --duration 10", "'--for'"),
            ("tardy run --interval 200", "'--period'"),
        ] {
            let said = said(line);
            assert!(said.contains(meant) && !said.contains("-- -"), "{said}");
        }
        for (line, meant) in [
            ("tardy rnu", "'run'"),
            ("tardy lab atals", "'atlas'"),
            ("tardy version", "tip: use '--version'"),
        ] {
            assert!(said(line).contains(meant), "{}", said(line));
        }
        assert!(!said("tardy xyzzy").contains("similar"));
        assert!(
            !said("tardy run --xyzzy 3").contains("similar"),
            "{}",
            said("tardy run --xyzzy 3")
        );
    }
}
