//! Tests every check on simulated machines: with the right setting, with a wrong setting, without
//! the file, and with an unreadable file.

mod trees;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;
use tardy_sys::bpf::BpfProgram;
use tardy_sys::ethtool::Coalescing;

use super::examined::NOT_HERE;
use super::*;
use crate::facts::MachineFacts;
use crate::fake_root::FakeRoot;
use crate::hardware_latency::{DetectorError, HardwareLatency};
use crate::interrupts::{InterruptDelta, InterruptLineDelta};
use crate::program::ProgramWatch;
use crate::watch::WatchDelta;
use trees::{
    BAD_CLOCK, BOARD, BUSY, CURRENT_KERNEL, CURRENT_REAL_TIME, FAIR_SERVER, GUEST, HOST,
    MANY_THREADS, NO_FAIR_SERVER, OLD_KERNEL, REAL_TIME_KERNEL, SOFTIRQ_LOCK, TUNED, TUNED_GUEST,
    UNTUNED, with_common,
};

/// The process number of the user's program on the simulated machines.
const PROGRAM: u32 = 700;

/// A simulated machine, its profile, and whether its counters grow.
struct Case {
    name: &'static str,
    texts: &'static [&'static str],
    profile: Profile,
    is_calm: bool,
}

const CASES: [Case; 18] = [
    Case {
        name: "tuned",
        texts: &[TUNED],
        profile: Profile::Periodic,
        is_calm: true,
    },
    Case {
        name: "untuned",
        texts: &[UNTUNED],
        profile: Profile::Periodic,
        is_calm: false,
    },
    Case {
        name: "bad clock",
        texts: &[UNTUNED, BAD_CLOCK],
        profile: Profile::Periodic,
        is_calm: false,
    },
    Case {
        name: "guest",
        texts: &[UNTUNED, GUEST],
        profile: Profile::VmGuest,
        is_calm: false,
    },
    Case {
        name: "tuned guest",
        texts: &[TUNED, TUNED_GUEST],
        profile: Profile::VmGuest,
        is_calm: true,
    },
    Case {
        name: "polling",
        texts: &[TUNED, BUSY],
        profile: Profile::Polling,
        is_calm: true,
    },
    Case {
        name: "tuned host",
        texts: &[TUNED, BUSY],
        profile: Profile::VmHost,
        is_calm: true,
    },
    Case {
        name: "host",
        texts: &[UNTUNED, HOST],
        profile: Profile::VmHost,
        is_calm: false,
    },
    Case {
        name: "fair server",
        texts: &[UNTUNED, FAIR_SERVER],
        profile: Profile::Periodic,
        is_calm: false,
    },
    Case {
        name: "without a fair server",
        texts: &[TUNED, NO_FAIR_SERVER],
        profile: Profile::Periodic,
        is_calm: true,
    },
    Case {
        name: "current kernel",
        texts: &[UNTUNED, CURRENT_KERNEL],
        profile: Profile::Periodic,
        is_calm: false,
    },
    Case {
        name: "current kernel and a program of many threads",
        texts: &[UNTUNED, CURRENT_KERNEL, MANY_THREADS],
        profile: Profile::Periodic,
        is_calm: false,
    },
    Case {
        name: "current real-time kernel",
        texts: &[TUNED, CURRENT_REAL_TIME],
        profile: Profile::Periodic,
        is_calm: true,
    },
    Case {
        name: "current real-time kernel with a lock for softirqs",
        texts: &[TUNED, CURRENT_REAL_TIME, SOFTIRQ_LOCK],
        profile: Profile::Periodic,
        is_calm: false,
    },
    Case {
        name: "board",
        texts: &[BOARD],
        profile: Profile::Periodic,
        is_calm: true,
    },
    Case {
        name: "old kernel",
        texts: &[OLD_KERNEL],
        profile: Profile::Periodic,
        is_calm: true,
    },
    Case {
        name: "real-time kernel",
        texts: &[UNTUNED, REAL_TIME_KERNEL],
        profile: Profile::Audio,
        is_calm: false,
    },
    Case {
        name: "real-time kernel, tuned for sound",
        texts: &[TUNED],
        profile: Profile::Audio,
        is_calm: true,
    },
];

