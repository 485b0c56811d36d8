//! Tests of the real binary in guests with several CPUs. `tardy lab run` is not used, because its
//! guests have one CPU. The guests of these tests run on the host's clock, so the tests assert no
//! times.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tardy_core::units::Nanos;
use tardy_lab::guest_job::Ending;
use tardy_lab::initramfs::AddedFile;
use tardy_lab::several_cpus::{self, Equipment, Guest, GuestResult};

use crate::hostile::{BUSYBOX, scripts_run, write_script};
use crate::{STOCK, kernel, lab_is_there, support};

/// Boots a kernel on two CPUs with `words` on its command line, and runs the binary in the guest.
pub(crate) fn boot(source: &str, words: &str, arguments: &[&str]) -> GuestResult {
    let kernel = kernel(source).unwrap();
    let tardy = Path::new(env!("CARGO_BIN_EXE_tardy"));
    let guest = Guest {
        cpus: 2,
        memory_mib: 1024,
        kernel: &kernel.image,
        words,
        tardy,
        time_limit: Nanos::from_secs(120),
        equipment: Equipment::default(),
    };
    several_cpus::run(guest, arguments).unwrap()
}

/// Runs the binary in a guest with the stock kernel, and returns the guest's files and `run.json`.
fn run_in_guest(words: &str, arguments: &[&str]) -> (GuestResult, Value) {
    let left = boot(STOCK, words, arguments);
    let said = || format!("{}{}", left.text("stdout.log"), left.text("stderr.log"));
    assert!(
        matches!(left.report.ending, Ending::Exited(0 | 4)),
        "{:?}: {}",
        left.report.ending,
        said()
    );
    let record = serde_json::from_str(&left.text("out/run.json"))
        .unwrap_or_else(|error| panic!("{error}: {}", said()));
    (left, record)
}

const ISOLATED: &str = "isolcpus=1 nohz_full=1 rcu_nocbs=1";

#[test]
fn isolated_cpus_are_measured_by_default_while_loads_and_the_tool_keep_to_the_other() {
    if !lab_is_there("isolated CPUs", false) {
        return;
    }
    let run = [
        "run", "--for", "3s", "--load", "procfs", "--period", "10ms", "--quiet", "--out",
        "/run/out",
    ];
    let (left, record) = run_in_guest(ISOLATED, &run);
    let plan = &record["plan"];
    assert_eq!(
        (&plan["measured_cpus"], &plan["tool_cpus"]),
        (&"1".into(), &"0".into()),
        "{plan}"
    );
    let loads = plan["phases"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|phase| phase["loads"].as_array().unwrap());
    assert!(loads.into_iter().all(|load| load["cpus"] == "0"), "{plan}");
    let stdout = left.text("stdout.log");
    assert!(
        stdout.contains("note: CPUs 1 are isolated (isolcpus or nohz_full) and measured"),
        "{stdout}"
    );
    let series = &record["series"][0];
    assert_eq!(series["cpu"], 1);
    assert!(series["counts"]["recorded"].as_u64() > Some(0), "{series}");
    let warnings = record["warnings"].as_array().unwrap();
    let is_bound = warnings
        .iter()
        .all(|warning| warning["warning"] != "not-bound" && warning["warning"] != "load-problem");
    assert!(is_bound, "{warnings:?}");
    assert!(
        record["load_work"]
            .as_array()
            .unwrap()
            .iter()
            .all(|work| work["cpu"] == 0),
        "{}",
        record["load_work"]
    );
}

#[test]
fn a_pair_of_threads_is_measured_on_an_isolated_cpu_and_woken_from_the_other() {
    if !lab_is_there("pairs on isolated CPUs", false) {
        return;
    }
    let run = [
        "run",
        "--for",
        "2s",
        "--load",
        "none",
        "--cpus",
        "isolated",
        "--probe",
        "futex:waker=other:period=10ms",
        "--quiet",
    ];
    let (_, record) = run_in_guest(ISOLATED, &[&run[..], &["--out", "/run/out"]].concat());
    assert_eq!(record["plan"]["measured_cpus"], "1");
    for series in record["series"].as_array().unwrap() {
        assert!(series["counts"]["recorded"].as_u64() > Some(0), "{series}");
    }
}

