//! JUnit XML as continuous integration reads it.

use std::fmt::Write as _;

use crate::xml::escape;

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
    let counts = |cases: &mut dyn Iterator<Item = &Case>| {
        cases.fold((0, 0, 0), |(all, failed, skipped), case| {
            (
                all + 1,
                failed + usize::from(matches!(case.outcome, Outcome::Failed(_))),
                skipped + usize::from(matches!(case.outcome, Outcome::Skipped(_))),
            )
        })
    };
    let attributes =
        |(all, failed, skipped): (usize, usize, usize)| format!("tests=\"{all}\" failures=\"{failed}\" errors=\"0\" skipped=\"{skipped}\"");
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let all = attributes(counts(&mut suites.iter().flat_map(|suite| &suite.cases)));
    let _ = writeln!(out, "<testsuites name=\"{}\" {all}>", escape(name));
    for suite in suites {
        let _ = writeln!(out, "  <testsuite name=\"{}\" {}>", escape(&suite.name), attributes(counts(&mut suite.cases.iter())));
        for case in &suite.cases {
            let _ = writeln!(out, "    <testcase classname=\"{}\" name=\"{}\">", escape(&suite.name), escape(&case.name));
            match &case.outcome {
                Outcome::Passed => {}
                Outcome::Failed(words) => {
                    let _ = writeln!(out, "      <failure message=\"{}\"/>", escape(words));
                }
                Outcome::Skipped(words) => {
                    let _ = writeln!(out, "      <skipped message=\"{}\"/>", escape(words));
                }
            }
            if !case.output.is_empty() {
                let _ = writeln!(out, "      <system-out>{}</system-out>", escape(&case.output));
            }
            out.push_str("    </testcase>\n");
        }
        out.push_str("  </testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_runs_cannot_break_out() {
        let case = Case { name: "<n>".into(), outcome: Outcome::Failed("\"".into()), output: "]]>".into() };
        let document = document("t", &[Suite { name: "s".into(), cases: vec![case] }]);
        assert!(document.contains("tests=\"1\" failures=\"1\"") && document.contains("message=\"&quot;\""), "{document}");
        let read = roxmltree::Document::parse(&document).unwrap();
        assert_eq!(read.descendants().find(|node| node.has_tag_name("system-out")).and_then(|node| node.text()), Some("]]>"));
    }
}
