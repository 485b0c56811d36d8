//! Minima, roots and curvatures of likelihoods: one to three parameters, no derivatives asked for.

pub(super) mod curvature;
pub(super) mod minimum;
pub(super) mod root;
