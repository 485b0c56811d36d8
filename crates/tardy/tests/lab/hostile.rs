//! Tests guests in which, during a run, the clock is set or a program never gives up a CPU.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tardy_core::units::Nanos;
use tardy_lab::initramfs::AddedFile;
use tardy_lab::several_cpus::{self, Equipment, Guest};

use super::{STOCK, kernel, lab, lab_is_there};
use crate::support::machine;

pub(crate) const BUSYBOX: &str = "/bin/busybox";

/// Returns whether a script can run in a guest.
pub(crate) fn scripts_run(test: &str) -> bool {
    if !lab_is_there(test, false) {
        return false;
    }
    if !Path::new(BUSYBOX).exists() {
        machine::left_out(test, "there is no /bin/busybox");
        return false;
    }
    true
}

pub(crate) fn write_script(folder: &Path, script: &str) -> PathBuf {
    let file = folder.join("script");
    std::fs::write(
        &file,
        format!("#!/bin/busybox sh\n/bin/busybox --install -s /bin\nmkdir -p /run/out\n{script}"),
    )
    .unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    file
}

/// Runs a script in a guest of the lab, and returns the folder with the files that the script wrote
/// to /run/out.
fn run_script(folder: &Path, script: &str) -> PathBuf {
    run_script_on(STOCK, folder, &[], script)
}

/// Runs a script in a guest with this kernel of Debian, and further arguments for `tardy lab run`.
/// Returns the folder with the files that the script wrote to /run/out.
pub(crate) fn run_script_on(
    kernel: &str,
    folder: &Path,
    further: &[&str],
    script: &str,
) -> PathBuf {
    let (out, add) = (
        folder.join("guests"),
        format!("{}:/bin/script", write_script(folder, script).display()),
    );
    let add = [
        "--add",
        "/bin/busybox:/bin/busybox",
        "--add",
        &add,
        "--program",
        "/bin/script",
    ];
    let output = lab(&[
        &[
            "run",
            "--kernel",
            kernel,
            "--time-limit",
            "2m",
            "--out",
            out.to_str().unwrap(),
        ],
        further,
        &add[..],
    ]
    .concat());
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let name = kernel.strip_prefix("debian:").unwrap();
    out.join(name).join("replica-000")
}

fn text(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name))
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Returns the output of `tardy show --json`, with any exit code.
fn shown(run: &Path) -> Value {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_tardy"))
        .args(["show", "--json"])
        .arg(run)
        .output()
        .unwrap();
    crate::support::document::read(&String::from_utf8_lossy(&output.stdout))
}

