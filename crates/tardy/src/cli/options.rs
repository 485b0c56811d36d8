//! The options of `tardy run` ([`tardy_run::request`]) as arguments of a command line.

use clap::builder::{PossibleValue, PossibleValuesParser, ValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, Error};
use tardy_run::option::{Form, Kind, RunOption};
use tardy_run::request::Request;

/// Adds these options to the command.
pub(super) fn with_options<'a>(
    command: Command,
    options: impl Iterator<Item = &'static RunOption> + 'a,
) -> Command {
    options.fold(command, |command, option| command.arg(argument(option)))
}

/// Reads the request from the values of these options.
///
/// # Errors
/// Returns an error if an option refuses its value.
pub(super) fn request(
    matches: &ArgMatches,
    options: impl Iterator<Item = &'static RunOption>,
) -> Result<Request, Error> {
    let mut request = Request::default();
    for option in options {
        let name = option.definition.name;
        let refused = |reason: String| {
            Error::raw(ErrorKind::ValueValidation, format!("--{name}: {reason}\n"))
        };
        if option.kind == Kind::Flag {
            if matches.get_flag(name) {
                option.take(&mut request, None).map_err(refused)?;
            }
            continue;
        }
        let values: Vec<_> = matches.get_raw(name).into_iter().flatten().collect();
        if values.is_empty() && matches.contains_id(name) {
            option.take(&mut request, None).map_err(refused)?;
        }
        for value in values {
            option.take(&mut request, Some(value)).map_err(refused)?;
        }
    }
    Ok(request.spelled_out())
}

fn argument(option: &'static RunOption) -> Arg {
    let definition = &option.definition;
    let mut arg = Arg::new(definition.name)
        .conflicts_with_all(definition.conflicts)
        .requires_all(definition.needs);
    if !definition.group.is_empty() {
        arg = arg.help_heading(definition.group);
    }
    arg = match definition.form {
        Form::Long(short) => arg.long(definition.name).short(short),
        Form::Short(letter) => arg.short(letter),
        Form::Trailing => arg.last(true).num_args(1..),
    };
    if let Some(alias) = definition.alias {
        arg = arg.alias(alias);
    }
    let paragraphs = paragraphs(option.help);
    if let Some(first) = paragraphs.first() {
        arg = arg.help(first.trim_end_matches('.').to_owned());
    }
    if paragraphs.len() > 1 {
        arg = arg.long_help(paragraphs.join("\n\n"));
    }
    let arg = match option.kind {
        Kind::Flag => return arg.action(ArgAction::SetTrue),
        Kind::One => arg.action(ArgAction::Set),
        Kind::Many => arg.action(ArgAction::Append),
    };
    let mut arg = arg
        .value_name(definition.value)
        .value_parser(parser(option))
        .allow_hyphen_values(definition.can_begin_with_dash);
    if let Some(bare) = definition.bare {
        arg = arg.num_args(0..=1).require_equals(true);
        if !bare.is_empty() {
            arg = arg.default_missing_value(bare);
        }
    }
    if let Some(default) = definition.default {
        arg = arg.default_value(default);
    }
    match definition.separator {
        Some(separator) => arg.value_delimiter(separator),
        None => arg,
    }
}

/// Returns the parser of an option's values. It only checks them; the request parses them again.
fn parser(option: &'static RunOption) -> ValueParser {
    if option.is_path {
        return clap::value_parser!(std::path::PathBuf);
    }
    let choices = (option.choices)();
    if !choices.is_empty() {
        let possible = |(name, about)| PossibleValue::new(name).help(about);
        return PossibleValuesParser::new(choices.into_iter().map(possible)).into();
    }
    ValueParser::new(|text: &str| {
        option.take(&mut Request::default(), Some(text.as_ref()))?;
        Ok::<_, String>(text.to_owned())
    })
}

/// Returns the paragraphs of a doc comment, each joined to one line.
fn paragraphs(lines: &[&str]) -> Vec<String> {
    let paragraphs = lines.split(|line| line.trim().is_empty());
    paragraphs
        .map(|lines| lines.iter().map(|line| line.trim()).collect::<Vec<_>>())
        .map(|lines| lines.join(" "))
        .collect()
}

#[cfg(test)]
mod tests;
