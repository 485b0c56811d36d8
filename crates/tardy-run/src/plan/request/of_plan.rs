//! Reconstructs the values of options from the fields of a plan.

use tardy_core::cpu::CpuList;
use tardy_core::units::Nanos;
use tardy_core::warning::Warning;

use super::{CpuDmaLatency, Label, LoadCpus, TUNED};
use crate::parameter::Value;
use crate::plan::{Origin, Plan, PolicyName, ProbePlan};
use crate::system_clock::SystemClock;
use crate::threshold::ThresholdAction;
use crate::tracing::ExplainLevel;

pub(super) fn scenario(plan: &Plan) -> Option<String> {
    // If a program is the only probe, the request named no scenario. Otherwise, the plan would also
    // have the probes of that scenario.
    let is_alone = plan.probes.len() == 1 && !program(plan).is_empty();
    let is_named = plan.origin() != Origin::Flags && !is_alone;
    let file = plan
        .scenario_file
        .as_ref()
        .map(|file| file.display().to_string());
    is_named.then(|| file.unwrap_or_else(|| plan.scenario.clone()))
}

/// Returns the number of cycles of each phase, if it is the same for all phases.
pub(super) fn cycles(plan: &Plan) -> Option<u64> {
    let is_counted = plan.phases.iter().any(|phase| phase.cycles.is_some());
    if !is_counted && plan.origin() == Origin::Flags {
        // Plans of older tools have the number of cycles only once, not in each phase.
        return plan.cycles;
    }
    let cycles = plan.phases.first()?.cycles;
    cycles.filter(|_| plan.phases.iter().all(|phase| phase.cycles == cycles))
}

pub(super) fn length(plan: &Plan) -> Option<Nanos> {
    // The request has a total length only if no phase is counted in cycles, and no phase of a
    // scenario was left out. If one was left out, the same total length would be divided among
    // fewer phases, which would then be longer.
    let is_counted =
        cycles(plan).is_some() || plan.phases.iter().any(|phase| phase.cycles.is_some());
    let is_absent = |warning: &Warning| matches!(warning, Warning::LoadAbsent { .. });
    let is_shorter = plan.origin() != Origin::Flags && plan.warnings.iter().any(is_absent);
    let length = plan.planned_length()?;
    (!is_counted && !is_shorter && length > Nanos::ZERO).then_some(length)
}

pub(super) fn loads(plan: &Plan) -> Vec<String> {
    if plan.origin() != Origin::Flags {
        return Vec::new();
    }
    let loads = plan.phases.last().map(|phase| &phase.loads);
    let labels = loads.into_iter().flatten().map(|load| load.label.clone());
    let labels: Vec<String> = labels.collect();
    if labels.is_empty() {
        vec!["none".to_owned()]
    } else {
        labels
    }
}

pub(super) fn load_cpus(plan: &Plan) -> Option<LoadCpus> {
    let loads = plan.phases.iter().flat_map(|phase| &phase.loads);
    let used: CpuList = loads.flat_map(|load| load.cpus.iter()).collect();
    (!used.is_empty()).then_some(LoadCpus::List(used))
}

/// Returns the value that an option gave to all probes. If a program is measured, this is the value
/// of the program's probe, which only options can set. Otherwise, it is the value that all probes
/// share; `None` if their values differ.
fn usual<T: PartialEq>(plan: &Plan, of: impl Fn(&ProbePlan) -> T) -> Option<T> {
    let program = plan
        .probes
        .iter()
        .find(|probe| words_of(probe).is_some())
        .map(&of);
    program.or_else(|| {
        let first = of(plan.probes.first()?);
        let is_shared = plan.probes.iter().all(|probe| of(probe) == first);
        is_shared.then_some(first)
    })
}

pub(super) fn period(plan: &Plan) -> Option<Nanos> {
    usual(plan, |probe| probe.period).filter(|period| *period > Nanos::ZERO)
}

pub(super) fn dither(plan: &Plan) -> Option<Nanos> {
    usual(plan, |probe| probe.dither).filter(|dither| *dither > Nanos::ZERO)
}

pub(super) fn priority(plan: &Plan) -> Option<u32> {
    usual(plan, |probe| probe.priority).flatten()
}

pub(super) fn policy(plan: &Plan) -> Option<PolicyName> {
    usual(plan, |probe| probe.policy).filter(|policy| *policy != PolicyName::Fifo)
}

