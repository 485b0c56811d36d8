//! Tests faults of importers that `generated_imports` found, each with its smallest file.

use std::fs;

use serde_json::Value;

use crate::support::workplace::{Outcome, Workplace};

/// Imports a text. Returns the output of the import and of `show --json`.
fn imported(text: &str) -> (Outcome, Value) {
    let place = Workplace::new();
    fs::write(place.path("results"), text).unwrap();
    let outcome = place.tardy("import results --out run").ends_with(0);
    let shown = place.summary("run");
    (outcome, shown)
}

#[track_caller]
fn assert_refused(text: &str, why: &str) {
    let place = Workplace::new();
    fs::write(place.path("results"), text).unwrap();
    let outcome = place.tardy("import results --out run").ends_with(2);
    assert!(outcome.stderr.contains(why), "{}", outcome.stderr);
}

fn maximum(shown: &Value) -> &Value {
    &shown["series"][0]["numbers"]["max_ns"]
}

const OSLAT_ROWS: &str = "oslat V 2.70
        Core:\t 1
Counter Freq:\t 2298 (MHz)
    005 (us):\t 900
    010 (us):\t 3
    015 (us):\t 0 (including overflows)
     Minimum:\t 2 (us)
     Average:\t 5.017 (us)
";

#[test]
fn oslat_text_without_its_maxima_is_refused() {
    assert_refused(OSLAT_ROWS, "a line `Maximum:`");
    let cut = format!("{OSLAT_ROWS}     Maximum:\t 6");
    assert_refused(&cut, "maxima that end in `(us)`");
}

#[test]
fn the_maximum_of_oslat_counts_within_its_bucket() {
    let (outcome, shown) = imported(&format!("{OSLAT_ROWS}     Maximum:\t 6 (us)\n"));
    assert_eq!(*maximum(&shown), 6_000);
    assert!(!format!("{outcome:?}").contains("the row is used"));
}

#[test]
fn the_last_bucket_of_oslat_begins_where_the_one_before_ends() {
    let text = OSLAT_ROWS.replace("0 (including", "2 (including");
    let (outcome, _) = imported(&format!("{text}     Maximum:\t 70 (us)\n"));
    let note = "they lie between 10.0 us and 70.0 us";
    assert!(format!("{outcome:?}").contains(note), "{outcome:?}");
}

const RTLA_ROWS: &str = "# RTLA timerlat histogram
# Time unit is microseconds (us)
# Duration:   0 00:00:10
Index   IRQ-000   Thr-000
0            90        10
5            10        90
";
const RTLA_NONE_OVER: &str = "over:         0         0 \n";
const RTLA_SUMMARY: &str = "count:      100       100
min:          1         3
avg:          2         6
max:          6         9
";

#[test]
fn rtla_text_that_ends_within_its_rows_is_refused() {
    assert_refused(RTLA_ROWS, "a line `over:`");
}

#[test]
fn without_a_summary_of_rtla_the_maximum_is_the_end_of_its_bucket() {
    let (_, shown) = imported(&format!("{RTLA_ROWS}{RTLA_NONE_OVER}"));
    assert_eq!(*maximum(&shown), 9_000);
    let over = RTLA_NONE_OVER.replacen(" 0", " 2", 1);
    assert_refused(&format!("{RTLA_ROWS}{over}"), "a line `max:`");
}

#[test]
fn events_that_rtla_missed_make_its_maxima_lower_bounds() {
    for missed in ["12 (0.05%) events", "unknown number of events"] {
        let missed = format!("{missed} missed, results might not be accurate\n");
        let (_, shown) = imported(&format!(
            "{RTLA_ROWS}{RTLA_NONE_OVER}{RTLA_SUMMARY}{missed}"
        ));
        let warnings = shown["warnings"].to_string();
        assert!(warnings.contains("maximum-unsure"), "{warnings}");
    }
}

#[test]
fn a_histogram_in_ns_without_rows_asks_for_its_unit() {
    let text = "# Histogram
# Min Latencies: 27946
# Avg Latencies: 152671
# Max Latencies: 4317971
# Histogram Overflows: 00116
";
    assert_refused(text, "--unit");
}

#[test]
fn a_thread_without_samples_leaves_the_misses_of_the_others_known() {
    let text = "# Histogram
000020 000000\t000005
000030 000000\t000002
# Min Latencies: 1000000 00020
# Avg Latencies: 00000 00022
# Max Latencies: 00000 00030
# Histogram Overflows: 00000 00000
";
    let place = Workplace::new();
    fs::write(place.path("results"), text).unwrap();
    place.tardy("import results --out run").ends_with(0);
    let shown = place.tardy("show run --json --deadline 25us").json();
    assert_eq!(shown["probes"][0]["numbers"]["misses"], 2);
    let warnings = shown["warnings"].to_string();
    assert!(
        warnings.contains("CPU 0 of cyclictest has no samples"),
        "{warnings}"
    );
}

#[test]
fn samples_beyond_the_rows_are_not_below_the_stated_minimum() {
    let text = "# Histogram
000000 000000
# Min Latencies: 00130
# Avg Latencies: 00659
# Max Latencies: 05423
# Histogram Overflows: 00013
";
    let place = Workplace::new();
    fs::write(place.path("results"), text).unwrap();
    place
        .tardy("import results --out run --unit us")
        .ends_with(0);
    let shown = place.tardy("show run --json --deadline 100us").json();
    assert_eq!(shown["probes"][0]["numbers"]["misses"], 13);
}

#[test]
fn a_histogram_without_the_overflows_of_a_thread_that_has_no_rows_is_refused() {
    let text = "# Histogram
000000 000000\t000003
# Min Latencies: 00017 00000
# Avg Latencies: 00019 00000
# Max Latencies: 00760 00000
";
    assert_refused(text, "`# Histogram Overflows:` with 2 counts");
}

#[test]
fn the_mean_of_a_histogram_is_the_stated_one_to_its_last_digit() {
    let text = "# Histogram
000002 000012
000003 000006
# Min Latencies: 00002
# Avg Latencies: 00002
# Max Latencies: 00012
# Histogram Overflows: 00002
";
    let place = Workplace::new();
    fs::write(place.path("results"), text).unwrap();
    place.tardy("import results --out run").ends_with(0);
    let shown = place.summary("run");
    assert_eq!(shown["series"][0]["numbers"]["mean_ns"], 3_000.0);
}
