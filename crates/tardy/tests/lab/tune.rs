//! Tests `tardy tune --search --lab`: options that matter are found, an option without effect is
//! not, and the same cells give the same answer.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use super::{STOCK, lab_is_there};
use crate::support::document;

const WORDS: [&str; 3] = ["highres=off", "tardy.nothing=1", "preempt=full"];

fn tardy(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tardy"))
        .args(arguments)
        .output()
        .unwrap()
}

/// Under the load `memory`, the largest latencies with and without these options differ in every
/// guest. Under `fork`, the preemption models none and full differ by 30 %, which is as much as
/// some guests differ from each other.
fn search(out: &Path, more: &[&str]) -> Output {
    let words = WORDS.iter().flat_map(|word| ["--word", word]);
    let arguments = [
        "tune",
        "--search",
        "--lab",
        "--kernel",
        STOCK,
        "--load",
        "memory",
        "--for",
        "900ms",
        "--out",
        out.to_str().unwrap(),
    ];
    tardy(
        &arguments
            .into_iter()
            .chain(words)
            .chain(more.iter().copied())
            .collect::<Vec<_>>(),
    )
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn words_that_matter_are_found_and_one_that_means_nothing_is_not() {
    if !lab_is_there("tune --search --lab", false) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("search");
    let output = search(&out, &["--replicas", "5"]);
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{shown}{said}");
    assert!(
        shown.contains("highres=off under memory: raises the metric by")
            && shown.contains("preempt=full under memory: lowers the metric by"),
        "{shown}"
    );
    assert!(shown.contains("nothing seen: tardy.nothing=1"), "{shown}");

    let again = search(&out, &["--replicas", "5", "--json"]);
    assert!(
        !text(&again.stderr).contains(" cells in "),
        "all cells were there: {}",
        text(&again.stderr)
    );
    let answer = document::read_as(&text(&again.stdout), "tune-lab");
    let outcome = |name: &str| {
        let row = answer["settings"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["name"] == name)
            .unwrap();
        row["loads"][0]["outcome"].clone()
    };
    assert_eq!(
        WORDS.map(outcome),
        ["raises", "nothing-seen", "lowers"].map(Value::from)
    );
    assert_eq!(answer["as_it_is_ns"][0].as_array().unwrap().len(), 5);
    let ticks = answer["settings"][0]["loads"][0]["goal_ns"]
        .as_array()
        .unwrap();
    // The kernel has 250 ticks per second, and a timer waits for the next one.
    assert!(
        ticks.len() == 5
            && ticks
                .iter()
                .all(|value| (3_000_000..8_000_000).contains(&value.as_i64().unwrap())),
        "{ticks:?}"
    );

    let best = out.join("best.toml");
    assert_eq!(
        std::fs::read_to_string(&best).unwrap(),
        "[[setting]]\nname = \"preempt=full\"\nwords = [\"preempt=full\"]\n"
    );
    let against = tardy(&["doctor", "--against", best.to_str().unwrap()]);
    let line = std::fs::read_to_string("/proc/cmdline").unwrap();
    let is_there = line.split_whitespace().any(|word| word == "preempt=full");
    assert_eq!(
        against.status.code(),
        Some(i32::from(!is_there)),
        "{}",
        text(&against.stdout)
    );
    if !is_there {
        let refused = tardy(&[
            "tune",
            "--apply",
            "--settings",
            best.to_str().unwrap(),
            "--",
            "true",
        ]);
        assert!(
            refused.status.code() == Some(3) && text(&refused.stderr).contains("needs a restart"),
            "{}",
            text(&refused.stderr)
        );
    }
}

#[test]
fn too_few_replicas_and_options_that_mean_nothing_there_are_refused_before_anything_boots() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |more: &[&str], reason: &str| {
        let output = tardy(&[&["tune"], more].concat());
        let said = text(&output.stderr);
        assert!(
            output.status.code() == Some(2) && said.contains(reason),
            "{more:?}: {said}"
        );
    };
    let out = folder.path().join("search");
    let lab = ["--search", "--lab", "--out", out.to_str().unwrap()];
    refused(&lab, "--kernel");
    refused(&["--plan", "--memory", "512"], "--lab");
    refused(
        &[&lab[..], &["--kernel", STOCK, "--goal", "99"]].concat(),
        "max or 99.9",
    );
    refused(
        &[&lab[..], &["--kernel", STOCK, "--load", "nosuch"]].concat(),
        "nosuch",
    );
    refused(
        &[&lab[..], &["--kernel", STOCK, "--cpus", "1"]].concat(),
        "--cpus",
    );
    if lab_is_there("tune --search --lab with few replicas", false) {
        refused(
            &[
                &lab[..],
                &[
                    "--kernel",
                    STOCK,
                    "--word",
                    "quiet",
                    "--load",
                    "fork",
                    "--replicas",
                    "3",
                ],
            ]
            .concat(),
            "at least 4 are needed",
        );
    }
    assert!(!out.exists());
}
