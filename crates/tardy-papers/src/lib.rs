//! Published tables and claims of papers as data. This crate also contains the experiments that
//! repeat those of the papers, and the rules that test the claims. It measures nothing and reads no
//! files.
#![forbid(unsafe_code)]

pub mod claim;
pub mod experiment;
pub mod figure;
pub mod published;
pub mod quantity;
pub mod rule;

/// The papers, by the names that this project uses, in the order of their years.
pub const PAPERS: [&str; 4] = ["abeni2002", "williams2002", "mckenney2009", "koolwal2009"];
