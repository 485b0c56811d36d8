//! Guests watched from outside: equal samples, delays of known kind and length, late samples as the
//! kernel's own trace has them, the distribution that sections make beside the probes', and what
//! watching costs.

use std::time::Instant;

use serde_json::Value;
use tardy_core::units::Nanos;
use tardy_lab::agreement::{Agreement, agreement};
use tardy_lab::injection::Context;
use tardy_lab::seen_delays::{LONGER_NS_MAX, LONGER_PASS_NS_MAX, seen_delays};
use tardy_outside::census::census;

use super::{Experiment, MODELS, holds, identity, name};
use crate::failure::{Failure, Result};
use crate::figure::{Bench, Figure, FigureResult, row};
use xtask::inject;

pub(crate) const FIGURE: Figure = Figure {
    name: "lab-sections",
    promise: "Watched guests give the same samples as unwatched guests; every injected section is \
              found within 1 us; a watched guest takes at most 1.6 times as long on the host",
    measure,
};

/// Each of these with each load is a pair of guests, watched and not.
const VARIANTS: [&str; 9] = [
    "--kernel",
    "debian:6.1",
    "--preempt",
    "none,full",
    "--kernel",
    "debian:6.1-rt",
    "--kernel",
    "debian:5.10",
    "--kernel",
];
const NEWER: &str = "debian:6.12";
const LOADS: [&str; 4] = ["memory", "procfs", "io", "fork"];
const LENGTHS: [(&str, i64); 6] = [
    ("20us", 20_000),
    ("50us", 50_000),
    ("100us", 100_000),
    ("200us", 200_000),
    ("500us", 500_000),
    ("1ms", 1_000_000),
];
const KERNELS: [(&str, bool); 2] = [("6.1-full", false), ("6.1-rt", true)];
/// The worst samples of each run that are watched.
const WATCHED: &str = "1024";
/// Of each context, kernel and length: eight of the twelve pairs of context and kernel are
/// sections, which makes 1008 of them.
const DELAYS: usize = 21;
/// Loads with long sections; due times every 317.003 us keep no step with the kernel's ticks of 4
/// ms, and 20,000 of them are 6.4 s, two thirds of the run.
const DITHERED_LOADS: [&str; 3] = ["memory", "procfs", "io"];
const DITHERED_PERIOD: &str = "317003ns";
const DITHERED_TIME: &str = "9600ms";

fn measure(bench: &Bench) -> Result<FigureResult> {
    inject::build(&[])?;
    let mut commands = vec!["cargo xtask inject".to_owned()];
    let (pairs, equal, packages) = pairs(bench, &mut commands)?;
    let truth = truth(bench, &mut commands)?;
    let (agreements, samples, agreed) = beside_traces(bench, &mut commands)?;
    let (models, modelled, near) = beside_model(bench, &mut commands)?;
    let (unwatched, watched) = host_time(bench, &mut commands)?;
    let ratio = watched / unwatched;
    let Truth {
        table,
        sections,
        found,
        others,
        rightly_none,
        longer,
        longer_pass,
    } = truth;
    Ok(FigureResult {
        reached: format!(
            "{equal} of {pairs} pairs equal: {}; {found} of {sections} delays that are sections found as such, at most {longer} ns longer than the delay (softirqs \
             {longer_pass} ns, where 1 us does not hold, because the section is the whole pass): \
             {}; {rightly_none} of {others} delays that are no section not counted as one: {}; {agreed} of \
             {samples} samples above 100 us attributed to the same cause by both, where samples that only one of them has count as differences: {}; the distribution by sections below the critical \
             distance in {near} of {modelled}: {}; host time {ratio:.2} x: {}",
            holds(pairs >= 20 && equal == pairs),
            holds(sections >= 1000 && found == sections),
            holds(others > 0 && rightly_none == others),
            holds(samples > 0 && agreed * 100 >= samples * 99),
            holds(modelled > 0 && near == modelled),
            holds(ratio <= 1.6)
        ),
        commands,
        tables: vec![table, agreements, models],
        notes: vec![
            format!(
                "A delay is seen if the sections of its kind that begin in its function are as \
                 many as the delays, in their order, each at least as long as the module timed it \
                 within and at most {LONGER_NS_MAX} ns longer; of a softirq at most \
                 {LONGER_PASS_NS_MAX} ns, because its section is the whole pass, with the \
                 softirqs that were due besides. Where a context is no section on a kernel (a \
                 lock that sleeps, softirqs in threads, a plain loop), none may be seen."
            ),
            format!(
                "Host time of a guest: {unwatched:.1} s without the plugin and {watched:.1} s with \
                 the plugin; the smallest of three, boot included."
            ),
            packages,
        ],
    })
}