/// Checks that are informative on every machine and never report a fault, because only the user can
/// judge them.
const NOTED_ONLY: [&str; 7] = [
    "turbo",
    "hardware-latency",
    "time-coordinated-computing",
    "secure-world",
    "firmware-version",
    "mitigations",
    "offline-cpus",
];
/// Checks that find a good or a notable setting, but never a fault.
const NEVER_FAULTS: [&str; 2] = ["lockdown", "deadline-admission"];

impl Case {
    fn tree(&self) -> FakeRoot {
        with_common(self.texts)
    }

    fn states(&self, tree: &FakeRoot) -> BTreeMap<&'static str, State> {
        self.examined(tree, |examined| {
            look(examined)
                .into_iter()
                .map(|finding| (finding.check, finding.state))
                .collect()
        })
    }

    fn state(&self, tree: &FakeRoot, check: &Check) -> State {
        self.examined(tree, |examined| check.state(examined))
    }

    fn examined<T>(&self, tree: &FakeRoot, then: impl FnOnce(&CheckInput<'_>) -> T) -> T {
        let watched = watched(self.is_calm);
        let root = tree.root();
        let facts = MachineFacts::read(&root);
        // On a machine that is not calm, thread 705 starts during the watch.
        let [thread, hidden] = ["proc/700/task/705", "not-yet"].map(|path| tree.path().join(path));
        let is_late = !self.is_calm && fs::rename(&thread, &hidden).is_ok();
        let watch = ProgramWatch::begin(&root, PROGRAM);
        if is_late {
            fs::rename(&hidden, &thread).unwrap();
        }
        let program = watch.and_then(|watch| {
            let path = format!("proc/{PROGRAM}/task/701/stat");
            let before = root.text(&path);
            let has_faulted = before
                .clone()
                .filter(|_| !self.is_calm)
                .map(|stat| stat.replacen(" 5 0 0 ", " 6 0 0 ", 1));
            if let Some(stat) = has_faulted {
                tree.write(&path, stat);
            }
            let program = watch.end(&root);
            before.into_iter().for_each(|stat| tree.write(&path, stat));
            program
        });
        let cpus = "2-3".parse().unwrap();
        let mut examined = CheckInput::new(&facts, Some(&root), &cpus);
        (examined.profile, examined.program, examined.watched) =
            (self.profile, program.as_ref(), Some(&watched));
        then(&examined)
    }
}

/// Makes the increases of all counters in one second. If `is_calm`, no counter increases, otherwise
/// every counter does.
fn watched(is_calm: bool) -> WatchDelta {
    let line = InterruptLineDelta {
        label: "9".into(),
        description: "chip disk".into(),
        counts: BTreeMap::from([(CpuId(2), 7)]),
    };
    let lines = if is_calm { Vec::new() } else { vec![line] };
    WatchDelta {
        span: Nanos::from_secs(1),
        interrupts: Some(InterruptDelta { lines }),
        stolen: Some(BTreeMap::from([(
            CpuId(2),
            Nanos::from_millis(if is_calm { 0 } else { 20 }),
        )])),
        smi: Ok(BTreeMap::from([(CpuId(2), u32::from(!is_calm))])),
        bpf: Ok(vec![BpfProgram {
            kind: if is_calm { 8 } else { 17 },
            name: "sched_switch".to_owned(),
        }]),
        coalescing: Ok(BTreeMap::from([(
            "eth0".to_owned(),
            Coalescing {
                receive_microseconds: if is_calm { 0 } else { 50 },
                is_adaptive: false,
            },
        )])),
    }
}

/// Returns the files of a simulated machine that a check reads.
fn files_of(check: &Check, tree: &FakeRoot) -> BTreeSet<String> {
    let patterns = check
        .reads
        .iter()
        .flat_map(|alternatives| alternatives.split('|'));
    patterns
        .flat_map(|pattern| {
            tree.root()
                .matching(&pattern.replace("PID", "700").replace("TID", "700"))
        })
        .collect()
}

