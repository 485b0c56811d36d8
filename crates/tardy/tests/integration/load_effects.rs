//! Checks that loads have the effects that they promise, by the kernel's counts for their
//! processes, groups and devices.

use crate::support;

use std::path::Path;

use support::machine;
use support::workplace::{RunningCommand, Workplace, family};
use tardy_loads::load::backing::Backing;
use tardy_machine::host::Host;

fn is_on_device(folder: &Path) -> bool {
    matches!(
        Backing::of(folder, &Host::of_this_machine()),
        Backing::Device(_)
    )
}

/// Starts `tardy load` with its scratch files in the folder of the test.
fn start(place: &Workplace, load: &str) -> RunningCommand {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tardy"));
    command.env("TMPDIR", place.folder());
    place.start_command(command, ["load", load, "--for", "60s"])
}

/// Waits until `seen` returns a value for one of the load's processes.
fn until_a_worker<T>(
    place: &Workplace,
    running: &mut RunningCommand,
    what: &str,
    seen: impl Fn(&Path) -> Option<T>,
) -> T {
    let mark = place.folder().display().to_string();
    running.until(what, || {
        family(&mark)
            .into_iter()
            .find_map(|pid| seen(&Path::new("/proc").join(pid.to_string())))
    })
}

fn number(folder: &Path, file: &str, key: &str) -> u64 {
    let text = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(key).map(str::to_owned));
    line.and_then(|line| {
        line.trim()
            .trim_start_matches(':')
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    })
    .unwrap_or(0)
}

#[test]
fn io_and_writeback_write_to_the_device_of_the_run_and_io_reads_from_it() {
    let place = Workplace::new();
    if !is_on_device(place.folder()) {
        return machine::left_out(
            "io_and_writeback_write_to_the_device_of_the_run_and_io_reads_from_it",
            "temporary files are not on a device",
        );
    }
    for (load, reads) in [("io", true), ("writeback", false)] {
        let mut running = start(&place, load);
        // read_bytes counts bytes requested from the block layer; write_bytes counts bytes that
        // will be written to it.
        until_a_worker(&place, &mut running, load, |process| {
            let moved = |key| number(process, "io", key) > 1 << 20;
            (moved("write_bytes:") && (!reads || moved("read_bytes:"))).then_some(())
        });
        running.signal(tardy_sys::signal::INTERRUPT);
        running.wait().ends_with(130);
        assert_eq!(place.names(), [""; 0], "{load} left files");
    }
}

#[test]
fn what_loads_write_to_a_device_is_said_before_they_do() {
    let place = Workplace::new();
    if !is_on_device(place.folder()) {
        return machine::left_out(
            "what_loads_write_to_a_device_is_said_before_they_do",
            "temporary files are not on a device",
        );
    }
    let dry = place
        .tardy("run --load io:rate=1MiB --load writeback:rate=2MiB --for 9s --dry-run")
        .ends_with(0)
        .stdout;
    let line = dry
        .lines()
        .find(|line| line.starts_with("writes "))
        .unwrap_or_else(|| panic!("{dry}"));
    assert!(
        line.contains("at most ")
            && line.contains("io:rate=1MiB ")
            && line.contains("writeback:rate=2MiB "),
        "{line}"
    );
    let ran = place
        .tardy("run --load io:rate=1MiB --for 2s --out run")
        .ends_with(0)
        .stderr;
    assert!(ran.contains("loads write at most "), "{ran}");
    let load = &place.record("run")["plan"]["phases"][1]["loads"][0];
    assert_eq!(load["device_writes"]["rate"], 1 << 20);
    assert_eq!(
        load["scratch"],
        place.folder().display().to_string(),
        "the run's own file system"
    );
    let alone = place
        .tardy("load writeback --for 300ms")
        .ends_with(0)
        .stderr;
    assert!(alone.contains("writes at most "), "{alone}");
}

