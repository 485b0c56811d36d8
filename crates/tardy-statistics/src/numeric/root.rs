//! Finds a root of a continuous function between two points with different signs.

/// Returns a root between `low` and `high`, at which `function` must have different signs. The
/// function may be infinite at the ends.
///
/// The method is regula falsi with halved ordinates (the Illinois rule). Every third step, and
/// every step that would leave the interval, halves the interval instead. There are at most 200
/// steps.
pub(crate) fn root(mut function: impl FnMut(f64) -> f64, low: f64, high: f64) -> f64 {
    let (mut a, mut b) = (low, high);
    let (mut at_a, mut at_b) = (function(a), function(b));
    let mut side = 0;
    for step in 0..200 {
        let width = (b - a).abs();
        if width <= 1e-12 * a.abs().max(b.abs()) || at_a == 0.0 {
            return a;
        }
        if at_b == 0.0 {
            return b;
        }
        let secant = b - at_b * (b - a) / (at_b - at_a);
        let next = if secant.is_finite() && step % 3 != 2 && secant > a.min(b) && secant < a.max(b)
        {
            secant
        } else {
            a.midpoint(b)
        };
        let at_next = function(next);
        if (at_next > 0.0) == (at_b > 0.0) {
            (b, at_b) = (next, at_next);
            at_a = if side == 1 { at_a / 2.0 } else { at_a };
            side = 1;
        } else {
            (a, at_a) = (next, at_next);
            at_b = if side == -1 { at_b / 2.0 } else { at_b };
            side = -1;
        }
    }
    a.midpoint(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smooth_stepped_and_half_infinite_functions_are_solved() {
        assert!((root(|x| x * x - 2.0, 0.0, 2.0) - 2.0_f64.sqrt()).abs() < 1e-11);
        assert!((root(|x| if x < 0.3 { -1.0 } else { 1.0 }, 0.0, 1.0) - 0.3).abs() < 1e-11);
        assert!(
            (root(
                |x| if x > 5.0 { f64::INFINITY } else { x - 4.0 },
                0.0,
                100.0
            ) - 4.0)
                .abs()
                < 1e-10
        );
        assert!((root(|x| (-x).exp() - 1e-9, 0.0, 100.0) - 1e9_f64.ln()).abs() < 1e-9);
    }
}
