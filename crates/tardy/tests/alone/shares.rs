//! Tests how loads that run together share the CPU time.

use crate::support;

use support::workplace::Workplace;

/// Runs four loads that never rest, and `pi-futex`, whose tasks inherit a real-time priority. CPU
/// shares do not limit tasks of real-time priority. If `pi-futex` did not limit its own pace, its
/// tasks could take more than half of all CPU time.
#[test]
fn a_load_whose_tasks_inherit_a_real_time_priority_has_no_more_than_twice_its_share() {
    let _turn = crate::turn();
    let place = Workplace::new();
    let loads = ["pi-futex", "procfs", "fpu", "cache", "timers"];
    let asked: String = loads.iter().map(|load| format!(" --load {load}")).collect();
    let summary = place
        .tardy(&format!(
            "run{asked} --for 6s --period 10ms --json --quiet --out run"
        ))
        .json();
    let phases = summary["loads"].as_array().unwrap();
    let row = phases
        .iter()
        .find(|phase| phase["name"] == loads.join("+"))
        .unwrap();
    let share = row["shares"]
        .as_array()
        .unwrap()
        .iter()
        .find(|share| share["load"] == "pi-futex")
        .unwrap()["share"]
        .as_f64()
        .unwrap();
    assert!(share <= 2.0 / loads.len() as f64, "{row}");
    let record = tardy_run::folder::open(&place.path("run")).unwrap();
    assert!(
        record.plan.phases[1]
            .loads
            .iter()
            .all(|load| load.beside == 4)
    );
}
