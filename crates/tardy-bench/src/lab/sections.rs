//! Guests watched from outside: equal samples, delays of known kind and length, late samples as the kernel's own trace has them, and what watching costs.

use std::time::Instant;

use serde_json::Value;
use tardy_core::units::Nanos;
use tardy_lab::agreement::{Agreement, agreement};
use tardy_lab::injection::Context;
use tardy_lab::seen_delays::{LONGER_NS_MAX, LONGER_PASS_NS_MAX, seen_delays};

use super::{Experiment, MODELS, holds, identity, name};
use crate::failure::{Failure, Result};
use crate::figure::{Bench, Figure, FigureResult, row};
use xtask::inject;

pub(crate) const FIGURE: Figure = Figure {
    name: "lab-sections",
    title: "guests watched from outside: equal samples, known delays as sections, host time",
    promise: "20 pairs over kernels, models and loads with equal samples; 1000 delays of six contexts, 20 us to 1 ms: every one a section of its kind, within 1 us and its entry; a trace of the same run lays at least 99 % of the samples above 100 us to the same; host time at most 1.6 x",
    measure,
};

/// Each of these with each load is a pair of guests, watched and not.
const VARIANTS: [&str; 9] =
    ["--kernel", "debian:6.1", "--preempt", "none,full", "--kernel", "debian:6.1-rt", "--kernel", "debian:5.10", "--kernel"];
const NEWER: &str = "debian:6.12";
const LOADS: [&str; 4] = ["memory", "procfs", "io", "fork"];
const LENGTHS: [(&str, i64); 6] =
    [("20us", 20_000), ("50us", 50_000), ("100us", 100_000), ("200us", 200_000), ("500us", 500_000), ("1ms", 1_000_000)];
const KERNELS: [(&str, bool); 2] = [("6.1-full", false), ("6.1-rt", true)];
/// The worst samples of each run that are watched.
const WATCHED: &str = "64";
/// 1008 in all.
const DELAYS: usize = 84;

fn measure(bench: &Bench) -> Result<FigureResult> {
    inject::build(&[])?;
    let mut commands = vec!["cargo xtask inject".to_owned()];
    let (pairs, equal, packages) = pairs(bench, &mut commands)?;
    let (table, made, exact, longest) = truth(bench, &mut commands)?;
    let (agreements, samples, agreed) = beside_traces(bench, &mut commands)?;
    let (unwatched, watched) = host_time(bench, &mut commands)?;
    let ratio = watched / unwatched;
    Ok(FigureResult {
        reached: format!(
            "{equal} of {pairs} pairs equal: {}; {exact} of {made} delays seen as what they are, a section at most {longest} ns longer than its delay: {}; {agreed} of {samples} samples above 100 us laid to the same by both: {}; host time {ratio:.2} x: {}",
            holds(pairs >= 20 && equal == pairs),
            holds(made >= 1000 && exact == made),
            holds(samples > 0 && agreed * 100 >= samples * 99),
            holds(ratio <= 1.6)
        ),
        commands,
        tables: vec![table, agreements],
        notes: vec![
            format!(
                "A delay is seen if the sections of its kind that begin in its function are as many as the delays, in their order, each at least as long as the module timed it within and at most {LONGER_NS_MAX} ns longer; of a softirq at most {LONGER_PASS_NS_MAX} ns, because its section is the whole pass, with the softirqs that were due besides. \
                 Where a context is no section on a kernel (a lock that sleeps, softirqs in threads, a plain loop), none may be seen."
            ),
            format!(
                "Host time: {unwatched:.1} s of a guest without and {watched:.1} s with the plugin, the least of three, boot included."
            ),
            packages,
        ],
    })
}

fn pairs(bench: &Bench, commands: &mut Vec<String>) -> Result<(usize, usize, String)> {
    let (mut pairs, mut equal, mut packages) = (0, 0, String::new());
    for load in LOADS {
        let mut arguments = VARIANTS.to_vec();
        arguments.extend([NEWER, "--for", "1s", "--load", load, "--watch", "--verify-repeatable"]);
        let experiment = Experiment::run(bench, &format!("watched-{load}"), &arguments, commands)?;
        for (_, run) in experiment.runs() {
            pairs += 1;
            equal += usize::from(run["repeated"] == Value::Bool(true));
        }
        packages = identity(&experiment);
    }
    Ok((pairs, equal, packages))
}

