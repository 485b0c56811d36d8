//! Tests `tardy lab bisect`, and `tardy lab check` with a baseline. The real-time kernel is good,
//! and the stock kernel of the same version is bad.

use super::{REAL_TIME, STOCK, lab, lab_is_there};

/// The measurement is long enough that the stock kernel has sections of several times the limit
/// under this load.
const MEASURE: [&str; 6] = ["--load", "procfs", "--for", "900ms", "--replicas", "1"];

fn told(arguments: &[&str]) -> (i32, String, String) {
    let output = lab(arguments);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code().unwrap(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn the_first_bad_kernel_is_found_past_one_that_cannot_tell() {
    if !lab_is_there("lab bisect", false) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken");
    std::fs::write(&broken, "no kernel").unwrap();
    let broken = broken.to_str().unwrap();
    let bisect = |ends: [&str; 2], more: &[&str]| {
        told(
            &[
                &["bisect"],
                &ends[..],
                &["--limit", "200us", "--among", broken],
                &MEASURE,
                more,
            ]
            .concat(),
        )
    };
    let (code, text, said) = bisect([REAL_TIME, STOCK], &[]);
    assert_eq!(code, 0, "{text}{said}");
    let conclusion = format!(
        "the first bad kernel is {STOCK}, the last good kernel is {REAL_TIME}; inconclusive \
         between them: {broken}"
    );
    assert!(text.contains(&conclusion), "{text}");
    let (code, text, _) = bisect([STOCK, REAL_TIME], &["--json"]);
    let report = crate::support::document::read_as(&text, "lab-bisect");
    assert_eq!(
        (code, &report["first_bad"]),
        (1, &serde_json::Value::Null),
        "{text}"
    );
    assert!(
        report["conclusion"]
            .as_str()
            .unwrap()
            .contains("is not bad"),
        "{text}"
    );
    assert_eq!(
        report["tested"].as_array().unwrap().len(),
        1,
        "one test shows that the ends are wrong"
    );
}

#[test]
fn kernels_between_files_must_be_named() {
    let (code, _, said) = told(&["bisect", "a", "b", "--limit", "1ms", "--load", "procfs"]);
    assert!(code == 2 && said.contains("--among"), "{code}: {said}");
    let (code, _, said) = told(&[
        "bisect", REAL_TIME, STOCK, "--limit", "1ms", "--load", "nosuch",
    ]);
    assert!(code == 2 && said.contains("nosuch"), "{code}: {said}");
}

#[test]
fn a_kernel_that_is_worse_than_its_baseline_fails_and_one_that_is_better_passes() {
    if !lab_is_there("a baseline", false) {
        return;
    }
    let check = |kernel: &str, baseline: &str| {
        told(
            &[
                &["check", "--kernel", kernel, "--baseline", baseline],
                &MEASURE[..],
            ]
            .concat(),
        )
    };
    let (code, text, said) = check(STOCK, REAL_TIME);
    assert!(
        code == 1 && text.contains("failed: under procfs, 99.9 % of latencies"),
        "{code}: {text}{said}"
    );
    let (code, text, said) = told(
        &[
            &["check", "--json", "--kernel", STOCK, "--limit", "1s"],
            &MEASURE[..],
        ]
        .concat(),
    );
    let checked = crate::support::document::read_as(&text, "lab-check");
    assert_eq!(
        (code, &checked["verdict"]["above"]),
        (0, &0.into()),
        "{text}{said}"
    );
    let (code, text, said) = check(REAL_TIME, STOCK);
    assert!(
        code == 0 && text.contains("within the margin of the baseline"),
        "{code}: {text}{said}"
    );
    assert!(
        text.contains("99.9 %") && text.contains("samples"),
        "the table has quantiles and counts: {text}"
    );
}

#[test]
fn modules_of_the_users_own_are_loaded_and_those_of_other_kernels_refused_before_the_boot() {
    if !lab_is_there("a module's file", false) {
        return;
    }
    if !std::path::Path::new("/bin/busybox").exists() {
        return super::support::machine::left_out("a module's file", "there is no /bin/busybox");
    }
    let cache = tardy_lab::cache::Cache::of_user().unwrap();
    let kernel = super::kernel(STOCK).unwrap();
    let module = tardy_lab::kernel::modules(&kernel, &["dummy"], &cache)
        .unwrap()
        .pop()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("dummy.ko");
    std::fs::copy(module, &own).unwrap();
    let out = folder.path().join("out");
    let run = |kernel: &str| {
        let program = [
            "--add",
            "/bin/busybox:/bin/busybox",
            "--program",
            "/bin/busybox",
        ];
        let words = ["--", "sh", "-c", "grep -q ^dummy /proc/modules || exit 9"];
        let begin = [
            "run",
            "--out",
            out.to_str().unwrap(),
            "--kernel",
            kernel,
            "--module",
            own.to_str().unwrap(),
        ];
        told(&[&begin[..], &program, &words].concat())
    };
    let (code, _, said) = run(REAL_TIME);
    assert!(
        code == 2 && said.contains("the module is for the kernel") && !out.exists(),
        "{code}: {said}"
    );
    let (code, text, said) = run(STOCK);
    assert_eq!(code, 0, "{text}{said}");
    std::fs::write(&own, "no module").unwrap();
    std::fs::remove_dir_all(&out).unwrap();
    let (code, _, said) = run(STOCK);
    assert!(
        code == 2 && said.contains("not a kernel module"),
        "{code}: {said}"
    );
}
