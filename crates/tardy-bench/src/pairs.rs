//! Measures the CPU time per sample of tardy and its peers, in interleaved rounds.

use std::time::Duration;

use super::contender::{CONTENDERS, Contender, PERIOD_US};
use super::figure::{Bench, Figure, FigureResult, holds, row, scratch};
use super::statistics::{ESTIMATE, Estimate, in_turn, median, ratio};
use super::threads;
use crate::failure::{Failure, Result};

/// CPU time per sample.
pub(crate) const FIGURE: Figure = Figure {
    name: "cpu-time",
    promise: "A sample takes at most 5 % more CPU time than in cyclictest (upper 95 % bound)",
    measure,
};

const RATIO_MAX: f64 = 1.05;
/// The upper end of a two-sided interval of 90 % is a one-sided bound of 95 %.
const ONE_SIDED: f64 = 0.90;
/// Number of seconds that a run lasts in addition to its measured part: the sum of the times before
/// and after that part.
const MARGIN: u64 = 2;

/// The result of one run of one tool.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// CPU time of the measuring thread per sample, in us.
    thread_us: f64,
    /// CPU time of all threads of the tool per sample, in us.
    process_us: f64,
}

/// The results of each tool, one per round.
#[derive(Debug)]
struct Rounds {
    runs: [Vec<Run>; 3],
    cpu: u32,
    seconds: u64,
}

impl Rounds {
    fn measure(bench: &Bench) -> Result<Self> {
        let (count, seconds) = if bench.is_quick { (4, 1) } else { (30, 3) };
        let cpu = bench.measured_cpu()?;
        Ok(Self {
            runs: in_turn(count, |side| {
                run_once(CONTENDERS[side], bench, cpu, seconds)
            })?,
            cpu,
            seconds,
        })
    }

    fn of(&self, contender: Contender) -> &[Run] {
        let place = CONTENDERS.iter().position(|&other| other == contender);
        &self.runs[place.expect("every contender is in the list")]
    }

    fn values(&self, contender: Contender, value: impl Fn(&Run) -> f64) -> Vec<f64> {
        self.of(contender).iter().map(value).collect()
    }

    /// Returns the ratio between a value of a tool and the same value of cyclictest.
    fn ratio(&self, contender: Contender, value: impl Fn(&Run) -> f64 + Copy) -> Estimate {
        let peer = self.values(Contender::Cyclictest, value);
        ratio(&self.values(contender, value), &peer, ONE_SIDED)
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
            format!("Ratios: {ESTIMATE}."),
        ]
    }
}

fn run_once(contender: Contender, bench: &Bench, cpu: u32, seconds: u64) -> Result<Run> {
    let place = scratch()?;
    let samples = (seconds + MARGIN) * 1_000_000 / PERIOD_US;
    let command = contender.command(bench, cpu, samples, place.path())?;
    bench.note(&command);
    let mut child = contender.start(command)?;
    let before = contender.when_measuring(&child)?;
    std::thread::sleep(Duration::from_secs(seconds));
    let spent = threads::since(&before, &threads::of_tree(child.id()));
    contender.finish(&mut child)?;
    let measuring = threads::measuring(&spent).filter(|thread| thread.waits > 0);
    let measuring = measuring.ok_or_else(|| {
        Failure::new(format!(
            "{} ended before it was looked at",
            contender.name()
        ))
    })?;
    let a_sample = |cpu_time: u64| cpu_time as f64 / measuring.waits as f64 / 1000.0;
    Ok(Run {
        thread_us: a_sample(measuring.cpu_time),
        process_us: a_sample(spent.iter().map(|thread| thread.cpu_time).sum()),
    })
}

fn measure(bench: &Bench) -> Result<FigureResult> {
    let rounds = Rounds::measure(bench)?;
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
        let mut cells = vec![contender.name().to_owned()];
        for value in [|run: &Run| run.thread_us, |run: &Run| run.process_us] {
            let ratio = rounds.ratio(contender, value);
            cells.push(format!("{:.2}", median(&rounds.values(contender, value))));
            cells.extend([ratio.middle, ratio.upper].map(|ratio| format!("{ratio:.3}")));
        }
        table.push(cells);
    }
    let ratio = rounds.ratio(Contender::Tardy, |run| run.thread_us);
    Ok(FigureResult {
        reached: format!(
            "ratio {:.3}, upper 95 % bound {:.3} in {} pairs: {}",
            ratio.middle,
            ratio.upper,
            rounds.of(Contender::Tardy).len(),
            holds(ratio.upper <= RATIO_MAX)
        ),
        table,
        notes: rounds.notes(),
    })
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
        };
        let ratio = rounds.ratio(Contender::Tardy, |run| run.thread_us);
        assert!((ratio.middle - 1.1).abs() < 1e-9, "{ratio:?}");
        let ratio = rounds.ratio(Contender::Jitterdebugger, |run| run.thread_us);
        assert!(ratio.upper > ratio.middle, "{ratio:?}");
    }
}
