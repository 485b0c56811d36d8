//! Tests `tardy lab hunt`: a short search, its continuation, and the repetition of its finding.

use std::path::Path;

use serde_json::Value;

use super::{STOCK, lab, lab_is_there, support};

fn hunt(out: &Path, seed: &str) -> std::process::Output {
    let first = [
        "hunt",
        "--kernel",
        STOCK,
        "--preempt",
        "full",
        "--seed",
        seed,
        "--rounds",
        "1",
        "--guests",
        "2",
        "--programs",
        "3",
        "--findings",
        "1",
        "--reductions",
        "6",
        "--repeats",
        "3",
        "--json",
        "--out",
    ];
    lab(&[&first[..], &[out.to_str().unwrap()]].concat())
}

fn document(output: &std::process::Output) -> Value {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    support::document::read_as(&String::from_utf8_lossy(&output.stdout), "lab-hunt")
}

#[test]
fn a_finding_repeats_bit_for_bit_and_a_hunt_continues() {
    if !lab_is_there("the search for the longest section", false) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("hunt");
    let found = document(&hunt(&out, "1"));
    let search = &found["searches"][0];
    assert_eq!(search["programs"], 6, "{search}");
    let finding = &found["findings"][0];
    assert_eq!(
        (&finding["repeats"], &finding["equal"]),
        (&3.into(), &3.into())
    );
    let count = |key: &str| finding[key].as_array().unwrap().len();
    assert_eq!(count("found"), 3, "{finding}");
    assert!(count("reduced") < 3, "{finding}");
    assert!(finding["reductions"].as_u64().unwrap() <= 6, "{finding}");
    let sections = finding["result"]["sections"].as_array().unwrap();
    let blocked = |sections: &[Value]| {
        let mut sections = sections.iter();
        let longest = sections
            .find(|section| section["kind"] == "blocked")
            .unwrap();
        longest["length_ns"].as_i64().unwrap()
    };
    assert!(blocked(sections) > found["idle_ns"].as_i64().unwrap() / 2);

    // The user's command repeats the finding.
    let place = out.join(finding["folder"].as_str().unwrap());
    let scenario = place.join("scenario.toml");
    let text = std::fs::read_to_string(&scenario).unwrap();
    assert_eq!(text.matches("loads = ").count(), count("reduced"));
    let again = folder.path().join("again");
    let repeated = lab(&[
        "run",
        "--kernel",
        STOCK,
        "--preempt",
        "full",
        "--snapshots",
        "--watch",
        "--scenario",
        scenario.to_str().unwrap(),
        "--out",
        again.to_str().unwrap(),
    ]);
    assert!(repeated.status.success(), "{repeated:?}");
    let samples = |run: &Path| -> Value {
        let record = std::fs::read(run.join("lab.json")).unwrap();
        serde_json::from_slice::<Value>(&record).unwrap()["sample_digest"].clone()
    };
    let digest = samples(&place.join("run"));
    assert!(digest.is_string());
    assert_eq!(digest, samples(&again.join("6.1-full/replica-000")));

    // If a guest's file is missing, the continued hunt runs this guest again, with the same result.
    // The hunt still knows its finding.
    let files = |name: &str| std::fs::read(out.join("guided/round-0000").join(name)).unwrap();
    let before = files("guest-001.json");
    std::fs::remove_file(out.join("guided/round-0000/guest-001.json")).unwrap();
    let continued = document(&hunt(&out, "1"));
    assert_eq!(files("guest-001.json"), before);
    let known = &continued["findings"].as_array().unwrap()[0];
    assert_eq!(known["call_path"], finding["call_path"]);
    let other_seed = hunt(&out, "2");
    assert_eq!(other_seed.status.code(), Some(2));
}