/// Returns the cases with their machines.
fn trees() -> Vec<(&'static Case, FakeRoot)> {
    CASES.iter().map(|case| (case, case.tree())).collect()
}

/// Returns the states of all checks for each case.
fn all_states() -> &'static [BTreeMap<&'static str, State>] {
    static STATES: OnceLock<Vec<BTreeMap<&'static str, State>>> = OnceLock::new();
    STATES.get_or_init(|| CASES.iter().map(|case| case.states(&case.tree())).collect())
}

/// Returns the index of the first case in which the check has the wanted state.
fn first(check: &Check, is_wanted: fn(&State) -> bool) -> Option<usize> {
    all_states()
        .iter()
        .position(|states| is_wanted(&states[check.name]))
}

fn first_good(check: &Check) -> usize {
    let found = first(check, |state| {
        matches!(state, State::Good { .. } | State::Noted { .. })
    });
    found.unwrap_or_else(|| panic!("{} is good on no machine", check.name))
}

/// Hides files of a simulated machine until this value is dropped.
struct HiddenFiles<'a> {
    tree: &'a FakeRoot,
    files: Vec<String>,
}

impl<'a> HiddenFiles<'a> {
    fn put(tree: &'a FakeRoot, files: BTreeSet<String>) -> Self {
        fs::create_dir_all(tree.path().join("aside")).unwrap();
        let aside = Self {
            tree,
            files: files.into_iter().collect(),
        };
        aside
            .paths()
            .for_each(|(file, hidden)| fs::rename(file, hidden).unwrap());
        aside
    }

    fn paths(&self) -> impl Iterator<Item = (PathBuf, PathBuf)> {
        let path = |name: &str| self.tree.path().join(name);
        self.files
            .iter()
            .enumerate()
            .map(move |(at, file)| (path(file), path(&format!("aside/{at}"))))
    }
}

impl Drop for HiddenFiles<'_> {
    fn drop(&mut self) {
        self.paths()
            .for_each(|(file, hidden)| fs::rename(hidden, file).unwrap());
    }
}

fn is_good(state: &State) -> bool {
    matches!(state, State::Good { .. })
}

#[test]
fn names_are_unique_and_each_check_says_why_and_who_says_so() {
    let mut names: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
    assert!(
        CHECKS.iter().all(|check| !check.why.is_empty()
            && !check.source.is_empty()
            && !check.reads.is_empty())
    );
    let is_sentence_end = |why: &str| {
        !why.ends_with('.')
            && why.starts_with(|first: char| {
                first.is_lowercase()
                    || first.is_ascii_digit()
                    || why.starts_with("SCHED_")
                    || ["CPUs ", "RCU "].iter().any(|word| why.starts_with(word))
            })
    };
    assert!(
        CHECKS.iter().all(|check| is_sentence_end(check.why)),
        "{:?}",
        CHECKS.iter().find(|check| !is_sentence_end(check.why))
    );
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), CHECKS.len());
}

#[test]
fn every_row_has_a_machine_on_which_it_is_good_and_one_on_which_it_is_not() {
    for check in CHECKS {
        let name = check.name;
        let good = first(check, is_good);
        let bad = first(check, |state| matches!(state, State::Improvable { .. }));
        let noted = first(check, |state| matches!(state, State::Noted { .. }));
        if NOTED_ONLY.contains(&name) {
            assert!(noted.is_some(), "{name} is never noted");
            assert!(
                bad.is_none(),
                "{name} is a fault in case {:?}",
                bad.map(|at| CASES[at].name)
            );
        } else if NEVER_FAULTS.contains(&name) {
            assert!(good.is_some() && noted.is_some() && bad.is_none(), "{name}");
        } else {
            assert!(good.is_some(), "{name} is good on no machine");
            assert!(bad.is_some(), "{name} is a fault on no machine");
        }
    }
}

