//! Statistics for latency tails, in three layers: observations, bounds that assume no distribution,
//! and models of the tail. No number combines two layers.
//!
//! The layers and their main modules:
//! - observations: [`moments`], [`tally`], [`harrell_davis`].
//! - bounds: [`proportion`], [`poisson`], [`tolerance`], [`quantile`]. These modules assume only
//!   that the samples are exchangeable. For clustered exceedances, callers pass the effective
//!   number of samples, `extremal index * n`. This number need not be whole, so these functions
//!   take floating-point numbers.
//! - models: [`gpd`] and [`gev`]. Their fits start from [`l_moments`], and their intervals come
//!   from the [`profile`] likelihood; [`threshold`] finds where the tail starts, [`gate`] decides
//!   whether a model may be shown.
//!
//! Other modules:
//! - checks of the gate: [`extremal_index`], [`clusters`], [`autocorrelation`], [`runs_test`],
//!   [`stationarity`], [`records`], [`mixture`], [`goodness`].
//! - comparisons of two sides and of many runs: [`compare`], [`change_point`], [`regressions`];
//!   [`log_buckets`] stores the samples of time intervals compactly.
//!
//! The crate only computes numbers from numbers. It does not use run folders, units or files.
#![forbid(unsafe_code)]

pub mod autocorrelation;
pub mod binomial;
pub mod change_point;
pub mod clustering;
pub mod clusters;
pub mod compare;
pub mod confidence;
pub mod dispersion;
pub mod estimate;
pub mod extremal_index;
pub mod gate;
pub mod gev;
pub mod goodness;
pub mod gpd;
pub mod harrell_davis;
pub mod incomplete_beta;
pub mod incomplete_gamma;
pub mod l_moments;
pub mod log_buckets;
mod merged;
pub mod mixture;
pub mod moments;
mod numeric;
pub mod poisson;
pub mod profile;
pub mod proportion;
pub mod quantile;
pub mod records;
#[cfg(test)]
mod reference;
pub mod regressions;
pub mod runs_test;
mod saddle_point;
pub mod stationarity;
pub mod student;
pub mod tally;
pub mod threshold;
pub mod tolerance;
