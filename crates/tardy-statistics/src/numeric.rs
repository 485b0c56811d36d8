//! Finds minima and curvatures of likelihoods with one to three parameters, without derivatives.
//! Also finds roots of functions, and computes inverses of distribution functions.

pub(super) mod curvature;
pub(super) mod inversion;
pub(super) mod minimum;
pub(super) mod root;
