//! The parser of scenarios must not panic on any text. If the parser accepts a scenario, the
//! scenario must be the same when it is written and parsed again.

/// See [`crate::Target::check`].
pub fn check(bytes: &[u8]) {
    let text = crate::text(bytes);
    if let Ok(scenario) = tardy_measure::scenario::parse(text) {
        let written = tardy_measure::scenario::to_text(&scenario);
        assert_eq!(
            tardy_measure::scenario::parse(&written).expect("written data can be read"),
            scenario
        );
    }
}
