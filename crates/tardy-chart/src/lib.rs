//! Charts. The content of charts is computed once from run folders ([`data`], [`build`]). It is
//! then drawn without reading the folders again ([`draw`], [`svg`], [`png`]; [`json`] for the pages
//! of reports).
//!
//! This crate draws charts itself, without a chart library. A scene of paths and text becomes SVG
//! for papers, SVG for reports, and PNG. In reports, colours are variables of the page, for light,
//! dark and print. PNG uses tiny-skia and a built-in font, because boards have no fonts; resvg
//! would take 106 s of CPU time to build. The report's script (about 500 lines, no library) adds
//! hovering, legend, keys and zoom; all charts and numbers are visible without it.
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
