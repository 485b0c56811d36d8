//! The probe's wake-up and cyclictest's in the same guest.

use std::path::Path;
use std::process::Command;

use tardy::run::read_series::SeriesFile;

use super::{Experiment, holds, identity};
use crate::bench::figure::{Bench, Figure, Measured, row};
use crate::failure::{Failure, Result, While};
use crate::program;

pub(crate) const FIGURE: Figure = Figure {
    name: "lab-wake-up-path",
    title: "length of a wake-up in an idle guest, in instructions",
    promise: "median and minimum within 1 % of the packaged cyclictest in the same guest, same priority and period",
    measure,
};

const KERNELS: [&str; 6] = ["--kernel", "debian:6.1", "--preempt", "full", "--kernel", "debian:6.1-rt"];
const VARIANTS: [&str; 2] = ["6.1-full", "6.1-rt"];
const INSTRUCTION_NS: i64 = 4;
const DIFFERENCE_MAX: f64 = 0.01;

fn measure(bench: &Bench) -> Result<Measured> {
    let cyclictest = program::find("cyclictest").ok_or_else(|| Failure::new("there is no cyclictest: install the package rt-tests"))?;
    let mut commands = Vec::new();
    let own = Experiment::run(bench, "own", &[&KERNELS[..], &["--cycles", "30000"]].concat(), &mut commands)?;
    let added = with_libraries(&cyclictest)?;
    let mut arguments = KERNELS.to_vec();
    arguments.extend(added.iter().map(String::as_str));
    arguments.extend(["--program", "/bin/cyclictest", "--"]);
    arguments.extend("-q -m -N -t 1 -a 0 -p 95 -i 1000 -l 30000 -h 200000".split(' '));
    let peer = Experiment::run(bench, "cyclictest", &arguments, &mut commands)?;
    let mut table = vec![row(["variant", "", "tardy", "cyclictest", "difference"])];
    // Of the medians, the quantiles and the minima.
    let parts = [("median", 0.5), ("quantile of 1 %", 0.01), ("minimum", 0.0)];
    let mut most = [0.0_f64; 3];
    for variant in VARIANTS {
        let own = samples(&own.out.join(variant).join("pad-000"))?;
        let peer = histogram(&peer.out.join(variant).join("pad-000"))?;
        for (most, (what, part)) in most.iter_mut().zip(parts) {
            let at = |samples: &[i64]| samples[(samples.len() as f64 * part) as usize];
            let (own, peer) = (at(&own), at(&peer));
            let difference = own as f64 / peer as f64 - 1.0;
            *most = most.max(difference.abs());
            let cell = |ns: i64| (ns / INSTRUCTION_NS).to_string();
            table.push(row([variant, what, &cell(own), &cell(peer), &format!("{:+.2} %", 100.0 * difference)]));
        }
    }
    Ok(Measured {
        reached: parts
            .iter()
            .zip(most)
            .map(|((what, _), most)| format!("{what} at most {:.2} % apart: {}", 100.0 * most, holds(most <= DIFFERENCE_MAX)))
            .collect::<Vec<_>>()
            .join("; "),
        commands,
        tables: vec![table],
        notes: vec![
            "A minimum is one wake-up of thousands, which met another task of the guest awake, and the tools' other tasks are not the same; the quantile of 1 % is the \
             shortest path that repeats, and what the test holds."
                .to_owned(),
            "From the due time to the clock read in the program, 30000 wake-ups, an instruction is 4 ns of the guest's clock.".to_owned(),
            identity(&own),
        ],
    })
}

/// All latencies in ns, sorted; at least one.
fn samples(run: &Path) -> Result<Vec<i64>> {
    let failure = |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", run.display()));
    let file = SeriesFile::open(&run.join("samples/cyclic.cpu0.series")).map_err(|error| failure(&error))?;
    let schedule = file.descriptor().schedule;
    let mut samples = Vec::new();
    file.read(|chunk| samples.extend(chunk.samples(&schedule).map(|(_, sample)| sample.latency.0))).map_err(|error| failure(&error))?;
    samples.sort_unstable();
    if samples.is_empty() { Err(failure(&"no samples")) } else { Ok(samples) }
}

/// The same from cyclictest's histogram, `NANOSECONDS COUNT` a line.
fn histogram(run: &Path) -> Result<Vec<i64>> {
    let path = run.join("stdout.log");
    let text = std::fs::read_to_string(&path).while_doing(|| format!("reading {}", path.display()))?;
    let mut samples = Vec::new();
    for line in text.lines() {
        let Some((value, count)) = line.split_once([' ', '\t']) else { continue };
        if let (Ok(value), Ok(count)) = (value.parse::<i64>(), count.trim().parse::<usize>()) {
            samples.extend(std::iter::repeat_n(value, count));
        }
    }
    if samples.is_empty() { Err(Failure::new(format!("{}: cyclictest printed no histogram", path.display()))) } else { Ok(samples) }
}

/// A program and the libraries that it loads, as `--add` takes them.
fn with_libraries(program: &Path) -> Result<Vec<String>> {
    let text = program::capture(Command::new("ldd").arg(program))?;
    let libraries = text.split_whitespace().filter(|word| word.starts_with('/')).map(|path| format!("{path}:{path}"));
    let all = libraries.chain([format!("{}:/bin/cyclictest", program.display())]);
    Ok(all.flat_map(|add| ["--add".to_owned(), add]).collect())
}
