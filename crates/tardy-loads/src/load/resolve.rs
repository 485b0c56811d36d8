//! Turns requests into plans: chooses every value and checks every requirement, but starts and
//! changes nothing.
//!
//! If a load of a list cannot run, the other loads of the list still run. A load that the user
//! named must be able to run.

use std::collections::BTreeMap;

use tardy_core::bytes::format_bytes;
use tardy_core::cpu::CpuList;
use tardy_core::units::Nanos;
use tardy_machine::host::Host;
use tardy_machine::unsupported::Unsupported;
use tardy_run::parameter::Values;
use tardy_run::plan::{Budget, LoadPlan, Share};

use super::bounds::Bounds;
use super::info::Placement;
use super::request::LoadRequest;
use super::resolution::Resolution;

/// Default time that a load may take to stop.
pub const FINISH_LIMIT: Nanos = Nanos::from_secs(10);

/// Resolves the loads of one phase, which share `bounds`. Each result is a plan or the missing
/// requirement.
#[must_use]
pub fn resolve_all(
    requests: &[LoadRequest],
    cpus: &CpuList,
    host: &Host,
    bounds: Bounds,
) -> Vec<(LoadRequest, Result<LoadPlan, Unsupported>)> {
    // Only loads that write files share the space.
    let writers = requests
        .iter()
        .filter(|request| request.info.uses_disk)
        .count();
    let share = Bounds {
        disk: bounds.shared_by(writers).disk,
        ..bounds.shared_by(requests.len())
    };
    let mut labels = BTreeMap::<&str, usize>::new();
    let mut resolved = Vec::with_capacity(requests.len());
    for request in requests {
        let times = labels
            .entry(&request.text)
            .and_modify(|times| *times += 1)
            .or_insert(1);
        let label = if *times == 1 {
            request.text.clone()
        } else {
            format!("{}#{times}", request.text)
        };
        resolved.push((request.clone(), resolve(request, label, cpus, host, share)));
    }
    resolved
}

fn resolve(
    request: &LoadRequest,
    label: String,
    cpus: &CpuList,
    host: &Host,
    share: Bounds,
) -> Result<LoadPlan, Unsupported> {
    let info = request.info;
    if info.can_do_harm && !request.by_name {
        return Err(Unsupported::new(
            "an explicit request for a load that can do harm",
            format!("ask for it by its name, `{}`", info.name),
        ));
    }
    if cpus.is_empty() {
        return Err(Unsupported::new(
            "a CPU to run on",
            "give at least one CPU with --load-cpus",
        ));
    }
    let mut parameters = Values::default();
    for parameter in info.parameters {
        // Every default is within the limits of its parameter; a test checks this.
        let default = || {
            parameter
                .default
                .and_then(|text| parameter.parse(text).ok())
        };
        if let Some(value) = request.given.get(parameter.name).cloned().or_else(default) {
            parameters.insert(parameter.name.to_owned(), value);
        }
    }
    let plan = LoadPlan {
        label,
        name: info.name.to_owned(),
        parameters,
        cpus: cpus.clone(),
        each_cpu: info.placement == Placement::EachCpu,
        budget: Budget::default(),
        finish_limit: FINISH_LIMIT,
        scratch: None,
        undo: Vec::new(),
        device_writes: None,
        note: None,
        share: Share::default(),
        beside: 0,
    };
    let mut resolution = Resolution::new(host, share, plan, &request.given);
    (info.resolve)(&mut resolution)?;
    check_budget(&resolution.plan, &resolution.share)?;
    Ok(resolution.plan)
}

