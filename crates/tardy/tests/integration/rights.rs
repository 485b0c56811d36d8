//! What loads keep of root's rights: what their description names, as the kernel tells it of their
//! processes while they work.

use crate::support;

use support::machine;
use support::workplace::Workplace;

/// Bits of linux/capability.h.
const BITS: [(&str, u64); 13] = [
    ("chown", 0),
    ("dac_override", 1),
    ("dac_read_search", 2),
    ("fowner", 3),
    ("net_admin", 12),
    ("net_raw", 13),
    ("sys_rawio", 17),
    ("sys_ptrace", 19),
    ("sys_admin", 21),
    ("sys_nice", 23),
    ("sys_resource", 24),
    ("sys_tty_config", 26),
    ("syslog", 34),
];

/// Of a process, from /proc/PID/status; nothing where it has ended.
struct Status {
    name: String,
    effective: u64,
    bounding: u64,
    has_given_up: bool,
}

impl Status {
    fn of(process: &str) -> Option<Self> {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let line = |name: &str| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .map(str::trim)
        };
        let set = |name: &str| u64::from_str_radix(line(name)?, 16).ok();
        Some(Self {
            name: line("Name:")?.to_owned(),
            effective: set("CapEff:")?,
            bounding: set("CapBnd:")?,
            has_given_up: line("NoNewPrivs:")? == "1",
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
fn a_command_of_the_users_keeps_all_and_what_is_kept_is_told() {
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
    for (load, kept) in [
        ("memory", "none"),
        ("busy", "dac_override, sys_nice"),
        ("exec", "all"),
    ] {
        let text = place
            .tardy(&format!("list loads {load}"))
            .ends_with(0)
            .stdout;
        assert!(
            text.contains(&format!("root privileges kept: {kept}")),
            "{text}"
        );
    }
}

#[test]
fn a_loads_processes_have_the_rights_that_its_description_names_and_no_others() {
    let test = "a_loads_processes_have_the_rights_that_its_description_names";
    if !machine::is_root() {
        return machine::left_out(test, "it needs root, which has rights to give up");
    }
    let own = Status::of("self").unwrap();
    for load in [
        "memory",
        "fork",
        "busy:length=1ms:period=100ms:priority=1",
        "procfs",
        "du",
        "hackbench",
        "fs",
        "receive",
    ] {
        let place = Workplace::new();
        let name = load.split(':').next().unwrap();
        let expected = set_of(&place, name);
        let mut run = place.start(&format!("load {load} --for 60s --json"));
        let mark = format!("tardy-load-{name}");
        // The kernel keeps 15 bytes of a name.
        let is_worker = |status: &Status| mark.starts_with(&status.name);
        let found = || workers(&place).into_iter().find(is_worker);
        let worker = run.until("a worker has given up its rights", found);
        assert_eq!(worker.effective, expected & own.effective, "{load}");
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