fn pairs(bench: &Bench, commands: &mut Vec<String>) -> Result<(usize, usize, String)> {
    let (mut pairs, mut equal, mut packages) = (0, 0, String::new());
    for load in LOADS {
        let mut arguments = VARIANTS.to_vec();
        arguments.extend([
            NEWER,
            "--for",
            "1s",
            "--load",
            load,
            "--watch",
            "--verify-repeatable",
        ]);
        let experiment = Experiment::run(bench, &format!("watched-{load}"), &arguments, commands)?;
        for (_, run) in experiment.runs() {
            pairs += 1;
            equal += usize::from(run["repeated"] == Value::Bool(true));
        }
        packages = identity(&experiment);
    }
    Ok((pairs, equal, packages))
}

/// Delays that were made, and what was seen of them.
#[derive(Default)]
struct Truth {
    table: Vec<Vec<String>>,
    /// Delays that are sections, and those of them that were found as what they are.
    sections: usize,
    found: usize,
    /// Delays that are no sections, and those of them for which none was seen.
    others: usize,
    rightly_none: usize,
    /// By how much a section is longer than its delay, at most, in ns: without softirqs, and of
    /// softirqs.
    longer: i64,
    longer_pass: i64,
}

fn truth(bench: &Bench, commands: &mut Vec<String>) -> Result<Truth> {
    let head = [
        "context",
        "kernel",
        "length",
        "delays",
        "due times in them",
        "sections",
        "longer by, ns",
        "as made",
    ];
    let mut truth = Truth {
        table: vec![row(head)],
        ..Truth::default()
    };
    for context in Context::ALL {
        for (variant, is_real_time) in KERNELS {
            for (length, least_ns) in LENGTHS {
                one_truth(
                    bench,
                    commands,
                    (context, variant, is_real_time),
                    (length, least_ns),
                    &mut truth,
                )?;
            }
        }
    }
    Ok(truth)
}

fn one_truth(
    bench: &Bench,
    commands: &mut Vec<String>,
    (context, variant, is_real_time): (Context, &str, bool),
    (length, least_ns): (&str, i64),
    truth: &mut Truth,
) -> Result<()> {
    let delays = format!("{}:{length}:{DELAYS}", context.name());
    let kernel: &[&str] = if is_real_time {
        &["--kernel", "debian:6.1-rt"]
    } else {
        &["--kernel", "debian:6.1", "--preempt", "full"]
    };
    let mut arguments = kernel.to_vec();
    arguments.extend([
        "--for",
        "1500ms",
        "--load",
        "none",
        "--watch",
        "--inject",
        &delays,
        "--inject-modules",
        "target/inject",
    ]);
    let experiment = Experiment::run(
        bench,
        &format!("seen-{}-{variant}-{length}", context.name()),
        &arguments,
        commands,
    )?;
    let run = experiment.out.join(variant).join("replica-000");
    let seen = seen_delays(&run, context, least_ns, is_real_time);
    let seen =
        seen.map_err(|error| Failure::new(format!("{variant}, {}: {error}", context.name())))?;
    let exact = if seen.is_exact() && seen.made == DELAYS {
        seen.made
    } else {
        0
    };
    let (least, most) = (seen.longer.iter().min(), seen.longer.iter().max());
    if seen.are_sections {
        truth.sections += seen.made;
        truth.found += exact;
        let longer = if context == Context::Softirq {
            &mut truth.longer_pass
        } else {
            &mut truth.longer
        };
        *longer = most.copied().unwrap_or(0).max(*longer);
    } else {
        truth.others += seen.made;
        truth.rightly_none += exact;
    }
    let range = least
        .zip(most)
        .filter(|_| seen.are_sections)
        .map_or("no section".to_owned(), |(least, most)| {
            format!("{least} to {most}")
        });
    let word = if seen.is_exact() { "yes" } else { "NO" };
    let (made, probed, sections) = (
        seen.made.to_string(),
        seen.probed.to_string(),
        seen.sections.len().to_string(),
    );
    truth.table.push(row([
        context.name(),
        variant,
        length,
        &made,
        &probed,
        &sections,
        &range,
        word,
    ]));
    Ok(())
}

