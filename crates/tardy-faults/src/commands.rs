//! The subcommands of the tool, each with the command lines to try and their requirements. The
//! fault `starts` fails if a subcommand has no row here.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use xtask::failure::{Failure, Result, While};

use crate::folders;
use crate::place::Place;

/// A subcommand.
#[derive(Debug)]
pub(crate) struct Subcommand {
    pub(crate) name: &'static str,
    /// Whether the subcommand changes or creates anything on the machine, even temporarily.
    pub(crate) is_changing: bool,
    pub(crate) lines: &'static [Line],
}

/// A command line. `LAST` stands for the last CPU, `SELF` for the process number of this program,
/// and `TARDY` for the tool.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) words: &'static str,
    /// Expected exit codes without a fault.
    pub(crate) codes: &'static [i32],
    /// Time after which the command is interrupted (Ctrl-C).
    pub(crate) interrupted_after: Option<Duration>,
    /// Whether the line changes settings of the machine. Such lines run one at a time.
    pub(crate) is_of_the_machine: bool,
    /// Whether the brief form tries the line.
    pub(crate) is_brief: bool,
}

const fn line(words: &'static str, codes: &'static [i32]) -> Line {
    Line {
        words,
        codes,
        interrupted_after: None,
        is_of_the_machine: false,
        is_brief: false,
    }
}

const fn brief(words: &'static str, codes: &'static [i32]) -> Line {
    Line {
        is_brief: true,
        ..line(words, codes)
    }
}

const fn of_the_machine(words: &'static str, codes: &'static [i32]) -> Line {
    Line {
        is_of_the_machine: true,
        ..line(words, codes)
    }
}

const fn interrupted(words: &'static str, after: Duration) -> Line {
    Line {
        interrupted_after: Some(after),
        ..line(words, &[0, 3, 4, 130])
    }
}

const fn changes(name: &'static str, lines: &'static [Line]) -> Subcommand {
    Subcommand {
        name,
        is_changing: true,
        lines,
    }
}

const fn changes_nothing(name: &'static str, lines: &'static [Line]) -> Subcommand {
    Subcommand {
        name,
        is_changing: false,
        lines,
    }
}

const RUN: &[i32] = &[0, 4];
/// Exit codes on a host on which nothing boots, or if a board has no result.
const FAILED: &[i32] = &[2, 3, 4];

/// All subcommands, in the order of the tool's help.
pub(crate) const SUBCOMMANDS: &[Subcommand] = &[
    changes(
        "run",
        &[
            brief(
                "run --cycles 30 --period 2ms --load none --explain --quiet --out run",
                RUN,
            ),
            of_the_machine(
                "run --for 400ms --load io --load cgroup --load reclaim --cpus LAST --move-irqs \
                 --resume-latency 0 --spool spool --quiet --out run",
                RUN,
            ),
            line(
                "run --for 300ms --load none --explain --quiet --out run -- true",
                &[0, 3, 4],
            ),
            line(
                "run --for 300ms --load none --tune=own.toml --metrics 127.0.0.1:0 --stop-above \
                 10s --quiet --out run",
                RUN,
            ),
            line(
                "run --cycles 20 --load none --quiet --on ssh://board --out rack",
                RUN,
            ),
        ],
    ),
    changes_nothing("doctor", &[line("doctor --watch 0s", &[0])]),
    changes(
        "explain",
        &[line(
            "explain ../base/explained --perfetto run.pftrace",
            &[0],
        )],
    ),
    changes_nothing(
        "compare",
        &[line("compare ../base/run ../base/other", &[0, 1, 4])],
    ),
    changes(
        "report",
        &[line("report ../base/run --html run.html", &[0])],
    ),
    changes(
        "attach",
        &[brief("attach SELF --for 200ms --out run", &[0, 4])],
    ),
    changes(
        "cost",
        &[line(
            "cost --metric open-close --metric file-reread --rounds 1 --trials 3 --quiet --out run",
            RUN,
        )],
    ),
    changes("cyclictest", &[line("cyclictest -l 50 -i 2000 -q", &[0])]),
    changes_nothing("breakdown", &[line("breakdown ../base/run", &[0, 4])]),
    changes(
        "respond",
        &[line("respond udp:127.0.0.1 --for 200ms --out run", RUN)],
    ),
    changes(
        "load",
        &[
            line("load cgroup reclaim --for 200ms", &[0]),
            line("load hackbench memory --for 200ms", &[0]),
        ],
    ),
    changes_nothing("show", &[line("show ../base/run", &[0])]),
    changes(
        "plot",
        &[line("plot ../base/run --kind hist -o run.svg", &[0])],
    ),
    changes(
        "history",
        &[line("history ../base --html page.html", &[0, 1, 4])],
    ),
    changes_nothing("advise", &[line("advise ../base/run", &[0, 4])]),
    changes_nothing("top", &[line("top ../base/run", &[2])]),
    changes(
        "import",
        &[line("import ../base/verbose --period 1ms --out run", &[0])],
    ),
    changes(
        "export",
        &[line("export ../base/run --format csv -o run.csv", &[0])],
    ),
    changes(
        "fetch",
        &[line(
            "fetch ssh://board/var/tmp/tardy-on.absent --out fetched",
            FAILED,
        )],
    ),
    changes(
        "tune",
        &[
            brief("tune --apply --settings own.toml -- true", &[0]),
            of_the_machine("tune --apply --only compaction,swap -- true", &[0]),
            interrupted(
                "tune --search --settings own.toml --for 200ms --budget 60s --load none --out \
                 search",
                Duration::from_millis(1500),
            ),
        ],
    ),
    changes("restore", &[line("restore", &[0])]),
    changes(
        "lab",
        &[
            line("lab shell --kernel kernel --busybox TARDY", FAILED),
            line(
                "lab run --kernel kernel --for 200ms --load none --replicas 1 --out lab",
                FAILED,
            ),
        ],
    ),
    changes(
        "reproduce",
        &[interrupted(
            "reproduce mckenney2009 --quick --quiet --out papers",
            Duration::from_millis(1500),
        )],
    ),
    changes_nothing("list", &[line("list loads", &[0])]),
    changes_nothing("scenarios", &[line("scenarios", &[0])]),
    changes_nothing("schema", &[line("schema", &[0])]),
    changes("man", &[line("man --all pages", &[0])]),
    changes_nothing("completions", &[line("completions bash", &[0])]),
    changes_nothing("help", &[line("help run", &[0])]),
];

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
        "crates/tardy-faults/src/commands.rs has rows for {listed:?}, and the tool has the \
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
    /// Returns the words of the line for this machine.
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
    // The file that `own.toml` sets.
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
    std::fs::create_dir_all(path("cache")).while_doing(|| "making a cache".to_owned())?;
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

/// Makes the leftovers of a killed command.
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
        for command in SUBCOMMANDS {
            assert!(!command.lines.is_empty(), "{}", command.name);
            for line in command.lines {
                assert_eq!(line.words.split(' ').next(), Some(command.name));
            }
        }
    }
}
