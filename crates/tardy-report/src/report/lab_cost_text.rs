//! Costs of the lab's variants as text, with a row per metric and a column per variant.

use std::fmt::Write;

use tardy_lab::cost_comparison::{Absence, CostComparison, CostVariant, MetricResult};
use tardy_results::cost::shown::number;

use super::cost_text::{IDLE_SHARE_TOLD, waiting_share};
use super::lab_text::remarks;
use super::table::Table;

/// Returns the costs as text, including the metrics that could not be measured.
#[must_use]
pub fn text(comparison: &CostComparison) -> String {
    let mut text = String::new();
    let names = metrics(comparison);
    if !names.is_empty() {
        text.push_str(&table(comparison, &names));
    }
    for variant in &comparison.variants {
        remarks(&mut text, &variant.variant.name, &variant.runs);
    }
    left_out(&mut text, comparison);
    if comparison
        .variants
        .iter()
        .flat_map(|variant| &variant.metrics)
        .any(is_marked)
    {
        line(
            &mut text,
            "waiting: the part of the count in which the guest was idle and executed no \
             instruction; it is not part of the code's length",
        );
    }
    if comparison.variants.len() > 1 {
        line(
            &mut text,
            &format!(
                "in brackets: the excess over {}",
                comparison.variants[0].variant.name
            ),
        );
    }
    line(&mut text, comparison.meaning);
    text
}

fn line(text: &mut String, words: &str) {
    writeln!(text, "{words}").expect("writing to a string cannot fail");
}

/// Lists the metrics that were not measured. A metric is listed once if all variants have the same
/// reason.
fn left_out(text: &mut String, comparison: &CostComparison) {
    let mut told: Vec<&Absence> = Vec::new();
    for absent in comparison
        .variants
        .iter()
        .flat_map(|variant| &variant.left_out)
    {
        if told.contains(&absent) {
            continue;
        }
        told.push(absent);
        let on: Vec<&str> = comparison
            .variants
            .iter()
            .filter(|variant| variant.left_out.contains(absent))
            .map(|variant| variant.variant.name.as_str())
            .collect();
        let place = if on.len() == comparison.variants.len() {
            String::new()
        } else {
            format!(" on {}", on.join(" and "))
        };
        line(
            text,
            &format!("left out: {}{place} ({})", absent.name, absent.reason),
        );
    }
}

/// Returns each metric of the variants once, sorted by group.
fn metrics(comparison: &CostComparison) -> Vec<&MetricResult> {
    let mut found: Vec<&MetricResult> = Vec::new();
    for metric in comparison
        .variants
        .iter()
        .flat_map(|variant| &variant.metrics)
    {
        if !found.iter().any(|known| known.name == metric.name) {
            found.push(metric);
        }
    }
    found.sort_by_key(|metric| metric.group);
    found
}

fn table(comparison: &CostComparison, metrics: &[&MetricResult]) -> String {
    let over = if comparison.replicas > 1 {
        format!(", median of {} runs", comparison.replicas)
    } else {
        String::new()
    };
    let title = format!("{} of one operation{over}", comparison.unit);
    let head = comparison
        .variants
        .iter()
        .map(|variant| variant.variant.name.clone());
    let mut table = Table::new([title].into_iter().chain(head));
    let mut group = None;
    for metric in metrics {
        if group != Some(metric.group) {
            table.row([format!("-- {}", metric.group.title())]);
        }
        group = Some(metric.group);
        let first = comparison
            .variants
            .first()
            .and_then(|variant| variant.metric(&metric.name))
            .map(|metric| metric.cost);
        let cells = comparison
            .variants
            .iter()
            .enumerate()
            .map(|(index, variant)| {
                let compared_with = first.filter(|_| index > 0);
                variant
                    .metric(&metric.name)
                    .map_or_else(|| "-".to_owned(), |metric| cell(metric, compared_with))
            });
        table.row([metric.name.clone()].into_iter().chain(cells));
    }
    if comparison.variants.len() > 1 {
        let cells = comparison.variants.iter().map(|variant| {
            let mean = mean_excess(&comparison.variants[0], variant);
            mean.map_or_else(String::new, |mean| format!("{:+.1} %", mean * 100.0))
        });
        let cells = [String::new()].into_iter().chain(cells.skip(1));
        table.row(["geometric mean".to_owned()].into_iter().chain(cells));
    }
    table.text()
}

