//! `fpu`: multiplies floating-point matrices (williams2002: P3_FPU).

use tardy_run::parameter::Parameter;

use super::Unsupported;
use super::info::{LoadInfo, Placement, Rights, Run, WorkError};
use super::resolution::Resolution;
use super::worker::Worker;

pub const INFO: LoadInfo = LoadInfo {
    name: "fpu",
    does: "multiplies matrices of 64-bit floating-point numbers",
    effect: "keeps a CPU busy in user mode and uses its floating-point registers, which every \
             switch to another thread must save",
    source: "williams2002",
    parameters: &[Parameter::count(
        "size",
        "rows and columns of the matrices",
        "128",
        2,
        4096,
    )],
    can_do_harm: false,
    placement: Placement::EachCpu,
    uses_disk: false,
    rights: Rights::NONE,
    resolve,
    run: Run::Plain(run),
};

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    let workers = resolution.workers();
    let bytes = |size: u64| 3 * 8 * size * size;
    // The largest size with which three matrices fit into the memory.
    let fitting = ((resolution.share.memory / workers / 24) as f64).sqrt() as u64;
    let size = resolution.fit_within("size", fitting, "memory")?;
    resolution.plan.budget.memory = bytes(size) * workers;
    resolution.plan.budget.processes = workers;
    Ok(())
}

fn run(worker: &mut Worker) -> Result<(), WorkError> {
    let size = worker.number("size") as usize;
    let left: Vec<f64> = (0..size * size)
        .map(|index| 1.0 + (index % 7) as f64 / 8.0)
        .collect();
    // After each product, pairs of values in `right` are rotated, so the values change but stay
    // bounded. Some CPUs compute with infinities at another speed.
    let (sine, cosine) = (0.1_f64).sin_cos();
    let turn =
        |value: f64, other: f64| (value * cosine - other * sine, value * sine + other * cosine);
    let mut right = left.clone();
    let mut product = vec![0.0; size * size];
    while worker.go_on() {
        for row in 0..size {
            multiply_row(
                &left[row * size..][..size],
                &right,
                &mut product[row * size..][..size],
            );
            if !worker.go_on() {
                return Ok(());
            }
        }
        for pair in right.chunks_exact_mut(2) {
            (pair[0], pair[1]) = turn(pair[0], pair[1]);
        }
        std::hint::black_box(&product);
        worker.did(1, 0);
    }
    Ok(())
}

fn multiply_row(row: &[f64], right: &[f64], product: &mut [f64]) {
    product.fill(0.0);
    for (factor, line) in row.iter().zip(right.chunks_exact(row.len())) {
        for (sum, value) in product.iter_mut().zip(line) {
            *sum += factor * value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_multiplied_as_matrices_are() {
        let mut product = [0.0; 2];
        multiply_row(&[1.0, 2.0], &[3.0, 4.0, 5.0, 6.0], &mut product);
        assert_eq!(product, [13.0, 16.0]);
    }
}
