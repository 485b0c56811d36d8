//! The list of services whose cost can be measured.

use tardy_costs::metrics::METRICS;
use tardy_run::cost::CacheState;

use super::{Entry, Listing};

pub(super) fn listing() -> Listing {
    let entries = METRICS.iter().map(|metric| {
        let lmbench = metric.lmbench.map_or_else(String::new, |program| format!(" [LMbench: {program}]"));
        let state = if metric.state == CacheState::Cold { ", caches cold" } else { "" };
        let line = format!("{:<5} {}{state}{lmbench}", metric.unit(), metric.operation);
        let json = serde_json::json!({
            "name": metric.name, "group": metric.group, "operation": metric.operation, "bytes": metric.bytes, "unit": metric.unit(),
            "state": metric.state, "lmbench": metric.lmbench,
        });
        let full = format!("{} ({}, in {})\n  {}{state}{lmbench}\n", metric.name, metric.group.name(), metric.unit(), metric.operation);
        let group = Some(format!("{} ({})", metric.group.name(), metric.group.title()));
        Entry { name: metric.name.to_owned(), line, full, json, group }
    });
    let note = "in brackets: the program of LMbench 3 that is the metric's source;\nthe group \
                `today` has tardy's own metrics";
    Listing {
        entries: entries.collect(),
        note: Some(note.to_owned()),
    }
}
