//! Checks whether tracing was left on.

use super::{Check, CheckInput, Importance, State, Weight};

pub(super) const CHECK: Check = Check {
    name: "tracing",
    weight: Weight::of(Importance::Medium),
    reads: &[
        "sys/kernel/tracing/current_tracer",
        "sys/kernel/tracing/events/enable",
    ],
    why: "a tracer costs time in every function or event that it records",
    source: "kernel-configuration.rst, tracing; Documentation/trace/ftrace.rst",
    look,
};

fn look(examined: &CheckInput<'_>) -> State {
    let tracer = match examined.text("sys/kernel/tracing/current_tracer") {
        Ok(tracer) => tracer,
        Err(state) => return state,
    };
    let has_events = examined
        .text("sys/kernel/tracing/events/enable")
        .is_ok_and(|text| text != "0");
    match (tracer.as_str(), has_events) {
        ("nop", false) => State::good("off"),
        ("nop", true) => State::improvable(
            "trace events are on",
            "off",
            "echo 0 > /sys/kernel/tracing/events/enable",
        ),
        (tracer, _) => State::improvable(
            format!("tracer {tracer}"),
            "nop",
            "echo nop > /sys/kernel/tracing/current_tracer",
        ),
    }
}
