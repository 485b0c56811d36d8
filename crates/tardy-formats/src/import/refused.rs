//! Lists known tools whose output is refused, with the reason. The numbers in such output may not
//! be latencies, so the file is not passed on to more general importers.

/// A sign by which a file is recognised.
enum Sign {
    /// The file starts with these bytes.
    Magic(&'static [u8]),
    /// A line starts with this text.
    Line(&'static str),
    /// A line starts with the first text and contains the second.
    Words(&'static str, &'static str),
    /// The text occurs anywhere.
    Anywhere(&'static str),
}

/// For each kind of file that is refused: a sign by which it is recognised, a name for it or for
/// the tool that wrote it, and the reason for the refusal.
const KNOWN: &[(Sign, &str, &str)] = &[
    (
        Sign::Magic(b"PERFILE2"),
        "a perf.data file",
        "perf's samples are not latencies; record with `trace-cmd record` and use `tardy explain \
         trace.dat`",
    ),
    (
        Sign::Magic(b"\x17\x08\x44tracing"),
        "a trace.dat file",
        "use `tardy explain trace.dat --task NAME`",
    ),
    (
        Sign::Line("# tracer:"),
        "text of ftrace",
        "use `tardy explain trace.dat`, with the binary trace of trace-cmd",
    ),
    (
        Sign::Line("Operating System Noise"),
        "rtla osnoise top",
        "it prints sums and no distribution; `rtla osnoise hist` prints a distribution",
    ),
    (
        Sign::Line("Hardware-related Noise"),
        "rtla hwnoise",
        "it prints sums and no distribution",
    ),
    (
        Sign::Words("Running in ", "mode with"),
        "hackbench",
        "it times all messages together and measures no latency",
    ),
    (
        Sign::Line("stress-ng: "),
        "stress-ng",
        "it prints percentiles of one stressor, without counts of samples; measure with `tardy run \
         --load`",
    ),
    (
        Sign::Line("forktest#"),
        "ssdd",
        "it tests ptrace and measures no latency",
    ),
    (
        Sign::Line("queuelat"),
        "queuelat",
        "it measures how a queue fills, not the latency of a wake-up",
    ),
    (
        Sign::Words("Iter:", "0:"),
        RT_MIGRATE_TEST.0,
        RT_MIGRATE_TEST.1,
    ),
    (
        Sign::Words("Iter:", " 0 "),
        RT_MIGRATE_TEST.0,
        RT_MIGRATE_TEST.1,
    ),
    (
        Sign::Words("Task ", ") (pid "),
        RT_MIGRATE_TEST.0,
        RT_MIGRATE_TEST.1,
    ),
    (
        Sign::Words("RTH|", "lost"),
        "switchbench of Xenomai",
        "it times context switches, not wake-ups",
    ),
    (
        Sign::Words("RTH|", "ctx switches"),
        "switchtest of Xenomai",
        "it counts context switches and measures no latency",
    ),
    (
        Sign::Line("FOR 10 TASKS: TIME"),
        "switches of RTAI",
        "it times all switches together and measures no latency",
    ),
    (
        Sign::Line("== latmus started for core tuning"),
        "latmus --tune",
        "it prints the gravity of the core clock (its calibration); `latmus --measure` prints \
         latencies",
    ),
];

const RT_MIGRATE_TEST: (&str, &str) = (
    "rt-migrate-test",
    "it tests where tasks run; its numbers are the run times of tasks",
);

/// Files that have some lines of a supported tool, but lack the necessary ones. Checked last, for a
/// file in which no format is recognised.
const INCOMPLETE: &[(Sign, &str, &str)] = &[
    (
        Sign::Words("policy: ", "loadavg: "),
        "cyclictest",
        "its lines `T: 0 ...` are missing or cut off; import the whole output of `cyclictest -q`",
    ),
    (
        Sign::Line("# /dev/cpu_dma_latency set to"),
        "output of rt-tests",
        "its results are missing or cut off; import its whole output",
    ),
    (
        Sign::Line("HSS|"),
        "latency -s of Xenomai without its line `RTS|`",
        "its statistics have means and no maximum; import the whole output",
    ),
    (
        Sign::Line("# RTLA "),
        "rtla",
        "its table is missing or of an unknown layout; import its whole output",
    ),
    (
        Sign::Anywhere("latency-histogram"),
        "latency-histogram of LinuxCNC",
        "it holds no histogram; import the output of `latency-histogram --nox`",
    ),
];

/// Returns the tool that wrote a file, and why the file is refused; `None` for all other files.
pub(super) fn find(head: &[u8], text: &str) -> Option<(&'static str, &'static str)> {
    first(KNOWN, head, text)
}

/// Returns the tool that wrote an incomplete file, and why the file is refused; for files in which
/// no format is recognised.
pub(super) fn find_incomplete(text: &str) -> Option<(&'static str, &'static str)> {
    first(INCOMPLETE, &[], text)
}

fn first(
    signs: &[(Sign, &'static str, &'static str)],
    head: &[u8],
    text: &str,
) -> Option<(&'static str, &'static str)> {
    let is_there = |sign: &Sign| match sign {
        Sign::Magic(bytes) => head.starts_with(bytes),
        Sign::Line(start) => text.lines().any(|line| line.starts_with(start)),
        Sign::Words(first, second) => text
            .lines()
            .any(|line| line.starts_with(first) && line.contains(second)),
        Sign::Anywhere(word) => text.contains(word),
    };
    let found = signs.iter().find(|(sign, ..)| is_there(sign))?;
    Some((found.1, found.2))
}

/// The name for a table that may be a histogram, and the reason for its refusal. tardy reads such a
/// table only if the user names its format.
pub(super) const HISTOGRAM: (&str, &str) = (
    "a table whose columns look like counts of a histogram",
    "a count is not a latency; give --as values if the numbers are latencies",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_refused_by_name() {
        for (text, tool) in [
            ("PERFILE2\0\0", "a perf.data file"),
            ("# tracer: wakeup_rt\n#\n", "text of ftrace"),
            (
                "Operating System Noise\nduration:   0 00:01:00 | time is in us\n",
                "rtla osnoise top",
            ),
            (
                "Running in process mode with 10 groups using 40 file descriptors each (== 400 \
                 tasks)\nTime: 0.512\n",
                "hackbench",
            ),
            (
                "stress-ng: info:  [14996] dispatching hogs: 1 cyclic\n",
                "stress-ng",
            ),
            ("forktest#0/1234: EXITING, no error.\n", "ssdd"),
        ] {
            assert_eq!(find(text.as_bytes(), text).unwrap().0, tool);
        }
        for text in ["T: 0 ( 437) P:48 I:1000 C: 5\n", "1\n2\n", ""] {
            assert!(find(text.as_bytes(), text).is_none());
        }
    }

    #[test]
    fn the_page_about_imports_names_every_format_and_every_refused_tool() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/import.md");
        let page = std::fs::read_to_string(page).unwrap();
        for format in super::super::FORMATS {
            assert!(
                page.contains(&format!("`{}`", format.name)),
                "{}",
                format.name
            );
        }
        for (_, tool, _) in KNOWN {
            assert!(page.contains(tool), "{tool}");
        }
    }
}
