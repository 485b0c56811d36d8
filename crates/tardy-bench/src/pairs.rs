//! CPU time per sample, and equivalence of the median latency, from the same interleaved rounds.
//!
//! In each round, every tool runs once on the same CPU, in a rotating order, so that drift of the
//! machine affects all tools alike.

use std::sync::OnceLock;
use std::time::Duration;

use super::contender::{CONTENDERS, Contender, PERIOD_US, median_latency_us};
use super::figure::{Bench, Figure, FigureResult, measured_once, row, scratch};
use super::statistics::{mean_and_half_width, median, middle_and_interval};
use super::threads;
use crate::failure::{Failure, Result};

/// CPU time per sample.
pub(crate) const CPU_TIME: Figure = Figure {
    name: "cpu-time",
    promise: "A sample takes at most 5 % more CPU time than in cyclictest (upper 95 % bound)",
    measure: measure_cpu_time,
};

/// Equivalence of the median latency with cyclictest's.
pub(crate) const EQUIVALENCE: Figure = Figure {
    name: "equivalence",
    promise: "The median latency equals that of cyclictest within 1 us or 5 %",
    measure: measure_equivalence,
};

const RATIO_MAX: f64 = 1.05;
/// Seconds that a run lasts before and after the used samples.
const MARGIN: u64 = 2;

/// The result of one run of one tool.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// CPU time of the measuring thread per sample, in us.
    thread_us: f64,
    /// CPU time of all threads of the tool per sample, in us.
    process_us: f64,
    median_latency_us: Option<f64>,
}

/// The ratio of two tools over all rounds.
#[derive(Debug, Clone, Copy)]
struct Ratio {
    middle: f64,
    upper: f64,
    mean: f64,
    mean_upper: f64,
}

/// The runs of each tool, by round.
#[derive(Debug)]
struct Rounds {
    runs: [Vec<Run>; 3],
    cpu: u32,
    seconds: u64,
    commands: Vec<String>,
}

impl Rounds {
    /// Returns the rounds. The first call in this process measures them.
    fn once(bench: &Bench) -> Result<&'static Self> {
        static MEASURED: OnceLock<Rounds> = OnceLock::new();
        let rounds = measured_once(&MEASURED, || Self::measure(bench))?;
        rounds
            .commands
            .iter()
            .for_each(|line| bench.note_line(line));
        Ok(rounds)
    }

    fn measure(bench: &Bench) -> Result<Self> {
        let (count, seconds) = if bench.is_quick { (4, 1) } else { (30, 3) };
        let cpu = bench.measured_cpu()?;
        let mut rounds = Self {
            runs: [Vec::new(), Vec::new(), Vec::new()],
            cpu,
            seconds,
            commands: Vec::new(),
        };
        for round in 0..count {
            for place in 0..CONTENDERS.len() {
                let which = (round + place) % CONTENDERS.len();
                let run = run_once(CONTENDERS[which], bench, cpu, seconds)?;
                rounds.runs[which].push(run);
            }
            eprint!("\rround {} of {count}", round + 1);
        }
        eprintln!();
        rounds.commands = bench.commands.borrow().clone();
        Ok(rounds)
    }

    fn of(&self, contender: Contender) -> &[Run] {
        &self.runs[CONTENDERS
            .iter()
            .position(|&other| other == contender)
            .expect("every contender is in the list")]
    }

    /// Returns the ratio to cyclictest with a 95 % upper bound, twice: the Hodges-Lehmann estimate,
    /// and the geometric mean with a bound by Student's t. A few disturbed rounds can change the
    /// mean much.
    fn ratio(&self, contender: Contender, value: impl Fn(&Run) -> f64) -> Ratio {
        let pairs = self
            .of(contender)
            .iter()
            .zip(self.of(Contender::Cyclictest));
        let logarithms: Vec<f64> = pairs
            .map(|(one, other)| (value(one) / value(other)).ln())
            .collect();
        // The upper end of a two-sided interval of 90 % is a one-sided bound of 95 %.
        let (middle, _, upper) = middle_and_interval(&logarithms, 0.90);
        let (mean, half_width) = mean_and_half_width(&logarithms, 0.90);
        Ratio {
            middle: middle.exp(),
            upper: upper.exp(),
            mean: mean.exp(),
            mean_upper: (mean + half_width).exp(),
        }
    }

    fn notes(&self) -> Vec<String> {
        vec![
            format!(
                "{} rounds; in each, every tool runs once on CPU {} (SCHED_FIFO 95, {PERIOD_US} \
                 us, memory locked, cpu_dma_latency 0), in an order that rotates from round to round.",
                self.of(Contender::Tardy).len(),
                self.cpu
            ),
            format!(
                "CPU time is the difference of /proc/PID/task/TID/schedstat over {} s from its \
                 500th wait on, divided by the waits of the measuring thread (voluntary switches: \
                 one a sample).",
                self.seconds
            ),
        ]
    }
}

