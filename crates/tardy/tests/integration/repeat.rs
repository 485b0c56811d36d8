//! Tests the section "How to repeat it" in reports.

use crate::support;

use crate::report::report;
use support::workplace::Workplace;

/// If a run used a scenario file, the report's command line names that file. This also holds if the
/// scenario's name is a word for another source of plans, such as `flags`.
#[test]
fn a_scenario_of_ones_own_is_repeated_by_its_file_whatever_its_name() {
    for name in ["flags", "respond"] {
        let place = Workplace::new();
        let scenario = format!(
            "name = \"{name}\"\n[[probe]]\nname = \"cyclic\"\nperiod = \"5ms\"\npolicy = \
             \"other\"\n[[phase]]\nname = \"idle\"\nlength = \"100ms\"\n"
        );
        std::fs::write(place.path("own.toml"), scenario).unwrap();
        let plan = place
            .tardy("run --scenario own.toml --out run --dry-run --json")
            .ends_with(0)
            .json();
        assert_eq!(plan["origin"], "file", "{plan}");
        place
            .tardy("run --scenario own.toml --out run --quiet")
            .ends_with(0);
        let page = std::fs::read_to_string(report(&place, "run")).unwrap();
        assert!(page.contains("tardy run --scenario own.toml"), "{name}");
        assert!(
            !page.contains("tardy respond") && !page.contains("--load "),
            "{name}"
        );
    }
}

#[test]
fn how_to_repeat_it_has_every_option_and_asks_for_the_same_run() {
    let place = Workplace::new();
    let cpu = support::machine::last_cpu();
    let line = format!(
        "run --for 300ms --load fork --load-cpus {cpu} --cpus {cpu} --stop-above 10s \
         --tracing-off --force --label board=x7 --quiet --out run"
    );
    let outcome = place.tardy(&line);
    assert!([0, 4].contains(&outcome.code()), "{outcome:?}");
    let page = std::fs::read_to_string(report(&place, "run")).unwrap();
    let (_, command) = page.split_once("<pre>tardy ").unwrap();
    let (command, _) = command.split_once("</pre>").unwrap();
    for words in ["--tracing-off", "--force", "--label board=x7"] {
        assert!(command.contains(words), "{words}: {command}");
    }
    assert!(
        command.contains(&format!("--load-cpus {cpu} ")),
        "{command}"
    );
    let again = place
        .tardy(&format!("{command} --dry-run --json --out again"))
        .ends_with(0)
        .json();
    let plan = &place.record("run")["plan"];
    let keys = plan.as_object().unwrap().keys();
    // Warnings and changes depend on the machine's present state.
    for key in keys.filter(|key| !["warnings", "changes"].contains(&key.as_str())) {
        assert_eq!(again[key], plan[key], "{key}");
    }
}
