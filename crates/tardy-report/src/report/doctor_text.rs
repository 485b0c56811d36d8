//! The findings of `tardy doctor` as text. If the text must fit one screen, the most important
//! findings are shown in full, and the others are listed by name. On request, all findings are
//! shown in full.

use tardy_machine::checks::{Finding, Importance, State};
use tardy_results::doctor::Diagnosis;

use super::screen::{Screen, push_wrapped};

/// Width of the column with the severities.
const INDENT: usize = 8;

/// Returns the findings as text. With `is_all`, it has every row of the table. Otherwise it fits
/// the screen, unless even one complete finding is too long.
#[must_use]
pub fn text(diagnosis: &Diagnosis, screen: Screen, is_all: bool) -> String {
    let faults: Vec<&Finding> = diagnosis.faults().collect();
    let page = |shown: usize| {
        let mut page = Page {
            columns: screen.columns.max(40),
            out: String::new(),
        };
        page.head(diagnosis);
        faults[..shown]
            .iter()
            .for_each(|finding| page.fault(finding));
        if is_all {
            page.rest(diagnosis)
        } else {
            page.footer(diagnosis, &faults[shown..])
        }
        page.out
    };
    let fits = |text: &String| {
        screen
            .lines
            .is_none_or(|lines| text.lines().count() < lines)
    };
    if is_all {
        return page(faults.len());
    }
    (1..=faults.len())
        .rev()
        .map(page)
        .find(fits)
        .unwrap_or_else(|| page(faults.len().min(1)))
}

struct Page {
    columns: usize,
    out: String,
}

impl Page {
    fn head(&mut self, diagnosis: &Diagnosis) {
        self.line(0, &diagnosis.machine);
        let program = diagnosis
            .program
            .as_ref()
            .map_or_else(String::new, |program| format!(", program {program}"));
        let faults: Vec<Importance> = diagnosis
            .faults()
            .map(|finding| finding.importance)
            .collect();
        let good = diagnosis.count(|state| matches!(state, State::Good { .. }));
        let unknown = diagnosis.count(|state| matches!(state, State::Unknown { .. }));
        let counts = counts(&faults, good, unknown);
        self.line(
            0,
            &format!(
                "profile {}, {}{program}; {counts}",
                diagnosis.profile.name(),
                diagnosis.cpus.named()
            ),
        );
        self.line(0, &diagnosis.decision.text);
    }

    /// Writes a finding: the current and the expected value, the reason, the remedy, and the
    /// source.
    fn fault(&mut self, finding: &Finding) {
        let State::Improvable {
            current,
            expected,
            remedy,
            needs_restart,
        } = &finding.state
        else {
            return;
        };
        let severity = word(finding.importance).to_uppercase();
        self.entry(
            &severity,
            &format!("{}: {current}; should be {expected}", finding.check),
        );
        self.line(INDENT, &sentence(finding.why));
        let restart = if *needs_restart {
            " (needs a restart)"
        } else {
            ""
        };
        self.line(INDENT, &format!("> {remedy}{restart}"));
        self.line(
            INDENT,
            &format!("[{}; read: {}]", finding.source, reads(finding)),
        );
    }

    /// Writes which findings did not fit, the important ones by name, and which checks could not
    /// read their files.
    fn footer(&mut self, diagnosis: &Diagnosis, left: &[&Finding]) {
        for importance in [Importance::Fatal, Importance::High, Importance::Medium] {
            let names: Vec<&str> = left
                .iter()
                .filter(|finding| finding.importance == importance)
                .map(|finding| finding.check)
                .collect();
            if !names.is_empty() {
                self.entry(word(importance), &names.join(", "));
            }
        }
        let low = left
            .iter()
            .filter(|finding| finding.importance == Importance::Low)
            .count();
        let is_unknown = |finding: &&Finding| matches!(finding.state, State::Unknown { .. });
        let unknown: Vec<&Finding> = diagnosis.findings.iter().filter(is_unknown).collect();
        let severe: Vec<&str> = unknown
            .iter()
            .filter(|finding| finding.importance <= Importance::High)
            .map(|finding| finding.check)
            .collect();
        if !severe.is_empty() {
            self.entry("unknown", &severe.join(", "));
        }
        let others = [(low, "low"), (unknown.len() - severe.len(), "unknown")];
        let counts: Vec<String> = others
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        let more = if counts.is_empty() {
            String::new()
        } else {
            format!("and {} more; ", counts.join(", "))
        };
        if !left.is_empty() || !unknown.is_empty() {
            self.line(
                0,
                &format!("{more}--all shows all checks, with every value read and its source."),
            );
        }
    }

    fn rest(&mut self, diagnosis: &Diagnosis) {
        for finding in &diagnosis.findings {
            if let State::Unknown { missing } = &finding.state {
                self.entry(
                    "unknown",
                    &format!("{}: {missing}; {}", finding.check, finding.why),
                );
            }
        }
        for finding in &diagnosis.findings {
            if let State::Noted { current } = &finding.state {
                self.entry(
                    "noted",
                    &format!("{}: {current}; {}", finding.check, finding.why),
                );
            }
        }
        for finding in &diagnosis.findings {
            if let State::Good { current } = &finding.state {
                self.entry(
                    "good",
                    &format!("{}: {current} [{}]", finding.check, reads(finding)),
                );
            }
        }
        for finding in &diagnosis.findings {
            if let State::NotApplicable { because } = &finding.state {
                self.entry("-", &format!("{}: {because}", finding.check));
            }
        }
    }

