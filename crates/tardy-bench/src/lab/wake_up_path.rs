//! The probe's wake-up and cyclictest's in the same guest.

use std::path::Path;
use std::process::Command;

use tardy_samples::read_series::SeriesFile;

use super::{Experiment, holds, identity};
use crate::failure::{Failure, Result, While};
use crate::figure::{Bench, Figure, FigureResult, row};
use crate::program;

pub(crate) const FIGURE: Figure = Figure {
    name: "lab-wake-up-path",
    promise: "A wake-up takes as many instructions in tardy as in cyclictest in the same guest, \
              within 1 %",
    measure,
};

const KERNELS: [&str; 6] = [
    "--kernel",
    "debian:6.1",
    "--preempt",
    "full",
    "--kernel",
    "debian:6.1-rt",
];
const VARIANTS: [&str; 2] = ["6.1-full", "6.1-rt"];
/// The same wake-ups by both: FIFO 95, 1 ms, memory locked.
const OWN: [&str; 8] = [
    "run",
    "--out",
    "/run/out/run",
    "--cycles",
    "30000",
    "--seed",
    "1",
    "--quiet",
];
const PEER: [&str; 15] = [
    "-q", "-m", "-N", "-t", "1", "-a", "0", "-p", "95", "-i", "1000", "-l", "30000", "-h", "200000",
];
/// Another task with a timer of its own, above everything but the measured ones; its period meets
/// every phase of theirs, to the ns.
const INTERRUPTER: &str = "busy:length=1us:period=50.003us:priority=10";
const INSTRUCTION_NS: i64 = 4;
const DIFFERENCE_MAX: f64 = 0.01;

fn measure(bench: &Bench) -> Result<FigureResult> {
    let cyclictest = program::find("cyclictest")
        .ok_or_else(|| Failure::new("there is no cyclictest: install the package rt-tests"))?;
    let mut commands = Vec::new();
    let added = with_libraries(&cyclictest)?;
    let mut pair = |name: &str, loads: &[&str]| {
        let own = [&KERNELS[..], loads, &["--program", "/init", "--"], &OWN].concat();
        let own = Experiment::run(bench, &format!("own-{name}"), &own, &mut commands)?;
        let added: Vec<&str> = added.iter().map(String::as_str).collect();
        let peer = [
            &KERNELS[..],
            loads,
            &added,
            &["--program", "/bin/cyclictest", "--"],
            &PEER,
        ]
        .concat();
        let peer = Experiment::run(bench, &format!("cyclictest-{name}"), &peer, &mut commands)?;
        Ok::<_, Failure>((own, peer))
    };
    let idle = pair("idle", &[])?;
    let interrupted = pair("interrupted", &["--load", INTERRUPTER])?;
    let mut table = vec![row(["variant", "", "tardy", "cyclictest", "difference"])];
    let figures = [
        ("median", &idle, 0.5),
        ("quantile of 1 %", &idle, 0.01),
        ("minimum", &idle, 0.0),
        ("quantile of 1 %, interrupted", &interrupted, 0.01),
        ("minimum, interrupted", &interrupted, 0.0),
    ];
    let mut most = [0.0_f64; 5];
    for variant in VARIANTS {
        for (most, (what, (own, peer), part)) in most.iter_mut().zip(figures) {
            let own = samples(&own.out.join(variant).join("replica-000/run"))?;
            let peer = histogram(&peer.out.join(variant).join("replica-000"))?;
            let at = |samples: &[i64]| samples[(samples.len() as f64 * part) as usize];
            let (own, peer) = (at(&own), at(&peer));
            let difference = own as f64 / peer as f64 - 1.0;
            *most = most.max(difference.abs());
            let cell = |ns: i64| (ns / INSTRUCTION_NS).to_string();
            table.push(row([
                variant,
                what,
                &cell(own),
                &cell(peer),
                &format!("{:+.2} %", 100.0 * difference),
            ]));
        }
    }
    Ok(FigureResult {
        reached: figures
            .iter()
            .zip(most)
            .map(|((what, ..), most)| {
                format!(
                    "{what} at most {:.2} % apart: {}",
                    100.0 * most,
                    holds(most <= DIFFERENCE_MAX)
                )
            })
            .collect::<Vec<_>>()
            .join("; "),
        commands,
        tables: vec![table],
        notes: vec![
            "From the due time to the clock read in the program, over 30000 wake-ups; an \
             instruction takes 4 ns of the guest's clock."
                .to_owned(),
            format!(
                "A minimum comes from one wake-up of thousands, whose timer was due while the CPU \
                 already served another interrupt, which saves the entry into the interrupt. In an \
                 idle guest, only the tool's own other threads cause such interrupts, twice a \
                 second in tardy and a hundred times in cyclictest, whose main thread sleeps 10 ms \
                 at a time. How far such an interrupt had got is a matter of chance, so the \
                 quantile of 1 % is the shortest path that repeats.",
            ),
            format!(
                "Interrupted: both guests run the load {INTERRUPTER}, whose timer meets the timers \
                 of the wake-ups in every phase."
            ),
            identity(&idle.0),
        ],
    })
}

/// All latencies in ns, sorted; at least one.
fn samples(run: &Path) -> Result<Vec<i64>> {
    let failure =
        |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", run.display()));
    let file = SeriesFile::open(&run.join("samples/cyclic.cpu0.series"))
        .map_err(|error| failure(&error))?;
    let schedule = file.descriptor().schedule;
    let mut samples = Vec::new();
    file.read(&mut |chunk| {
        samples.extend(chunk.samples(&schedule).map(|(_, sample)| sample.latency.0))
    })
    .map_err(|error| failure(&error))?;
    samples.sort_unstable();
    if samples.is_empty() {
        Err(failure(&"no samples"))
    } else {
        Ok(samples)
    }
}

/// The same from cyclictest's histogram, `NANOSECONDS COUNT` a line.
fn histogram(run: &Path) -> Result<Vec<i64>> {
    let path = run.join("stdout.log");
    let text =
        std::fs::read_to_string(&path).while_doing(|| format!("reading {}", path.display()))?;
    let mut samples = Vec::new();
    for line in text.lines() {
        let Some((value, count)) = line.split_once([' ', '\t']) else {
            continue;
        };
        if let (Ok(value), Ok(count)) = (value.parse::<i64>(), count.trim().parse::<usize>()) {
            samples.extend(std::iter::repeat_n(value, count));
        }
    }
    if samples.is_empty() {
        Err(Failure::new(format!(
            "{}: cyclictest printed no histogram",
            path.display()
        )))
    } else {
        Ok(samples)
    }
}

/// A program and the libraries that it loads, as `--add` takes them.
fn with_libraries(program: &Path) -> Result<Vec<String>> {
    let text = program::capture(Command::new("ldd").arg(program))?;
    let libraries = text
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
        .map(|path| format!("{path}:{path}"));
    let all = libraries.chain([format!("{}:/bin/cyclictest", program.display())]);
    Ok(all.flat_map(|add| ["--add".to_owned(), add]).collect())
}
