//! Old names of commands and options. They are accepted for one more minor version, hidden in the
//! help, and reported when used.

use std::collections::BTreeSet;

/// Subcommands: old name, new name. `clap` knows the old names as aliases.
const COMMANDS: &[(&str, &str)] = &[("split", "breakdown")];

/// Options: subcommand (empty for all), old name, new name.
const OPTIONS: &[(&str, &str, &str)] = &[
    ("", "--steer-irqs", "--move-irqs"),
    ("", "--reference", "--paper"),
    ("advise", "--from", "--paper"),
    ("lab", "--append", "--cmdline"),
    ("lab", "--insn", "--instruction-time"),
    ("lab", "--pads", "--replicas"),
    ("lab", "--twice", "--verify-repeatable"),
];

/// Returns a note for each old name in use. `arguments` do not include the program's name.
#[must_use]
pub fn notes(arguments: &[String]) -> Vec<String> {
    let ours = arguments
        .iter()
        .position(|argument| argument == "--")
        .map_or(arguments, |end| &arguments[..end]);
    let Some((command, options)) = ours.split_first() else {
        return Vec::new();
    };
    let mut found = BTreeSet::new();
    found.extend(COMMANDS.iter().find(|(old, _)| old == command).copied());
    for (index, argument) in options.iter().enumerate() {
        let next = || options.get(index + 1).map_or("", String::as_str);
        let (name, value) = argument
            .split_once('=')
            .unwrap_or_else(|| (argument.as_str(), next()));
        found.extend(
            OPTIONS
                .iter()
                .find(|(of, old, _)| *old == name && (of.is_empty() || of == command))
                .map(|&(_, old, new)| (old, new)),
        );
        let value = value.split(':').next().unwrap_or_default();
        let names = match name {
            "--probe" => tardy_probes::probe::RENAMED,
            "--load" => tardy_loads::load::RENAMED,
            _ => continue,
        };
        found.extend(names.iter().find(|(old, _)| *old == value).copied());
    }
    found
        .into_iter()
        .map(|(old, new)| {
            format!("{old} is now called {new}: the old name is accepted until version 0.3")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn of(line: &str) -> Vec<String> {
        notes(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn each_old_name_is_noted_once_and_names_of_today_never() {
        assert_eq!(
            of("split run"),
            ["split is now called breakdown: the old name is accepted until version 0.3"]
        );
        assert_eq!(
            of("run --probe spin:least=1us --probe=spin --load spin:period=1ms --steer-irqs").len(),
            3
        );
        assert_eq!(
            of("lab run --kernel a --append x=1 --kernel b --append y=1 --pads 3"),
            [
                "--append is now called --cmdline: the old name is accepted until version 0.3",
                "--pads is now called --replicas: the old name is accepted until version 0.3",
            ]
        );
        for line in [
            "run --probe oslat --load busy --move-irqs",
            "export run --from 3",
            "show split",
            "run -- split --pads --probe spin",
            "breakdown run",
        ] {
            assert_eq!(of(line), [""; 0], "{line}");
        }
    }

    /// Returns the old names of the options of a command and of its subcommands.
    fn aliases(command: &clap::Command) -> Vec<String> {
        let own = command
            .get_arguments()
            .filter_map(clap::Arg::get_all_aliases)
            .flatten()
            .map(|alias| format!("--{alias}"));
        own.chain(command.get_subcommands().flat_map(aliases))
            .collect()
    }

    #[test]
    fn each_old_name_of_an_option_is_accepted() {
        let whole = crate::cli::Cli::command();
        for &(of, old, _) in OPTIONS {
            let command = if of.is_empty() {
                &whole
            } else {
                whole.find_subcommand(of).unwrap()
            };
            assert!(
                aliases(command).iter().any(|alias| alias == old),
                "{of} {old}"
            );
        }
    }
}
