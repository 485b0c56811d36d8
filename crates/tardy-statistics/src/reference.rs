//! The data sets of Coles (2001) for tests; their sources are in `tests/data/README.md`.

fn column(text: &str, index: usize) -> Vec<f64> {
    let mut rows = text.lines();
    rows.next().expect("a heading");
    rows.map(|row| {
        row.split(',')
            .nth(index)
            .expect("a column")
            .trim()
            .parse()
            .expect("a number")
    })
    .collect()
}

/// Returns daily rainfall in millimetres.
pub(crate) fn rain() -> Vec<f64> {
    column(include_str!("../tests/data/rain.csv"), 1)
}

/// Returns daily changes of the Dow Jones index in per cent: 100 times the difference of the
/// logarithms.
pub(crate) fn dow_jones_returns() -> Vec<f64> {
    let closing = column(include_str!("../tests/data/dowjones.csv"), 1);
    closing
        .windows(2)
        .map(|pair| 100.0 * (pair[1] / pair[0]).ln())
        .collect()
}

/// Returns annual maximum sea levels at Port Pirie in metres.
pub(crate) fn port_pirie() -> Vec<f64> {
    column(include_str!("../tests/data/portpirie.csv"), 1)
}

/// Returns annual maximum sea levels at Fremantle in metres.
pub(crate) fn fremantle() -> Vec<f64> {
    column(include_str!("../tests/data/fremantle.csv"), 1)
}
