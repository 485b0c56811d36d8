//! Finds the minimum of a function, by Brent's method for one parameter, and by Nelder and Mead's
//! method for two or three.

/// The golden section divides an interval at this fraction of its length.
const GOLDEN: f64 = 0.381_966_011_250_105;

/// Returns the argument and the value of a local minimum between `low` and `high`. `tolerance` is
/// relative to the argument.
///
/// Source: Brent, Algorithms for Minimization without Derivatives, 1973, chapter 5.
pub(crate) fn minimum_between(
    mut function: impl FnMut(f64) -> f64,
    low: f64,
    high: f64,
    tolerance: f64,
) -> (f64, f64) {
    let (mut low, mut high) = (low, high);
    let mut best = low + GOLDEN * (high - low);
    let mut at_best = function(best);
    let (mut second, mut at_second) = (best, at_best);
    let (mut third, mut at_third) = (best, at_best);
    let (mut step, mut step_before) = (0.0_f64, 0.0_f64);
    for _ in 0..200 {
        let middle = low.midpoint(high);
        let close = tolerance * best.abs() + 1e-14 * (high - low).abs() + f64::MIN_POSITIVE;
        if (best - middle).abs() <= 2.0 * close - 0.5 * (high - low) {
            break;
        }
        let parabola = parabolic_step([best, second, third], [at_best, at_second, at_third]);
        let usable = parabola.filter(|&p| {
            p.abs() < 0.5 * step_before.abs() && best + p > low + close && best + p < high - close
        });
        step_before = step;
        step = usable.unwrap_or_else(|| {
            step_before = if best < middle {
                high - best
            } else {
                low - best
            };
            GOLDEN * step_before
        });
        let next = best
            + if step.abs() >= close {
                step
            } else {
                close.copysign(step)
            };
        let at_next = function(next);
        if at_next <= at_best {
            if next < best {
                high = best
            } else {
                low = best
            }
            (third, at_third, second, at_second, best, at_best) =
                (second, at_second, best, at_best, next, at_next);
        } else {
            if next < best {
                low = next
            } else {
                high = next
            }
            if at_next <= at_second || second == best {
                (third, at_third, second, at_second) = (second, at_second, next, at_next);
            } else if at_next <= at_third || third == best || third == second {
                (third, at_third) = (next, at_next);
            }
        }
    }
    (best, at_best)
}

/// Returns the distance from the first point to the vertex of the parabola through all three
/// points; `None` if there is no vertex.
fn parabolic_step(places: [f64; 3], values: [f64; 3]) -> Option<f64> {
    let r = (places[0] - places[1]) * (values[0] - values[2]);
    let q = (places[0] - places[2]) * (values[0] - values[1]);
    let above = (places[0] - places[2]) * q - (places[0] - places[1]) * r;
    let below = 2.0 * (r - q);
    let step = above / below;
    (step.is_finite() && below != 0.0).then_some(step)
}

/// Returns the arguments and the value of a local minimum. The search begins at `start`; `steps`
/// has the first step of each parameter.
///
/// Points with an infinite or NaN value are avoided, so callers can express constraints by such
/// values. The simplex of the search can collapse on a slope. So the search rebuilds it around the
/// best point as long as this improves the minimum. Source: Nelder and Mead, The Computer Journal
/// 7, 1965.
pub(crate) fn minimum_near<const N: usize>(
    mut function: impl FnMut([f64; N]) -> f64,
    start: [f64; N],
    steps: [f64; N],
) -> ([f64; N], f64) {
    let mut value_at = |place: [f64; N]| {
        Some(function(place))
            .filter(|value| !value.is_nan())
            .unwrap_or(f64::INFINITY)
    };
    let mut best = (start, value_at(start));
    let mut scale = 1.0;
    for _ in 0..8 {
        let found = simplex_descent(&mut value_at, best, steps.map(|step| step * scale));
        let gain = best.1 - found.1;
        best = found;
        if gain.abs() <= 1e-12 * best.1.abs() {
            break;
        }
        scale = 0.1;
    }
    best
}

