//! Statistics of a run in three layers that are never mixed in one number: observations, bounds
//! that assume no distribution, and a model of the tail. The model is only used if the checks of
//! its gate pass.

pub mod bounds;
pub mod observed;
pub mod preset;
pub mod read;
pub mod rule_of_thumb;
pub mod tail;
