//! The real binary in guests with more than one processor, which the lab itself has not: their clock is the host's, so that nothing of it is asserted.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tardy_core::units::Nanos;
use tardy_lab::plan::{Ending, GuestPlan, GuestReport, MARK, Program, Task, VERSION};
use tardy_lab::{cpio, exchange, initramfs};
use tardy_sys::child::kill_with_parent;

use crate::support::machine;
use crate::{STOCK, kernel, lab_is_there};

/// What one run of the binary in a guest left.
struct Left {
    report: GuestReport,
    stdout: String,
    stderr: String,
    record: String,
}

impl Left {
    /// `run.json` of a run in the guest's folder for results.
    fn record(&self) -> Value {
        assert!(matches!(self.report.ending, Ending::Exited(0 | 4)), "{:?}: {}", self.report.ending, self.stderr);
        serde_json::from_str(&self.record).unwrap_or_else(|error| panic!("{error}: {}{}", self.stdout, self.stderr))
    }
}

/// Boots `words` on `processors` processors and runs the binary there with `arguments`.
fn run_in_guest(processors: u32, words: &str, arguments: &[&str]) -> Left {
    const SHARED_MIB: u32 = 16;
    const WALL_LIMIT: Duration = Duration::from_secs(240);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let plan = GuestPlan {
        version: VERSION,
        task: Task::Run(Program { path: None, arguments: arguments.iter().map(|&argument| argument.to_owned()).collect() }),
        settle: Nanos::ZERO,
        time_limit: Nanos::from_secs(120),
        modules: Vec::new(),
        loads: Vec::new(),
        injection: None,
    };
    let initramfs = BufWriter::new(File::create(path("initramfs")).unwrap());
    initramfs::write(initramfs, Path::new(env!("CARGO_BIN_EXE_tardy")), &plan, &[]).unwrap();
    File::create(path("shared")).unwrap().set_len(u64::from(SHARED_MIB) << 20).unwrap();
    let kernel = kernel(STOCK).unwrap();
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args(["-accel", "tcg", "-m", "512", "-smp", &processors.to_string()]);
    qemu.args(["-nodefaults", "-nic", "none", "-display", "none", "-monitor", "none", "-no-reboot", "-serial", "file:console"]);
    qemu.arg("-object").arg(format!("memory-backend-file,id=shared,share=on,mem-path=shared,size={SHARED_MIB}M"));
    qemu.args(["-device", "ivshmem-plain,memdev=shared", "-initrd", "initramfs"]).arg("-kernel").arg(&kernel.image);
    qemu.arg("-append").arg(format!("console=ttyS0 quiet panic=-1 oops=panic cryptomgr.notests {MARK} {words}"));
    qemu.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = kill_with_parent(&mut qemu).spawn().unwrap();
    let deadline = Instant::now() + WALL_LIMIT;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let memory = std::fs::read(path("shared")).unwrap();
    let console = || std::fs::read_to_string(path("console")).unwrap_or_default();
    let archive = exchange::receive(&memory).unwrap_or_else(|error| panic!("{error}: {}", console()));
    let entries = cpio::read(archive).unwrap();
    let content = |name: &str| {
        let entry = entries.iter().find(|entry| entry.path == Path::new(name));
        String::from_utf8(entry.and_then(|entry| entry.content).unwrap_or_default().to_vec()).unwrap()
    };
    Left {
        report: serde_json::from_str(&content("guest.json")).unwrap(),
        stdout: content("stdout.log"),
        stderr: content("stderr.log"),
        record: content("out/run.json"),
    }
}

const ISOLATED: &str = "isolcpus=1 nohz_full=1 rcu_nocbs=1";

#[test]
fn isolated_processors_are_measured_by_default_while_loads_and_the_tool_keep_to_the_other() {
    if !lab_is_there("isolated processors", false) {
        return;
    }
    let run = ["run", "--for", "3s", "--load", "procfs", "--period", "10ms", "--quiet", "--out", "/run/out"];
    let left = run_in_guest(2, ISOLATED, &run);
    let record = left.record();
    let plan = &record["plan"];
    assert_eq!((&plan["measured_cpus"], &plan["tool_cpus"]), (&"1".into(), &"0".into()), "{plan}");
    let loads = plan["phases"].as_array().unwrap().iter().flat_map(|phase| phase["loads"].as_array().unwrap());
    assert!(loads.into_iter().all(|load| load["cpus"] == "0"), "{plan}");
    assert!(left.stdout.contains("! cpus 1 are isolated (isolcpus or nohz_full) and measured"), "{}", left.stdout);
    let series = &record["series"][0];
    assert_eq!(series["cpu"], 1);
    assert!(series["counts"]["recorded"].as_u64() > Some(0), "{series}");
    let warnings = record["warnings"].as_array().unwrap();
    let is_bound = warnings.iter().all(|warning| warning["warning"] != "not-bound" && warning["warning"] != "load-problem");
    assert!(is_bound, "{warnings:?}");
    assert!(record["load_work"].as_array().unwrap().iter().all(|work| work["cpu"] == 0), "{}", record["load_work"]);
}

#[test]
fn a_pair_of_threads_is_measured_on_an_isolated_processor_and_woken_from_the_other() {
    if !lab_is_there("pairs on isolated processors", false) {
        return;
    }
    let run = ["run", "--for", "2s", "--load", "none", "--cpus", "isolated", "--probe", "futex:waker=other:period=10ms", "--quiet"];
    let left = run_in_guest(2, ISOLATED, &[&run[..], &["--out", "/run/out"]].concat());
    let record = left.record();
    assert_eq!(record["plan"]["measured_cpus"], "1");
    for series in record["series"].as_array().unwrap() {
        assert!(series["counts"]["recorded"].as_u64() > Some(0), "{series}");
    }
}

/// Long: emulating 64 processors on a few keeps those busy for minutes.
#[test]
fn sixty_four_processors_are_measured_and_every_due_time_is_accounted_for() {
    const TEST: &str = "64 processors";
    if std::env::var_os("TARDY_TEST_MANY_CPUS").is_none_or(|value| value != "1") {
        return machine::left_out(TEST, "TARDY_TEST_MANY_CPUS=1 is not set");
    }
    if !lab_is_there(TEST, false) {
        return;
    }
    let run = [
        "run", "--for", "5s", "--load", "none", "--period", "500ms", "--probe", "cyclic", "--probe", "futex", "--quiet", "--out",
        "/run/out",
    ];
    let record = run_in_guest(64, "", &run).record();
    let series = record["series"].as_array().unwrap();
    assert_eq!(series.len(), 64 * 3, "cyclic, and futex with its timer");
    for series in series {
        let count = |name: &str| series["counts"][name].as_u64().unwrap();
        assert_eq!(count("expected"), count("recorded") + count("missed") + count("lost"), "{series}");
    }
}
