//! The list of probes.

use std::fmt::Write as _;

use tardy_probes::probe::request::COMMON;
use tardy_probes::probe::{PROBES, Placement, ProbeInfo, SeriesKind};
use tardy_run::plan::PolicyName;

use super::{Entry, Listing};

pub(super) fn listing() -> Listing {
    let common: Vec<&str> = COMMON.iter().map(|parameter| parameter.name).collect();
    let note = format!(
        "every probe: {}\n(clock and align only if the probe's timer and grid support \
         them),\nas in --probe usleep:period=200us:priority=80",
        common.join(", ")
    );
    Listing {
        entries: PROBES.iter().map(|probe| entry(probe)).collect(),
        note: Some(note),
    }
}

fn entry(probe: &ProbeInfo) -> Entry {
    let json = serde_json::json!({
        "name": probe.name, "about": probe.about, "times": probe.times, "quantity": probe.series[0].quantity, "unit": "ns",
        "context": probe.context, "source": probe.source, "has_schedule": probe.has_schedule(),
        "series": probe.series.iter().map(|series| series.name(probe.name)).collect::<Vec<_>>(),
        "parameters": probe.parameters.iter().map(|parameter| parameter.name).collect::<Vec<_>>(),
    });
    Entry {
        name: probe.name.to_owned(),
        line: probe.about.to_owned(),
        full: full(probe),
        json,
        group: None,
    }
}

fn full(probe: &ProbeInfo) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{} ({}, in ns, {})",
        probe.name,
        probe.series[0].quantity,
        schedule(probe)
    );
    let _ = writeln!(out, "    times    {}", probe.times);
    let _ = writeln!(out, "    expires  {}", probe.context);
    let _ = writeln!(out, "    runs     {}", runs(probe));
    let _ = writeln!(out, "    source   {}", probe.source);
    for series in &probe.series[1..] {
        let _ = writeln!(
            out,
            "    also     {} ({}, in ns)",
            series.name(probe.name),
            series.quantity
        );
    }
    for parameter in probe.parameters {
        let default = parameter
            .default
            .map_or_else(String::new, |default| format!("; {default} by default"));
        let _ = writeln!(
            out,
            "    {}={}  {}{default}",
            parameter.name, parameter.kind, parameter.means
        );
    }
    out
}

fn schedule(probe: &ProbeInfo) -> &'static str {
    match (
        matches!(
            probe.series[0].kind,
            SeriesKind::Grid | SeriesKind::Work | SeriesKind::Skew
        ),
        probe.has_schedule(),
    ) {
        (true, _) => "on a grid of due times",
        (false, false) if !probe.has_period() => "whenever one occurs",
        (false, true) => "due when another thread triggers it, once a period",
        (false, false) => "without a schedule, so no period can be skipped",
    }
}

fn runs(probe: &ProbeInfo) -> String {
    let place = match probe.placement {
        Placement::EachCpu => "on each measured CPU",
        Placement::Unbound => "once, on any CPU",
        Placement::Copies => "in copies that move among the measured CPUs",
        Placement::CopyACpu => "in as many copies as there are measured CPUs, on any CPU",
        Placement::FirstCpu => {
            "only on the first measured CPU, because a process or machine has one such timer or \
             device"
        }
    };
    let policy = if probe.policy == PolicyName::Other {
        "as an ordinary task by default"
    } else {
        "as a real-time task by default"
    };
    format!("{place}, {policy}")
}
