//! The table of `cargo xtask drop-in`: every option of any packaged cyclictest, with the command
//! lines that are tried for it and the result that is expected.

/// The verdict that a row must have in at least one version; otherwise the command fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    Same,
    /// For this reason.
    Differs(&'static str),
    /// For this reason.
    Refused(&'static str),
}

/// An option, or a way of calling it that is no option.
#[derive(Debug)]
pub(super) struct Row {
    /// The option's name in `--help`, without dashes, or a description of the trial.
    pub(super) name: &'static str,
    pub(super) expected: Expected,
    pub(super) trials: &'static [Trial],
}

/// The facts that a trial compares, beside the exit code and the lines of every output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Output,
    /// As `Output`, where a failure is a refusal.
    Refusal,
    /// Only the exit code: the text is that of the program.
    Exit,
    /// The threads of real-time priority 70 to 80 while they measure: priority and CPUs.
    Threads,
    /// Sends this signal while threads measure.
    Signal(i32),
}

/// The CPUs that the caller allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Allowed {
    All,
    /// CPU 1, by taskset.
    Taskset,
    /// CPU 1, by a cpuset.
    Cpuset,
}

/// One command line, given to both programs.
#[derive(Debug)]
pub(super) struct Trial {
    pub(super) line: &'static str,
    pub(super) look: Look,
    pub(super) allowed: Allowed,
}

const fn output(line: &'static str) -> Trial {
    Trial {
        line,
        look: Look::Output,
        allowed: Allowed::All,
    }
}

const fn exit(line: &'static str) -> Trial {
    Trial {
        look: Look::Exit,
        ..output(line)
    }
}

const fn refuses(line: &'static str) -> Trial {
    Trial {
        look: Look::Refusal,
        ..output(line)
    }
}

const fn threads(line: &'static str) -> Trial {
    Trial {
        look: Look::Threads,
        ..output(line)
    }
}

const fn signal(number: i32, line: &'static str) -> Trial {
    Trial {
        look: Look::Signal(number),
        ..output(line)
    }
}

const fn on_one_cpu(allowed: Allowed, line: &'static str) -> Trial {
    Trial {
        allowed,
        ..threads(line)
    }
}

const fn same(name: &'static str, trials: &'static [Trial]) -> Row {
    Row {
        name,
        expected: Expected::Same,
        trials,
    }
}

const fn differs(name: &'static str, reason: &'static str, trials: &'static [Trial]) -> Row {
    Row {
        name,
        expected: Expected::Differs(reason),
        trials,
    }
}

const fn refused(name: &'static str, reason: &'static str, trials: &'static [Trial]) -> Row {
    Row {
        name,
        expected: Expected::Refused(reason),
        trials,
    }
}

const FILE: &str = "the layout, as for `-h`; a file that cannot be written is an error before \
                    anything is measured, and not ignored";
const NO_CPU: &str = "1.5 prints no line `Thread N using cpu` with `-v`";
const LAYOUT: &str = "from 2.7 on, cyclictest leaves out empty rows and `# Total:`; here they are as \
                      in 2.4, which Debian 12 has";

