//! Runs against runs: what differs, by how much at least and at most, whether that matters, and what else changed between them.

pub mod blocks;
pub mod cost;
pub mod cost_over_time;
pub mod facts;
pub mod group;
pub mod judge;
pub mod margin;
pub mod model;
pub mod over_time;
pub mod read;
pub mod side;
