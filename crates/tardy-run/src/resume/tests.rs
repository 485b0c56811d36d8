use super::*;

use std::os::unix::fs::symlink;

use tardy_core::cpu::CpuList;
use tardy_machine::facts::MachineFacts;

use crate::record::RunKind;

const NOW: StartTime = StartTime {
    realtime_ns: Nanos::from_secs(5_000),
    monotonic_ns: Nanos::from_secs(1_000),
};

fn plan() -> Plan {
    let cpus = CpuList::default();
    Plan {
        until_stopped: true,
        disk: Some(64 << 20),
        ..Plan::without_probes("week", &cpus, &cpus)
    }
}

/// Makes a stopped run whose record contains no facts about the machine.
fn make_run(path: &Path) {
    let started = StartTime {
        realtime_ns: Nanos::from_secs(4_500),
        monotonic_ns: Nanos::from_secs(500),
    };
    let record = RunRecord::begun(RunKind::Latency, plan(), MachineFacts::default(), started);
    RunFolder::create(path).unwrap().finish(&record).unwrap();
}

fn resumed(path: &Path) -> Result<RunFolder, ResumeError> {
    let machine = tempfile::tempdir().unwrap();
    resume(path, &plan(), NOW, &Root::at(machine.path()))
        .map(|resumed| resumed.expect("the run is there").0)
}

fn interruptions(path: &Path) -> usize {
    folder::open(path).unwrap().interruptions.len()
}

#[test]
fn what_others_put_into_the_folder_stays_there() {
    let place = tempfile::tempdir().unwrap();
    let run = place.path().join("week");
    make_run(&run);
    fs::write(run.join("notes.txt"), "mine").unwrap();
    fs::create_dir(run.join("plots")).unwrap();
    fs::write(run.join("plots/a.svg"), "drawn").unwrap();
    // The folder `left` remains if a resumption is killed after it has exchanged the two folders.
    let left = place.path().join(".week.resuming");
    make_run(&left);
    fs::write(left.join("report.html"), "older").unwrap();
    fs::write(left.join("notes.txt"), "older").unwrap();
    resumed(&run).unwrap();
    let read = |name: &str| fs::read_to_string(run.join(name)).unwrap();
    assert_eq!(
        [read("notes.txt"), read("plots/a.svg"), read("report.html")],
        ["mine", "drawn", "older"]
    );
    assert_eq!((interruptions(&run), left.exists()), (1, false));
}

#[test]
fn what_others_put_among_the_samples_stays_there() {
    let place = tempfile::tempdir().unwrap();
    let run = place.path().join("week");
    make_run(&run);
    let theirs = [
        "notes.txt",
        "cyclic.cpu0.series.bak",
        "cyclic.cpu0.series.copy.1",
        "my.cpu0.series",
        "my.cpu0.hours",
    ];
    for name in theirs {
        fs::write(run.join("samples").join(name), "mine").unwrap();
    }
    fs::create_dir(run.join("samples/plots")).unwrap();
    fs::write(run.join("samples/plots/cyclic.cpu0.series"), "drawn").unwrap();
    // The folder `left` remains if a resumption is killed after it has exchanged the two folders.
    let left = place.path().join(".week.resuming");
    make_run(&left);
    fs::write(left.join("samples/older.txt"), "older").unwrap();
    resumed(&run).unwrap();
    let read = |name: &str| fs::read_to_string(run.join("samples").join(name)).unwrap();
    assert!(theirs.iter().all(|name| read(name) == "mine"));
    assert_eq!(
        [read("plots/cyclic.cpu0.series"), read("older.txt")],
        ["drawn", "older"]
    );
    assert_eq!((interruptions(&run), left.exists()), (1, false));
}

#[test]
fn a_link_to_a_run_stays_a_link() {
    let place = tempfile::tempdir().unwrap();
    let (link, run) = (place.path().join("week"), place.path().join("disk/week"));
    make_run(&run);
    symlink("disk/week", &link).unwrap();
    let folder = resumed(&link).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!((interruptions(&run), folder.path()), (1, link.as_path()));
    assert_eq!(fs::read_dir(place.path().join("disk")).unwrap().count(), 1);
}

#[test]
fn a_run_that_another_tool_makes_is_refused_whatever_its_process_is() {
    let place = tempfile::tempdir().unwrap();
    let run = place.path().join("week");
    make_run(&run);
    let first = resumed(&run).unwrap();
    let refused = resumed(&run).unwrap_err();
    assert!(matches!(refused, ResumeError::UnderWay(..)), "{refused}");
    assert_eq!(
        (
            interruptions(&run),
            fs::read_dir(place.path()).unwrap().count()
        ),
        (1, 1)
    );
    drop(first);
    resumed(&run).unwrap();
    assert_eq!(interruptions(&run), 2);
}

#[test]
fn a_part_without_samples_has_no_gap_counted_twice() {
    let place = tempfile::tempdir().unwrap();
    let (run, machine) = (place.path().join("week"), place.path().join("machine"));
    make_run(&run);
    for later in [0, 40, 300] {
        let now = StartTime {
            realtime_ns: NOW.realtime_ns + Nanos::from_secs(later),
            monotonic_ns: NOW.monotonic_ns + Nanos::from_secs(later),
        };
        resume(&run, &plan(), now, &Root::at(&machine)).unwrap();
    }
    let record = folder::open(&run).unwrap();
    let end = NOW.monotonic_ns + Nanos::from_secs(300);
    assert_eq!(record.interruptions.len(), 3);
    assert_eq!(
        record.away(Nanos(i64::MIN), Nanos(i64::MAX)),
        end - record.started.monotonic_ns
    );
}
