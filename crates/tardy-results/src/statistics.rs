//! Statistics of a run in three layers: observations, bounds that assume no distribution, and a
//! model of the tail. No number combines two layers. The model is used only if it passes a set of
//! checks, which is called its gate.

pub mod bounds;
pub mod observed;
pub mod preset;
pub mod read;
pub mod rule_of_thumb;
pub mod tail;
