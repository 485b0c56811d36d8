//! Tests that a run with any option can be repeated with the command line made from its plan.

use std::path::Path;

use clap::Parser;
use tardy_machine::root::Root;
use tardy_measure::plan::resolve::resolve;
use tardy_measure::request::scenario;
use tardy_run::option::{Form, Kind, Part, RunOption};
use tardy_run::parameter::Values;
use tardy_run::plan::{Budget, LoadPlan, Plan, Share};
use tardy_run::request::{OPTIONS, Request};

use crate::cli::{Cli, Command};

fn parsed(words: impl IntoIterator<Item = String>) -> Request {
    let words = ["tardy", "run"].map(str::to_owned).into_iter().chain(words);
    let Command::Run(args) = Cli::parse_from(words).command else {
        panic!("not a run")
    };
    args.request
}

fn planned(request: &Request, folder: &Path) -> Plan {
    let scenario = scenario(request).unwrap();
    resolve(request, &scenario, &folder.join("run"), &Root::system()).unwrap()
}

/// Returns the plan without fields that depend on the state of this machine, and without random
/// names.
fn lasting(mut plan: Plan) -> Plan {
    for load in plan.phases.iter_mut().flat_map(|phase| &mut phase.loads) {
        *load = LoadPlan {
            label: load.label.clone(),
            name: load.name.clone(),
            cpus: load.cpus.clone(),
            parameters: Values::default(),
            each_cpu: load.each_cpu,
            budget: Budget::default(),
            finish_limit: load.finish_limit,
            scratch: None,
            undo: Vec::new(),
            device_writes: None,
            note: None,
            share: Share::default(),
            beside: load.beside,
        };
    }
    Plan {
        warnings: Vec::new(),
        changes: Vec::new(),
        wake_up_cost: None,
        ..plan
    }
}

/// Returns a value other than the default, chosen by the value's name in the help.
fn value(option: &RunOption, folder: &Path) -> String {
    if let Some((name, _)) = (option.choices)().last() {
        return (*name).to_owned();
    }
    match option.definition.value {
        "ACTION" => "continue",
        "CPUS" => "0",
        "FOLDER" | "FILE" => return folder.display().to_string(),
        "FROM..TO" => "-7us..+8us",
        "LOAD,..." | "NAME" => "fork",
        "N" => "7",
        "NAME=TEXT" => "board=x7",
        "NAME[:VALUES]" => "usleep",
        "NAME|FILE" => "idle",
        "PROGRAM" => "./my loop",
        "SHARE" => "1e-3",
        "SIZE" => "300MiB",
        "TIME" => "300us",
        "US" | "US|leave" => "7",
        "WHAT" => "tail:7us",
        other => panic!("add a value for {other}"),
    }
    .to_owned()
}

/// Returns the words that set `option`, and the words of options that it requires.
fn words(option: &RunOption, folder: &Path) -> Vec<String> {
    let name = option.definition.name;
    let named = |name: &&str| OPTIONS.iter().find(|other| other.definition.name == *name);
    let company: &[&str] = match name {
        "misses" => &["deadline"],
        "on-threshold" => &["stop-above"],
        _ => option.definition.needs,
    };
    let company = company.iter().filter_map(named);
    let mut words: Vec<String> = company.flat_map(|other| words(other, folder)).collect();
    let value = || match name {
        // A phase must be longer than a period, and any machine must keep up with the period.
        "for" => "7s".to_owned(),
        "period" => "7ms".to_owned(),
        _ => value(option, folder),
    };
    match (option.definition.form, option.kind, option.definition.bare) {
        (Form::Trailing, _, _) => words.extend(["--".to_owned(), value()]),
        (_, Kind::Flag, _) => words.push(format!("--{name}")),
        (_, _, Some(_)) => words.push(format!("--{name}={}", value())),
        _ => words.extend([format!("--{name}"), value()]),
    }
    words
}

#[test]
fn each_option_of_a_run_is_in_its_plan_and_the_words_that_repeat_it_come_to_the_same_plan() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // A folder with this file looks like a control group for loads.
    std::fs::write(folder.join("cgroup.procs"), "").unwrap();
    for option in OPTIONS {
        let name = option.definition.name;
        if matches!(option.part, Part::No(_)) {
            continue;
        }
        // These options need a control group and a file of the kernel, which some machines lack.
        if ["probe-cgroup", "resume-latency"].contains(&name) {
            continue;
        }
        let asked = parsed(words(option, folder));
        let plan = planned(&asked, folder);
        let of_plan = Request::of(&plan);
        assert!(!option.values(&asked).is_empty(), "{name} has its default");
        assert_eq!(option.values(&of_plan), option.values(&asked), "{name}");
        assert_eq!(parsed(of_plan.words()), of_plan, "{:?}", of_plan.words());
        let again = lasting(planned(&of_plan, folder));
        assert_eq!(again, lasting(plan), "{name}");
    }
}

#[test]
fn options_that_depend_on_the_machine_are_in_the_plan() {
    let (none, folder) = (Default::default(), tempfile::tempdir().unwrap());
    let plan = Plan {
        probe_cgroup: Some(folder.path().to_owned()),
        resume_latency_us: Some(7),
        ..Plan::without_probes("flags", &none, &none)
    };
    let request = Request::of(&plan);
    assert_eq!(request.probe_cgroup, plan.probe_cgroup);
    assert_eq!(request.resume_latency, plan.resume_latency_us);
    assert_eq!(
        parsed(
            Request {
                cpus: None,
                ..request.clone()
            }
            .words()
        ),
        Request {
            cpus: None,
            ..request
        }
    );
}

#[test]
fn a_plan_of_several_options_is_repeated_by_its_words() {
    let folder = tempfile::tempdir().unwrap();
    for line in [
        "",
        "--for 2s --load fork --load-cpus 0 --cpus 0 --stop-above 10s --tracing-off --label \
         board=x7 --move-irqs --force --allow caps-lock,console --keep histogram",
        "--load fork --load fork --load-cpus all",
        "--load none --probe cyclic:policy=rr:priority=7 --probe usleep:dither=20us --policy other",
        "--load none --probe cyclic:period=7ms:clock=tai --period 5ms -- ./a b c",
        "--scenario loads-in-turn --period 1ms --policy fifo --clock monotonic --for 40s",
        "--scenario loads-in-turn --period 1ms --cycles 300",
        "--load none --probe cyclic --probe cyclic:offset=0ns:align=tai",
        "--until-stopped --disk 300000001B",
        "--explain --keep-trace --on-threshold trace --deadline 1ms",
        "--tune --label a=b",
    ] {
        let asked = parsed(line.split_whitespace().map(str::to_owned));
        let plan = planned(&asked, folder.path());
        let again = parsed(Request::of(&plan).words());
        let planned = lasting(planned(&again, folder.path()));
        assert_eq!(planned, lasting(plan), "{:?}", again.words());
        let stored = serde_json::to_string(&asked).unwrap();
        assert_eq!(serde_json::from_str::<Request>(&stored).unwrap(), asked);
    }
}
