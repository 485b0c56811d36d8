//! Reads the result and the time of every test from `target/nextest/default/junit.xml`.

use std::path::Path;

use crate::failure::Result;
use crate::workspace;

/// The tests of one run.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Tally {
    pub(super) passed: usize,
    pub(super) failed: usize,
    /// Time in s and name of each test.
    tests: Vec<(f64, String)>,
}

impl Tally {
    /// Reads the file.
    pub(super) fn read(file: &Path) -> Result<Self> {
        let text = workspace::read(file)?;
        Ok(Self::parse(&text))
    }

    pub(super) fn parse(text: &str) -> Self {
        let mut tally = Self::default();
        for element in text.split("<testcase ").skip(1) {
            let value = |name: &str| {
                let behind = element.split_once(&format!("{name}=\""))?.1;
                behind.split_once('"').map(|(value, _)| value)
            };
            let (Some(name), Some(program), Some(time)) =
                (value("name"), value("classname"), value("time"))
            else {
                continue;
            };
            if element.contains("<failure") || element.contains("<error") {
                tally.failed += 1;
            } else {
                tally.passed += 1;
            }
            tally.tests.push((
                time.parse().unwrap_or_default(),
                format!("{program} {name}"),
            ));
        }
        tally.tests.sort_by(|a, b| b.0.total_cmp(&a.0));
        tally
    }

    /// Returns whether a test with this name ran, in any module.
    pub(super) fn has(&self, name: &str) -> bool {
        let is_named = |test: &str| test.rsplit([' ', ':']).next() == Some(name);
        self.tests.iter().any(|(_, test)| is_named(test))
    }

    /// Returns the slowest tests, each with its time in s.
    pub(super) fn slowest(&self, count: usize) -> &[(f64, String)] {
        &self.tests[..count.min(self.tests.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_and_the_slowest_comes_first() {
        let text = r#"<testsuites name="nextest-run" tests="3" failures="1" errors="0">
            <testsuite name="tardy::alone" tests="2">
            <testcase name="a::quick" classname="tardy::alone" timestamp="t" time="0.010">
            </testcase>
            <testcase name="a::slow" classname="tardy::alone" timestamp="t" time="12.5">
            <failure type="test failure with exit code 101">text</failure></testcase>
            <testcase name="middle" classname="xtask" time="1.0" /></testsuite></testsuites>"#;
        let tally = Tally::parse(text);
        assert_eq!((tally.passed, tally.failed), (2, 1));
        assert_eq!(
            tally.slowest(2),
            [
                (12.5, "tardy::alone a::slow".to_owned()),
                (1.0, "xtask middle".to_owned())
            ]
        );
    }
}