fn simplex_descent<const N: usize>(
    function: &mut impl FnMut([f64; N]) -> f64,
    start: ([f64; N], f64),
    steps: [f64; N],
) -> ([f64; N], f64) {
    let mut corners = vec![start];
    for axis in 0..N {
        let mut place = start.0;
        place[axis] += steps[axis];
        corners.push((place, function(place)));
    }
    for _ in 0..400 * N {
        corners.sort_by(|a, b| a.1.total_cmp(&b.1));
        let (worst, others) = corners.split_last().expect("a simplex has N + 1 corners");
        let worst = *worst;
        if others.iter().all(|corner| {
            (0..N).all(|axis| {
                (corner.0[axis] - worst.0[axis]).abs() <= 1e-9 * (1e-3 + worst.0[axis].abs())
            })
        }) {
            break;
        }
        let centre: [f64; N] = std::array::from_fn(|axis| {
            others.iter().map(|corner| corner.0[axis]).sum::<f64>() / N as f64
        });
        let mut along = |factor: f64| {
            let place =
                std::array::from_fn(|axis| centre[axis] + factor * (worst.0[axis] - centre[axis]));
            (place, function(place))
        };
        let reflected = along(-1.0);
        let replacement = if reflected.1 < others[0].1 {
            let expanded = along(-2.0);
            Some(if expanded.1 < reflected.1 {
                expanded
            } else {
                reflected
            })
        } else if reflected.1 < others[N - 1].1 {
            Some(reflected)
        } else {
            let contracted = along(if reflected.1 < worst.1 { -0.5 } else { 0.5 });
            Some(contracted).filter(|corner| corner.1 < worst.1.min(reflected.1))
        };
        if let Some(corner) = replacement {
            corners[N] = corner;
        } else {
            let best = corners[0].0;
            for corner in &mut corners[1..] {
                let place = std::array::from_fn(|axis| best[axis].midpoint(corner.0[axis]));
                *corner = (place, function(place));
            }
        }
    }
    corners
        .into_iter()
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .expect("a simplex has N + 1 corners")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minimum_of_one_parameter_is_found() {
        let (place, value) = minimum_between(|x| (x - 0.7).powi(2) + 3.0, -5.0, 9.0, 1e-9);
        assert!((place - 0.7).abs() < 1e-7 && value == 3.0, "{place}");
        let (place, _) = minimum_between(|x: f64| x.exp() - 5.0 * x, 0.0, 10.0, 1e-9);
        assert!((place - 5.0_f64.ln()).abs() < 1e-7, "{place}");
        let (place, _) = minimum_between(|x| x, 2.0, 3.0, 1e-9);
        assert!((place - 2.0).abs() < 1e-6, "{place}");
    }

    #[test]
    fn a_bent_valley_with_a_wall_is_followed_to_its_end() {
        let rosenbrock = |[x, y]: [f64; 2]| {
            if x < -1.5 {
                f64::NAN
            } else {
                (1.0 - x).powi(2) + 100.0 * (y - x * x).powi(2)
            }
        };
        let (place, value) = minimum_near(rosenbrock, [-1.2, 1.0], [0.1, 0.1]);
        assert!(
            (place[0] - 1.0).abs() < 1e-6 && (place[1] - 1.0).abs() < 1e-6 && value < 1e-12,
            "{place:?}"
        );
        let (place, _) = minimum_near(
            |[x, y, z]: [f64; 3]| x * x + (y - 1.0).powi(4) + (z + x).powi(2),
            [1.0, 0.0, 3.0],
            [0.5; 3],
        );
        assert!(
            place[0].abs() < 1e-4 && (place[1] - 1.0).abs() < 1e-2,
            "{place:?}"
        );
    }
}