#[test]
fn every_fault_says_what_is_and_what_should_be_and_what_to_do() {
    for (case, states) in CASES.iter().zip(all_states()) {
        for (check, state) in states {
            let State::Improvable {
                current,
                expected,
                remedy,
                ..
            } = state
            else {
                continue;
            };
            assert!(
                !current.is_empty() && !expected.is_empty() && !remedy.is_empty(),
                "{check} in case {}",
                case.name
            );
        }
    }
}

#[test]
fn a_machine_set_up_for_real_time_has_nothing_to_improve() {
    let of_profile = ["tuned", "tuned guest", "polling", "tuned host"];
    for (case, states) in CASES
        .iter()
        .zip(all_states())
        .filter(|(case, _)| of_profile.contains(&case.name))
    {
        for (check, state) in states {
            let is_virtual = case.name == "tuned guest" && *check == "virtual-machine";
            let is_fault = matches!(state, State::Improvable { .. } | State::Unknown { .. });
            assert!(
                !is_fault || is_virtual,
                "{check} in case {}: {state:?}",
                case.name
            );
        }
    }
}

/// A missing file must not be reported as a fault. Otherwise users would search for a setting that
/// their kernel lacks.
#[test]
fn a_file_that_is_absent_is_never_a_fault() {
    let trees = trees();
    for check in CHECKS {
        let (case, tree) = &trees[first_good(check)];
        let aside = HiddenFiles::put(tree, files_of(check, tree));
        let state = case.state(tree, check);
        drop(aside);
        assert!(
            !matches!(state, State::Improvable { .. }),
            "{} in case {}: {state:?}",
            check.name,
            case.name
        );
    }
}

#[test]
fn a_file_that_is_there_and_cannot_be_read_makes_the_row_unknown() {
    let trees = trees();
    for check in CHECKS {
        // Some checks are good if their file is absent, so the test looks for a machine with the
        // file.
        let has_files = |(_, tree): &&(&Case, FakeRoot)| !files_of(check, tree).is_empty();
        let found = std::iter::once(&trees[first_good(check)])
            .chain(&trees)
            .find(has_files);
        let (case, tree) = found.unwrap_or_else(|| panic!("{} has no case with files", check.name));
        let files = files_of(check, tree);
        let aside = HiddenFiles::put(tree, files.clone());
        // The test replaces the file by a folder, which cannot be read as a file, even by root.
        files
            .iter()
            .for_each(|file| fs::create_dir(tree.path().join(file)).unwrap());
        let state = case.state(tree, check);
        files
            .iter()
            .for_each(|file| fs::remove_dir(tree.path().join(file)).unwrap());
        drop(aside);
        // Without readable threads, the program's checks do not run, and the command reports that.
        let is_expected = matches!(state, State::Unknown { .. })
            || (check.name.starts_with("program-") && !is_good(&state));
        assert!(
            is_expected,
            "{} in case {}: {state:?}",
            check.name, case.name
        );
    }
}

#[test]
fn a_machine_of_which_nothing_can_be_read_is_unknown_and_never_good() {
    let case = &CASES[0];
    for (check, state) in case.states(&FakeRoot::new()) {
        assert!(matches!(state, State::Unknown { .. }), "{check}: {state:?}");
    }
}

#[test]
fn debugfs_that_is_not_mounted_says_nothing_of_the_kernel() {
    let tree = CASES[0].tree();
    fs::remove_dir_all(tree.path().join("sys/kernel/debug")).unwrap();
    let state = &CASES[0].states(&tree)["kprobes"];
    assert!(
        matches!(state, State::Unknown { missing } if missing.contains("debugfs is not mounted")),
        "{state:?}"
    );
}

#[test]
fn facts_of_another_machine_are_not_mixed_with_files_of_this_one() {
    let tree = with_common(&[UNTUNED]);
    let facts = MachineFacts::read(&tree.root());
    let cpus = "2-3".parse().unwrap();
    let states: BTreeMap<_, _> = look(&CheckInput::new(&facts, None, &cpus))
        .into_iter()
        .map(|finding| (finding.check, finding.state))
        .collect();
    for from_files in [
        "heat",
        "irqbalance",
        "kernel-debug",
        "numa-balancing",
        "tracing",
        "console",
        "kernel-threads",
    ] {
        assert_eq!(states[from_files], State::unknown(NOT_HERE), "{from_files}");
    }
    for from_facts in ["governor", "isolation", "idle-states", "smt"] {
        assert!(
            matches!(states[from_facts], State::Improvable { .. }),
            "{from_facts}"
        );
    }
}

