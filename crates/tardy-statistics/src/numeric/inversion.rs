//! Computes inverses of distribution functions, and the continued fractions that some of these
//! functions need.

/// Maximum number of steps of an inversion. Newton's method usually needs ten.
const STEPS_MAX: u32 = 200;
/// Maximum number of terms of a continued fraction. Near the median of 1e15 samples (more than
/// thirty years at 1 MHz), all of these terms are necessary.
pub(crate) const TERMS_MAX: u32 = 100_000_000;

/// Returns the zero of an increasing function between `low` and `high`; the function returns its
/// value and its slope. Uses Newton's method. If a step would leave the bracket, halves the bracket
/// instead.
pub(crate) fn inverse(
    start: f64,
    (mut low, mut high): (f64, f64),
    precision: f64,
    function: impl Fn(f64) -> (f64, f64),
) -> f64 {
    let mut t = start.clamp(low, high);
    for _ in 0..STEPS_MAX {
        let (error, slope) = function(t);
        if error < 0.0 {
            low = t;
        } else {
            high = t;
        }
        let newton = t - error / slope;
        let next = if newton > low && newton < high {
            newton
        } else {
            low.midpoint(high)
        };
        if (next - t).abs() <= precision * t.abs().max(1.0) {
            return next;
        }
        t = next;
    }
    t
}

/// Evaluates a continued fraction by Lentz's method. The first argument is the part that is already
/// evaluated: its value, numerator and denominator. `term` returns the next partial numerator and
/// denominator.
pub(crate) fn continued_fraction(
    (mut fraction, mut numerator, mut denominator): (f64, f64, f64),
    mut term: impl FnMut(f64) -> (f64, f64),
) -> f64 {
    for index in 1..=TERMS_MAX {
        let (above, below) = term(f64::from(index));
        denominator = 1.0 / away_from_zero(below + above * denominator);
        numerator = away_from_zero(below + above / numerator);
        let change = denominator * numerator;
        fraction *= change;
        if (change - 1.0).abs() <= 1e-15 {
            break;
        }
    }
    fraction
}

/// Replaces a value close to zero, so that the result can be used as a divisor.
pub(crate) fn away_from_zero(value: f64) -> f64 {
    if value.abs() < 1e-300 { 1e-300 } else { value }
}
