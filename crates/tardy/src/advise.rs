//! Which kernel suits a piece of work, and whether the work was in time: from runs, from what the user says of the work, and from published numbers.

pub mod curves;
pub mod mckenney2009;
