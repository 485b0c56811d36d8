//! Checks that imports refuse times that readers of runs would refuse, and that the error names the
//! line.

use std::io;

use tardy_core::histogram::Histogram;
use tardy_core::sample::Record;
use tardy_core::series::Descriptor;
use tardy_core::units::Nanos;
use tardy_formats::import::sink::{ImportedRun, Sink};
use tardy_formats::import::{ImportError, Settings, Source, Unit, find};
use tardy_run::imported::StatedTotals;

/// A sink that discards all data.
struct NoFolder;

impl Sink for NoFolder {
    fn open(&mut self, _: Descriptor) -> io::Result<usize> {
        Ok(0)
    }

    fn push(&mut self, _: usize, _: Record) -> io::Result<()> {
        Ok(())
    }

    fn state(&mut self, _: usize, _: StatedTotals) {}

    fn whole(&mut self, _: Descriptor, _: &Histogram, _: StatedTotals) -> io::Result<()> {
        Ok(())
    }
}

fn import(format: &str, text: &str, settings: &Settings) -> Result<ImportedRun, ImportError> {
    find(format).expect("a format of the table").read(
        &mut Source::of_bytes(text.into()),
        settings,
        &mut NoFolder,
    )
}

/// Returns the line that the import refuses, and the text found there.
fn refused(format: &str, text: &str) -> (u64, String) {
    match import(format, text, &Settings::default()) {
        Err(ImportError::Expected {
            line,
            expected,
            found,
            ..
        }) => {
            assert_eq!(expected, "a time below 2^62 ns, which is 146 years");
            (line, found)
        }
        other => panic!("{other:?}"),
    }
}

/// The smallest number of us that is refused, and the largest that is accepted.
const FAR_US: &str = "4611686018427388";
const NEAR_US: &str = "4611686018427387";

#[test]
fn of_rteval() {
    let summary = |index: &str, minimum: &str, mean: &str, maximum: &str| {
        format!(
            "<rteval><Measurements><cyclictest><core \
             id=\"0\">\n<statistics>\n<samples>1</samples>\n<minimum>{minimum}</minimum>\\
             n<mean>{mean}</mean>\n<maximum>{maximum}</maximum>\n</statistics><histogram>\\
             n<bucket index=\"3\" value=\"1\"/>\n<bucket index=\"{index}\" \
             value=\"0\"/>\n</histogram></core></cyclictest></Measurements></rteval>"
        )
    };
    assert!(
        import(
            "rteval",
            &summary("9", "3", "nan", "4611686018427000"),
            &Settings::default()
        )
        .is_ok()
    );
    assert_eq!(
        refused("rteval", &summary(FAR_US, "3", "3", "3")),
        (9, format!("`{FAR_US}`"))
    );
    assert_eq!(
        refused("rteval", &summary("9223372036854775807", "3", "3", "3")),
        (9, "`9223372036854775807`".to_owned())
    );
    assert_eq!(
        refused("rteval", &summary("9", "-1e30", "3", "3")),
        (4, "`-1e30`".to_owned())
    );
    assert_eq!(
        refused("rteval", &summary("9", "3", "1e308", "3")),
        (5, "`1e308`".to_owned())
    );
    assert_eq!(
        refused("rteval", &summary("9", "3", "3", FAR_US)),
        (6, format!("`{FAR_US}`"))
    );
}

#[test]
fn of_the_text_of_pairs() {
    let text = |interval: &str, min: &str, mean: &str, max: &str| {
        format!(
            "\n#0: ID1, P80, CPU0, I{interval}; #1: ID2, P80, CPU0, Cycles 10\n#1 -> #0, Min \
             {min}, Cur 4, Avg {mean}, Max {max}\n#3 -> #2, Min 2, Cur 3, Avg 4, Max 5\n#2: ID3, \
             P80, CPU0, I1000; #3: ID4, P80, CPU0, Cycles 10\n"
        )
    };
    assert!(
        import(
            "rt-tests-pairs",
            &text(NEAR_US, "2", "4", NEAR_US),
            &Settings::default()
        )
        .is_ok()
    );
    assert_eq!(
        refused("rt-tests-pairs", &text(FAR_US, "2", "4", "5")),
        (2, format!("`{FAR_US}`"))
    );
    assert_eq!(
        refused(
            "rt-tests-pairs",
            &text("18446744073709551615", "2", "4", "5")
        ),
        (2, "`18446744073709551615`".to_owned())
    );
    assert_eq!(
        refused(
            "rt-tests-pairs",
            &text("1000", "-9223372036854775808", "4", "5")
        ),
        (3, "`-9223372036854775808`".to_owned())
    );
    assert_eq!(
        refused(
            "rt-tests-pairs",
            &text("1000", "2", "9223372036854775807", "5")
        ),
        (3, "`9223372036854775807`".to_owned())
    );
    assert_eq!(
        refused("rt-tests-pairs", &text("1000", "2", "4", FAR_US)),
        (3, format!("`{FAR_US}`"))
    );
}

#[test]
fn of_the_json_of_pairs() {
    let text = |interval: &str, min: &str, mean: &str, max: &str| {
        format!(
            "{{\"file_version\": 1, \"thread\": {{\n\"0\": {{\n\"sender\": {{\"samples\": \
             10,\n\"interval\": {interval}}},\n\"receiver\": {{\"cpu\": 0,\n\"min\": \
             {min},\n\"avg\": {mean},\n\"max\": {max}}}}}}}}}"
        )
    };
    assert!(
        import(
            "rt-tests-pairs-json",
            &text("1000", "2", "4.5", "4611686018427000"),
            &Settings::default()
        )
        .is_ok()
    );
    assert_eq!(
        refused(
            "rt-tests-pairs-json",
            &text("18446744073709551615", "2", "4", "5")
        )
        .0,
        4
    );
    assert_eq!(
        refused("rt-tests-pairs-json", &text("1000", "-1e30", "4", "5")).0,
        6
    );
    assert_eq!(
        refused("rt-tests-pairs-json", &text("1000", "2", "1e308", "5")).0,
        7
    );
    assert_eq!(
        refused(
            "rt-tests-pairs-json",
            &text("1000", "2", "4", "9223372036854775807")
        )
        .0,
        8
    );
}

/// The start and the length of the run are computed from several values of a file. The readers of
/// the formats do not check these two times, so the check that all formats share must refuse them
/// if they are too large.
#[test]
fn of_what_is_computed_of_a_file() {
    let hours = "# RTLA timerlat histogram\n# Time unit is microseconds (us)\n# Duration:   99999 \
                 00:00:00\nIndex   IRQ-000\n0  1\nover: 0\n";
    let length = "a start and a length of the run, each a time below 2^62 ns, which is 146 years";
    let hourly = Settings {
        unit: Some(Unit::Us),
        period: Some(Nanos::from_secs(3_600)),
        ..Settings::default()
    };
    let summary = "T: 0 ( 1234) P:95 I:1000 C: 9007199254740990 Min: 3 Act: 20 Avg: 23 Max: 200\n";
    for (format, text, settings) in [
        ("rtla-timerlat", hours, &Settings::default()),
        ("cyclictest-summary", summary, &hourly),
    ] {
        match import(format, text, settings) {
            Err(ImportError::Expected {
                line: 1, expected, ..
            }) => assert_eq!(expected, length),
            other => panic!("{format}: {other:?}"),
        }
    }
}
