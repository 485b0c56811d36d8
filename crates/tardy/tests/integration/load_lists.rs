//! Tests names that stand for lists of loads: if the machine lacks one load of a list, the others
//! run.

use crate::support;

use support::workplace::{Workplace, finish};

/// Runs the tool without programs in PATH. The kernel build of `paper-script` cannot run then; its
/// other loads need no programs.
fn without_programs(place: &Workplace, line: &str) -> support::workplace::Outcome {
    let mut command = place.command(line.split_whitespace());
    command.env("PATH", place.folder());
    finish(command)
}

#[test]
fn a_list_goes_on_without_a_load_that_is_missing_and_names_it() {
    let place = Workplace::new();
    let planned = without_programs(&place, "run --load paper-script --for 10s --dry-run")
        .ends_with(0)
        .stdout;
    assert!(
        planned.contains("warning    load kernel-build:jobs=8 is left out because "),
        "{planned}"
    );
    assert!(
        planned.contains("hackbench:groups=30 on CPU")
            && !planned.contains("kernel-build:jobs=8 on CPU"),
        "{planned}"
    );

    let ran = without_programs(&place, "run --load paper-script --for 2s --out run").ends_with(0);
    assert!(
        ran.stderr
            .contains("! load kernel-build:jobs=8 is left out because "),
        "before anything is measured: {}",
        ran.stderr
    );
    let loads = &place.record("run")["plan"]["phases"][1]["loads"];
    assert!(
        loads
            .as_array()
            .unwrap()
            .iter()
            .all(|load| load["name"] != "kernel-build"),
        "{loads}"
    );

    let alone = without_programs(&place, "load paper-script --for 500ms").ends_with(0);
    assert!(
        alone.stderr.contains("kernel-build:jobs=8 cannot run")
            && alone
                .stderr
                .contains("the other loads of the list will run"),
        "{}",
        alone.stderr
    );
}

#[test]
fn a_load_that_was_named_itself_must_be_there() {
    let place = Workplace::new();
    let refused = without_programs(
        &place,
        "run --load kernel-build --load paper-script --for 10s --dry-run",
    )
    .ends_with(3);
    assert!(
        refused
            .stderr
            .contains("--load kernel-build cannot run here"),
        "{}",
        refused.stderr
    );
    without_programs(&place, "load kernel-build --for 500ms").ends_with(3);
}

/// A user who names a scenario has not named its loads, so its disruptive loads need separate
/// consent.
#[test]
fn a_scenario_s_loads_that_can_disturb_people_need_their_own_yes() {
    let place = Workplace::new();
    let planned = place
        .tardy("run --scenario abeni2002 --for 10s --dry-run --json")
        .json();
    let absent: Vec<&serde_json::Value> = planned["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|warning| warning["warning"] == "load-absent")
        .collect();
    assert!(
        absent.iter().any(
            |warning| warning["load"].as_str().unwrap().starts_with("kcore")
                && warning["remedy"] == "give --allow kcore"
        ),
        "{absent:?}"
    );
    let allowed = place
        .tardy("run --scenario abeni2002 --allow kcore --for 10s --dry-run --json")
        .json();
    let remedies = allowed["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|warning| warning["remedy"].as_str());
    assert!(
        remedies
            .clone()
            .all(|remedy| remedy != "give --allow kcore"),
        "{:?}",
        remedies.collect::<Vec<_>>()
    );
}

#[test]
fn a_scenario_file_starts_no_command_that_nobody_allowed() {
    let place = Workplace::new();
    // On a busy machine, the command starts long after the phase has begun.
    std::fs::write(
        place.path("mine.toml"),
        "name = \"mine\"\n[[probe]]\nname = \"cyclic\"\n[[phase]]\nname = \"a\"\nlength = \
         \"3s\"\nloads = [\"exec:command=touch made\"]\n",
    )
    .unwrap();
    let line = "run --scenario mine.toml --quiet --out run";
    let refused = place.tardy(line).ends_with(2);
    assert!(
        refused.stderr.contains("exec:command=touch made")
            && refused.stderr.contains("--allow exec"),
        "{}",
        refused.stderr
    );
    assert!(!place.path("run").exists() && !place.path("made").exists());
    let ran = place.tardy(&format!("{line} --allow exec"));
    assert!(place.path("made").exists(), "{ran:?}");
}
