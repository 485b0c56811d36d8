//! Tests how many times a report reads the samples of a run.

use tardy_chart::data::{Detail, RunData};
use tardy_core::verdict::requirement::Requirement;
use tardy_results::statistics::read::Question;
use tardy_sys::affinity;

use crate::support::made_run::MadeRun;
use crate::support::workplace::Workplace;
use crate::turn;

/// Bytes that this process has read from files.
fn read_so_far() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap();
    text.lines()
        .find_map(|line| line.strip_prefix("rchar: "))
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn numbers_take_one_pass_over_the_samples_and_charts_with_models_one_more() {
    let _turn = turn();
    let place = Workplace::new();
    // With one CPU, a series is read in one piece; otherwise it is read in overlapping parts.
    affinity::set(0, &affinity::get(0).unwrap()[..1]).unwrap();
    // The values do not compress, so the series is much larger than everything else that is read.
    // Readers also read other parts: for example, they search the first mebibyte for the series'
    // head.
    let latencies = (0..3_000_000_i64)
        .map(|n| n.wrapping_mul(0x9e37_79b9) & 0xf_ffff)
        .collect();
    MadeRun::new(vec![latencies]).write(&place.path("run"));
    let files = std::fs::read_dir(place.path("run/samples"))
        .unwrap()
        .map(|entry| entry.unwrap());
    let bytes: u64 = files
        .filter(|file| file.path().extension().is_some_and(|end| end == "series"))
        .map(|file| file.metadata().unwrap().len())
        .sum();
    assert!(bytes > 8_000_000, "{bytes}");
    let passes = |statistics: Option<Question>| {
        let before = read_so_far();
        let detail = Detail {
            columns: 1000,
            points: 1000,
            statistics,
        };
        RunData::read(&place.path("run"), &Requirement::default(), &detail).unwrap();
        (read_so_far() - before) as f64 / bytes as f64
    };
    for statistics in [None, Some(Question::default())] {
        let passes = passes(statistics.clone());
        assert!(
            (1.9..2.5).contains(&passes),
            "{passes} passes, statistics: {statistics:?}"
        );
    }
}
