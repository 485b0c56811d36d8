//! Charts: what they show is computed once from the folders of runs ([`data`], [`build`]), and
//! drawn from that alone ([`draw`], [`svg`], [`png`]; [`json`] for the pages of reports).
#![forbid(unsafe_code)]

pub mod area;
pub mod bins;
pub mod build;
pub mod cpu_map;
pub mod csv;
pub mod data;
pub mod draw;
pub mod json;
pub mod model;
pub mod names;
pub mod palette;
pub mod picture;
pub mod png;
pub mod scale;
pub mod scene;
pub mod shapes;
pub mod svg;
pub mod words;
pub mod xml;