fn stepped(summary: &Value) -> Option<&Value> {
    summary["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|warning| warning["warning"] == "clock-stepped")
}

fn assert_exact(series: &Value, expected: Option<u64>) {
    let count = |name: &str| series["counts"][name].as_u64().unwrap();
    assert!(count("recorded") > 0, "{series}");
    assert_eq!(
        count("expected"),
        count("recorded") + count("skipped") + count("lost"),
        "{series}"
    );
    assert!(
        expected.is_none_or(|expected| count("expected") == expected),
        "{series}"
    );
}

const HOUR: i64 = 3_600_000_000_000;

#[test]
fn a_time_of_day_that_is_set_or_slewed_makes_no_sample_longer_and_no_verdict_false() {
    if !scripts_run("a time of day that is set") {
        return;
    }
    let measure = |name: &str, probes: &str, disturb: &str| {
        format!(
            "/init run --for 1200ms --period 4ms --load none --deadline 400ms --misses 0.9 \
             --quiet --out /run/out/{name} {probes} >/dev/null 2>&1 &\nuntil [ -s \
             /run/out/{name}/state.jsonl ]; do usleep 10000; done\nusleep 400000\n{disturb}\nwait \
             $!\necho $? >/run/out/{name}.code\n"
        )
    };
    let both = "--probe cyclic --probe gtod";
    let script = [
        measure("forward", both, "date -s @$(($(date +%s) + 3600))"),
        measure("back", both, "date -s @$(($(date +%s) - 3600))"),
        measure(
            "slewed",
            &format!("{both} --probe timerfd:clock=realtime"),
            "adjtimex -q -f 32768000",
        ),
        measure(
            "timers",
            "--probe cyclic:clock=realtime",
            "date -s @$(($(date +%s) - 3600))",
        ),
    ];
    let folder = tempfile::tempdir().unwrap();
    let left = run_script(folder.path(), &script.concat());
    for (name, by) in [
        ("forward", Some(HOUR)),
        ("back", Some(-HOUR)),
        ("slewed", None),
        ("timers", Some(-HOUR)),
    ] {
        let summary = shown(&left.join(name));
        // The run may be too short to pass. The test only checks whether the clock degrades the
        // verdict.
        let (code, evidence) = (
            text(&left, &format!("{name}.code")),
            &summary["verdict"]["evidence"],
        );
        assert!(["0", "4"].contains(&code.as_str()), "{name}: {code}");
        assert_eq!(
            evidence["degraded"].as_array().unwrap().is_empty(),
            name != "timers",
            "{name}: {evidence}"
        );
        let told = stepped(&summary);
        assert_eq!(
            told.is_some(),
            by.is_some(),
            "{name}: {}",
            summary["warnings"]
        );
        if let Some((told, by)) = told.zip(by) {
            assert!(
                (told["by"].as_i64().unwrap() - by).abs() <= 1_000_000_000,
                "{name}: {told}"
            );
            assert_eq!(told["has_timers"], name == "timers", "{name}: {told}");
        }
        for series in summary["series"].as_array().unwrap() {
            let gaps = &series["gaps"];
            assert_exact(series, gaps.is_null().then_some(300));
            // In an idle guest, no stall reaches 100 ms.
            assert!(
                (0..100_000_000).contains(&series["numbers"]["max_ns"].as_i64().unwrap()),
                "{name}: {series}"
            );
            assert!(
                series["numbers"]["min_ns"].as_i64().unwrap() >= 0,
                "{name}: {series}"
            );
            assert!(
                gaps.is_null() || gaps["observed_ns"].as_i64().unwrap() < 1_300_000_000,
                "{name}: {series}"
            );
        }
    }
}

const UNTHROTTLED: &str = "echo -1 >/proc/sys/kernel/sched_rt_runtime_us\n";

/// chrt with its libraries. The program is not placed in /bin, because busybox installs its own
/// chrt there.
fn chrt() -> Vec<AddedFile> {
    let path = PathBuf::from(machine::program("chrt", "util-linux").get_program());
    let libraries = std::process::Command::new("ldd")
        .arg(&path)
        .output()
        .unwrap();
    let libraries = String::from_utf8(libraries.stdout).unwrap();
    let sources = libraries
        .lines()
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
        .map(PathBuf::from);
    let library = |source: PathBuf| AddedFile {
        path: source.to_str().unwrap()[1..].to_owned(),
        source,
        executable: true,
    };
    sources
        .map(library)
        .chain([AddedFile {
            source: path,
            path: "usr/chrt".into(),
            executable: true,
        }])
        .collect()
}

/// Measures CPU 1 for 8 s while another program's loop with SCHED_FIFO 98 occupies `loop_cpu` for
/// 30 s. On a busy host the loop takes seconds to start. Returns the run's exit code and its
/// record.
fn run_beside_a_loop(loop_cpu: u32) -> (String, Value) {
    let script = format!(
        "{UNTHROTTLED}/init run --for 8s --load none --period 10ms --deadline 1m --misses 0.99 \
         --cpus 1 --quiet --out /run/out/run &\nrun=$!\nuntil [ -s /run/out/run/state.jsonl ]; do \
         usleep 10000; done\nread now rest </proc/uptime\ntaskset {:x} /usr/chrt -f 98 /bin/busybox \
         sh -c \"while read up rest </proc/uptime && [ \\${{up%.*}} -lt $((${{now%.*}} + 30)) ]; do \
         :; done\" &\nwait $run\necho $? >/run/out/code\n",
        1 << loop_cpu
    );
    let folder = tempfile::tempdir().unwrap();
    let file = |source: PathBuf, path: &str| AddedFile {
        source,
        path: path.into(),
        executable: true,
    };
    let mut files = chrt();
    files.extend([
        file(BUSYBOX.into(), "bin/busybox"),
        file(write_script(folder.path(), &script), "bin/script"),
    ]);
    let (kernel, tardy) = (
        kernel(STOCK).unwrap(),
        Path::new(env!("CARGO_BIN_EXE_tardy")),
    );
    let equipment = Equipment {
        program: Some("/bin/script"),
        files: &files,
        ..Equipment::default()
    };
    let guest = Guest {
        cpus: 2,
        memory_mib: 768,
        kernel: &kernel.image,
        words: "",
        tardy,
        time_limit: Nanos::from_secs(120),
        equipment,
    };
    let left = several_cpus::run(guest, &[]).unwrap();
    let record = left.text("out/run/run.json");
    let record = serde_json::from_str(&record).unwrap_or_else(|error| {
        panic!(
            "{error}: {:?}: {}{}",
            left.report.ending,
            left.text("stdout.log"),
            left.text("stderr.log")
        )
    });
    (left.text("out/code").trim().to_owned(), record)
}

#[test]
fn somebody_elses_loop_that_never_sleeps_keeps_no_run_from_ending() {
    if !scripts_run("a foreign loop") {
        return;
    }
    let (code, record) = run_beside_a_loop(1);
    let warnings = record["warnings"].as_array().unwrap();
    assert_eq!(code, "4", "{warnings:?}");
    assert_eq!(record["state"], "ended-by-watchdog", "{warnings:?}");
    assert!(
        warnings
            .iter()
            .any(|warning| warning["warning"] == "starved" && warning["cpu"] == 1),
        "{warnings:?}"
    );
    assert!(
        !warnings
            .iter()
            .any(|warning| warning["warning"] == "scheduling-changed"),
        "{warnings:?}"
    );
    assert_exact(&record["series"][0], None);
}

#[test]
fn a_loop_on_the_cpu_of_the_tools_own_threads_costs_the_run_nothing_but_time() {
    if !scripts_run("a foreign loop") {
        return;
    }
    let (_, record) = run_beside_a_loop(0);
    let found = (record["state"].as_str(), record["warnings"].as_array());
    assert_eq!(found, (Some("finished"), Some(&Vec::new())));
    assert_exact(&record["series"][0], None);
}