type Truth = (Vec<Vec<String>>, usize, usize, i64);

fn truth(bench: &Bench, commands: &mut Vec<String>) -> Result<Truth> {
    let mut table = vec![row(["context", "kernel", "length", "delays", "sections", "longer by, ns", "as made"])];
    let (mut made, mut exact, mut longest) = (0, 0, 0);
    let mut lengths = LENGTHS.iter().cycle();
    for context in Context::ALL {
        for (variant, is_real_time) in KERNELS {
            let &(length, least_ns) = lengths.next().expect("it goes round");
            let delays = format!("{}:{length}:{DELAYS}", context.name());
            let kernel: &[&str] =
                if is_real_time { &["--kernel", "debian:6.1-rt"] } else { &["--kernel", "debian:6.1", "--preempt", "full"] };
            let mut arguments = kernel.to_vec();
            arguments.extend(["--for", "3s", "--load", "none", "--watch", "--inject", &delays, "--inject-modules", "target/inject"]);
            let experiment = Experiment::run(bench, &format!("seen-{}-{variant}", context.name()), &arguments, commands)?;
            let run = experiment.out.join(variant).join("replica-000");
            let seen = seen_delays(&run, context, least_ns, is_real_time);
            let seen = seen.map_err(|error| Failure::new(format!("{variant}, {}: {error}", context.name())))?;
            made += seen.made;
            exact += if seen.is_exact() && seen.made == DELAYS { seen.made } else { 0 };
            let range = seen.longer.iter().min().zip(seen.longer.iter().max()).filter(|_| seen.are_sections);
            longest = range.map_or(longest, |(_, most)| longest.max(*most));
            let range = range.map_or("no section".to_owned(), |(least, most)| format!("{least} to {most}"));
            let word = if seen.is_exact() { "yes" } else { "NO" };
            table.push(row([context.name(), variant, length, &seen.made.to_string(), &seen.sections.len().to_string(), &range, word]));
        }
    }
    Ok((table, made, exact, longest))
}

/// Of each load and variant: samples above 100 us, and whether both lay them to the same.
fn beside_traces(bench: &Bench, commands: &mut Vec<String>) -> Result<(Vec<Vec<String>>, u64, u64)> {
    let mut table = vec![row(["load", "kernel", "samples", "laid to the same", "a holder's time off by, at most, us"])];
    let (mut samples, mut agreed) = (0, 0);
    for load in LOADS {
        let mut arguments = MODELS.to_vec();
        arguments.extend(["--for", "1s", "--load", load, "--watch", "--watch-worst", WATCHED, "--", "--explain"]);
        let experiment = Experiment::run(bench, &format!("both-{load}"), &arguments, commands)?;
        for variant in experiment.variants().map(name) {
            let run = experiment.out.join(variant).join("replica-000");
            let found = agreement(&run, Nanos::from_micros(100));
            let Agreement { samples: of_run, off_ns, differences } =
                found.map_err(|error| Failure::new(format!("{variant}, {load}: {error}")))?;
            for difference in &differences {
                eprintln!("{variant}, {load}: {difference:?}");
            }
            let of_run_agreed = of_run - differences.len() as u64;
            samples += of_run;
            agreed += of_run_agreed;
            table.push(row([load, variant, &of_run.to_string(), &of_run_agreed.to_string(), &format!("{:.1}", off_ns as f64 / 1000.0)]));
        }
    }
    Ok((table, samples, agreed))
}

/// Seconds of one guest without and with the plugin, each the least of three; the symbols are there from before.
fn host_time(bench: &Bench, commands: &mut Vec<String>) -> Result<(f64, f64)> {
    let (mut unwatched, mut watched) = (f64::INFINITY, f64::INFINITY);
    let plain = ["--kernel", "debian:6.1", "--preempt", "full", "--for", "2s", "--load", "memory"];
    for turn in 0..3 {
        let mut ignored = Vec::new();
        let kept = if turn == 0 { &mut *commands } else { &mut ignored };
        let began = Instant::now();
        Experiment::run(bench, "unwatched", &plain, kept)?;
        unwatched = unwatched.min(began.elapsed().as_secs_f64());
        let began = Instant::now();
        Experiment::run(bench, "watched", &[&plain[..], &["--watch"]].concat(), kept)?;
        watched = watched.min(began.elapsed().as_secs_f64());
    }
    Ok((unwatched, watched))
}
