//! Resolves the phases of a plan: their order, and each load for this machine.

use std::path::Path;

use tardy_core::cpu::CpuList;
use tardy_core::warning::Warning;
use tardy_loads::load::bounds::Bounds;
use tardy_loads::load::sharing;
use tardy_loads::load::{self, LoadRequest};
use tardy_machine::host::Host;
use tardy_machine::unsupported::Unsupported;
use tardy_run::plan::{LoadPlan, PhasePlan};

use super::error::PlanError;
use crate::scenario::order::in_order;
use crate::scenario::{PhaseRequest, Scenario, built_in};
use tardy_run::request::Request;

/// Resolves the phases, and lists loads that cannot run here. Leaves out a phase if none of its
/// loads remains.
pub(super) fn resolve(
    request: &Request,
    scenario: &Scenario,
    out: &Path,
    cpus: &CpuList,
    seed: u64,
) -> Result<(Vec<PhasePlan>, Vec<Warning>), PlanError> {
    for name in &request.allow {
        // The name of a load without its parameters suffices here, because the scenario supplies
        // the parameters.
        if load::find(name).is_none() {
            LoadRequest::parse(name)?;
        }
    }
    let host = Host::of_run(out);
    // The user chose the loads on the command line. The user may not have chosen the loads of a
    // scenario file, because another person may have written the file.
    let is_scenario = request.loads.is_empty();
    let is_built_in = request
        .scenario
        .as_ref()
        .is_none_or(|name| built_in::find(name).is_some());
    let mut warnings = Vec::new();
    let mut phases = Vec::new();
    for phase in in_order(scenario, seed) {
        let mut loads = Vec::new();
        for (asked, resolved) in resolve_loads(&phase, cpus, &host)? {
            let is_allowed = request.allow.iter().any(|name| name == asked.info.name);
            let resolved = match is_scenario && asked.info.can_do_harm && !is_allowed {
                true if is_built_in => Err(not_allowed(asked.info.name)),
                true => {
                    return Err(PlanError::LoadOfFile {
                        load: asked.text,
                        name: asked.info.name,
                    });
                }
                false => resolved,
            };
            match resolved {
                Ok(plan) => {
                    let note = plan.note.clone().map(|problem| Warning::LoadProblem {
                        load: plan.label.clone(),
                        problem,
                    });
                    if let Some(note) = note.filter(|note| !warnings.contains(note)) {
                        warnings.push(note);
                    }
                    loads.push(plan);
                }
                // A load that the command line names must run, because without it the run would not
                // be the requested one. If the user requested several loads by the name of a list,
                // loads of the list that cannot run are left out, and the others still run.
                Err(Unsupported { missing, remedy })
                    if !request.loads.is_empty() && asked.list.is_none() =>
                {
                    return Err(PlanError::LoadAbsent {
                        load: asked.text,
                        missing,
                        remedy,
                    });
                }
                Err(Unsupported { missing, remedy }) => {
                    let warning = Warning::LoadAbsent {
                        load: asked.text,
                        missing,
                        remedy,
                    };
                    if !warnings.contains(&warning) {
                        warnings.push(warning);
                    }
                }
            }
        }
        // If the user gave a control group for the loads, they stay in this group, because its
        // limits would not apply to them in another group.
        let may_have_groups = request.load_cgroup.is_none();
        if may_have_groups
            && !sharing::share_equally(&mut loads, &host)
            && !warnings.contains(&unequal())
        {
            warnings.push(unequal());
        }
        // If none of the loads of a phase can run, the phase is left out. Otherwise it would run
        // without load, although its name says that it has one.
        if !loads.is_empty() || phase.loads.is_empty() {
            phases.push(PhasePlan {
                name: phase.name,
                length: phase.length,
                cycles: phase.cycles,
                loads,
            });
        }
    }
    // If none of the requested loads can run, the run is refused, because its result would look as
    // if the loads had run.
    if !request.loads.is_empty()
        && phases.iter().all(|phase| phase.loads.is_empty())
        && let Some(Warning::LoadAbsent {
            load,
            missing,
            remedy,
        }) = warnings.first()
    {
        return Err(PlanError::LoadAbsent {
            load: load.clone(),
            missing: missing.clone(),
            remedy: remedy.clone(),
        });
    }
    if phases.is_empty() {
        return Err(PlanError::NoPhaseLeft {
            scenario: scenario.name.clone(),
        });
    }
    Ok((phases, warnings))
}

fn unequal() -> Warning {
    let text = "loads that run together do not get equal shares of CPU time: a load with more \
                tasks gets more (see the table of phases), because control groups cannot be made \
                and the kernel does not group tasks by session. For equal shares, run as root, or \
                set kernel.sched_autogroup_enabled to 1";
    Warning::Problem {
        text: text.to_owned(),
    }
}

fn not_allowed(name: &str) -> Unsupported {
    Unsupported::new(
        "permission for a load that can disturb people or do harm, and that was not requested by \
         name"
            .to_owned(),
        format!("give --allow {name}"),
    )
}

type ResolvedLoads = Vec<(LoadRequest, Result<LoadPlan, Unsupported>)>;

fn resolve_loads(
    phase: &PhaseRequest,
    cpus: &CpuList,
    host: &Host,
) -> Result<ResolvedLoads, PlanError> {
    let mut requests = Vec::new();
    for text in &phase.loads {
        requests.extend(LoadRequest::parse(text)?);
    }
    Ok(load::resolve_all(&requests, cpus, host, Bounds::of(host)))
}
