//! Minima, roots and curvatures of likelihoods: one to three parameters, without derivatives.
//! Inverses of distribution functions.

pub(super) mod curvature;
pub(super) mod inversion;
pub(super) mod minimum;
pub(super) mod root;
