//! Checks that every command gives the same answers to two questions: whether PREEMPT_RT is needed,
//! and which kernel suffices.

use serde_json::{Value, json};

use crate::advise::{WORK, board, completions, fast, latencies, real_time};
use crate::support::made_cost::MadeCost;
use crate::support::workplace::Workplace;

/// Returns the first two lines of the advice, and checks its exit code.
#[track_caller]
fn answer(place: &Workplace, line: &str, code: i32) -> (String, String) {
    let text = place.tardy(line).ends_with(code).stdout;
    let mut lines = text.lines().map(str::to_owned);
    (lines.next().unwrap(), lines.next().unwrap())
}

#[test]
fn what_was_measured_decides_and_the_least_change_that_suffices_is_advised() {
    let place = Workplace::new();
    let made = |machine: Value, worst: i64, name: &str| {
        completions(machine, latencies(1000, &[(500, worst)])).write(&place.path(name));
    };
    made(fast(), 120_000, "fast");
    made(fast(), 9_000_000, "late");
    made(board("6.1.0", "full"), 200_000, "full");
    made(real_time(), 110_000, "rt");
    made(real_time(), 400_000, "late-rt");
    let cases = [
        (
            "fast rt",
            0,
            "PASSED: Linux 6.1.0 no PREEMPT met the deadline of 250us",
            "No: Linux 6.1.0 no PREEMPT (largest 120 us) met the deadline of 250us.",
        ),
        (
            "rt full late",
            0,
            "PASSED: Linux 6.1.0 PREEMPT met the deadline of 250us",
            "No: Linux 6.1.0 PREEMPT (largest 200 us) met the deadline of 250us; Linux 6.1.0 no \
             PREEMPT (largest 9.00 ms) did not.",
        ),
        (
            "late rt",
            0,
            "PASSED: Linux 6.1.0-rt PREEMPT_RT met the deadline of 250us",
            "Yes: Linux 6.1.0-rt PREEMPT_RT (largest 110 us) met the deadline of 250us; Linux \
             6.1.0 no PREEMPT (largest 9.00 ms) did not.",
        ),
        (
            "late",
            1,
            "FAILED: Linux 6.1.0 no PREEMPT missed the deadline of 250us",
            "Perhaps: Linux 6.1.0 no PREEMPT (largest 9.00 ms) missed the deadline of 250us; \
             measure preempt=full, then a PREEMPT_RT kernel, under the same loads.",
        ),
        (
            "late late-rt",
            1,
            "FAILED: every measured kernel missed the deadline of 250us; Linux 6.1.0-rt PREEMPT_RT \
             came nearest",
            "PREEMPT_RT is not enough: Linux 6.1.0-rt PREEMPT_RT (largest 400 us) missed the \
             deadline of 250us, but came nearest; `tardy run --explain` names the cause.",
        ),
    ];
    for (runs, code, conclusion, decision) in cases {
        let found = answer(&place, &format!("advise {runs} {WORK}"), code);
        assert_eq!(
            found,
            (
                conclusion.to_owned(),
                format!("Do you need PREEMPT_RT? {decision} Decided by the measurement.")
            )
        );
    }
    // A rule of 2009 advises against real time in a virtual machine, but does not override a
    // measured miss.
    let mut guest = fast();
    guest["virtualization"] = json!({"hypervisor": "kvm"});
    made(guest, 9_000_000, "guest");
    let (_, decision) = answer(&place, &format!("advise guest {WORK}"), 1);
    assert!(
        decision.contains("Perhaps: ") && decision.contains("host of this virtual machine"),
        "{decision}"
    );
}

#[test]
fn kernels_are_ranked_with_margin_confidence_and_cost() {
    let place = Workplace::new();
    completions(fast(), latencies(1000, &[(500, 9_000_000)])).write(&place.path("fast"));
    completions(real_time(), latencies(1000, &[(500, 110_000)])).write(&place.path("rt"));
    for (name, machine, sys) in [
        ("fast-build", fast(), [314.7, 317.3, 317.9]),
        ("rt-build", real_time(), [344.3, 340.9, 345.9]),
    ] {
        MadeCost { machine, sys }.write(&place.path(name));
    }
    let text = place
        .tardy(&format!(
            "advise fast rt fast-build rt-build --kind syscalls {WORK}"
        ))
        .ends_with(0)
        .stdout;
    let table: Vec<&str> = text
        .lines()
        .skip_while(|line| !line.starts_with("kernel "))
        .take(3)
        .collect();
    insta::assert_snapshot!(table.join("\n"));
}

/// For the same run, `show`, a report and `advise` give the same answer; for a machine without
/// measurements, `doctor` and `advise` give the same answer.
#[test]
fn every_command_answers_in_the_same_words() {
    let place = Workplace::new();
    completions(fast(), latencies(1000, &[(500, 9_000_000)])).write(&place.path("late"));
    let (_, decision) = answer(&place, "advise late --deadline 250us", 1);
    assert!(decision.contains("Perhaps: "), "{decision}");
    let of = |json: &Value| json["decision"]["text"].as_str().unwrap().to_owned();
    let show = place
        .tardy("show late --deadline 250us --json")
        .ends_with(1);
    assert_eq!(of(&show.json()), decision);
    let shown = place
        .tardy("show late --deadline 250us")
        .ends_with(1)
        .stdout;
    let joined = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(joined.contains(&decision), "{shown}");
    place
        .tardy("report late --deadline 250us --html late.html")
        .ends_with(0);
    let page = std::fs::read_to_string(place.path("late.html")).unwrap();
    assert!(
        page.contains("Do you need PREEMPT_RT? Perhaps: "),
        "no answer"
    );
    let doctor = place.tardy("doctor --watch 0s --json").ends_with(0).json();
    let advise = place.tardy("advise --json").ends_with(0).json();
    assert_eq!(of(&doctor), of(&advise));
}
