//! The preemption models of one kernel under loads, over an ensemble.

use super::{Experiment, MODELS, holds, identity};
use crate::failure::Result;
use crate::figure::{Bench, Figure, FigureResult};
use crate::statistics::median;

pub(crate) const FIGURE: Figure = Figure {
    name: "lab-order",
    promise: "Latencies with PREEMPT_RT stay below 60 us under every load; with `none`, they exceed 1 ms under memory, procfs and io",
    measure,
};

const VARIANTS: [&str; 4] = ["6.1-none", "6.1-voluntary", "6.1-full", "6.1-rt"];
const SCENARIO: &str = "crates/tardy/tests/data/lab/order.toml";
const PHASES: [&str; 7] = [
    "idle",
    "procfs",
    "munmap",
    "memory",
    "munmap-small",
    "io",
    "fork",
];
/// What was found behind the largest values of the stock kernels (docs/lab.md has how).
const DRAIN: &str = "memory, munmap-small, io and fork do not tell the stock models apart: at the \
                     end of a process __mmdrop frees its page directory, two pages in one piece, \
                     and free_unref_page then gives all pages of the CPU's list back \
                     (free_pcppages_bulk, up to 9816 of them in this guest) with interrupts off, \
                     about 300 instructions per page. Linux 6.7 no longer does so (\"mm, pcp: avoid \
                     to drain PCP when process exit\").";
const REAL_TIME_MAX_US: f64 = 60.0;
const STOCK_MIN_US: f64 = 1000.0;
const RATIO_MIN: f64 = 5.0;

fn measure(bench: &Bench) -> Result<FigureResult> {
    let mut commands = Vec::new();
    let replicas = if bench.is_quick { "2" } else { "10" };
    let mut arguments = MODELS.to_vec();
    arguments.extend(["--scenario", SCENARIO, "--replicas", replicas]);
    let experiment = Experiment::run(bench, "order", &arguments, &mut commands)?;
    let mut table = vec![
        [&["variant"], &PHASES[..]]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>(),
    ];
    for variant in VARIANTS {
        let mut cells = vec![variant.to_owned()];
        for phase in PHASES {
            let maxima = experiment.maxima(variant, phase)?;
            cells.push(format!(
                "{:.1} ({:.1})",
                maxima.iter().fold(0.0_f64, |max, one| max.max(*one)),
                median(&maxima)
            ));
        }
        table.push(cells);
    }
    let largest = |variant: &str, phase: &str| {
        Ok::<_, crate::failure::Failure>(
            experiment
                .maxima(variant, phase)?
                .into_iter()
                .fold(0.0, f64::max),
        )
    };
    let mut real_time: f64 = 0.0;
    for phase in PHASES {
        real_time = real_time.max(largest("6.1-rt", phase)?);
    }
    let mut stock = f64::INFINITY;
    for phase in ["memory", "procfs", "io"] {
        stock = stock.min(largest("6.1-none", phase)?);
    }
    let ratio = largest("6.1-none", "munmap")? / largest("6.1-full", "munmap")?;
    Ok(FigureResult {
        reached: format!(
            "RT at most {real_time:.1} us: {}; none at least {stock:.0} us in memory, procfs and \
             io: {}; munmap none / full {ratio:.1}: {}",
            holds(real_time < REAL_TIME_MAX_US),
            holds(stock > STOCK_MIN_US),
            holds(ratio >= RATIO_MIN),
        ),
        commands,
        tables: vec![table],
        notes: vec![
            format!(
                "Largest latency of {replicas} runs in us, the median of the runs' largest in \
                 brackets. Virtual time: not the worst case of any machine."
            ),
            "munmap is with pages as the system decides (huge ones), munmap-small with single \
             pages."
                .to_owned(),
            DRAIN.to_owned(),
            identity(&experiment),
        ],
    })
}
