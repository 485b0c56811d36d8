//! Writes JUnit XML for continuous integration.

use std::fmt::{self, Display, Formatter};

use tardy_chart::xml::escape;

/// The outcome of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The test passed.
    Passed,
    /// The test failed; contains the reason.
    Failed(String),
    /// The test came to no decision; contains the reason.
    Skipped(String),
}

/// One test case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    pub name: String,
    pub outcome: Outcome,
    /// Output of the test case.
    pub output: String,
}

/// Test cases that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suite {
    pub name: String,
    pub cases: Vec<Case>,
}

/// Returns the whole document.
#[must_use]
pub fn document(name: &str, suites: &[Suite]) -> String {
    let Counts {
        tests,
        skipped,
        failures,
    } = Counts::of(suites.iter().flat_map(|suite| &suite.cases));
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"{}\" tests=\"{tests}\" \
         skipped=\"{skipped}\" failures=\"{failures}\" errors=\"0\">\n",
        escape(name)
    );
    for suite in suites {
        out += &suite.to_string();
    }
    out + "</testsuites>\n"
}

struct Counts {
    tests: usize,
    skipped: usize,
    failures: usize,
}

impl Counts {
    fn of<'a>(cases: impl Iterator<Item = &'a Case> + Clone) -> Self {
        let count = |is_counted: fn(&Outcome) -> bool| {
            cases
                .clone()
                .filter(|case| is_counted(&case.outcome))
                .count()
        };
        Self {
            tests: count(|_| true),
            skipped: count(|outcome| matches!(outcome, Outcome::Skipped(_))),
            failures: count(|outcome| matches!(outcome, Outcome::Failed(_))),
        }
    }
}

impl Display for Suite {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Counts {
            tests,
            skipped,
            failures,
        } = Counts::of(self.cases.iter());
        let name = escape(&self.name);
        writeln!(
            out,
            "    <testsuite name=\"{name}\" tests=\"{tests}\" skipped=\"{skipped}\" errors=\"0\" \
             failures=\"{failures}\">"
        )?;
        for case in &self.cases {
            let head = format!(
                "        <testcase name=\"{}\" classname=\"{name}\"",
                escape(&case.name)
            );
            let inside = case.to_string();
            if inside.is_empty() {
                writeln!(out, "{head}/>")?;
            } else {
                writeln!(out, "{head}>\n{inside}        </testcase>")?;
            }
        }
        writeln!(out, "    </testsuite>")
    }
}

/// Writes the elements inside the element of the case.
impl Display for Case {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let mut message = |tag: &str, words: &str| {
            writeln!(out, "            <{tag} message=\"{}\"/>", escape(words))
        };
        match &self.outcome {
            Outcome::Passed => {}
            Outcome::Failed(words) => message("failure", words)?,
            Outcome::Skipped(words) => message("skipped", words)?,
        }
        if self.output.is_empty() {
            return Ok(());
        }
        // The text is in an element, because line breaks in an attribute would become blanks.
        let lines: Vec<String> = self.output.split('\n').map(escape).collect();
        writeln!(
            out,
            "            <system-out>{}</system-out>",
            lines.join("\n")
        )
    }
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
            Some("\"\u{fffd}[31m\u{fffd}"),
            "{document}"
        );
        assert_eq!(first("system-out").text(), Some("]]>"));
    }
}
