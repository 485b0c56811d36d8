//! `tardy import` of files that people posted, byte for byte, with the values that stand in them
//! (`tests/data/import/README.md` has their origins), and of the smallest texts of the same kinds.

use std::fs;

use crate::import::sample;
use crate::import_families::{Row, assert_series};
use crate::support::workplace::{Outcome, Workplace};

fn posted(name: &str) -> String {
    let path = sample("").with_file_name("import-posted").join(name);
    fs::read_to_string(path).unwrap()
}

/// Imports a text into `run`.
fn import(text: &str, flags: &str) -> (Workplace, Outcome) {
    let place = Workplace::new();
    fs::write(place.path("results"), text).unwrap();
    let outcome = place.tardy(&format!("import results --out run {flags}"));
    (place, outcome)
}

/// File, options, format, and series.
type Posted = (&'static str, &'static str, &'static str, &'static [Row]);

const POSTED: &[Posted] = &[
    (
        "cyclictest-wrapped.txt",
        "",
        "cyclictest-summary",
        &[
            ("cyclictest", Some(0), 8_715, 1.0, Some(2.0), 14.0),
            ("cyclictest", Some(1), 5_808, 1.0, Some(2.0), 28.0),
            ("cyclictest", Some(2), 4_355, 1.0, Some(2.0), 15.0),
            ("cyclictest", Some(3), 3_483, 1.0, Some(3.0), 24.0),
        ],
    ),
    (
        "rtla-hist-in-comment.txt",
        "",
        "rtla-timerlat",
        &[
            ("timerlat-irq", Some(1), 1_000, 0.0, Some(1.0), 7.0),
            ("timerlat-irq", Some(2), 999, 0.0, Some(0.0), 3.0),
            ("timerlat-thread", Some(1), 1_000, 3.0, Some(7.0), 21.0),
            ("timerlat-thread", Some(2), 999, 2.0, Some(2.0), 11.0),
            ("timerlat-user", Some(1), 1_000, 4.0, Some(10.0), 24.0),
            ("timerlat-user", Some(2), 999, 3.0, Some(3.0), 15.0),
        ],
    ),
];

#[test]
fn posted_files_have_their_values() {
    for (name, flags, format, expected) in POSTED {
        let (place, made) = import(&posted(name), flags);
        let made = made.ends_with(0);
        assert!(made.stdout.contains(&format!("({format})")), "{made:?}");
        assert_series(&place, "run", name, expected);
        // A deadline below the largest value is missed.
        let max = expected.iter().map(|row| row.5).fold(0.0, f64::max);
        let deadline = (max * 0.9 * 1e3) as i64;
        let shown = place.tardy(&format!("show run --deadline {deadline}ns"));
        assert_eq!(shown.code(), 1, "{name}: {shown:?}");
    }
}
