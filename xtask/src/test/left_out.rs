//! Tests that could not run on this machine. A test that returns early is not a passed test. Each
//! such test is listed, and with `--strict`, each must have a reason in the list below.

use std::path::{Path, PathBuf};

use crate::failure::{Result, While};
use crate::workspace;

/// The environment variable with the file in which tests record that they returned early
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

    /// Returns the lines that the tests wrote.
    pub(super) fn lines(&self) -> Result<Vec<String>> {
        let text = workspace::read(&self.file)?;
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines.dedup();
        Ok(lines)
    }
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
            left_out.lines().unwrap(),
            ["between_gpio_lines: no gpio-sim", "one: no root"]
        );
        assert!(reason("between_gpio_lines: no gpio-sim").is_some());
        assert!(reason("one: no root").is_none());
    }
}
