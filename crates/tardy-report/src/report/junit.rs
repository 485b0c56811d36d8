//! JUnit XML as continuous integration reads it.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

/// How a case ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// As wanted.
    Passed,
    /// Not as wanted, in words.
    Failed(String),
    /// Not decided, in words.
    Skipped(String),
}

/// One test case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    pub name: String,
    /// How it ended.
    pub outcome: Outcome,
    /// What is shown with it.
    pub output: String,
}

/// Cases that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suite {
    pub name: String,
    pub cases: Vec<Case>,
}

/// The whole document.
#[must_use]
pub fn document(name: &str, suites: &[Suite]) -> String {
    let mut report = Report::new(name);
    report.add_test_suites(suites.iter().map(|suite| {
        let mut written = TestSuite::new(suite.name.as_str());
        written.add_test_cases(suite.cases.iter().map(|case| test_case(&suite.name, case)));
        written
    }));
    report.to_string().unwrap_or_default()
}

fn test_case(suite: &str, case: &Case) -> TestCase {
    let status = match &case.outcome {
        Outcome::Passed => TestCaseStatus::success(),
        Outcome::Failed(words) => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_message(words.as_str());
            status
        }
        Outcome::Skipped(words) => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(words.as_str());
            status
        }
    };
    let mut written = TestCase::new(case.name.as_str(), status);
    written.set_classname(suite);
    if !case.output.is_empty() {
        written.set_system_out(case.output.as_str());
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_runs_cannot_break_out() {
        let case = Case {
            name: "<n>".into(),
            outcome: Outcome::Failed("\"\u{1b}[31m\u{1}".into()),
            output: "]]>".into(),
        };
        let document = document(
            "t",
            &[Suite {
                name: "s".into(),
                cases: vec![case],
            }],
        );
        let read = roxmltree::Document::parse(&document).unwrap();
        let first = |tag: &str| {
            read.descendants()
                .find(|node| node.has_tag_name(tag))
                .unwrap()
        };
        assert_eq!(
            first("testsuite").attribute("failures"),
            Some("1"),
            "{document}"
        );
        assert_eq!(
            first("failure").attribute("message"),
            Some("\""),
            "{document}"
        );
        assert_eq!(first("system-out").text(), Some("]]>"));
    }
}
