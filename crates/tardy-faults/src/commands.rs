//! The subcommands of the tool, each with the command lines to try and their expected exit codes
//! (commands.txt). The fault `starts` fails if commands.txt lacks a subcommand.
//!
//! Each indented line below a subcommand has a kind, the expected exit codes and the command line.
//! In the command line, `LAST` stands for the last CPU, `SELF` for the process number of this
//! program, and `TARDY` for the tool. The kinds are `plain`; `brief`, for lines that the brief form
//! tries, too; `machine`, for lines that change settings of the machine; and `interrupted`, for
//! lines that are interrupted (Ctrl-C). The lines of `lab` and `fetch` are expected to fail,
//! because the kernel does not boot and the board has no result.

use std::os::unix::fs::PermissionsExt;
use std::sync::LazyLock;
use std::time::Duration;

use xtask::failure::{Failure, Result, While};
use xtask::workspace;

use crate::folders;
use crate::place::Place;

/// How long a command runs before it is interrupted.
const INTERRUPTED_AFTER: Duration = Duration::from_millis(1500);

/// A subcommand.
#[derive(Debug)]
pub(crate) struct Subcommand {
    pub(crate) name: &'static str,
    /// Whether the subcommand changes or creates anything on the machine, even temporarily.
    pub(crate) is_changing: bool,
    pub(crate) lines: Vec<Line>,
}

/// A command line.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) words: &'static str,
    /// Expected exit codes without a fault.
    pub(crate) codes: Vec<i32>,
    /// How long the command runs before it is interrupted (Ctrl-C).
    pub(crate) interrupted_after: Option<Duration>,
    /// Whether the line changes settings of the machine. Such lines run one at a time.
    pub(crate) is_of_the_machine: bool,
    /// Whether the brief form tries the line.
    pub(crate) is_brief: bool,
}

/// All subcommands, in the order of the tool's help.
pub(crate) static SUBCOMMANDS: LazyLock<Vec<Subcommand>> = LazyLock::new(|| {
    let mut commands: Vec<Subcommand> = Vec::new();
    for row in include_str!("commands.txt").lines() {
        if let Some(line) = row.strip_prefix("    ") {
            let command = commands.last_mut().expect("a line follows its subcommand");
            command.lines.push(Line::parsed(line));
        } else {
            let (name, changes) = row.split_once(": ").unwrap_or((row, ""));
            commands.push(Subcommand {
                name,
                is_changing: match changes {
                    "changes" => true,
                    "changes nothing" => false,
                    _ => panic!("commands.txt has the row `{row}`"),
                },
                lines: Vec::new(),
            });
        }
    }
    commands
});

/// Fails if this list differs from the tool's own list of subcommands.
pub(crate) fn check(place: &Place) -> Result<()> {
    let help = place.tardy("--help")?.printed;
    let mut known = named_in(&help);
    let mut listed: Vec<&str> = SUBCOMMANDS.iter().map(|command| command.name).collect();
    known.sort_unstable();
    listed.sort_unstable();
    if known == listed {
        return Ok(());
    }
    Err(Failure::new(format!(
        "crates/tardy-faults/src/commands.txt has rows for {listed:?}, and the tool has the \
         subcommands {known:?}"
    )))
}

/// Returns the subcommands in the tool's help. A test of the tool compares that help with the
/// parser.
fn named_in(help: &str) -> Vec<&str> {
    help.lines()
        .take_while(|line| *line != "Options:")
        .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next())
        .collect()
}

impl Line {
    fn parsed(row: &'static str) -> Self {
        let [kind, codes, words] = row.splitn(3, ' ').collect::<Vec<_>>()[..] else {
            panic!("commands.txt has the line `{row}`");
        };
        assert!(
            ["plain", "brief", "machine", "interrupted"].contains(&kind),
            "commands.txt has the kind `{kind}`"
        );
        let code = |code: &str| code.parse().expect("an exit code is a number");
        Self {
            words,
            codes: codes.split(',').map(code).collect(),
            interrupted_after: (kind == "interrupted").then_some(INTERRUPTED_AFTER),
            is_of_the_machine: kind == "machine",
            is_brief: kind == "brief",
        }
    }

