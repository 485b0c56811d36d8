//! Computes the numbers of a summary from chunks, in one pass and constant memory. Parts of a
//! series can be read in parallel and merged.

pub mod accumulator;
pub mod batches;
pub mod cell;
pub mod dependence;
pub mod fitted_grid;
pub mod miss_runs;
pub mod numbers;
pub mod serial;
pub mod top;
