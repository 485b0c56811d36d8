//! Second derivatives by central differences. The inverse of the matrix of second derivatives is
//! the covariance of an estimate.

/// Returns the inverse of the Hessian of `function` at its minimum `place`; `None` if the Hessian
/// is not finite or not positive definite.
pub(crate) fn inverse_hessian<const N: usize>(
    mut function: impl FnMut([f64; N]) -> f64,
    place: [f64; N],
) -> Option<[[f64; N]; N]> {
    // A step of about the fourth root of the machine precision balances truncation and rounding
    // errors.
    let steps = place.map(|x| 1e-4 * x.abs().max(0.1));
    let mut moved = |axes: [(usize, f64); 2]| {
        let mut at = place;
        for (axis, factor) in axes {
            at[axis] += factor * steps[axis];
        }
        function(at)
    };
    let mut hessian = [[0.0; N]; N];
    for i in 0..N {
        for j in 0..=i {
            let second = if i == j {
                moved([(i, 1.0), (i, 0.0)]) - 2.0 * moved([(i, 0.0), (i, 0.0)])
                    + moved([(i, -1.0), (i, 0.0)])
            } else {
                let alike = moved([(i, 1.0), (j, 1.0)]) + moved([(i, -1.0), (j, -1.0)]);
                let opposed = moved([(i, 1.0), (j, -1.0)]) + moved([(i, -1.0), (j, 1.0)]);
                (alike - opposed) / 4.0
            };
            hessian[i][j] = second / (steps[i] * steps[j]);
            hessian[j][i] = hessian[i][j];
        }
    }
    inverse_positive_definite(hessian)
}

/// Returns the inverse of a symmetric matrix by Cholesky decomposition; `None` if the matrix is not
/// positive definite.
fn inverse_positive_definite<const N: usize>(matrix: [[f64; N]; N]) -> Option<[[f64; N]; N]> {
    let mut lower = [[0.0; N]; N];
    for i in 0..N {
        for j in 0..=i {
            let rest = matrix[i][j] - (0..j).map(|k| lower[i][k] * lower[j][k]).sum::<f64>();
            if i == j {
                if !(rest.is_finite() && rest > 0.0) {
                    return None;
                }
                lower[i][i] = rest.sqrt();
            } else {
                lower[i][j] = rest / lower[j][j];
            }
        }
    }
    let mut inverse = [[0.0; N]; N];
    // The inverse is symmetric too, so its columns can be stored as rows.
    for (column, solution) in inverse.iter_mut().enumerate() {
        for i in 0..N {
            let known: f64 = (0..i).map(|k| lower[i][k] * solution[k]).sum();
            solution[i] = (f64::from(u8::from(i == column)) - known) / lower[i][i];
        }
        for i in (0..N).rev() {
            let known: f64 = (i + 1..N).map(|k| lower[k][i] * solution[k]).sum();
            solution[i] = (solution[i] - known) / lower[i][i];
        }
    }
    Some(inverse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inverse_times_the_matrix_is_one() {
        let matrix = [[4.0, 1.0, 0.5], [1.0, 3.0, -0.2], [0.5, -0.2, 2.0]];
        let inverse = inverse_positive_definite(matrix).unwrap();
        for (i, row) in matrix.iter().enumerate() {
            let product = inverse
                .iter()
                .zip(row)
                .fold([0.0; 3], |sum, (column, factor)| {
                    std::array::from_fn(|j| sum[j] + column[j] * factor)
                });
            for (j, value) in product.into_iter().enumerate() {
                assert!(
                    (value - f64::from(u8::from(i == j))).abs() < 1e-14,
                    "{product:?}"
                );
            }
        }
        assert_eq!(inverse_positive_definite([[1.0, 2.0], [2.0, 1.0]]), None);
    }

    #[test]
    fn a_quadratic_form_gives_back_its_matrix() {
        let form = |[x, y]: [f64; 2]| {
            0.5 * (5.0 * (x - 2.0).powi(2) + 2.0 * (x - 2.0) * (y + 1.0) + 3.0 * (y + 1.0).powi(2))
        };
        let covariance = inverse_hessian(form, [2.0, -1.0]).unwrap();
        let determinant = 5.0 * 3.0 - 1.0;
        for (value, expected) in covariance.as_flattened().iter().zip([3.0, -1.0, -1.0, 5.0]) {
            assert!(
                (value - expected / determinant).abs() < 1e-7,
                "{covariance:?}"
            );
        }
    }
}
