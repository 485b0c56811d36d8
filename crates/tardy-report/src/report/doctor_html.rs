//! The findings of `tardy doctor` as one self-contained HTML file, in the style of reports.

use maud::{Markup, html};
use tardy_machine::checks::{Finding, State};
use tardy_results::doctor::Diagnosis;

use super::doctor_text::word;
use super::html::STYLE;
use super::page::{Page, maker, themed};

/// Returns the complete HTML file.
#[must_use]
pub fn page(diagnosis: &Diagnosis) -> String {
    let faults: Vec<&Finding> = diagnosis.faults().collect();
    let others: Vec<&Finding> = diagnosis
        .findings
        .iter()
        .filter(|finding| !finding.is_improvable())
        .collect();
    let body = html! {
        main class="one" {
            header {
                h1 { "Is this machine set up for real time?" }
                p class="quiet" { (diagnosis.machine) }
                p { (diagnosis.decision.text) }
                p class="quiet" {
                    "Profile " (diagnosis.profile.name()) ", CPUs " (diagnosis.cpus.to_string())
                    @if let Some(program) = &diagnosis.program { ", program " (program) }
                }
            }
            section {
                h2 id="faults" { "Possible improvements" }
                @if faults.is_empty() { p { "Nothing." } } @else { (improvable(&faults)) }
            }
            section {
                h2 id="rest" { "Other checks" }
                details { summary { (others.len()) " rows" } (rest(&others)) }
            }
            footer { "Made by " (maker()) ". This file is self-contained." }
        }
    };
    Page {
        title: "tardy doctor",
        style: &themed(STYLE),
        scripts: "",
    }
    .around(&body)
}

fn improvable(findings: &[&Finding]) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Possible improvements" {
            table class="facts" {
                thead { tr { @for head in ["setting", "severity", "is", "should be", "because", "what to do"] { th scope="col" { (head) } } } }
                tbody {
                    @for finding in findings {
                        @if let State::Improvable { current, expected, remedy, needs_restart } = &finding.state {
                            tr {
                                td { (finding.check) }
                                td { (word(finding.importance)) }
                                td { (current) }
                                td { (expected) }
                                td { (finding.why) " (" (finding.source) ")" }
                                td { (remedy) @if *needs_restart { " (needs a restart)" } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn rest(findings: &[&Finding]) -> Markup {
    let state = |finding: &Finding| match &finding.state {
        State::Good { current } => ("good", current.clone()),
        State::Noted { current } => ("noted", current.clone()),
        State::NotApplicable { because } => ("does not apply", because.clone()),
        State::Unknown { missing } => ("unknown", missing.clone()),
        State::Improvable { current, .. } => ("improvable", current.clone()),
    };
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Other checks" {
            table class="facts" {
                thead { tr { @for head in ["setting", "state", "is"] { th scope="col" { (head) } } } }
                tbody {
                    @for finding in findings {
                        @let (word, text) = state(finding);
                        tr { td { (finding.check) } td { (word) } td { (text) } }
                    }
                }
            }
        }
    }
}
