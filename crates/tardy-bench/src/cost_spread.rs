//! Measures how long `tardy cost` takes, and how much the results of its runs differ.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use super::figure::{Bench, Figure, FigureResult, row, scratch};
use crate::failure::Result;

/// Duration and spread of `tardy cost`.
pub(crate) const FIGURE: Figure = Figure {
    name: "cost",
    promise: "`tardy cost` takes at most 60 s; its figures differ by less than 5 % over 5 runs",
    measure,
};

/// Metrics that neither wait, nor start processes, nor depend on the placement of memory: only the
/// CPU determines them.
const COMPUTING: [&str; 12] = [
    "null-call",
    "null-io",
    "stat",
    "open-close",
    "select-files",
    "select-tcp",
    "signal-install",
    "signal-handle",
    "epoll-tcp",
    "io-uring-nop",
    "timer-create",
    "timer-cancel",
];
const SPREAD_MAX: f64 = 0.05;

fn measure(bench: &Bench) -> Result<FigureResult> {
    let runs = if bench.is_quick { 2 } else { 5 };
    let folder = scratch()?;
    let mut whole = Command::new(&bench.tardy);
    whole
        .args(["cost", "--quiet", "--json", "--out"])
        .arg(folder.path().join("whole"));
    let begin = Instant::now();
    let services = figures(&bench.capture_json(&mut whole)?).len();
    let length = begin.elapsed();
    let mut found: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for run in 0..runs {
        let mut command = Command::new(&bench.tardy);
        command
            .args(["cost", "--quiet", "--json", "--out"])
            .arg(folder.path().join(format!("run-{run}")));
        command.args(COMPUTING.iter().flat_map(|metric| ["--metric", metric]));
        for (metric, cost) in figures(&bench.capture_json(&mut command)?) {
            found.entry(metric).or_default().push(cost);
        }
    }
    let mut table = vec![row([
        "metric",
        "least figure, us",
        "largest figure, us",
        "spread",
    ])];
    let mut above = Vec::new();
    for metric in COMPUTING {
        let Some(costs) = found.get(metric).filter(|costs| costs.len() == runs) else {
            continue;
        };
        let (least, most) = costs
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |(least, most), cost| {
                (least.min(*cost), most.max(*cost))
            });
        let spread = most / least - 1.0;
        if spread >= SPREAD_MAX {
            above.push(metric);
        }
        table.push(row([
            metric,
            &format!("{:.4}", least / 1e3),
            &format!("{:.4}", most / 1e3),
            &format!("{:.1} %", spread * 100.0),
        ]));
    }
    let spread = if above.is_empty() {
        "all below 5 %".to_owned()
    } else {
        format!("above 5 %: {}", above.join(", "))
    };
    Ok(FigureResult {
        reached: format!(
            "{:.1} s for {services} services; spread over {runs} runs {spread}",
            length.as_secs_f64()
        ),
        table,
        notes: vec![
            "A figure is the smallest of the three rounds' medians. The spread is the largest \
             figure of the runs divided by the smallest figure, minus one."
                .to_owned(),
        ],
    })
}

/// Returns name and value of each metric, in ns.
fn figures(costs: &Value) -> Vec<(String, f64)> {
    let metrics = costs["metrics"].as_array().into_iter().flatten();
    metrics
        .filter_map(|metric| {
            Some((
                metric["name"].as_str()?.to_owned(),
                metric["cost"].as_f64()?,
            ))
        })
        .collect()
}
