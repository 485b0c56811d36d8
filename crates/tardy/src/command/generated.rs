//! `tardy man` and `tardy completions`: print pages and scripts that are generated from the
//! definition of the command line.

use std::fs;
use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::CompleteEnv;
use clap_complete::env::Shells;
use clap_mangen::Man;
use tardy_results::exit::Exit;
use tardy_run::nearest::nearest;

use super::output;
use crate::cli::Cli;
use crate::cli::complete;
use crate::cli::generated::{CompletionsArgs, ManArgs};

/// The environment variable by which a shell requests completions.
const COMPLETE: &str = "TARDY_COMPLETE";
/// The section of the manual that describes programs.
const SECTION: &str = "1";

/// Prints the manual page of one command, or writes the pages of all commands.
#[must_use]
pub fn man(args: &ManArgs) -> Exit {
    let mut definition = Cli::command();
    definition.build();
    let result = match &args.all {
        Some(folder) => write_all(&definition, folder)
            .map_err(|error| format!("--all {}: {error}", folder.display())),
        None => {
            let command = match find(&definition, &args.command) {
                Ok(command) => command,
                Err(reason) => {
                    say!("tardy: {reason}");
                    return Exit::Usage;
                }
            };
            let name = std::iter::once("tardy")
                .chain(args.command.iter().map(String::as_str))
                .collect::<Vec<_>>()
                .join("-");
            page(command, &name)
                .and_then(|page| output::print(&page))
                .map_err(|error| format!("cannot write the page: {error}"))
        }
    };
    ended(result)
}

/// Prints the script with which a shell completes commands.
#[must_use]
pub fn completions(args: &CompletionsArgs) -> Exit {
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let shell = shells.completer(&args.shell).expect("parsed by name");
    let result = shell
        .write_registration(COMPLETE, "tardy", "tardy", "tardy", &mut script)
        .and_then(|()| output::print(&String::from_utf8_lossy(&script)));
    ended(result.map_err(|error| format!("cannot write the script: {error}")))
}

/// Prints the completions and ends the process, if the script of [`completions`] requests them
/// through an environment variable.
pub fn complete_if_asked() {
    CompleteEnv::with_factory(|| complete::with_values(Cli::command()))
        .var(COMPLETE)
        .complete();
}

fn ended(result: Result<(), String>) -> Exit {
    match result {
        Ok(()) => Exit::Done,
        Err(reason) => {
            say!("tardy: {reason}");
            Exit::Machine
        }
    }
}

fn find<'a>(definition: &'a Command, names: &[String]) -> Result<&'a Command, String> {
    let mut command = definition;
    for name in names {
        command = command.find_subcommand(name).ok_or_else(|| {
            let known: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
            let near = nearest(name, known.iter().copied())
                .map_or_else(String::new, |near| format!(": did you mean `{near}`?"));
            format!("`{name}` is not a command of {}{near}", command.get_name())
        })?;
    }
    Ok(command)
}

/// Returns the manual page of a command. The name of the page includes the names of the commands
/// above this one.
fn page(command: &Command, name: &str) -> io::Result<String> {
    let mut page = Vec::new();
    // clap needs a name that lives as long as the process, which ends after the pages are written.
    let lasting: &'static str = name.to_owned().leak();
    Man::new(command.clone().name(lasting).display_name(lasting))
        .section(SECTION)
        .title(name.to_uppercase())
        .render(&mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

/// Writes `tardy.1`, `tardy-run.1` and so on.
fn write_all(definition: &Command, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    write_with_children(definition, "tardy", folder)
}

fn write_with_children(command: &Command, name: &str, folder: &Path) -> io::Result<()> {
    let (path, page) = (
        folder.join(format!("{name}.{SECTION}")),
        page(command, name)?,
    );
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    output::replace(&path, |mut file| {
        io::Write::write_all(&mut file, page.as_bytes())
    })
    .map_err(named)?;
    // The command `help` needs no page.
    for child in command
        .get_subcommands()
        .filter(|child| child.get_name() != "help" && !child.is_hide_set())
    {
        write_with_children(child, &format!("{name}-{}", child.get_name()), folder)?;
    }
    Ok(())
}