#[test]
fn a_row_weighs_what_the_profile_makes_of_it() {
    let weight = |name: &str, profile| {
        CHECKS
            .iter()
            .find(|check| check.name == name)
            .unwrap()
            .weight
            .importance(profile)
    };
    assert_eq!(
        (
            weight("isolation", Profile::Polling),
            weight("isolation", Profile::Audio)
        ),
        (Importance::High, Importance::Low)
    );
    let states = CASES
        .iter()
        .filter(|case| case.name == "polling" || case.name == "tuned")
        .map(|case| (case.profile, case.states(&case.tree())));
    let dynticks: BTreeMap<&str, State> = states
        .map(|(profile, states)| (profile.name(), states["full-dynticks"].clone()))
        .collect();
    assert_eq!(dynticks["periodic"], State::good("on no CPU"));
    assert_eq!(dynticks["polling"], State::good("on CPUs 2-3"));
    let tuned_for_sleepers = Case {
        name: "",
        texts: &[TUNED],
        profile: Profile::Polling,
        is_calm: true,
    };
    assert!(matches!(
        tuned_for_sleepers.states(&tuned_for_sleepers.tree())["full-dynticks"],
        State::Improvable { .. }
    ));
}

#[test]
fn kernels_with_a_fair_server_are_checked_for_that_and_not_for_the_old_limit() {
    let case = CASES
        .iter()
        .find(|case| case.name == "fair server")
        .unwrap();
    let states = case.states(&case.tree());
    assert!(matches!(
        states["real-time-throttling"],
        State::NotApplicable { .. }
    ));
    assert!(
        matches!(&states["fair-server"], State::Improvable { current, .. } if current == "50.0 ms"),
        "{:?}",
        states["fair-server"]
    );
}

#[test]
fn current_kernels_have_rows_of_their_own() {
    let case = CASES.iter().find(|case| case.name == "current kernel");
    let (case, is) = (
        case.unwrap(),
        |states: &BTreeMap<_, State>, name: &str, text: &str| {
            let State::Improvable { current, .. } = &states[name] else {
                panic!("{name}: {:?}", states[name])
            };
            assert_eq!(current, text);
        },
    );
    let states = case.states(&case.tree());
    is(
        &states,
        "scheduler-extension",
        "lavd (enabled), with layered (cgroup inode 77) and flash (cgroup inode 99) below it",
    );
    is(&states, "ext-server", "30.0 ms");
    is(&states, "time-slice-extension", "5.00 us");
    let unloaded = case.states(&case.tree().with("sys/kernel/sched_ext/state", "disabled\n"));
    assert_eq!(
        unloaded["ext-server"],
        State::good("no BPF scheduler is loaded")
    );
}

#[test]
fn a_hash_of_futexes_that_grows_during_the_watch_is_a_fault_and_one_that_grew_before_is_noted() {
    let of = |is_calm| {
        let case = Case {
            name: "many threads",
            texts: &[UNTUNED, CURRENT_KERNEL, MANY_THREADS],
            profile: Profile::Periodic,
            is_calm,
        };
        case.states(&case.tree())["program-futex-hash"].clone()
    };
    let State::Improvable {
        current, remedy, ..
    } = of(false)
    else {
        panic!("{:?}", of(false))
    };
    assert!(current.starts_with("5 threads became 6 during the watch"));
    assert!(current.contains("from 16 to 32 slots"), "{current}");
    assert!(
        remedy.contains("PR_FUTEX_HASH_SET_SLOTS, 32, 0)"),
        "{remedy}"
    );
    assert!(
        matches!(of(true), State::Noted { current } if current.contains("grew to 32 slots as the threads started"))
    );
}

