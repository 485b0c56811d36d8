//! The commands by purpose, as `tardy help` lists them.

use std::fmt::Write as _;

/// Purposes of users, with the commands for each. The first is for newcomers.
const PURPOSES: &[(&str, &[&str])] = &[
    ("Start", &["run", "doctor", "explain", "compare", "report"]),
    (
        "Measure something else",
        &[
            "attach",
            "cost",
            "cyclictest",
            "breakdown",
            "respond",
            "load",
        ],
    ),
    (
        "Use results",
        &[
            "show", "plot", "history", "advise", "top", "import", "export", "fetch",
        ],
    ),
    ("Change this machine", &["tune", "restore"]),
    (
        "Test other kernels, repeat published measurements",
        &["lab", "reproduce"],
    ),
    (
        "About tardy",
        &["list", "scenarios", "schema", "man", "completions", "help"],
    ),
];

/// Returns the command with a help text that lists its subcommands by purpose.
#[must_use]
pub fn by_purpose(command: clap::Command) -> clap::Command {
    let header = *command.get_styles().get_header();
    let literal = *command.get_styles().get_literal();
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (purpose, names) in PURPOSES {
        let _ = writeln!(text, "\n{header}{purpose}:{header:#}");
        for &name in *names {
            let about = command
                .find_subcommand(name)
                .and_then(clap::Command::get_about)
                .map_or(
                    "List the commands, or print the help of one".into(),
                    ToString::to_string,
                );
            let _ = writeln!(text, "  {literal}{name:<12}{literal:#} {about}");
        }
    }
    let _ = write!(
        text,
        "\n{header}Options:{header:#}\n{{options}}{{after-help}}"
    );
    command.help_template(text)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn each_command_has_one_purpose_and_fits_a_line() {
        let command = crate::cli::Cli::command();
        let mut listed: Vec<&str> = PURPOSES
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        listed.sort_unstable();
        let mut known: Vec<&str> = command
            .get_subcommands()
            .map(clap::Command::get_name)
            .collect();
        known.push("help");
        known.sort_unstable();
        assert_eq!(listed, known);
        let help = by_purpose(command).render_help().to_string();
        for line in help.lines().filter(|line| line.starts_with("  ")) {
            assert!(line.len() <= 80, "{line}");
        }
    }
}
