//! Advice as text.

pub mod mckenney2009;
pub mod text;
pub(super) mod words;
