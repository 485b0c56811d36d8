//! The same guests with the host idle and busy.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Experiment, holds, identity};
use crate::failure::{Failure, Result};
use crate::figure::{Bench, Figure, FigureResult, row};

pub(crate) const FIGURE: Figure = Figure {
    name: "lab-pairs",
    promise: "The same guest gives the same samples, on an idle and on a busy host",
    measure,
};

/// Three models of one kernel, and three kernels more; what a distribution offers changes, and the
/// table says what it was.
const KERNELS: [&str; 10] = [
    "--kernel",
    "debian:6.1",
    "--preempt",
    "none,voluntary,full",
    "--kernel",
    "debian:6.1-rt",
    "--kernel",
    "debian:bookworm-backports/6.12",
    "--kernel",
    "debian:bookworm-backports/6.12-rt",
];

fn measure(bench: &Bench) -> Result<FigureResult> {
    let mut commands = Vec::new();
    let replicas = if bench.is_quick { "1" } else { "3" };
    let mut arguments = KERNELS.to_vec();
    arguments.extend([
        "--scenario",
        "crates/tardy/tests/data/lab/small.toml",
        "--replicas",
        replicas,
    ]);
    let idle = Experiment::run(bench, "idle", &arguments, &mut commands)?;
    let busy = on_a_busy_host(|| Experiment::run(bench, "busy", &arguments, &mut commands))?;
    let mut table = vec![row([
        "variant",
        "replica",
        "samples",
        "expected",
        "idle host",
        "busy host",
        "same",
    ])];
    let mut same = 0;
    for ((variant, one), (_, other)) in idle.runs().into_iter().zip(busy.runs()) {
        let [one_digest, other_digest] =
            [one, other].map(|run| run["sample_digest"].as_str().unwrap_or_default().to_owned());
        let (recorded, expected) = accounted(&idle, variant, &one["replica"])?;
        let is_same = !one_digest.is_empty()
            && one_digest == other_digest
            && recorded > 0
            && recorded == expected;
        same += usize::from(is_same);
        let short = |digest: &str| digest.chars().take(12).collect::<String>();
        table.push(row([
            variant,
            &one["replica"].to_string(),
            &recorded.to_string(),
            &expected.to_string(),
            &short(&one_digest),
            &short(&other_digest),
            if is_same { "yes" } else { "NO" },
        ]));
    }
    let pairs = table.len() - 1;
    Ok(FigureResult {
        reached: format!(
            "{same} of {pairs} pairs identical and accounted for: {}",
            holds(same == pairs)
        ),
        commands,
        tables: vec![table],
        notes: vec![
            "Samples: recorded, with the due times that were skipped while one was late (recorded \
             + skipped); expected: from the clock and the grid."
                .to_owned(),
            "Busy host: spinning threads at the lab's own priority, one more than there are CPUs."
                .to_owned(),
            identity(&idle),
        ],
    })
}

/// Samples recorded and skipped, and those expected, of a run's only series.
fn accounted(
    experiment: &Experiment,
    variant: &str,
    replica: &serde_json::Value,
) -> Result<(u64, u64)> {
    let folder = experiment.out.join(variant).join(format!(
        "replica-{:03}",
        replica.as_u64().unwrap_or_default()
    ));
    let record =
        tardy_run::folder::open(&folder).map_err(|error| Failure::new(error.to_string()))?;
    let counts = record.series.first().and_then(|series| series.counts);
    let counts = counts.ok_or_else(|| Failure::new(format!("{}: no counts", folder.display())))?;
    Ok((counts.recorded + counts.skipped, counts.expected))
}

fn on_a_busy_host<T>(work: impl FnOnce() -> T) -> T {
    let is_done = AtomicBool::new(false);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..=processors {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let result = work();
        is_done.store(true, Ordering::Relaxed);
        result
    })
}
