//! Advice as text.

pub mod mckenney2009;
mod words;
