use super::*;
use crate::kernel_symbols::KernelSymbols;
use crate::kind::{Longest, Stretch};
use crate::stream::tests::{Writer, longest};

const SYMBOLS: &str = "ffffffff81000000 T first\nffffffff81000100 T second\n";

#[test]
fn a_sample_that_claims_billions_of_skipped_due_times_takes_no_gigabytes() {
    let sample = Sample {
        due: Nanos(0),
        latency: Nanos(10),
        skipped: u32::MAX,
    };
    let grid = |period: i64| Schedule::Grid {
        period: Nanos(period),
        start: Nanos(0),
        dither: Nanos(0),
    };
    let mut gathered = Vec::new();
    [4, i64::MAX]
        .iter()
        .for_each(|&period| gather(&mut gathered, sample, &grid(period)));
    assert_eq!(
        (gathered.len(), &gathered[..4]),
        (LATENCIES_MAX, &[10, 6, 2, 0][..])
    );
}

/// Makes a run folder that contains `raw` as the plugin's output.
fn watched(folder: &Path, raw: &[u8]) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("seen"), raw).unwrap();
    store::keep(
        &folder.join("seen"),
        folder,
        &KernelSymbols::parse(SYMBOLS),
        4,
    )
    .unwrap();
}

fn raw() -> Vec<u8> {
    let mut writer = Writer::new();
    writer
        .mark(1, 1000)
        .site(
            Kind::PreemptionOff,
            0xffff_ffff_8100_0010,
            0xffff_ffff_8100_0120,
        )
        .task("dd")
        .task("sh");
    writer
        .section(0, 300, 250)
        .mark(3, 700)
        .of_task(1)
        .section(0, 500, 100)
        .of_task(2)
        .section(0, 1000, 400)
        .mark(2, 500);
    writer.end()
}

#[test]
fn sections_are_counted_by_phase_kind_and_place_with_the_task_of_the_longest() {
    let folder = tempfile::tempdir().unwrap();
    for replica in ["a/replica-000", "a/replica-001"] {
        watched(&folder.path().join(replica), &raw());
    }
    let census = census(folder.path()).unwrap();
    let [start, phase] = &census.groups[..2] else {
        panic!("{census:?}")
    };
    assert_eq!(
        (start.load.as_str(), start.executed_ns),
        ("start", Nanos(4 * 1000))
    );
    assert_eq!(phase.executed_ns, Nanos(4 * 2000));
    let kind = &phase.kinds[Kind::PreemptionOff.index()];
    assert_eq!(
        (kind.count, kind.total_ns, kind.longest_ns),
        (2, Nanos(2000), Nanos(1600))
    );
    assert_eq!(kind.histogram.iter().sum::<u64>(), 2);
    let place = &kind.places[0];
    assert_eq!(
        (
            place.begin.as_str(),
            place.end.as_str(),
            place.task.as_str()
        ),
        ("first", "second", "sh")
    );
    assert!(is_watched(folder.path()) && census.by_place().values().eq([&(6, Nanos(1600))]));
}

#[test]
fn the_longest_of_each_kind_over_all_guests_has_its_functions_and_call_path() {
    let what = Longest::Stretch(Stretch::NoChance);
    let folder = tempfile::tempdir().unwrap();
    for (guest, length) in [("a/guest", 500), ("b/guest", 900), ("c/guest", 700)] {
        let mut writer = Writer::new();
        writer
            .mark(1, 0)
            .task("dd")
            .block(0xffff_ffff_8100_0000, 12, 3)
            .longest(&longest(what, length))
            .mark(2, 1000);
        watched(&folder.path().join(guest), &writer.end());
    }
    let census = census(folder.path()).unwrap();
    let [row] = &census.groups[0].longest[..] else {
        panic!("{census:?}")
    };
    assert_eq!((row.what, row.length_ns), (what, Nanos(4 * 900)));
    assert_eq!(
        (row.begin.as_str(), row.end.as_str(), row.task.as_str()),
        ("first", "second", "dd")
    );
    assert_eq!(row.path, ["first"]);
    assert!(is_census(folder.path()));
    std::fs::write(folder.path().join("run.json"), "{}").unwrap();
    assert!(!is_census(folder.path()), "a run is shown as a run");
}

#[test]
fn due_times_that_passed_in_a_late_wake_up_waited_for_the_rest() {
    let schedule = Schedule::Grid {
        period: Nanos(100),
        start: Nanos::ZERO,
        dither: Nanos::ZERO,
    };
    let sample = Sample {
        due: Nanos(1000),
        latency: Nanos(350),
        skipped: 3,
    };
    assert!(latencies(sample, &schedule).eq([350, 250, 150, 50]));
}

#[test]
fn a_folder_that_was_not_watched_says_how_to_watch() {
    let folder = tempfile::tempdir().unwrap();
    assert!(!is_watched(folder.path()));
    assert!(
        census(folder.path())
            .unwrap_err()
            .to_string()
            .contains("--watch")
    );
}

#[test]
fn what_was_cut_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let whole = raw();
    std::fs::write(folder.path().join("seen"), &whole[..whole.len() - 3]).unwrap();
    let kept = store::keep(
        &folder.path().join("seen"),
        folder.path(),
        &KernelSymbols::parse(SYMBOLS),
        4,
    );
    assert!(kept.unwrap_err().to_string().contains("truncated"));
}