fn run_once(contender: Contender, bench: &Bench, cpu: u32, seconds: u64) -> Result<Run> {
    let place = scratch()?;
    let samples = (seconds + MARGIN) * 1_000_000 / PERIOD_US;
    let command = contender.command(bench, cpu, samples, place.path())?;
    bench.note(&command);
    let mut child = contender.start(command, place.path())?;
    let before = contender.when_measuring(&child)?;
    std::thread::sleep(Duration::from_secs(seconds));
    let spent = threads::since(&before, &threads::of_tree(child.id()));
    let output = contender.finish(&mut child, place.path())?;
    let median_latency_us = median_latency_us(contender, &output);
    if median_latency_us.is_none() && contender != Contender::Jitterdebugger {
        eprintln!(
            "\n{} printed no median: {}",
            contender.name(),
            output.chars().take(600).collect::<String>()
        );
    }
    let measuring = threads::measuring(&spent).filter(|thread| thread.waits > 0);
    let measuring = measuring.ok_or_else(|| {
        Failure::new(format!(
            "{} ended before it was looked at",
            contender.name()
        ))
    })?;
    let a_sample = |cpu_time: u64| cpu_time as f64 / measuring.waits as f64 / 1000.0;
    let run = Run {
        thread_us: a_sample(measuring.cpu_time),
        process_us: a_sample(spent.iter().map(|thread| thread.cpu_time).sum()),
        median_latency_us,
    };
    Ok(run)
}

fn measure_cpu_time(bench: &Bench) -> Result<FigureResult> {
    let rounds = Rounds::once(bench)?;
    let mut table = vec![row([
        "tool",
        "measuring thread, median us",
        "ratio to cyclictest",
        "its upper 95 % bound",
        "whole process, median us",
        "ratio to cyclictest",
        "its upper 95 % bound",
    ])];
    for contender in CONTENDERS {
        let runs = rounds.of(contender);
        let middle = |value: fn(&Run) -> f64| median(&runs.iter().map(value).collect::<Vec<_>>());
        let mut cells = vec![contender.name().to_owned()];
        for value in [|run: &Run| run.thread_us, |run: &Run| run.process_us] {
            let ratio = rounds.ratio(contender, value);
            cells.push(format!("{:.2}", middle(value)));
            if contender == Contender::Cyclictest {
                cells.extend(["1".to_owned(), String::new()]);
            } else {
                cells.extend([
                    format!("{:.3}", ratio.middle),
                    format!("{:.3}", ratio.upper),
                ]);
            }
        }
        table.push(cells);
    }
    let Ratio {
        middle,
        upper,
        mean,
        mean_upper,
    } = rounds.ratio(Contender::Tardy, |run| run.thread_us);
    let verdict = if upper <= RATIO_MAX {
        "holds"
    } else {
        "not shown"
    };
    let mut notes = rounds.notes();
    notes.push(
        "Ratios and bounds are Hodges-Lehmann estimates on the logarithms of the rounds' ratios, \
         with bounds from Wilcoxon's signed-rank test: a round that other work on the machine \
         disturbed hardly moves them."
            .to_owned(),
    );
    notes.push(format!(
        "The geometric mean of the measuring thread's ratio is {mean:.3}, its upper 95 % bound by \
         Student's t {mean_upper:.3}: these are moved by such rounds."
    ));
    Ok(FigureResult {
        reached: format!(
            "ratio {middle:.3}, upper 95 % bound {upper:.3} in {} pairs: {verdict}",
            rounds.of(Contender::Tardy).len()
        ),
        tables: vec![table],
        notes,
    })
}