pub(super) fn clock(plan: &Plan) -> Option<SystemClock> {
    usual(plan, |probe| probe.clocks.timer).filter(|clock| !clock.is_of_the_run())
}

pub(super) fn align(plan: &Plan) -> Option<SystemClock> {
    usual(plan, |probe| probe.clocks.align).flatten()
}

/// Returns the measured program and its arguments.
pub(super) fn program(plan: &Plan) -> Vec<String> {
    let words = plan.probes.iter().find_map(words_of);
    words.unwrap_or_default().to_vec()
}

fn words_of(probe: &ProbePlan) -> Option<&[String]> {
    probe.parameters.values().find_map(|value| match value {
        Value::Words(words) => Some(words.as_slice()),
        _ => None,
    })
}

pub(super) fn probes(plan: &Plan) -> Vec<String> {
    plan.probes
        .iter()
        .filter(|probe| words_of(probe).is_none())
        .map(|probe| text_of(plan, probe))
        .collect()
}

/// Returns the probe as a value of `--probe`, with the parameters that differ from the usual
/// values.
fn text_of(plan: &Plan, probe: &ProbePlan) -> String {
    let time = |time: Nanos| {
        if time == Nanos::ZERO {
            "0ns".to_owned()
        } else {
            time.exact()
        }
    };
    let mut text = probe.kind().to_owned();
    let mut add = |name: &str, value: Option<String>| {
        text.extend(value.map(|value| format!(":{name}={value}")));
    };
    let differs = |is_usual: bool, value: String| (!is_usual).then_some(value);
    add(
        "period",
        differs(
            usual(plan, |other| other.period) == Some(probe.period),
            probe.period.exact(),
        ),
    );
    add(
        "policy",
        differs(
            usual(plan, |other| other.policy) == Some(probe.policy),
            probe.policy.name().to_owned(),
        ),
    );
    let priority = probe
        .priority
        .filter(|_| usual(plan, |other| other.priority) != Some(probe.priority));
    add("priority", priority.map(|priority| priority.to_string()));
    add(
        "dither",
        differs(
            usual(plan, |other| other.dither) == Some(probe.dither),
            time(probe.dither),
        ),
    );
    add("offset", probe.offset.map(time));
    add("cpus", probe.cpus.as_ref().map(ToString::to_string));
    add("name", probe.kind.as_ref().map(|_| probe.name.clone()));
    add(
        "clock",
        differs(
            usual(plan, |other| other.clocks.timer) == Some(probe.clocks.timer)
                || probe.clocks.timer.is_of_the_run() && clock(plan).is_none(),
            probe.clocks.timer.name().to_owned(),
        ),
    );
    let align = probe
        .clocks
        .align
        .filter(|_| align(plan) != probe.clocks.align);
    add("align", align.map(|clock| clock.name().to_owned()));
    // A parameter that takes a text comes last, because the text extends to the end of the request.
    let (texts, others): (Vec<_>, Vec<_>) = probe
        .parameters
        .iter()
        .partition(|(_, value)| matches!(value, Value::Text(_)));
    for (name, value) in others.into_iter().chain(texts) {
        add(name, Some(value.to_string()));
    }
    text
}

pub(super) fn deadline(plan: &Plan) -> Option<Nanos> {
    let window = plan.window?;
    window.earliest.is_none().then_some(window.latest)
}

/// The action `trace` implies that samples are explained, so the request need not contain the
/// level.
pub(super) fn explain(plan: &Plan) -> ExplainLevel {
    let is_implied = plan.explain == ExplainLevel::Events
        && plan.on_threshold.contains(&ThresholdAction::Trace)
        && !plan.keep_trace;
    if is_implied {
        ExplainLevel::Off
    } else {
        plan.explain
    }
}

pub(super) fn cpu_dma_latency(plan: &Plan) -> CpuDmaLatency {
    match plan.cpu_dma_latency_us {
        Some(micros) => CpuDmaLatency::Micros(micros),
        None if plan.resume_latency_us.is_some() => CpuDmaLatency::default(),
        None => CpuDmaLatency::Leave,
    }
}

pub(super) fn labels(plan: &Plan) -> Vec<Label> {
    let labels = plan.labels.iter().map(|(name, text)| Label {
        name: name.clone(),
        text: text.clone(),
    });
    // `--tune` adds its own label to the run, which is not part of the request.
    labels
        .filter(|label| plan.asked.tune.is_none() || label.name != TUNED)
        .collect()
}
