//! Tests `tardy tune --search` with stand-in settings whose effects are known.

use crate::support;

use support::machine;
use support::stand_in::{OLD, StandIn};
use support::workplace::Workplace;
use tardy_sys::process;

/// Writes a settings file with two settings that have no effect, and with a program that occupies
/// the probe's CPU.
fn settings(place: &Workplace) -> [StandIn; 2] {
    let made = [StandIn::new(), StandIn::new()];
    let mut text = made[0].as_setting("nothing") + &made[1].as_setting("nothing-else");
    let load = [
        env!("CARGO_BIN_EXE_tardy"),
        "load",
        "busy:length=3ms:period=10ms:priority=95",
        "--cpus",
        &machine::last_cpu().to_string(),
    ];
    text.push_str(&format!(
        "[[setting]]\nname = \"competitor\"\nwhile_on = {load:?}\n"
    ));
    std::fs::write(place.path("own.toml"), text).unwrap();
    made
}

#[test]
fn a_search_finds_the_setting_that_does_harm_and_goes_on_where_it_was_killed() {
    let _turn = crate::turn();
    let test = "a_search_finds_the_setting_that_does_harm_and_goes_on_where_it_was_killed";
    if !machine::is_root() {
        return machine::left_out(
            test,
            "a load of higher priority than the probe needs the right to one",
        );
    }
    let place = Workplace::new();
    let nothings = settings(&place);
    let cpu = machine::last_cpu();
    let mut running = place.start(&format!(
        "tune --search --settings own.toml --for 200ms --budget 60s --load none --cpus {cpu} \
         --out search"
    ));
    running.until("some runs are there", || {
        place.path("search/runs/0005").exists().then_some(())
    });
    running.signal(process::KILL);
    running.wait();
    let resumed = place.tardy("tune --resume search").ends_with(0);
    assert!(
        resumed.stderr.contains("of the runs were already done"),
        "{}",
        resumed.stderr
    );
    for nothing in nothings {
        assert_eq!(nothing.value(), OLD);
    }
    assert_eq!(place.journals(), [""; 0]);
    let found: serde_json::Value = support::document::read_as(
        &std::fs::read_to_string(place.path("search/result.json")).unwrap(),
        "tune-search",
    );
    let competitor = found["settings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|setting| setting["name"] == "competitor")
        .unwrap();
    assert_eq!(competitor["outcome"], "raises", "{found}");
    assert!(
        !std::fs::read_to_string(place.path("search/best.toml"))
            .unwrap()
            .contains("competitor")
    );
    assert!(
        resumed.stdout.contains("raises the metric by"),
        "{}",
        resumed.stdout
    );
    // Resuming reads the same runs, so the result is the same.
    let again = place.tardy("tune --resume search --json").ends_with(0);
    assert_eq!(again.json(), found);
}

/// Whenever the tool is killed, `tardy restore` restores the kernel's settings.
#[test]
fn after_a_kill_at_any_moment_restore_puts_every_file_back() {
    let _turn = crate::turn();
    for moment in 0..20 {
        let place = Workplace::new();
        let made: Vec<StandIn> = (0..10).map(|_| StandIn::new()).collect();
        let text: String = (made.iter().enumerate())
            .map(|(number, made)| made.as_setting(&format!("made-{number}")))
            .collect();
        std::fs::write(place.path("own.toml"), text).unwrap();
        let is_search = moment % 2 == 1;
        let line = if is_search {
            "tune --search --settings own.toml --for 100ms --budget 300s --load none --out search"
        } else {
            "tune --apply --settings own.toml -- sleep 600"
        };
        let running = place.start(line);
        std::thread::sleep(std::time::Duration::from_millis(
            5 + 17 * moment * if is_search { 4 } else { 1 },
        ));
        running.signal(process::KILL);
        running.wait();
        place.tardy("restore").ends_with(0);
        for (number, made) in made.iter().enumerate() {
            assert_eq!(made.value(), OLD, "value {number} after moment {moment}");
        }
        assert_eq!(place.journals(), [""; 0], "after moment {moment}");
    }
}