#[test]
fn the_package_with_a_real_time_kernel_is_that_of_the_machines_architecture() {
    let case = CASES
        .iter()
        .find(|case| case.name == "current kernel")
        .unwrap();
    for (architecture, named) in [
        ("x86_64", "kernel (Debian: linux-image-rt-amd64)"),
        ("aarch64", "kernel (Debian: linux-image-rt-arm64)"),
        ("riscv64", "kernel"),
    ] {
        let tree = case.tree().with("proc/sys/kernel/arch", architecture);
        let state = &case.states(&tree)["real-time-kernel"];
        assert!(
            matches!(state, State::Improvable { remedy, .. } if remedy.ends_with(named)),
            "{state:?}"
        );
    }
}

#[test]
fn a_daemon_that_leaves_the_cpus_alone_is_no_fault() {
    let banned = |list: &str| {
        let tree = with_common(&[UNTUNED]).with(
            "etc/default/irqbalance",
            format!("IRQBALANCE_BANNED_CPULIST={list}\n"),
        );
        CASES[1].states(&tree)["irqbalance"].clone()
    };
    assert!(is_good(&banned("\"2-3\"")));
    assert!(matches!(banned("2"), State::Improvable { .. }));
}

#[test]
fn deep_idle_states_are_no_fault_while_someone_asks_for_none() {
    let asked = |microseconds: i32| {
        let tree = with_common(&[UNTUNED]).with("dev/cpu_dma_latency", microseconds.to_ne_bytes());
        CASES[1].states(&tree)["idle-states"].clone()
    };
    assert_eq!(asked(0), State::good("not entered"));
    assert!(
        matches!(asked(200), State::Improvable { current, .. } if current == "down to C6 (133 us), as long as a program requests a limit of 200 us")
    );
    assert!(
        matches!(asked(2_000_000_000), State::Improvable { current, .. } if current == "down to C6 (133 us)")
    );
    let one = with_common(&[UNTUNED]).with(
        "sys/devices/system/cpu/cpu2/power/pm_qos_resume_latency_us",
        "n/a\n",
    );
    assert_eq!(
        CASES[1].states(&one)["idle-states"],
        State::good("not entered")
    );
}

#[test]
fn registers_that_cannot_be_read_leave_firmware_unknown_and_say_so() {
    let tree = CASES[0].tree();
    let root = tree.root();
    let facts = MachineFacts::read(&root);
    let cpus = "2-3".parse().unwrap();
    let mut watched = watched(true);
    watched.smi = Err(crate::smi::SmiUnavailable::NoRegister);
    let mut examined = CheckInput::new(&facts, Some(&root), &cpus);
    examined.watched = Some(&watched);
    let findings = look(&examined);
    let state = &findings
        .iter()
        .find(|finding| finding.check == "system-management-interrupts")
        .unwrap()
        .state;
    assert!(
        matches!(state, State::Unknown { missing } if missing.contains("0x34")),
        "{state:?}"
    );
}

#[test]
fn what_the_detector_of_hardware_latency_found_is_told_and_why_it_did_not_run() {
    let fake = FakeRoot::new();
    let (root, facts, cpus) = (
        fake.root(),
        MachineFacts::read(&fake.root()),
        "0".parse().unwrap(),
    );
    let state = |detected: Result<HardwareLatency, DetectorError>| {
        let mut examined = CheckInput::new(&facts, Some(&root), &cpus);
        examined.detected = Some(&detected);
        (firmware::HARDWARE_LATENCY.look)(&examined)
    };
    let found = |gaps, micros| {
        Ok(HardwareLatency {
            span: Nanos::from_secs(60),
            gaps,
            longest: Nanos::from_micros(micros),
        })
    };
    assert!(matches!(state(found(0, 0)), State::Good { .. }));
    let State::Improvable { current, .. } = state(found(3, 170)) else {
        panic!("gaps are no good")
    };
    assert_eq!(current, "3 gaps in 60.0 s, the longest 170 us");
    assert_eq!(
        state(Err(DetectorError::NoTracer)),
        State::unknown(
            "the kernel was built without its hardware latency detector (CONFIG_HWLAT_TRACER)"
        )
    );
}