    /// Returns the words of the line, with the placeholders replaced for this machine.
    pub(crate) fn text(&self, place: &Place) -> String {
        self.words
            .replace("LAST", &folders::last_cpu().to_string())
            .replace("SELF", &std::process::id().to_string())
            .replace("TARDY", &place.binary().display().to_string())
    }
}

/// Makes the files that the lines need: settings, a QEMU that does not boot, an ssh that connects
/// to this machine, and the leftovers of a killed command.
pub(crate) fn prepare(place: &Place) -> Result<()> {
    let path = |name: &str| place.path(name);
    let write = |name: &str, content: &[u8]| {
        let path = path(name);
        path.parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(&path, content))
            .while_doing(|| format!("writing {}", path.display()))
    };
    // `own.toml` declares this file as a setting.
    let setting = place.setting();
    std::fs::write(&setting, "1").while_doing(|| format!("writing {}", setting.display()))?;
    write(
        "own.toml",
        format!(
            "[[setting]]\nname = \"mine\"\nfiles = {{ {setting:?} = \"2\" }}\n\n[[setting]]\nname \
             = \"program\"\nwhile_on = [\"sleep\", \"60\"]\n"
        )
        .as_bytes(),
    )?;
    write("kernel", &kernel())?;
    workspace::make_folder(&path("cache"))?;
    for (name, script) in [
        (
            "qemu-system-x86_64",
            "[ \"$1\" = --version ] && echo 'QEMU emulator version 7.2.0' && exit\nexit 1\n",
        ),
        ("ssh", "for word; do :; done\nexec sh -c \"$word\"\n"),
    ] {
        let program = format!("bin/{name}");
        write(&program, format!("#!/bin/sh\n{script}").as_bytes())?;
        std::fs::set_permissions(path(&program), std::fs::Permissions::from_mode(0o755))
            .while_doing(|| format!("making {program} executable"))?;
    }
    Ok(())
}

/// Makes the files that a killed command would leave.
pub(crate) fn leave(place: &Place) -> Result<()> {
    let folder = place.path("tmp/tardy-scratch-left-1-1");
    let journal = serde_json::json!({
        "boot_id": null,
        "process": 4_194_304,
        "process_start": 1,
        "loads": [{ "remove-folder": folder }],
    });
    std::fs::create_dir(&folder)
        .and_then(|()| {
            std::fs::write(
                place.path("state/journal-4194304-0.json"),
                journal.to_string(),
            )
        })
        .while_doing(|| "leaving a folder and its journal".to_owned())
}

/// Returns the part of a bzImage that the lab reads (the kernel's Documentation/arch/x86/boot.rst).
fn kernel() -> Vec<u8> {
    let mut bytes = vec![0; 0x400];
    bytes[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
    bytes[0x202..0x206].copy_from_slice(b"HdrS");
    bytes[0x20e..0x210].copy_from_slice(&0x200_u16.to_le_bytes());
    bytes.extend_from_slice(b"6.1.0-tardy (x) #1 SMP PREEMPT_RT\0");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subcommands_are_read_from_the_help() {
        let help = "Usage: tardy <COMMAND>\n\nStart:\n  run     Measure\n  doctor  Check\n\nOther:\n  \
                    lab     Boot\n\nOptions:\n  -h, --help\n";
        assert_eq!(named_in(help), ["run", "doctor", "lab"]);
    }

    #[test]
    fn each_line_begins_with_its_subcommand() {
        for command in SUBCOMMANDS.iter() {
            assert!(!command.lines.is_empty(), "{}", command.name);
            for line in &command.lines {
                assert_eq!(line.words.split(' ').next(), Some(command.name));
            }
        }
    }
}