/// Returns the fraction by which `variant` costs more than `first`: the geometric mean, minus 1, of
/// the ratios over all metrics that both have; `None` if they have no metric in common.
fn mean_excess(first: &CostVariant, variant: &CostVariant) -> Option<f64> {
    let logarithms: Vec<f64> = variant
        .metrics
        .iter()
        .filter_map(|metric| {
            let ratio = metric.cost / first.metric(&metric.name)?.cost;
            (ratio.is_finite() && ratio > 0.0).then(|| ratio.ln())
        })
        .collect();
    let count = logarithms.len();
    (count > 0).then(|| (logarithms.iter().sum::<f64>() / count as f64).exp_m1())
}

fn cell(metric: &MetricResult, first: Option<f64>) -> String {
    let more = first
        .filter(|first| *first > 0.0)
        .map_or_else(String::new, |first| {
            format!(" ({:+.1} %)", (metric.cost / first - 1.0) * 100.0)
        });
    let idle = if is_marked(metric) {
        waiting_share(metric.idle_share)
    } else {
        String::new()
    };
    format!("{}{more}{idle}", number(metric.cost))
}

fn is_marked(metric: &MetricResult) -> bool {
    metric.idle_share >= IDLE_SHARE_TOLD
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_lab::architecture::Architecture;
    use tardy_lab::digest::Digest;
    use tardy_lab::kernel::Kernel;
    use tardy_lab::variant::Variant;
    use tardy_run::cost::Group;

    fn variant(name: &str) -> Variant {
        let kernel = Kernel {
            source: String::new(),
            name: name.to_owned(),
            image: "image".into(),
            digest: Digest::of_bytes(b"image"),
            architecture: Architecture::Amd64,
            version: None,
            package: None,
        };
        Variant::new(kernel, None, Vec::new())
    }

    fn result(name: &str, cost: f64, idle_share: f64) -> MetricResult {
        let (group, operation) = (Group::Processor, String::new());
        MetricResult {
            name: name.into(),
            group,
            operation,
            cost,
            cost_of_runs: vec![cost],
            idle_share,
        }
    }

    #[test]
    fn a_row_a_metric_with_what_is_more_what_waits_and_what_is_missing() {
        let column = |name: &str, metrics| CostVariant {
            variant: variant(name),
            runs: Vec::new(),
            metrics,
            left_out: [
                ("fork-sh", "no /bin/sh"),
                if name == "6.1" {
                    ("rpc", "no portmapper")
                } else {
                    ("io-uring", "no system call")
                },
            ]
            .map(|(name, reason)| Absence {
                name: name.into(),
                reason: reason.into(),
            })
            .to_vec(),
        };
        let stock = column(
            "6.1",
            vec![result("null-call", 200.0, 0.0), result("stat", 1000.0, 0.0)],
        );
        let real_time = column(
            "6.1-rt",
            vec![result("null-call", 210.0, 0.0), result("fork", 5e5, 0.25)],
        );
        let comparison = CostComparison {
            meaning: "MEANING",
            unit: "instructions",
            replicas: 1,
            variants: vec![stock, real_time],
        };
        let text = text(&comparison);
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            rows[0],
            ["instructions", "of", "one", "operation", "6.1", "6.1-rt"]
        );
        assert!(
            rows.contains(&vec!["null-call", "200.0", "210.0", "(+5.0", "%)"]),
            "{text}"
        );
        assert!(rows.contains(&vec!["stat", "1000", "-"]), "{text}");
        // Only null-call was measured on both sides.
        assert!(
            rows.contains(&vec!["geometric", "mean", "+5.0", "%"]),
            "{text}"
        );
        assert!(
            rows.contains(&vec!["fork", "-", "500000", "(25", "%", "waiting)"]),
            "{text}"
        );
        assert_eq!(text.matches("fork-sh").count(), 1, "{text}");
        assert!(
            text.contains("left out: fork-sh (no /bin/sh)")
                && text.contains("left out: io-uring on 6.1-rt (no system call)"),
            "{text}"
        );
        assert!(text.ends_with("MEANING\n"), "{text}");
    }
}