    /// Writes a word in the first column, and the text beside it.
    fn entry(&mut self, head: &str, text: &str) {
        let start = self.out.len();
        self.line(INDENT, text);
        self.out
            .replace_range(start..start + INDENT, &format!("{head:<INDENT$}"));
    }

    fn line(&mut self, indent: usize, text: &str) {
        push_wrapped(&mut self.out, text, self.columns, (indent, indent));
    }
}

/// Returns the number of findings in each state, for example `to improve: 1 fatal, 2 low; 40 good,
/// 6 unknown`.
pub(super) fn counts(faults: &[Importance], good: usize, unknown: usize) -> String {
    let severities = [
        Importance::Fatal,
        Importance::High,
        Importance::Medium,
        Importance::Low,
    ]
    .into_iter();
    let of_each = severities.map(|importance| {
        (
            faults.iter().filter(|fault| **fault == importance).count(),
            word(importance),
        )
    });
    let counts: Vec<String> = of_each
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    let to_improve = if counts.is_empty() {
        "nothing to improve".to_owned()
    } else {
        format!("to improve: {}", counts.join(", "))
    };
    format!("{to_improve}; {good} good, {unknown} unknown")
}

pub(super) fn word(importance: Importance) -> &'static str {
    match importance {
        Importance::Fatal => "fatal",
        Importance::High => "high",
        Importance::Medium => "medium",
        Importance::Low => "low",
    }
}

/// Makes a whole sentence of `why`, with a capital letter at the start and a full stop at the end.
fn sentence(why: &str) -> String {
    let mut letters = why.chars();
    letters.next().map_or_else(String::new, |first| {
        format!("{}{}.", first.to_uppercase(), letters.as_str())
    })
}

/// Returns the files that a check reads, as full paths.
fn reads(finding: &Finding) -> String {
    let with_root = |alternatives: &&str| {
        alternatives
            .split('|')
            .map(|path| format!("/{path}"))
            .collect::<Vec<_>>()
            .join(" or ")
    };
    finding
        .reads
        .iter()
        .map(with_root)
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_machine::checks::Profile;

    fn diagnosis(faults: usize) -> Diagnosis {
        let fault = |importance| Finding {
            check: "idle-states",
            importance,
            state: State::Improvable {
                current: "down to C6 (133.000 us)".into(),
                expected: "C1 at most".into(),
                remedy: "processor.max_cstate=1 on the kernel's command line".into(),
                needs_restart: true,
            },
            why: "waking from a deep state takes as long as its exit latency",
            source: "kernel-configuration.rst",
            reads: &["sys/devices/system/cpu/cpu*/cpuidle/state*/latency", "a|b"],
        };
        let unknown = State::Unknown {
            missing: "/proc/x".into(),
        };
        let findings = (0..faults).map(|at| {
            fault(if at == 0 {
                Importance::High
            } else {
                Importance::Low
            })
        });
        let last = Finding {
            check: "heat",
            state: unknown,
            ..fault(Importance::High)
        };
        let cpus = "2-3".parse().unwrap();
        Diagnosis {
            decision: tardy_results::decision::decision(&Default::default()),
            machine: "board7".into(),
            profile: Profile::Periodic,
            cpus,
            program: None,
            findings: findings.chain([last]).collect(),
        }
    }

    #[test]
    fn no_line_is_wider_than_the_screen_unless_one_word_is() {
        for columns in [40, 80, 120] {
            let text = text(
                &diagnosis(3),
                Screen {
                    columns,
                    lines: None,
                },
                false,
            );
            let is_one_word = |line: &str| !line.trim_start().contains(' ');
            assert!(
                text.lines()
                    .all(|line| line.chars().count() <= columns || is_one_word(line)),
                "{text}"
            );
        }
    }

    #[test]
    fn a_small_screen_gets_the_worst_in_full_and_the_rest_by_name() {
        let screen = |lines| Screen {
            columns: 80,
            lines: Some(lines),
        };
        let small = text(&diagnosis(30), screen(24), false);
        assert!(small.lines().count() < 24, "{small}");
        assert!(
            small.contains("HIGH    idle-states: down to C6 (133.000 us); should be C1 at most"),
            "{small}"
        );
        assert!(
            small.contains("\nunknown heat\n") && small.contains(" low more; --all"),
            "{small}"
        );
        let whole = text(
            &diagnosis(30),
            Screen {
                columns: 80,
                lines: None,
            },
            false,
        );
        assert_eq!(whole.matches("should be C1 at most").count(), 30);
        // Even if the screen is too small for a finding, one finding is shown.
        assert_eq!(
            text(&diagnosis(30), screen(5), false)
                .matches("should be")
                .count(),
            1
        );
    }
}
