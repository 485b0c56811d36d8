//! Checks the chains of wake-ups that `tardy attach` finds in tests/data/chain.c.

use serde_json::Value;

fn number(value: &Value) -> i64 {
    value
        .as_i64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// Returns whether a chain of the program's three threads has its delay in the link with this name.
///
/// # Panics
/// Panics if the parts of the chain do not add up to its latency.
pub(crate) fn is_delayed_in(chain: &Value, link: &str) -> bool {
    let links = chain["links"].as_array().unwrap();
    let parts = |link: &Value| [number(&link["waited_ns"]), number(&link["took_ns"])];
    let sum: i64 = links.iter().flat_map(parts).sum();
    assert_eq!(sum, number(&chain["latency_ns"]), "{chain}");
    let names = links.iter().map(|link| link["name"].as_str().unwrap());
    let worst = links
        .iter()
        .max_by_key(|link| parts(link).into_iter().max())
        .unwrap();
    let is_behind = |name: &str| {
        let behind = worst["behind"].as_str();
        behind.is_some_and(|behind| behind.starts_with(name))
    };
    chain["origin"] == "timer"
        && names.eq(["recv", "control", "motor"])
        && worst["name"] == link
        && (link != "motor" || is_behind("hog/"))
}