/// Checks that a load's requirements, which its own `resolve` computed, are within its share.
fn check_budget(plan: &LoadPlan, share: &Bounds) -> Result<(), Unsupported> {
    let Budget {
        memory,
        disk,
        processes,
    } = plan.budget;
    let beyond = [
        (memory > share.memory).then(|| {
            format!(
                "{} of memory (this load's share of the machine is {})",
                format_bytes(memory),
                format_bytes(share.memory)
            )
        }),
        (disk > share.disk).then(|| {
            format!(
                "{} of disk space (this load's share of the machine is {})",
                format_bytes(disk),
                format_bytes(share.disk)
            )
        }),
        (processes > share.processes).then(|| {
            format!(
                "room for {processes} processes (this load's share of the machine is {})",
                share.processes
            )
        }),
    ];
    match beyond.into_iter().flatten().next() {
        None => Ok(()),
        Some(beyond) => {
            let remedy = "give smaller values, run fewer loads at a time, or give fewer \
                          --load-cpus";
            Err(Unsupported::new(beyond, remedy))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        memory: 64 << 20,
        disk: 1 << 30,
        processes: 1000,
    };

    fn resolve_texts(texts: &[&str], bounds: Bounds) -> Vec<Result<LoadPlan, Unsupported>> {
        let requests: Vec<_> = texts
            .iter()
            .flat_map(|text| LoadRequest::parse(text).unwrap())
            .collect();
        let cpus = "0-1".parse().unwrap();
        resolve_all(&requests, &cpus, &Host::of_this_machine(), bounds)
            .into_iter()
            .map(|(_, plan)| plan)
            .collect()
    }

    #[test]
    fn defaults_shrink_to_the_share_and_given_values_do_not() {
        let plans = resolve_texts(&["io", "io"], BOUNDS);
        for plan in &plans {
            let plan = plan.as_ref().unwrap();
            assert!(
                plan.budget.memory <= 32 << 20 && plan.budget.memory > 0,
                "{plan:?}"
            );
        }
        let refused = resolve_texts(&["io:size=1GiB"], BOUNDS)
            .remove(0)
            .unwrap_err();
        assert!(refused.missing.contains("`size` of 1GiB"), "{refused:?}");
        assert!(refused.remedy.contains("io:size="), "{refused:?}");
    }

    #[test]
    fn the_same_request_twice_has_two_labels() {
        let labels: Vec<_> = resolve_texts(&["io", "fork", "io"], BOUNDS)
            .into_iter()
            .map(|plan| plan.unwrap().label)
            .collect();
        assert_eq!(labels, ["io", "fork", "io#2"]);
    }

    #[test]
    fn a_plan_survives_a_round_trip_through_json() {
        for plan in resolve_texts(&["io:size=8MiB", "fork"], BOUNDS) {
            let plan = plan.unwrap();
            let text = serde_json::to_string(&plan).unwrap();
            assert_eq!(serde_json::from_str::<LoadPlan>(&text).unwrap(), plan);
        }
    }

    #[test]
    fn no_load_goes_beyond_its_share() {
        let requests: Vec<_> = crate::load::LOADS
            .iter()
            .filter(|info| info.parameters.iter().all(|p| !p.needed))
            .flat_map(|info| LoadRequest::parse(info.name).unwrap())
            .collect();
        let cpus = "0-1".parse().unwrap();
        for bounds in [
            BOUNDS,
            Bounds {
                memory: 8 << 20,
                disk: 1 << 20,
                processes: 100,
            },
            Bounds {
                memory: 0,
                disk: 0,
                processes: 0,
            },
        ] {
            // Only loads that write files share the space.
            let writers = requests
                .iter()
                .filter(|request| request.info.uses_disk)
                .count();
            let share = Bounds {
                disk: bounds.shared_by(writers).disk,
                ..bounds.shared_by(requests.len())
            };
            for (request, plan) in resolve_all(&requests, &cpus, &Host::of_this_machine(), bounds) {
                let Ok(plan) = plan else { continue };
                let name = request.info.name;
                assert!(
                    plan.budget.memory <= share.memory,
                    "{name}: {:?} beyond {share:?}",
                    plan.budget
                );
                assert!(
                    plan.budget.disk <= share.disk,
                    "{name}: {:?} beyond {share:?}",
                    plan.budget
                );
                assert!(
                    plan.budget.processes <= share.processes,
                    "{name}: {:?} beyond {share:?}",
                    plan.budget
                );
            }
        }
    }
}
