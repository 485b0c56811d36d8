//! Tests `tardy tune`: settings that can be changed, also for the duration of a program. The search
//! is tested in `tests/alone`, because it refuses to run beside other programs.

use crate::support;

use support::stand_in::{NEW, OLD, StandIn};
use support::workplace::Workplace;
use tardy_sys::process;

/// A stand-in for a setting, in a folder with a settings file that names it.
fn made() -> (Workplace, StandIn) {
    let (place, setting) = (Workplace::new(), StandIn::new());
    std::fs::write(place.path("own.toml"), setting.as_setting("made")).unwrap();
    (place, setting)
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
    let (place, setting) = made();
    let mut command = place.command([
        "tune",
        "--apply",
        "--settings",
        "own.toml",
        "--",
        "sh",
        "-c",
        &format!("cat {}; exit 7", setting.path().display()),
    ]);
    let outcome = support::workplace::finish(std::mem::replace(
        &mut command,
        std::process::Command::new("true"),
    ))
    .ends_with(7);
    assert_eq!(
        (outcome.stdout.trim(), setting.value().as_str()),
        (NEW, OLD)
    );
    assert!(outcome.stderr.contains("10 -> 20"), "{}", outcome.stderr);
    assert_eq!(place.journals(), [""; 0]);
    let nothing = place.tardy("tune --apply --settings own.toml").ends_with(2);
    assert!(nothing.stderr.contains("COMMAND"), "{}", nothing.stderr);
}

#[test]
fn settings_are_put_back_when_the_tool_is_asked_to_end_and_by_restore_when_it_was_killed() {
    for (signal, is_restored) in [(process::KILL, false), (tardy_sys::signal::TERMINATE, true)] {
        let (place, setting) = made();
        let mut running = place.start("tune --apply --settings own.toml -- sleep 600");
        running.until("the setting is in force", || {
            (setting.value() == NEW).then_some(())
        });
        running.signal(signal);
        running.wait();
        if !is_restored {
            assert_eq!(setting.value(), NEW);
            let restored = place.tardy("restore").ends_with(0);
            assert!(
                restored.stdout.contains("write \"10\" back to"),
                "{}",
                restored.stdout
            );
        }
        assert_eq!((setting.value().as_str(), place.journals().len()), (OLD, 0));
    }
}

#[test]
fn what_somebody_has_set_meanwhile_stays() {
    for signal in [tardy_sys::signal::TERMINATE, process::KILL] {
        let (place, setting) = made();
        let mut running = place.start("tune --apply --settings own.toml -- sleep 600");
        running.until("the setting is in force", || {
            (setting.value() == NEW).then_some(())
        });
        setting.set("33");
        running.signal(signal);
        let mut said = running.wait().stderr;
        if signal == process::KILL {
            said = place.tardy("restore").ends_with(0).stderr;
        }
        let stays = ": it stays \"33\", and is not restored to \"10\"";
        assert!(
            said.contains("another program changed ") && said.contains(stays),
            "{said}"
        );
        assert_eq!(
            (setting.value().as_str(), place.journals().len()),
            ("33", 0)
        );
    }
}

#[test]
fn a_file_that_is_no_setting_of_the_kernel_is_not_changed() {
    let place = Workplace::new();
    std::fs::write(place.path("value"), "old").unwrap();
    let path = place.path("value");
    let settings = format!("[[setting]]\nname = \"made\"\nfiles = {{ {path:?} = \"new\" }}\n");
    std::fs::write(place.path("own.toml"), settings).unwrap();
    let refused = place.tardy("tune --apply --settings own.toml -- true");
    assert!(
        refused.code() == 3 && refused.stderr.contains("is not a setting of the kernel"),
        "{}",
        refused.stderr
    );
    assert_eq!(std::fs::read(path).unwrap(), b"old");
}

#[test]
fn settings_of_two_are_not_in_force_at_once() {
    let (place, setting) = made();
    let mut running = place.start("tune --apply --settings own.toml -- sleep 600");
    running.until("the setting is in force", || {
        (setting.value() == NEW).then_some(())
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
    assert_eq!(setting.value(), OLD);
}

#[test]
fn a_run_can_be_made_with_settings_and_the_doctor_tells_whether_they_hold() {
    let (place, setting) = made();
    place.tardy("run --for 200ms --load none --quiet --tune=own.toml --out run");
    assert_eq!(place.record("run")["plan"]["labels"]["tuned"], "made");
    assert_eq!((setting.value().as_str(), place.journals().len()), (OLD, 0));
    let differs = place.tardy("doctor --against own.toml").ends_with(1);
    assert!(differs.stdout.contains("DIFFERS"), "{}", differs.stdout);
    setting.set(NEW);
    place.tardy("doctor --against own.toml").ends_with(0);
}

#[test]
fn a_search_says_how_long_it_takes_before_it_begins() {
    let (place, _setting) = made();
    let planned = place
        .tardy("tune --search --settings own.toml --budget 10m --for 1s --out search --dry-run")
        .ends_with(0);
    assert!(
        planned
            .stderr
            .contains("at most 352 runs of 1s each under the loads io and memory (10m in all)")
            && planned
                .stderr
                .contains("effect of these settings: made; the runs are stored in search"),
        "{}",
        planned.stderr
    );
    assert!(!place.path("search").exists());
}

#[test]
fn a_search_says_what_it_lacks_before_it_runs_anything() {
    let (place, _setting) = made();
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