/// All rows: first those of options, in the order of `--help`.
pub(super) const ROWS: &[Row] = &[
    differs(
        "affinity",
        "1.5 ignores `!`, which later versions and `tardy` obey",
        &[
            threads("-q -a -t2 -p 80 -D 1"),
            threads("-q -a 1 -t2 -p 80 -D 1"),
            threads("-q -a1,0 -t3 -p 80 -D 1"),
            threads("-q --affinity=0-1 -t2 -p 80 -D 1"),
            threads("-q -a !0 -t2 -p 80 -D 1"),
            threads("-q -a all -t2 -p 80 -D 1"),
            output("-v -a 1 -l 20 -p 80"),
            output("-q -a 4000 -l 5"),
            output("-q -a 1-x -l 5"),
        ],
    ),
    same(
        "aligned",
        &[
            output("-q -A -l 40 -t2 -d 0"),
            output("-q -A 0 -l 40 -p 80"),
            output("-q -A 100 -l 40 -t2 -a -p 80"),
            output("-q --aligned=1500 -l 40 -t2 -a -p 80"),
        ],
    ),
    same(
        "breaktrace",
        &[
            output("-q -b 1 -l 50 -p 80 -a 0"),
            output("-q -b 1000000 -l 40"),
            output("-q -b 0 -l 40"),
        ],
    ),
    same(
        "clock",
        &[
            output("-q -c 0 -l 40"),
            output("-q -c 1 -l 40"),
            output("-q -c 5 -l 40"),
        ],
    ),
    same("default-system", &[output("-q --default-system -l 40")]),
    refused(
        "deepest-idle-state",
        "idle states are limited by their exit latency: `--latency` here, `--resume-latency` in \
         `tardy run`",
        &[refuses("-q --deepest-idle-state=0 -l 40 -a 0")],
    ),
    same(
        "distance",
        &[
            output("-q -d 0 -t2 -l 40"),
            output("-q -d 100 -t3 -l 40 -p 80"),
            output("-q -d 100 -h 1 -t2 -l 3 -p 80 --histfile=/dev/null"),
        ],
    ),
    same(
        "duration",
        &[
            output("-q -D 1"),
            output("-q --duration=1s"),
            output("-q -D 0 -l 40"),
            output("-q -D 1m -l 40"),
        ],
    ),
    refused(
        "fifo",
        "with `--tardy-out`, `tardy top` shows the run while it lasts",
        &[refuses("-q -F pipe -l 40")],
    ),
    differs(
        "histogram",
        LAYOUT,
        &[
            output("-q -h 1 -l 3 -a 0 -p 80"),
            output("-q -h 400000 -l 40 -i 2000 -a 0 -p 80"),
            output("-h 1 -l 3 -a 0 -p 80"),
        ],
    ),
    differs(
        "histofall",
        LAYOUT,
        &[
            output("-q -H 1 -l 3 -t2 -a -p 80"),
            output("-q -H 1 -l 3 -t1 -a 0 -p 80"),
        ],
    ),
    differs(
        "histfile",
        FILE,
        &[
            output("-q -h 1 -l 3 -a 0 -p 80 --histfile=file"),
            exit("-q -h 1 -l 3 -a 0 -p 80 --histfile=absent/file"),
        ],
    ),
    same(
        "interval",
        &[
            output("-q -i 2000 -l 20"),
            output("-q --interval=500 -t2 -l 40 -p 80"),
        ],
    ),
    same(
        "json",
        &[
            output("-q -l 40 -a 0 -p 80 --json=file.json"),
            output("-q -l 40 -a -t2 -p 80 -h 1 --histfile=/dev/null --json=file.json"),
            output("-q -l 40 -a 0 -p 80 --json=/dev/stdout"),
            output("-q -l 40 -a 0 -p 80 --json=-"),
            output("-q -l 40 -a 0 -p 80 --json=fifo.json"),
            exit("-q -l 40 -a 0 -p 80 --json=absent/file"),
        ],
    ),
    same("laptop", &[output("-q --laptop -l 40")]),
    same(
        "latency",
        &[
            output("-q --latency=50 -l 40"),
            output("-q --latency=-5 -l 40"),
        ],
    ),
    differs(
        "loops",
        NO_CPU,
        &[
            output("-q -l 20"),
            output("-v -l 20 -a 0 -p 80"),
            output("-q -l 0 -D 1"),
            output("-q --loops=20 -t2 -d 0"),
        ],
    ),
    same("mainaffinity", &[output("-q --mainaffinity=0 -l 40")]),
    same("mlockall", &[output("-q -m -l 40")]),
    differs(
        "refresh_on_max",
        "ignored: without `-q`, the figures are printed once, at the end",
        &[output("-q -M -l 40"), output("-M -l 40")],
    ),
    differs(
        "nsecs",
        NO_CPU,
        &[
            output("-q -N -l 40"),
            output("-v -N -l 20 -a 0 -p 80"),
            output("-q -N -h 1 -l 3 -a 0 -p 80 --histfile=/dev/null --json=file.json"),
        ],
    ),
    differs(
        "oscope",
        NO_CPU,
        &[
            output("-v -o 5 -l 20 -a 0 -p 80"),
            output("-v -o 3 -l 20 -a -t2 -d 0 -p 80"),
            output("-q -o 5 -l 20"),
            output("-q -o 0 -l 20"),
        ],
    ),
    differs(
        "priority",
        "99 becomes 98: the watchdog that ends a run that hangs needs 99",
        &[
            threads("-q -p 80 -a 0 -D 1"),
            output("-q -p 0 -l 40"),
            output("-q -p 99 -l 40"),
            output("-q -p 100 -l 5"),
        ],
    ),
    refused(
        "policy",
        "`batch` and `idle`: probes run as fifo, rr or other",
        &[
            threads("-q --policy=fifo -p 80 -a 0 -D 1"),
            threads("-q --policy=rr -p 80 -a 0 -D 1"),
            output("-q --policy=rr -l 40"),
            output("-q --policy=other -l 40"),
            output("-q --policy=normal -l 40"),
            refuses("-q --policy=batch -l 40"),
            refuses("-q --policy=idle -l 40"),
            output("-q --policy=other -p 80 -l 40"),
            output("-q -p 80 --policy=other -l 40"),
        ],
    ),
    same(
        "priospread",
        &[
            threads("-q --priospread -p 80 -t2 -D 1 -a"),
            output("-q --priospread -t2 -l 40"),
        ],
    ),
    same("quiet", &[output("-q -l 20"), output("-l 20")]),
    same(
        "relative",
        &[output("-q -r -l 40"), output("-q -r -x -l 40")],
    ),
    same("resolution", &[output("-q -R -l 40")]),
    same(
        "secaligned",
        &[
            output("-q --secaligned -l 40 -p 80"),
            output("-q --secaligned 100 -l 40 -t2 -a -p 80"),
        ],
    ),
    same("system", &[output("-q -s -l 40"), output("-q -s -x -l 40")]),
    same(
        "smp",
        &[
            threads("-q -S -p 80 -D 1"),
            threads("-q -S -a -p 80 -D 1"),
            threads("-q -S -a 1 -p 80 -D 1"),
            threads("-q -S -t1 -p 80 -D 1"),
            threads("-q -t1 -S -p 80 -D 1"),
            threads("-q -S -t -p 80 -D 1"),
        ],
    ),
    same(
        "spike",
        &[
            output("-q -l 10 --spike=1 -p 80 -a 0"),
            output("-q -l 10 --spike=1000000 -p 80 -a 0"),
            output("-q -l 10 --spike=0 -p 80 -a 0"),
        ],
    ),
    same(
        "spike-nodes",
        &[output("-q -l 20 --spike=1 --spike-nodes=5 -p 80 -a 0")],
    ),
    refused(
        "smi",
        "a run with `--tardy-out` records SMIs, where the machine counts them",
        &[refuses("-q --smi -a 0 -l 40")],
    ),
    differs(
        "threads",
        "threads are always bound to a CPU: without `-a`, to the usable CPUs in turn",
        &[
            threads("-q -t1 -p 80 -D 1"),
            threads("-q -t -p 80 -D 1"),
            threads("-q -t 3 -p 80 -D 1"),
            output("-q -t -l 40"),
            output("-q -t 0 -l 40"),
        ],
    ),
    differs(
        "tracemark",
        "1.5 prints its help, unless `-b` comes with it",
        &[output("-q --tracemark -l 40")],
    ),
    same("unbuffered", &[output("-q -u -l 40")]),
    differs(
        "verbose",
        NO_CPU,
        &[
            output("-v -l 20 -a 0 -p 80"),
            output("-v -t2 -a -d 0 -l 20 -p 80"),
            output("-v -q -l 5 -a 0 -p 80"),
            output("-v -h 1 -l 3 -a 0 -p 80 --histfile=/dev/null"),
        ],
    ),
    same("dbg_cyclictest", &[output("-q --dbg_cyclictest -l 20")]),
    same(
        "posix_timers",
        &[output("-q -x -l 40"), output("-q -x -c 1 -l 40 -p 80")],
    ),
    same("--help", &[exit("--help")]),
    same("--version", &[exit("--version")]),
    differs(
        "unknown options and values",
        "cyclictest prints its help or takes another value, and ends with 0; here they are errors",
        &[
            exit("--bogus -l 5"),
            exit("-q -D 1x -l 40"),
            exit("-q --policy=bogus -l 40"),
            exit("-q -h 0 -l 5"),
        ],
    ),
    same("other words", &[output("-q -l 20 word")]),
    differs(
        "taskset -c 1",
        "1.5 ignores it, and 2.6 and 2.10 leave it without `-a`; `tardy` and 2.4 obey",
        &[
            on_one_cpu(Allowed::Taskset, "-q -t1 -p 80 -D 1"),
            on_one_cpu(Allowed::Taskset, "-q -t -p 80 -D 1"),
            on_one_cpu(Allowed::Taskset, "-q -a -t2 -p 80 -D 1"),
            on_one_cpu(Allowed::Taskset, "-q -a 1 -p 80 -D 1"),
            on_one_cpu(Allowed::Taskset, "-q -S -p 80 -D 1"),
        ],
    ),
    differs(
        "a cpuset of CPU 1",
        "1.5 counts all CPUs of the machine",
        &[
            on_one_cpu(Allowed::Cpuset, "-q -t1 -p 80 -D 1"),
            on_one_cpu(Allowed::Cpuset, "-q -t -p 80 -D 1"),
            on_one_cpu(Allowed::Cpuset, "-q -a -t2 -p 80 -D 1"),
            on_one_cpu(Allowed::Cpuset, "-q -S -p 80 -D 1"),
        ],
    ),
    same(
        "SIGINT, SIGTERM",
        &[signal(2, "-q -a 0 -p 80"), signal(15, "-q -a 0 -p 80")],
    ),
    same("SIGUSR1", &[signal(10, "-q -a 0 -p 80 -D 2")]),
    differs(
        "SIGUSR2",
        "prints the status as well; there is no snapshot in /dev/shm",
        &[signal(12, "-q -a 0 -p 80 -D 2")],
    ),
];

