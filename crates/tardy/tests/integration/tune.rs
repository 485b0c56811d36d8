//! `tardy tune`: what can be set, and settings for the time of a program. The search is in
//! `tests/alone`, because it refuses to run beside others.

use crate::support;

use support::workplace::Workplace;
use tardy_sys::process;

/// A file that stands for a setting of the kernel, and the file of settings that names it.
fn made() -> Workplace {
    let place = Workplace::new();
    std::fs::write(place.path("value"), "old\n").unwrap();
    let settings = format!(
        "[[setting]]\nname = \"made\"\nfiles = {{ \"{}\" = \"new\" }}\n",
        place.path("value").display()
    );
    std::fs::write(place.path("own.toml"), settings).unwrap();
    place
}

fn value(place: &Workplace) -> String {
    std::fs::read_to_string(place.path("value"))
        .unwrap()
        .trim()
        .to_owned()
}

#[test]
fn the_plan_names_settings_as_the_doctor_does_and_changes_nothing() {
    let place = Workplace::new();
    let plan = place.tardy("tune --plan --json").ends_with(0).json();
    let settings = plan["settings"].as_array().unwrap();
    assert!(settings.len() >= 5, "{plan}");
    let names: Vec<&str> = settings
        .iter()
        .map(|setting| setting["name"].as_str().unwrap())
        .collect();
    let rows = place.tardy("doctor --json --watch 0s").json();
    for name in &names {
        assert!(
            rows["findings"]
                .as_array()
                .unwrap()
                .iter()
                .any(|row| row["check"] == *name),
            "{name} is no row of the doctor"
        );
    }
    assert_eq!(place.tardy("tune --plan --json").json(), plan);
    let text = place.tardy("tune --plan").ends_with(0).stdout;
    assert!(text.contains("tardy tune --search"), "{text}");
    let unknown = place.tardy("tune --plan --only colour").ends_with(2);
    assert!(
        unknown
            .stderr
            .contains("unknown setting `colour`: choose one of"),
        "{}",
        unknown.stderr
    );
}

#[test]
fn settings_hold_for_the_time_of_a_program_whose_exit_code_stays() {
    let place = made();
    let mut command = place.command([
        "tune",
        "--apply",
        "--settings",
        "own.toml",
        "--",
        "sh",
        "-c",
        "cat value; exit 7",
    ]);
    let outcome = support::workplace::finish(std::mem::replace(
        &mut command,
        std::process::Command::new("true"),
    ))
    .ends_with(7);
    assert_eq!(
        (outcome.stdout.trim(), value(&place).as_str()),
        ("new", "old")
    );
    assert!(outcome.stderr.contains("old -> new"), "{}", outcome.stderr);
    assert_eq!(place.journals(), [""; 0]);
    let nothing = place.tardy("tune --apply --settings own.toml").ends_with(2);
    assert!(nothing.stderr.contains("COMMAND"), "{}", nothing.stderr);
}

#[test]
fn settings_are_put_back_when_the_tool_is_asked_to_end_and_by_restore_when_it_was_killed() {
    for (signal, is_restored) in [(process::KILL, false), (tardy_sys::signal::TERMINATE, true)] {
        let place = made();
        let mut running = place.start("tune --apply --settings own.toml -- sleep 600");
        running.until("the setting is in force", || {
            (value(&place) == "new").then_some(())
        });
        running.signal(signal);
        running.wait();
        if !is_restored {
            assert_eq!(value(&place), "new");
            let restored = place.tardy("restore").ends_with(0);
            assert!(
                restored.stdout.contains("write \"old\" back to"),
                "{}",
                restored.stdout
            );
        }
        assert_eq!((value(&place).as_str(), place.journals().len()), ("old", 0));
    }
}

#[test]
fn settings_of_two_are_not_in_force_at_once() {
    let place = made();
    let mut running = place.start("tune --apply --settings own.toml -- sleep 600");
    running.until("the setting is in force", || {
        (value(&place) == "new").then_some(())
    });
    for command in [
        "tune --apply --settings own.toml -- true",
        "run --for 200ms --load none --quiet --tune=own.toml --out run",
    ] {
        let refused = place.tardy(command).ends_with(3);
        assert!(
            refused
                .stderr
                .contains("has settings in force: wait until it ends"),
            "{command}: {}",
            refused.stderr
        );
    }
    running.signal(tardy_sys::signal::TERMINATE);
    running.wait();
    place
        .tardy("tune --apply --settings own.toml -- true")
        .ends_with(0);
    assert_eq!(value(&place), "old");
}

#[test]
fn a_run_can_be_made_with_settings_and_the_doctor_tells_whether_they_hold() {
    let place = made();
    place.tardy("run --for 200ms --load none --quiet --tune=own.toml --out run");
    assert_eq!(place.record("run")["plan"]["labels"]["tuned"], "made");
    assert_eq!((value(&place).as_str(), place.journals().len()), ("old", 0));
    let differs = place.tardy("doctor --against own.toml").ends_with(1);
    assert!(differs.stdout.contains("DIFFERS"), "{}", differs.stdout);
    std::fs::write(place.path("value"), "new\n").unwrap();
    place.tardy("doctor --against own.toml").ends_with(0);
}

#[test]
fn a_search_says_how_long_it_takes_before_it_begins() {
    let place = made();
    let planned = place
        .tardy("tune --search --settings own.toml --budget 10m --for 1s --out search --dry-run")
        .ends_with(0);
    assert!(
        planned
            .stderr
            .contains("at most 352 runs of 1s each under the loads io and memory (10m in all)")
            && planned
                .stderr
                .contains("effect of these settings: made, into search"),
        "{}",
        planned.stderr
    );
    assert!(!place.path("search").exists());
}

#[test]
fn a_search_says_what_it_lacks_before_it_runs_anything() {
    let place = made();
    let few = place.tardy("tune --search --settings own.toml --budget 10s --for 1s --out search");
    let few = few.ends_with(2);
    assert!(
        few.stderr.contains("give a larger --budget"),
        "{}",
        few.stderr
    );
    assert!(!place.path("search").exists());
    std::fs::create_dir(place.path("search")).unwrap();
    let again = place
        .tardy("tune --search --settings own.toml --out search")
        .ends_with(2);
    assert!(again.stderr.contains("--resume"), "{}", again.stderr);
}