/// Makes CPU 1 an isolated partition, and examines it from outside and from inside.
const PARTITION: &str = "\
cd /sys/fs/cgroup
echo +cpuset > cgroup.subtree_control
mkdir rt
echo 1 > rt/cpuset.cpus
echo isolated > rt/cpuset.cpus.partition
cat rt/cpuset.cpus.partition > /run/out/partition
cat cpuset.cpus.isolated > /run/out/isolated
cat /sys/devices/system/cpu/isolated > /run/out/at-boot
uname -r > /run/out/release
/init doctor --watch 0s --cpus 1 --json > /run/out/doctor.json
/init run --cpus isolated --dry-run > /run/out/outside 2>&1
echo $$ > rt/cgroup.procs
/init run --cpus isolated --for 1s --load none --period 10ms --quiet --out /run/out/run
";

/// Boots a guest that runs a script, and returns the guest's files.
fn boot_script(script: &str, source: &str, cpus: u32, words: &str) -> GuestResult {
    let folder = tempfile::tempdir().unwrap();
    let file = |source: PathBuf, path: &str| AddedFile {
        source,
        path: path.into(),
        executable: true,
    };
    let files = [
        file(BUSYBOX.into(), "bin/busybox"),
        file(write_script(folder.path(), script), "bin/script"),
    ];
    let kernel = kernel(source).unwrap();
    let guest = Guest {
        cpus,
        memory_mib: 1024 + 16 * cpus,
        kernel: &kernel.image,
        words,
        tardy: Path::new(env!("CARGO_BIN_EXE_tardy")),
        time_limit: Nanos::from_secs(120),
        equipment: Equipment {
            program: Some("/bin/script"),
            files: &files,
            ..Equipment::default()
        },
    };
    several_cpus::run(guest, &[]).unwrap()
}

#[test]
fn cpus_of_an_isolated_partition_are_isolated_whatever_the_kernel_was_booted_with() {
    if !scripts_run("isolated partitions") {
        return;
    }
    for source in ["debian:6.12", "debian:7.3"] {
        if let Err(error) = kernel(source) {
            support::machine::left_out(&format!("isolated partitions of {source}"), &error);
            continue;
        }
        // Up to Linux 6.18, a partition with CPUs of isolcpus= is invalid.
        for (words, isolated) in [("", "1"), ("isolcpus=2", "1-2")] {
            let left = boot_script(PARTITION, source, 3, words);
            let text = |name: &str| left.text(&format!("out/{name}")).trim().to_owned();
            let said = format!(
                "{source} {words}: partition {}, isolated {}, at boot {}: {}{}",
                text("partition"),
                text("isolated"),
                text("at-boot"),
                left.text("stdout.log"),
                left.text("stderr.log")
            );
            eprintln!(
                "{} {}",
                text("release"),
                said.lines().next().unwrap_or_default()
            );
            assert_eq!(text("partition"), "isolated", "{said}");
            let doctor: Value = serde_json::from_str(&text("doctor.json")).unwrap();
            let row = |name: &str| {
                let rows = doctor["findings"].as_array().unwrap();
                rows.iter().find(|row| row["check"] == name).unwrap()
            };
            assert_eq!(row("isolation")["current"], isolated, "{said}");
            let record: Value = serde_json::from_str(&text("run/run.json")).unwrap();
            assert_eq!(record["measured_cpus"], "1", "{said}");
            assert_eq!(record["machine"]["processors"]["isolated"], isolated);
        }
    }
}

/// Measures on all CPUs, on a screen of 80 columns and 24 lines.
const LARGE: &str = "\
export COLUMNS=80 LINES=24
/init run --for 2s --load none --period 100ms --out /run/out/run > /run/out/text
";

#[test]
fn each_due_time_on_64_cpus_is_accounted_for_and_the_summary_fits_a_screen() {
    if !scripts_run("a guest with 64 CPUs") {
        return;
    }
    let left = boot_script(LARGE, STOCK, 64, "");
    let text = left.text("out/text");
    let said = || format!("{text}{}", left.text("stderr.log"));
    let record: Value = serde_json::from_str(&left.text("out/run/run.json"))
        .unwrap_or_else(|error| panic!("{error}: {}", said()));
    let series = record["series"].as_array().unwrap();
    assert_eq!(series.len(), 64, "{}", said());
    for (cpu, series) in series.iter().enumerate() {
        let count = |name: &str| series["counts"][name].as_u64().unwrap();
        assert_eq!(series["cpu"], cpu);
        assert!(
            count("expected") > 0 && count("expected") == count("recorded") + count("skipped"),
            "{series}"
        );
    }
    assert!(
        text.lines().count() <= 24 && text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
}
