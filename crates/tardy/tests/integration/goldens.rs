//! Checks that run folders of every format version stay readable, and that `show` prints the same
//! text as when they were made. See golden/README.md.

use crate::support;

use std::path::{Path, PathBuf};

use support::workplace::{Outcome, Workplace, finish};

fn goldens(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(version)
}

/// Runs `tardy show` in the folder of the golden run and names only the run, so that the output
/// does not depend on the repository's path.
fn show(version: &str, name: &str, flags: &[&str]) -> Outcome {
    let place = Workplace::new();
    let mut command = place.command(["show", name]);
    command.args(flags).current_dir(goldens(version));
    finish(command)
}

/// Compares text, JSON and exit code with the run's snapshots.
fn assert_opens(version: &str, name: &str) {
    let text = show(version, name, &[]);
    insta::assert_snapshot!(
        format!("{version}-{name}-text"),
        format!("{}(exit code {})\n", text.stdout, text.code())
    );
    let json = show(version, name, &["--json"]);
    assert_eq!(json.code(), text.code());
    insta::assert_snapshot!(
        format!("{version}-{name}-json"),
        serde_json::to_string_pretty(&json.json()).unwrap()
    );
}

#[test]
fn a_cyclic_run_of_version_1_opens() {
    assert_opens("v1", "cyclic");
}

#[test]
fn a_nanosleep_run_of_version_1_opens() {
    assert_opens("v1", "nanosleep");
}

#[test]
fn a_run_of_version_1_that_was_cut_off_opens() {
    assert_opens("v1", "cut-off");
}

#[test]
fn a_run_of_version_1_that_kept_the_tail_opens() {
    assert_opens("v1", "tail");
}

#[test]
fn a_run_of_version_1_with_lost_samples_opens() {
    assert_opens("v1", "lost");
}

#[test]
fn every_golden_run_has_a_test_and_stays_small() {
    let source = include_str!("goldens.rs");
    for name in support::workplace::names(&goldens("v1")) {
        assert!(
            source.contains(&format!("assert_opens(\"v1\", \"{name}\")")),
            "{name} has no test"
        );
        let folder = goldens("v1").join(&name);
        let files = support::series::files(&folder)
            .into_iter()
            .chain([folder.join("run.json")]);
        let bytes: u64 = files
            .map(|file| std::fs::metadata(file).unwrap().len())
            .sum();
        assert!(bytes < 20_000, "{name}: {bytes} bytes");
    }
}
