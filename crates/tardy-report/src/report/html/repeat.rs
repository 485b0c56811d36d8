//! How to repeat a run: the command line, and the plan that resulted from it.

use maud::{Markup, html};
use tardy_run::record::RunKind;
use tardy_run::shell::quoted;

use crate::report::plan_text;
use crate::report::repeat::command;
use tardy_chart::data::RunData;

pub(super) fn section(runs: &[RunData]) -> Markup {
    html! {
        section {
            h2 id="repeat" { "How to repeat it" }
            div class="columns" {
                @for run in runs {
                    div {
                        @if runs.len() > 1 { p class="run-name" { (run.name) } }
                        @if run.record.kind == RunKind::Imported {
                            p { "Imported from another tool's output, which does not record how to repeat the run." }
                        } @else {
                            pre { (command(&run.record.plan)) }
                            p class="note" {
                                "This command runs the same probes and loads on the same CPUs, with the same lengths and random numbers. The run was measured with tardy "
                                (run.record.tool.version) ". To make this report: " code { "tardy report " (quoted(&run.folder)) " --html report.html" }
                            }
                            details { summary { "The resulting plan, with the changes made for the run" } pre { (plan_text::text(&run.record.plan)) } }
                        }
                    }
                }
            }
        }
    }
}