/// The long names of the options that a `--help` of cyclictest lists. Lines that are indented
/// further belong to the option above.
pub(super) fn of_help(help: &str) -> Vec<String> {
    const INDENT_MAX: usize = 16;
    let long = |line: &str| {
        let indent: usize = line
            .chars()
            .take_while(|letter| letter.is_whitespace())
            .map(|letter| if letter == '\t' { 8 } else { 1 })
            .sum();
        let text = line.trim_start();
        if indent > INDENT_MAX || !text.starts_with('-') {
            return None;
        }
        let (_, name) = text.split_once("--")?;
        let end = name.find(|letter: char| !letter.is_ascii_lowercase() && !"-_".contains(letter));
        Some(name[..end.unwrap_or(name.len())].to_owned())
    };
    let mut names: Vec<String> = help.lines().filter_map(long).collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_help_lists_its_options_by_their_long_names() {
        let help = "cyclictest V 2.40\nUsage:\n-a [CPUSET] --affinity     Run thread\n              \
                    \u{20}            -a 2 pins --x\n-F       --fifo=<path>     create\n\t --histfile=<path> \
                    dump\n\t\t\t   --no option\n-M       --refresh_on_max  delay\n-t       --threads  \
                    one\n-t [NUM] --threads=NUM     number\n-x\t --posix_timers    use\n";
        assert_eq!(
            of_help(help),
            [
                "affinity",
                "fifo",
                "histfile",
                "refresh_on_max",
                "threads",
                "posix_timers"
            ]
        );
    }

    #[test]
    fn rows_have_names_of_their_own_and_trials() {
        for (place, row) in ROWS.iter().enumerate() {
            assert!(!row.trials.is_empty(), "{}", row.name);
            assert!(
                ROWS[..place].iter().all(|other| other.name != row.name),
                "{}",
                row.name
            );
        }
    }
}
