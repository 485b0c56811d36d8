//! Tests runs that start from a snapshot.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{REAL_TIME, lab_is_there};

/// Creates a cache with links to the user's kernels but without snapshots, so the test creates the
/// first snapshot and leaves none behind.
pub(super) fn cache_without_snapshots(folder: &Path) {
    let home = |name: &str| std::env::var_os(name).map(std::path::PathBuf::from);
    let user = home("XDG_CACHE_HOME")
        .unwrap_or_else(|| home("HOME").unwrap().join(".cache"))
        .join("tardy");
    let own = folder.join("tardy");
    std::fs::create_dir_all(&own).unwrap();
    for entry in std::fs::read_dir(user)
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name() != "snapshots")
    {
        symlink(entry.path(), own.join(entry.file_name())).unwrap();
    }
}

/// Runs the lab on one kernel with snapshots. Returns the exit code, the messages, and the record
/// of the run if there is one.
fn from_snapshot(cache: &Path, out: &Path, arguments: &[&str]) -> (i32, String, Option<Value>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tardy"));
    command
        .args(["lab", "run", "--snapshots", "--kernel", REAL_TIME, "--out"])
        .arg(out)
        .args(arguments);
    let output = command.env("XDG_CACHE_HOME", cache).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let record = std::fs::read(out.join("6.1-rt/replica-000/lab.json")).ok();
    (
        output.status.code().unwrap(),
        said,
        record.map(|record| serde_json::from_slice(&record).unwrap()),
    )
}

#[test]
fn runs_from_a_snapshot_are_the_same_and_differ_from_one_that_booted() {
    if !lab_is_there("snapshots", false) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    cache_without_snapshots(&cache);
    let run = |name: &str, arguments: &[&str]| {
        let out = folder.path().join(name);
        let (code, said, record) = from_snapshot(&cache, &out, arguments);
        assert_eq!(code, 0, "{said}");
        assert!(said.contains("resumed from its snapshot after"), "{said}");
        let record = record.unwrap();
        assert!(record["restore_ms"].as_u64().is_some(), "{record}");
        super::assert_accounted(&out.join("6.1-rt/replica-000"));
        record
    };
    let first = run("first", &["--cycles", "400", "--verify-repeatable"]);
    let kept = || {
        std::fs::read_dir(cache.join("tardy/snapshots"))
            .unwrap()
            .count()
    };
    assert_eq!(kept(), 1);
    let again = run("again", &["--cycles", "400"]);
    for key in ["sample_digest", "input_digest", "output_digest"] {
        assert!(
            first[key].is_string() && first[key] == again[key],
            "{key}: {} and {}",
            first[key],
            again[key]
        );
    }
    let other = run("other", &["--cycles", "500"]);
    assert_eq!(
        kept(),
        1,
        "another measurement begins from the same snapshot"
    );
    assert_eq!(first["inputs"]["snapshot"], other["inputs"]["snapshot"]);
    assert_ne!(
        first["sample_digest"], other["sample_digest"],
        "the plan comes with the run, not with the snapshot"
    );
    assert_ne!(first["input_digest"], other["input_digest"]);

    let booted = folder.path().join("booted");
    super::compared(&booted, &["--kernel", REAL_TIME, "--cycles", "400"]);
    let record: Value =
        serde_json::from_slice(&std::fs::read(booted.join("6.1-rt/replica-000/lab.json")).unwrap())
            .unwrap();
    assert_ne!(first["sample_digest"], record["sample_digest"]);
    let compared = |one: &str, other: &str| {
        let run = |name: &str| folder.path().join(name).join("6.1-rt/replica-000");
        let output = Command::new(env!("CARGO_BIN_EXE_tardy"))
            .arg("compare")
            .args([run(one), run(other)])
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    };
    let warning = "started from a snapshot, the other's booted";
    assert!(
        compared("first", "booted").contains(warning),
        "{}",
        compared("first", "booted")
    );
    assert!(!compared("first", "other").contains(warning));
}

#[test]
fn a_kernel_that_does_not_get_as_far_as_its_snapshot_is_reported_with_its_console() {
    if !lab_is_there("failing snapshots", false) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    cache_without_snapshots(&cache);
    let (code, said, record) = from_snapshot(
        &cache,
        &folder.path().join("out"),
        &["--cycles", "100", "--cmdline", "rdinit=/plan.json"],
    );
    assert_eq!(code, 3, "{said}");
    assert!(
        said.contains("the kernel panicked: No working init found") && said.contains("| "),
        "{said}"
    );
    assert!(record.is_none());
    assert_eq!(
        std::fs::read_dir(cache.join("tardy/snapshots"))
            .unwrap()
            .count(),
        0,
        "its snapshot is removed"
    );
}
