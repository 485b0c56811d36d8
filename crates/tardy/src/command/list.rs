//! `tardy list`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tardy_costs::metrics::METRICS;
use tardy_machine::checks::{CHECKS, Check, Profile};
use tardy_probes::link::LINKS;
use tardy_probes::probe::request::COMMON;
use tardy_probes::probe::{PROBES, Placement, ProbeInfo, SeriesKind};
use tardy_results::exit::Exit;
use tardy_run::cost::CacheState;
use tardy_run::plan::PolicyName;

use super::output;
use crate::cli::choice::Choice;
use crate::cli::{ListArgs, ListKind};

/// Runs the command.
#[must_use]
pub fn run(args: &ListArgs) -> Exit {
    let text = match (args.what, args.json) {
        (ListKind::Probes, false) => probes(),
        (ListKind::Probes, true) => probes_json(),
        (ListKind::Loads, _) => super::load::list(),
        (ListKind::Costs, false) => costs(),
        (ListKind::Costs, true) => costs_json(),
        (ListKind::Checks, false) => checks(),
        (ListKind::Checks, true) => checks_json(),
        (ListKind::Links, false) => links(),
        (ListKind::Links, true) => links_json(),
    };
    output::print(&text).map_or(Exit::Machine, |()| Exit::Done)
}

fn probes() -> String {
    let mut out = String::new();
    for probe in PROBES {
        let _ = writeln!(out, "{} ({}, in ns, {})", probe.name, probe.series[0].quantity, schedule(probe));
        let _ = writeln!(out, "    times    {}", probe.times);
        let _ = writeln!(out, "    expires  {}", probe.context);
        let _ = writeln!(out, "    runs     {}", runs(probe));
        let _ = writeln!(out, "    source   {}", probe.source);
        for series in &probe.series[1..] {
            let _ = writeln!(out, "    also     {} ({}, in ns)", series.name(probe.name), series.quantity);
        }
        for parameter in probe.parameters {
            let default = parameter.default.map_or_else(String::new, |default| format!("; {default} by default"));
            let _ = writeln!(out, "    {}={}  {}{default}", parameter.name, parameter.kind, parameter.means);
        }
    }
    let common: Vec<&str> = COMMON.iter().map(|parameter| parameter.name).collect();
    let _ = writeln!(out, "every probe takes {} as in --probe usleep:period=200us:priority=80", common.join(", "));
    out
}

fn schedule(probe: &ProbeInfo) -> &'static str {
    match (matches!(probe.series[0].kind, SeriesKind::Grid | SeriesKind::Work | SeriesKind::Skew), probe.has_schedule()) {
        (true, _) => "on a grid of due times",
        (false, false) if !probe.has_period() => "whenever there is one",
        (false, true) => "due when another thread says so, once a period",
        (false, false) => "without a schedule: nothing can be skipped",
    }
}

fn runs(probe: &ProbeInfo) -> String {
    let place = match probe.placement {
        Placement::EachCpu => "on each measured CPU",
        Placement::Unbound => "once, on no CPU in particular",
        Placement::Copies => "in copies that move among the measured CPUs",
        Placement::CopyACpu => "as often as there are measured CPUs, on any CPU",
        Placement::FirstCpu => "on the first measured CPU: there is one in a process or machine",
    };
    let policy = if probe.policy == PolicyName::Other { "an ordinary task by default" } else { "a real-time task by default" };
    format!("{place}, {policy}")
}

fn checks() -> String {
    let mut out = String::new();
    for check in CHECKS {
        let _ = writeln!(out, "{} ({})", check.name, weights(check));
        let _ = writeln!(out, "    because  {}", check.why);
        let _ = writeln!(
            out,
            "    reads    {}",
            check.reads.iter().map(|paths| format!("/{}", paths.replace('|', " or /"))).collect::<Vec<_>>().join(", ")
        );
        let _ = writeln!(out, "    source   {}", check.source);
    }
    out
}

/// The severity for most profiles, and those of the others.
fn weights(check: &Check) -> String {
    let usual = check.weight.importance(Profile::default());
    let others = Profile::ALL.into_iter().map(|profile| (profile, check.weight.importance(profile)));
    let others: Vec<String> = others
        .filter(|(_, weight)| *weight != usual)
        .map(|(profile, weight)| format!("{} for {}", weight.name(), profile.name()))
        .collect();
    if others.is_empty() { usual.name().to_owned() } else { format!("{}; {}", usual.name(), others.join(", ")) }
}

fn checks_json() -> String {
    let severities = |check: &Check| {
        Profile::ALL.into_iter().map(|profile| (profile.name(), check.weight.importance(profile))).collect::<BTreeMap<_, _>>()
    };
    let list: Vec<_> = CHECKS
        .iter()
        .map(|check| {
            serde_json::json!({
                "name": check.name, "severity": severities(check), "why": check.why, "reads": check.reads, "source": check.source,
            })
        })
        .collect();
    serde_json::to_string_pretty(&list).expect("text and names become JSON") + "\n"
}

fn costs() -> String {
    let mut out = String::new();
    let mut group = None;
    for metric in METRICS {
        if group != Some(metric.group) {
            let _ = writeln!(out, "{} ({})", metric.group.name(), metric.group.title());
        }
        group = Some(metric.group);
        let lmbench = metric.lmbench.map_or_else(String::new, |program| format!(" [LMbench: {program}]"));
        let state = if metric.state == CacheState::Cold { ", caches cold" } else { "" };
        let _ = writeln!(out, "    {:<22} {:<5} {}{state}{lmbench}", metric.name, metric.unit(), metric.operation);
    }
    out.push_str("in brackets: LMbench 3's program for the same, the source of the metric; `today` has metrics of our own\n");
    out
}

fn costs_json() -> String {
    let list: Vec<_> = METRICS
        .iter()
        .map(|metric| {
            serde_json::json!({
                "name": metric.name, "group": metric.group, "operation": metric.operation, "bytes": metric.bytes, "unit": metric.unit(),
                "state": metric.state,
                "lmbench": metric.lmbench,
            })
        })
        .collect();
    serde_json::to_string_pretty(&list).expect("text and numbers become JSON") + "\n"
}

fn links() -> String {
    let mut out = String::new();
    for link in LINKS {
        let _ = writeln!(out, "{}\n    carries  {}\n    answered by {}", link.written(), link.carries, link.answered_by);
    }
    out.push_str("as in --probe response:udp:board7, with `tardy respond udp:0.0.0.0` on board7\n");
    out
}

fn links_json() -> String {
    let list: Vec<_> = LINKS
        .iter()
        .map(|link| serde_json::json!({ "name": link.name, "form": link.written(), "carries": link.carries, "answered_by": link.answered_by }))
        .collect();
    serde_json::to_string_pretty(&list).expect("text becomes JSON") + "\n"
}

fn probes_json() -> String {
    let list: Vec<_> = PROBES
        .iter()
        .map(|probe| {
            serde_json::json!({
                "name": probe.name, "times": probe.times, "quantity": probe.series[0].quantity, "unit": "ns", "context": probe.context,
                "source": probe.source, "has_schedule": probe.has_schedule(),
                "series": probe.series.iter().map(|series| series.name(probe.name)).collect::<Vec<_>>(),
                "parameters": probe.parameters.iter().map(|parameter| parameter.name).collect::<Vec<_>>(),
            })
        })
        .collect();
    serde_json::to_string_pretty(&list).expect("text and booleans become JSON") + "\n"
}
