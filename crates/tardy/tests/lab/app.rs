//! Tests `tardy lab app` with a user's program, its library and its file, on two kernels.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use super::{REAL_TIME, STOCK, lab_is_there};

/// A temporary folder. It contains the program, its library, its file, and the folder of the cells.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        std::fs::create_dir(place.path("lib")).unwrap();
        std::fs::write(place.path("settings"), "forty-two").unwrap();
        std::fs::write(
            place.path("sum.c"),
            "int sum(int a, int b) { return a + b; }",
        )
        .unwrap();
        place.cc(&["-shared", "-fPIC", "sum.c", "-o", "lib/libsum.so"]);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn cc(&self, arguments: &[&str]) {
        let mut command = Command::new("cc");
        let output = command
            .args(arguments)
            .current_dir(self.folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// Compiles the loop, which finds its library relative to its own folder.
    fn compile(&self, further: &[&str]) {
        let tree = Path::new(env!("CARGO_MANIFEST_DIR"));
        let source = tree.join("tests/data/my_loop.c").display().to_string();
        let include = format!("-I{}", tree.join("../../include").display());
        let fixed = [
            &source,
            &include,
            "-o",
            "my_loop",
            "-Llib",
            "-lsum",
            "-Wl,-rpath,$ORIGIN/lib",
        ];
        self.cc(&[&fixed, further].concat());
    }

    fn app(&self, arguments: &[&str]) -> Output {
        let fixed = [
            "lab",
            "app",
            "./my_loop",
            "--file",
            "settings",
            "--out",
            "app",
        ];
        Command::new(env!("CARGO_BIN_EXE_tardy"))
            .args(fixed)
            .args(arguments)
            .current_dir(self.folder.path())
            .output()
            .unwrap()
    }

    /// Checks that the guest's folder contains the output of the program.
    fn has_output(&self, run: &Value) {
        let folder = self.path("app").join(run["folder"].as_str().unwrap());
        let read = |name: &str| std::fs::read_to_string(folder.join("program").join(name)).unwrap();
        assert_eq!(read("stdout.log"), "./my_loop: forty-two and 42\n");
        assert_eq!(read("stderr.log"), "begins\n");
    }
}

fn document(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        !text.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    crate::support::document::read_as(&text, "lab-app")
}

fn run(table: &Value, kernel: usize) -> &Value {
    &table["kernels"][kernel]["cells"][0]["runs"][0]
}

/// Options that all tables in these tests share. Under this load, a kernel without preemption is
/// late.
const ASKED: [&str; 7] = [
    "--load",
    "procfs",
    "--deadline",
    "500us",
    "--for",
    "1s",
    "--json",
];

#[test]
fn a_program_runs_unchanged_on_two_kernels_and_the_late_one_is_named_with_its_culprit() {
    if !lab_is_there("a program on every kernel", false) {
        return;
    }
    let place = Place::new();
    place.compile(&[]);
    let kernels = [
        "--kernel",
        STOCK,
        "--preempt",
        "none",
        "--kernel",
        REAL_TIME,
    ];
    let asked = [&kernels[..], &ASKED, &["--", "settings", "0"]].concat();
    let output = place.app(&asked);
    let table = document(&output);
    assert_eq!(output.status.code(), Some(1), "{table}");
    assert_eq!(table["judged_by"], "attach");
    for (kernel, outcome) in [(0, "failed"), (1, "passed")] {
        let run = run(&table, kernel);
        assert_eq!(run["outcome"], outcome, "{run}");
        assert_eq!(table["kernels"][kernel]["outcome"], outcome);
        let [max, margin] = ["max_ns", "margin_ns"].map(|key| run[key].as_i64().unwrap());
        assert_eq!(max + margin, 500_000, "{run}");
        assert_eq!(margin < 0, outcome == "failed", "{run}");
        assert_eq!(run["culprit"].is_string(), outcome == "failed", "{run}");
        assert!(run["samples"].as_u64() >= Some(190), "{run}");
        assert_eq!(run["program"]["ending"]["exited"], 5, "{run}");
        assert_eq!(run["program"]["was_stopped"], true, "{run}");
        place.has_output(run);
    }
    // The guests' results are stored, so the same command boots nothing and shows the same table.
    let again = place.app(&asked);
    assert_eq!(document(&again), table);
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(!said.contains(" cells in "), "{said}");

    // The lab gives no verdict on a program that ends by itself before it is measured.
    let kernels = ["--kernel", REAL_TIME];
    let short = place.app(&[&kernels[..], &ASKED, &["--", "settings", "10"]].concat());
    let table = document(&short);
    assert_eq!(short.status.code(), Some(4), "{table}");
    let run = run(&table, 0);
    assert_eq!(run["outcome"], "inconclusive", "{run}");
    assert_eq!(run["program"]["ending"]["exited"], 7, "{run}");
    assert_eq!(run["program"]["was_stopped"], false, "{run}");
    place.has_output(run);
}

#[test]
fn a_program_that_makes_the_two_calls_is_judged_by_them() {
    if !lab_is_there("a program with calls", false) {
        return;
    }
    let place = Place::new();
    place.compile(&["-DCALLS"]);
    let kernels = ["--kernel", REAL_TIME];
    let output = place.app(&[&kernels[..], &ASKED, &["--", "settings", "0"]].concat());
    let table = document(&output);
    assert_eq!(output.status.code(), Some(0), "{table}");
    assert_eq!(table["judged_by"], "calls");
    let run = run(&table, 0);
    assert_eq!(run["outcome"], "passed", "{run}");
    place.has_output(run);
}