fn measure_equivalence(bench: &Bench) -> Result<FigureResult> {
    let rounds = Rounds::once(bench)?;
    let runs = rounds
        .of(Contender::Tardy)
        .iter()
        .zip(rounds.of(Contender::Cyclictest));
    let (own, peer): (Vec<f64>, Vec<f64>) = runs
        .filter_map(|(own, peer)| Some((own.median_latency_us?, peer.median_latency_us?)))
        .unzip();
    let left_out = rounds.of(Contender::Tardy).len() - own.len();
    if own.len() < 20.min(rounds.of(Contender::Tardy).len()) {
        return Err(Failure::new(format!(
            "{left_out} rounds have no median of one of the tools: its histogram ended below it"
        )));
    }
    let differences: Vec<f64> = own
        .iter()
        .zip(&peer)
        .map(|(own, peer)| own - peer)
        .collect();
    let (middle, lower, upper) = middle_and_interval(&differences, 0.95);
    let (mean, half_width) = mean_and_half_width(&differences, 0.95);
    let margin = (median(&peer) * 0.05).max(1.0);
    let holds = lower >= -margin && upper <= margin;
    let interval = format!("{lower:+.2} to {upper:+.2} us");
    let table = vec![
        row(["tool", "median of medians, us", "lowest", "highest"]),
        spread("tardy", &own),
        spread("cyclictest", &peer),
        spread("difference, pair by pair", &differences),
    ];
    let mut notes = rounds.notes();
    notes.push(format!(
        "cyclictest's medians come from its histogram of 1 ns steps, up to 200 us; {left_out} \
         rounds were left out because a median lay beyond it."
    ));
    notes.push(format!(
        "The difference is the Hodges-Lehmann estimate over the pairs; its interval comes from \
         Wilcoxon's signed-rank test; their mean is {mean:+.2} us, {:+.2} to {:+.2} by Student's \
         t, which a few disturbed rounds move.",
        mean - half_width,
        mean + half_width
    ));
    Ok(FigureResult {
        reached: format!(
            "difference {middle:+.2} us, 95 % interval {interval}, margin {margin:.2} us: {}",
            if holds { "holds" } else { "not shown" }
        ),
        tables: vec![table],
        notes,
    })
}

fn spread(name: &str, values: &[f64]) -> Vec<String> {
    let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    vec![
        name.to_owned(),
        format!("{:.2}", median(values)),
        format!("{lowest:.2}"),
        format!("{highest:.2}"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(thread_us: &[f64]) -> Vec<Run> {
        thread_us
            .iter()
            .map(|&thread_us| Run {
                thread_us,
                process_us: 2.0 * thread_us,
                median_latency_us: None,
            })
            .collect()
    }

    #[test]
    fn the_ratio_is_taken_round_by_round() {
        let rounds = Rounds {
            runs: [
                runs(&[11.0, 22.0, 33.0]),
                runs(&[10.0, 20.0, 30.0]),
                runs(&[12.0, 30.0, 30.0]),
            ],
            cpu: 1,
            seconds: 1,
            commands: Vec::new(),
        };
        let ratio = rounds.ratio(Contender::Tardy, |run| run.thread_us);
        assert!(
            (ratio.middle - 1.1).abs() < 1e-9 && (ratio.mean_upper - 1.1).abs() < 1e-6,
            "{ratio:?}"
        );
        let ratio = rounds.ratio(Contender::Jitterdebugger, |run| run.thread_us);
        assert!(ratio.upper > ratio.middle && ratio.mean > 1.1, "{ratio:?}");
    }
}
