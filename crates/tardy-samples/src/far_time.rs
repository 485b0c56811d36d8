//! Rejects impossible times in files of unknown origin, before anything is computed with these
//! times.

use serde_json::Value;

/// Upper bound of every time of a run, in ns: the year 2116 on the wall clock, and 146 years on
/// other clocks. Differences of smaller times fit into 64 bits.
pub const FAR_NS: i64 = 1 << 62;

/// Returns the key of the first time beyond [`FAR_NS`]; `None` if there is none. Times are the
/// values whose keys end in `_ns`.
#[must_use]
pub fn far_time(value: &Value) -> Option<&str> {
    match value {
        Value::Object(members) => members.iter().find_map(|(key, value)| {
            if key.ends_with("_ns") && is_far(value) {
                Some(key.as_str())
            } else {
                far_time(value)
            }
        }),
        Value::Array(values) => values.iter().find_map(far_time),
        _ => None,
    }
}

/// Returns whether the value is a time beyond [`FAR_NS`], or contains one.
fn is_far(value: &Value) -> bool {
    match value {
        // The maximum of i64 is allowed, because it stands for an interval without an end.
        Value::Number(number) if number.as_i64() == Some(i64::MAX) => false,
        Value::Number(number) => number
            .as_f64()
            .is_none_or(|number| number.abs() >= FAR_NS as f64),
        Value::Array(values) => values.iter().any(is_far),
        Value::Object(members) => members.values().any(is_far),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_time_that_no_run_has_is_named_wherever_it_stands() {
        let near = json!({"seed": u64::MAX, "phases": [{"begin_ns": -5, "planned_ns": [0, 1_900_000_000_000_000_000_i64], "end_ns": null}], "clock_error_ns": i64::MAX});
        assert_eq!(far_time(&near), None);
        for (value, key) in [
            (
                json!({"phases": [{"name": "a", "begin_ns": i64::MIN}]}),
                "begin_ns",
            ),
            (json!([{"planned_ns": [0, u64::MAX]}]), "planned_ns"),
            (json!({"cpu_busy_ns": {"0": 1_u64 << 62}}), "cpu_busy_ns"),
        ] {
            assert_eq!(far_time(&value), Some(key));
        }
    }
}
