//! Checks in /proc, while loads work, that their processes have exactly those rights of root that
//! the loads' descriptions name.

use std::os::unix::fs::PermissionsExt;

use tardy_loads::load::LOADS;
use tardy_loads::load::rights::Rights;

use crate::support;

use support::machine;
use support::workplace::Workplace;

/// Bits from linux/capability.h.
const BITS: [(&str, u64); 9] = [
    ("chown", 0),
    ("dac_override", 1),
    ("dac_read_search", 2),
    ("fowner", 3),
    ("sys_ptrace", 19),
    ("sys_nice", 23),
    ("sys_resource", 24),
    ("sys_tty_config", 26),
    ("syslog", 34),
];

/// Fields of /proc/PID/status.
struct Status {
    name: String,
    /// User IDs (real, effective, saved, file system), group IDs in the same order, and
    /// supplementary groups.
    users: String,
    effective: u64,
    bounding: u64,
    has_given_up: bool,
}

impl Status {
    fn of(process: &str) -> Option<Self> {
        let read = || std::fs::read_to_string(format!("/proc/{process}/status")).ok();
        // The process may give up its rights while the kernel writes the lines, and `NoNewPrivs`
        // comes after the rights. The rights are therefore read again.
        let has_given_up = read()?.contains("NoNewPrivs:\t1\n");
        let status = read()?;
        let line = |name: &str| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .map(str::trim)
        };
        let set = |name: &str| u64::from_str_radix(line(name)?, 16).ok();
        Some(Self {
            name: line("Name:")?.to_owned(),
            users: [line("Uid:")?, line("Gid:")?, line("Groups:")?]
                .join(" ")
                .replace('\t', " "),
            effective: set("CapEff:")?,
            bounding: set("CapBnd:")?,
            has_given_up,
        })
    }
}

fn set_of(place: &Workplace, load: &str) -> u64 {
    let list = place.tardy("list loads --json").ends_with(0).json();
    let info = list["loads"]
        .as_array()
        .unwrap()
        .iter()
        .find(|info| info["name"] == load)
        .unwrap()
        .clone();
    let bit =
        |name: &serde_json::Value| 1 << BITS.iter().find(|(known, _)| name == known).unwrap().1;
    info["rights"].as_array().unwrap().iter().map(bit).sum()
}

fn workers(place: &Workplace) -> Vec<Status> {
    let all = place
        .processes()
        .into_iter()
        .filter_map(|process| Status::of(&process.to_string()));
    all.filter(|status| status.has_given_up).collect()
}

#[test]
fn only_nfs_compile_and_a_users_command_keep_all_rights() {
    let place = Workplace::new();
    let list = place.tardy("list loads --json").ends_with(0).json();
    let all: Vec<&str> = list["loads"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|info| info["rights"][0] == "all")
        .filter_map(|info| info["name"].as_str())
        .collect();
    assert_eq!(all, ["nfs-compile", "exec"]);
}

#[test]
fn a_loads_processes_have_the_rights_that_its_description_names_and_no_others() {
    let test = "a_loads_processes_have_the_rights_that_its_description_names";
    if !machine::is_root() {
        return machine::left_out(test, "it needs root, which has rights to give up");
    }
    let own = Status::of("self").unwrap();
    // Three sorts of loads are left out: loads that can do harm (except printk), loads that keep
    // all rights, and kernel-build, which needs a tree.
    let loads = LOADS.iter().filter(|info| {
        let is_harmless = !info.can_do_harm || info.name == "printk";
        is_harmless && info.name != "kernel-build" && !matches!(info.rights, Rights::All)
    });
    for load in loads.map(|info| info.name) {
        let place = Workplace::new();
        let info = tardy_loads::load::find(load).unwrap();
        let expected = set_of(&place, load);
        let mut run = place.start(&format!("load {load} --for 60s --json"));
        let mark = format!("tardy-load-{load}");
        // The kernel stores only 15 bytes of a process name.
        let is_worker = |status: &Status| mark.starts_with(&status.name);
        let found = || workers(&place).into_iter().find(is_worker);
        let worker = run.until("a worker has given up its rights", found);
        assert_eq!(worker.effective, expected & own.effective, "{load}");
        if let Rights::Nobody { .. } = info.rights {
            let nobody = "65534 65534 65534 65534 65534 65534 65534 65534 ";
            assert_eq!(worker.users, nobody, "{load}");
        }
        for process in workers(&place) {
            assert_eq!(
                (process.effective | process.bounding) & !expected,
                0,
                "{load}: a program that it executes has more: {}",
                process.name
            );
        }
        run.signal(15);
        let outcome = run.wait();
        assert!(
            [0, 130].contains(&outcome.code()),
            "{load}: {}",
            outcome.stderr
        );
        place.assert_no_process_is_left();
    }
}

/// Stand-in for `make` that lists, in its only message, the paths to which it may write.
const MAKE: &str = "#!/bin/sh
for place in /proc/sys/kernel/core_pattern roots /dev/null ${3#O=}/own $TMPDIR/temporary; do
    (: >> $place) 2> /dev/null && may=\"$may $(basename $place)\"
done
echo may write$may >&2
exit 1
";

#[test]
fn programs_of_a_load_that_stays_roots_write_only_in_its_folder() {
    let test = "programs_of_a_load_that_stays_roots_write_only_in_its_folder";
    if !machine::is_root() {
        return machine::left_out(test, "it needs root, which has rights to give up");
    }
    let place = Workplace::new();
    let tree = place.path("tree");
    for folder in ["tree", "programs"] {
        std::fs::create_dir_all(place.path(folder)).unwrap();
    }
    for file in ["Makefile", "Kconfig", "Kbuild"] {
        std::fs::write(tree.join(file), "").unwrap();
    }
    for program in ["make", "gcc", "ld", "flex", "bison", "bc"] {
        let path = place.path("programs").join(program);
        std::fs::write(&path, MAKE).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    std::fs::write(place.path("roots"), "").unwrap();
    let path = format!("{}:/usr/bin:/bin", place.path("programs").display());
    let load = format!("load kernel-build:tree={} --for 1s", tree.display());
    let mut command = place.command(load.split(' '));
    command.env("PATH", path);
    let outcome = support::workplace::finish(command);
    let text = [outcome.stdout, outcome.stderr].concat();
    assert!(text.contains(": may write null own temporary;"), "{text}");
}
