//! Delays of known length and kind in the kernel, and whom the explanation blames for them.

use std::collections::BTreeMap;

use tardy_lab::blame::{JudgedDelay, judge};
use tardy_lab::injection::Context;
use tardy_trace::explain::{Cause, Certainty};

use super::{Experiment, holds, identity, name};
use crate::failure::{Failure, Result};
use crate::figure::{Bench, Figure, FigureResult, row};
use xtask::inject;

pub(crate) const FIGURE: Figure = Figure {
    name: "lab-blame",
    promise: "`run --explain` names the right cause of injected delays, and their length within 2 us or 2 %",
    measure,
};

const KERNELS: [&str; 4] = [
    "debian:6.1",
    "debian:6.1-rt",
    "debian:6.12",
    "debian:6.12-rt",
];
const MODELS: [&str; 12] = [
    "--kernel",
    "debian:6.1",
    "--preempt",
    "none,voluntary,full",
    "--kernel",
    "debian:6.1-rt",
    "--kernel",
    "debian:6.12",
    "--preempt",
    "none,voluntary,full",
    "--kernel",
    "debian:6.12-rt",
];
/// What is named, in the words of the table.
const CAUSES: [(&str, Option<Cause>); 6] = [
    ("interrupts off", Some(Cause::InterruptsOff)),
    ("preemption off", Some(Cause::PreemptionOff)),
    ("softirq", Some(Cause::Softirq)),
    ("kernel code", Some(Cause::KernelCode)),
    ("the switch", Some(Cause::Switch)),
    ("not late", None),
];

fn measure(bench: &Bench) -> Result<FigureResult> {
    inject::build(&KERNELS.map(str::to_owned))?;
    let mut commands = vec![format!("cargo xtask inject {}", KERNELS.join(" "))];
    let head = ["context", "kernel lets it"]
        .into_iter()
        .chain(CAUSES.map(|(words, _)| words))
        .chain(["other"]);
    let mut matrix = vec![head.map(str::to_owned).collect()];
    let mut by_variant = vec![row([
        "context",
        "variant",
        "delays",
        "true",
        "cannot tell",
        "length off by, at most, us",
    ])];
    let (mut all, mut wrong, mut inexact) = (0, 0, 0);
    let mut packages = String::new();
    for context in Context::ALL {
        let delays = format!(
            "{}:1ms:{}",
            context.name(),
            if bench.is_quick { 5 } else { 30 }
        );
        let mut arguments = MODELS.to_vec();
        arguments.extend([
            "--for",
            "2s",
            "--load",
            "none",
            "--inject",
            &delays,
            "--inject-modules",
            "target/inject",
        ]);
        arguments.extend(["--", "--period", "100us", "--explain"]);
        let experiment = Experiment::run(
            bench,
            &format!("blame-{}", context.name()),
            &arguments,
            &mut commands,
        )?;
        // Rows of the matrix: kernels that let the context make the probe late, and those that do
        // not.
        let mut rows: BTreeMap<bool, BTreeMap<Option<Cause>, usize>> = BTreeMap::new();
        for variant in experiment.variants().map(name) {
            let run = experiment.out.join(variant).join("replica-000");
            let judged = judge(&run, context)
                .map_err(|error| Failure::new(format!("{variant}: {error}")))?;
            for one in &judged {
                *rows
                    .entry(one.truth.is_some())
                    .or_default()
                    .entry(one.blamed.as_ref().map(|blame| blame.cause))
                    .or_default() += 1;
            }
            all += judged.len();
            wrong += judged.iter().filter(|one| !one.is_true()).count();
            inexact += judged.iter().filter(|one| !one.is_exact()).count();
            by_variant.push(of_variant(context, variant, &judged));
        }
        for (is_late, blamed) in rows.into_iter().rev() {
            let mut cells = vec![
                context.name().to_owned(),
                if is_late {
                    "delay the probe"
                } else {
                    "be preempted"
                }
                .to_owned(),
            ];
            cells.extend(
                CAUSES
                    .iter()
                    .map(|(_, cause)| blamed.get(cause).copied().unwrap_or(0).to_string()),
            );
            let others = blamed
                .iter()
                .filter(|(cause, _)| CAUSES.iter().all(|(_, known)| known != *cause));
            cells.push(others.map(|(_, count)| count).sum::<usize>().to_string());
            matrix.push(cells);
        }
        packages = identity(&experiment);
    }
    let is_held = wrong == 0 && inexact == 0 && (bench.is_quick || all >= 1000);
    Ok(FigureResult {
        reached: format!(
            "{all} delays, {wrong} blamed on something else, {inexact} lengths further off: {}",
            holds(is_held)
        ),
        commands,
        tables: vec![matrix, by_variant],
        notes: vec![
            "A cell counts delays by the cause that held the CPU for the longest part of the \
             delay, by the explanation of the sample that waited for its end. Not late: every \
             sample waited for less than half of it."
                .to_owned(),
            "On a kernel that does not preempt its own code, a task woken before the section began \
             waited for the code around it: there \"kernel code\" is true."
                .to_owned(),
            "The truth is what the module wrote down: two reads of the clock within its section. \
             Interrupts within it, and softirqs after them, count as the section's time there, \
             and as what they are in the explanation; here they are added to it."
                .to_owned(),
            packages,
        ],
    })
}

fn of_variant(context: Context, variant: &str, judged: &[JudgedDelay]) -> Vec<String> {
    let blamed = || judged.iter().filter_map(|one| one.blamed.as_ref());
    let cannot_tell = blamed()
        .filter(|blame| matches!(blame.known, Certainty::CannotTell(_)))
        .count();
    let off = blamed().map(|blame| blame.off().0).max();
    vec![
        context.name().to_owned(),
        variant.to_owned(),
        judged.len().to_string(),
        judged
            .iter()
            .filter(|one| one.is_true())
            .count()
            .to_string(),
        cannot_tell.to_string(),
        off.map_or_else(
            || "-".to_owned(),
            |off| format!("{:.1}", off as f64 / 1000.0),
        ),
    ]
}
