//! Delays of known length in the kernel, and what of them reaches the probe.

use tardy_lab::injection::{InjectedDelay, LOG_PATH, parse_log};
use tardy_samples::read_series::SeriesFile;

use super::{Experiment, MODELS, holds, identity};
use crate::failure::{Failure, Result, While};
use crate::figure::{Bench, Figure, FigureResult, row};
use xtask::inject;

pub(crate) const FIGURE: Figure = Figure {
    name: "lab-delays",
    promise: "An injected delay of 1 ms shows in the samples exactly if the preemption model lets \
              the delay reach the probe",
    measure,
};

const VARIANTS: [&str; 4] = ["6.1-none", "6.1-voluntary", "6.1-full", "6.1-rt"];
/// Each context with whether it reaches the probe on the variants.
const CONTEXTS: [(&str, [bool; 4]); 3] = [
    ("preemption-off", [true, true, true, true]),
    ("spinlock", [true, true, true, false]),
    ("plain", [true, true, false, false]),
];
const DELAYS: usize = 30;
const PERIOD_NS: i64 = 100_000;
const DELAY_NS: i64 = 1_000_000;

fn measure(bench: &Bench) -> Result<FigureResult> {
    inject::build(&[])?;
    let mut commands = vec!["cargo xtask inject".to_owned()];
    let mut table = vec![row([
        "context",
        "variant",
        "delays",
        "seen",
        "largest us",
        "as promised",
    ])];
    let mut is_all_held = true;
    let mut packages = String::new();
    for (context, reaches) in CONTEXTS {
        let delays = format!("{context}:1ms:{DELAYS}");
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
            "--",
            "--period",
            "100us",
        ]);
        let experiment = Experiment::run(bench, context, &arguments, &mut commands)?;
        for (variant, reaches) in VARIANTS.into_iter().zip(reaches) {
            let (made, seen) = seen(&experiment, variant)?;
            let largest = experiment
                .maxima(variant, "idle")?
                .into_iter()
                .fold(0.0, f64::max);
            let is_exact = !(context == "preemption-off" && variant == "6.1-rt")
                || (1000.0..=1060.0).contains(&largest);
            let is_held = made == DELAYS && seen == if reaches { DELAYS } else { 0 } && is_exact;
            is_all_held &= is_held;
            let words = if is_held { "yes" } else { "NO" };
            table.push(row([
                context,
                variant,
                &made.to_string(),
                &seen.to_string(),
                &format!("{largest:.1}"),
                words,
            ]));
        }
        packages = identity(&experiment);
    }
    Ok(FigureResult {
        reached: format!("the table below: {}", holds(is_all_held)),
        commands,
        tables: vec![table],
        notes: vec![
            "Seen: a due time lay in the delay, or less than a period before it, and the wake-up \
             came after its end."
                .to_owned(),
            packages,
        ],
    })
}

/// How many delays were made, and how many reached the probe.
fn seen(experiment: &Experiment, variant: &str) -> Result<(usize, usize)> {
    let run = experiment.out.join(variant).join("replica-000");
    let log = std::fs::read_to_string(run.join(LOG_PATH))
        .while_doing(|| "reading the log of the delays".to_owned())?;
    let failure = |error: &dyn std::fmt::Display| Failure::new(format!("{variant}: {error}"));
    let firings = parse_log(&log).map_err(|error| failure(&error))?;
    let file = SeriesFile::open(&run.join("samples/cyclic.cpu0.series"))
        .map_err(|error| failure(&error))?;
    let schedule = file.descriptor().schedule;
    let mut samples: Vec<(i64, i64)> = Vec::new();
    let read = file.read(&mut |chunk| {
        samples.extend(
            chunk
                .samples(&schedule)
                .map(|(_, sample)| (sample.due.0, sample.latency.0)),
        )
    });
    read.map_err(|error| failure(&error))?;
    let is_seen = |firing: &&InjectedDelay| {
        let (begun, ended) = (firing.begun.0, firing.ended.0);
        let is_late = |&(due, latency): &(i64, i64)| {
            due >= begun - PERIOD_NS
                && due < ended
                && due + latency >= ended
                && latency >= DELAY_NS - PERIOD_NS
        };
        samples.iter().any(is_late)
    };
    Ok((firings.len(), firings.iter().filter(is_seen).count()))
}
