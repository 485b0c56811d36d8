//! From chunks to the numbers of a summary, in one pass and constant memory; pieces of a series can
//! be read in parallel and merged.

pub mod accumulator;
pub mod batches;
pub mod cell;
pub mod dependence;
pub mod fitted_grid;
pub mod miss_runs;
pub mod numbers;
pub mod serial;
pub mod top;
