//! Tests that could not run on this machine. A test that returns early is not a passed test. Each
//! such test is listed, and with `--strict`, each must have a reason in the list below.

use std::path::{Path, PathBuf};

use super::junit::Tally;
use crate::failure::{Result, While};
use crate::workspace;

/// The environment variable that names the file in which tests record that they returned early
/// (crates/tardy/tests/support/machine.rs).
pub(super) const VARIABLE: &str = "TARDY_TEST_LEFT_OUT";

/// Tests that a virtual machine without devices cannot run: the start of the test's line in that
/// file, and the reason.
const EXPECTED: &[(&str, &str)] = &[
    (
        "between_gpio_lines:",
        "needs gpio-sim in the kernel, or two wired lines",
    ),
    (
        "between_two_parallel_ports:",
        "needs two parallel ports and a cable",
    ),
    ("the_sound_example_is_measured:", "needs a sound card"),
    (
        "every_probe_accounts_for_what_it_took: rtc:",
        "needs /dev/rtc0; the lab's guests have one",
    ),
    (
        "the_loop_allocates_nothing_even_when_samples_are_lost: rtc:",
        "needs /dev/rtc0",
    ),
    (
        "no_measuring_loop_makes_a_system_call: rtc:",
        "needs /dev/rtc0",
    ),
    (
        "interrupts_are_among_what_takes_the_cpu_from_oslat:",
        "needs tracefs; the lab's guests have it",
    ),
    (
        "a_run_that_gets_a_quota_of_cpu_time_reports_it:",
        "needs a control group with a CPU quota",
    ),
];

/// Tests that reported that they returned early.
pub(super) struct LeftOut {
    file: PathBuf,
}

impl LeftOut {
    /// Creates an empty list. The tests write to a file in this folder.
    pub(super) fn new(folder: &Path) -> Result<Self> {
        let file = folder.join("left-out");
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&file, b""))
            .while_doing(|| format!("writing {}", file.display()))?;
        Ok(Self { file })
    }

    /// Returns the path of the file to which tests write.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the lines that the tests wrote, and empties the file.
    pub(super) fn take(&self) -> Result<Vec<String>> {
        let text = workspace::read(&self.file)?;
        std::fs::write(&self.file, b"")
            .while_doing(|| format!("writing {}", self.file.display()))?;
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines.dedup();
        Ok(lines)
    }
}

/// Returns the lines of the first run, except those of tests that the second run executed. The
/// second run has other mounts and repeats some tests of the first.
pub(super) fn in_both(first: Vec<String>, second: &[String], second_run: &Tally) -> Vec<String> {
    let test = |line: &str| line.split(':').next().unwrap_or_default().to_owned();
    let is_executed = |line: &String| {
        let test = test(line);
        second_run.has(&test) && !second.iter().any(|line| line.starts_with(&test))
    };
    first
        .into_iter()
        .filter(|line| !is_executed(line))
        .collect()
}

/// Returns the reason in the list of expected tests, if there is one.
pub(super) fn reason(line: &str) -> Option<&'static str> {
    EXPECTED
        .iter()
        .find(|(test, _)| line.starts_with(test))
        .map(|(_, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_was_left_out_is_counted_once_and_needs_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let left_out = LeftOut::new(folder.path()).unwrap();
        std::fs::write(
            left_out.file(),
            "one: no root\nbetween_gpio_lines: no gpio-sim\none: no root\n",
        )
        .unwrap();
        assert_eq!(
            left_out.take().unwrap(),
            ["between_gpio_lines: no gpio-sim", "one: no root"]
        );
        assert!(left_out.take().unwrap().is_empty());
        assert!(reason("between_gpio_lines: no gpio-sim").is_some());
        assert!(reason("one: no root").is_none());
    }

    #[test]
    fn a_test_is_left_out_only_if_neither_run_executed_it() {
        let second_run = Tally::parse(
            r#"<testcase name="a::traced" classname="tardy" time="1" />
            <testcase name="a::cpuset" classname="tardy" time="1" />"#,
        );
        let lines = |lines: &[&str]| lines.iter().map(ToString::to_string).collect::<Vec<_>>();
        let first = lines(&["cpuset: v2", "root: none", "traced: no tracefs"]);
        let second = lines(&["alone: no tracefs", "cpuset: v1"]);
        assert_eq!(
            in_both(first, &second, &second_run),
            ["cpuset: v2", "root: none"]
        );
    }
}
