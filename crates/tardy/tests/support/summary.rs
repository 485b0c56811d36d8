//! Reads the summary that `--json` prints.

use serde_json::Value;

/// The series of this name.
#[track_caller]
pub(crate) fn series_of<'a>(summary: &'a Value, name: &str) -> &'a Value {
    let found = summary["series"]
        .as_array()
        .unwrap()
        .iter()
        .find(|series| series["probe"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {summary}"))
}

/// A count of a series.
pub(crate) fn count(series: &Value, name: &str) -> u64 {
    series["counts"][name].as_u64().unwrap()
}

/// Checks that a series has samples and that every due time or cycle is accounted for.
#[track_caller]
pub(crate) fn assert_exact(series: &Value) {
    assert_eq!(
        count(series, "expected"),
        count(series, "recorded") + count(series, "skipped") + count(series, "lost"),
        "{series}"
    );
    assert!(count(series, "recorded") > 0, "{series}");
}