/// abeni2002's distribution beside the probes' samples: whether each load's distance is below the
/// critical value.
fn beside_model(
    bench: &Bench,
    commands: &mut Vec<String>,
) -> Result<(Vec<Vec<String>>, usize, usize)> {
    let mut table = vec![row([
        "load",
        "kernel",
        "samples",
        "D",
        "critical value, 5 %",
        "below",
    ])];
    let (mut all, mut below) = (0, 0);
    for load in DITHERED_LOADS {
        let mut arguments = vec![
            "--kernel",
            "debian:6.1",
            "--preempt",
            "none,full",
            "--for",
            DITHERED_TIME,
            "--load",
            load,
        ];
        arguments.extend([
            "--watch",
            "--watch-worst",
            "0",
            "--",
            "--period",
            DITHERED_PERIOD,
        ]);
        let experiment = Experiment::run(bench, &format!("model-{load}"), &arguments, commands)?;
        let census =
            census(&experiment.out).map_err(|error| Failure::new(format!("{load}: {error}")))?;
        for group in census.groups.iter().filter(|group| group.load == load) {
            let Some(beside) = &group.section_latency else {
                continue;
            };
            let distance = &beside.distance;
            let is_below = distance.distance < distance.critical;
            all += 1;
            below += usize::from(is_below);
            let (far, critical) = (
                format!("{:.4}", distance.distance),
                format!("{:.4}", distance.critical),
            );
            let word = if is_below { "yes" } else { "no" };
            table.push(row([
                load,
                &group.variant,
                &distance.samples.to_string(),
                &far,
                &critical,
                word,
            ]));
        }
    }
    Ok((table, all, below))
}

/// Of each load and variant: samples above 100 us, and whether both lay them to the same.
fn beside_traces(
    bench: &Bench,
    commands: &mut Vec<String>,
) -> Result<(Vec<Vec<String>>, u64, u64)> {
    let mut table = vec![row([
        "load",
        "kernel",
        "samples",
        "only executed, only traced",
        "same cause",
        "a holder's time off by, at most, us",
    ])];
    let (mut samples, mut agreed) = (0, 0);
    for load in LOADS {
        let mut arguments = MODELS.to_vec();
        arguments.extend([
            "--for",
            "1s",
            "--load",
            load,
            "--watch",
            "--watch-worst",
            WATCHED,
            "--",
            "--explain",
        ]);
        let experiment = Experiment::run(bench, &format!("both-{load}"), &arguments, commands)?;
        for variant in experiment.variants().map(name) {
            let run = experiment.out.join(variant).join("replica-000");
            let found = agreement(&run, Nanos::from_micros(100));
            let Agreement {
                samples: both,
                off_ns,
                differences,
                only_executed,
                only_traced,
            } = found.map_err(|error| Failure::new(format!("{variant}, {load}: {error}")))?;
            for difference in &differences {
                eprintln!("{variant}, {load}: {difference:?}");
            }
            let of_run = both + only_executed + only_traced;
            let of_run_agreed = both - differences.len() as u64;
            samples += of_run;
            agreed += of_run_agreed;
            let missing = format!("{only_executed} and {only_traced}");
            table.push(row([
                load,
                variant,
                &of_run.to_string(),
                &missing,
                &of_run_agreed.to_string(),
                &format!("{:.1}", off_ns as f64 / 1000.0),
            ]));
        }
    }
    Ok((table, samples, agreed))
}

/// Seconds of one guest without and with the plugin, each the least of three; the symbols are there
/// from before.
fn host_time(bench: &Bench, commands: &mut Vec<String>) -> Result<(f64, f64)> {
    let (mut unwatched, mut watched) = (f64::INFINITY, f64::INFINITY);
    let plain = [
        "--kernel",
        "debian:6.1",
        "--preempt",
        "full",
        "--for",
        "2s",
        "--load",
        "memory",
    ];
    for turn in 0..3 {
        let mut ignored = Vec::new();
        let kept = if turn == 0 {
            &mut *commands
        } else {
            &mut ignored
        };
        let began = Instant::now();
        Experiment::run(bench, "unwatched", &plain, kept)?;
        unwatched = unwatched.min(began.elapsed().as_secs_f64());
        let began = Instant::now();
        Experiment::run(bench, "watched", &[&plain[..], &["--watch"]].concat(), kept)?;
        watched = watched.min(began.elapsed().as_secs_f64());
    }
    Ok((unwatched, watched))
}