#[test]
fn io_in_memory_says_so_and_is_there_by_its_name() {
    let memory = Path::new("/dev/shm");
    if !matches!(
        Backing::of(memory, &Host::of_this_machine()),
        Backing::Memory(_)
    ) {
        return machine::left_out(
            "io_in_memory_says_so_and_is_there_by_its_name",
            "/dev/shm is not in memory",
        );
    }
    let place = Workplace::new();
    let out = memory.join(format!("tardy-test-{}", std::process::id()));
    let planned = |load: &str| {
        place
            .tardy(&format!(
                "run --load {load} --for 9s --dry-run --out {}",
                out.display()
            ))
            .ends_with(0)
            .stdout
    };
    let fallen_back = planned("io");
    assert!(
        fallen_back.contains("warning    load io: /dev/shm is on tmpfs")
            && !fallen_back.contains("\nwrites "),
        "{fallen_back}"
    );
    let asked_for = planned("io:target=memory");
    assert!(!asked_for.contains("warning    load io"), "{asked_for}");
    let absent = place
        .tardy(&format!(
            "run --load writeback --for 9s --dry-run --out {}",
            out.display()
        ))
        .ends_with(3)
        .stderr;
    assert!(
        absent.contains("/dev/shm is on tmpfs") && absent.contains("--out"),
        "{absent}"
    );
}

#[test]
fn packets_cross_a_pair_of_devices_in_namespaces_of_their_own() {
    let place = Workplace::new();
    let mut running = start(&place, "receive");
    if !machine::is_root() {
        return machine::left_out(
            "packets_cross_a_pair_of_devices_in_namespaces_of_their_own",
            "only root can make namespaces everywhere",
        );
    }
    // /proc/PID/net shows the network namespace of the process, from which packets are sent. The
    // packets are received in another namespace. Eight numbers about reception follow a device's
    // name; the ninth number is the number of sent bytes.
    until_a_worker(&place, &mut running, "packets are sent", |process| {
        let sent = std::fs::read_to_string(process.join("net/dev")).unwrap_or_default();
        let line = sent
            .lines()
            .find_map(|line| line.trim_start().strip_prefix("tardy0:"))
            .map(str::to_owned)?;
        let bytes: u64 = line.split_whitespace().nth(8)?.parse().ok()?;
        (bytes > 1 << 20).then_some(())
    });
    assert!(
        !std::fs::read_to_string("/proc/self/net/dev")
            .unwrap()
            .contains("tardy0"),
        "the machine's own network has no such device"
    );
}

#[test]
fn only_the_group_of_the_load_lacks_memory() {
    if !machine::is_root() {
        return machine::left_out(
            "only_the_group_of_the_load_lacks_memory",
            "only root can make control groups everywhere",
        );
    }
    let place = Workplace::new();
    let mut running = start(&place, "reclaim:size=16MiB");
    let group = until_a_worker(
        &place,
        &mut running,
        "a worker has its own group",
        |process| {
            let groups = std::fs::read_to_string(process.join("cgroup")).ok()?;
            let path = groups
                .lines()
                .find(|line| line.contains("tardy-scratch-reclaim-"))?
                .rsplit(':')
                .next()?
                .to_owned();
            let roots = [
                "/sys/fs/cgroup",
                "/sys/fs/cgroup/memory",
                "/sys/fs/cgroup/unified",
            ];
            roots
                .iter()
                .map(|root| Path::new(root).join(path.trim_start_matches('/')))
                .find(|folder| folder.is_dir())
        },
    );
    running.until("the limit is reached", || {
        let failures = std::fs::read_to_string(group.join("memory.failcnt"))
            .ok()
            .and_then(|text| text.trim().parse::<u64>().ok());
        (failures.unwrap_or(0) > 10 || number(&group, "memory.events", "max ") > 10).then_some(())
    });
    running.signal(tardy_sys::signal::INTERRUPT);
    let ended = running.wait().ends_with(130);
    assert!(
        !ended.stdout.contains("died") && !ended.stderr.contains("not undone"),
        "{} {}",
        ended.stdout,
        ended.stderr
    );
    assert!(!group.exists(), "the group is removed");
}

#[test]
fn huge_pages_come_and_are_split() {
    let place = Workplace::new();
    let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
        .unwrap_or_else(|_| "[never]".to_owned());
    if setting.contains("[never]") {
        return machine::left_out(
            "huge_pages_come_and_are_split",
            "there are none, or they are switched off",
        );
    }
    let counts = || {
        ["thp_fault_alloc ", "thp_split_pmd "].map(|key| number(Path::new("/proc"), "vmstat", key))
    };
    let before = counts();
    let mut running = start(&place, "thp");
    running.until("huge pages come and are split", || {
        counts()
            .iter()
            .zip(before)
            .all(|(now, before)| *now > before)
            .then_some(())
    });
}
