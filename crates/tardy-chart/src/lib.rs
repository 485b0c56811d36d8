//! Charts: their content is computed once from the folders of runs ([`data`], [`build`]), and drawn
//! from that alone ([`draw`], [`svg`], [`png`]; [`json`] for the pages of reports).
//!
//! We draw charts ourselves, once. A scene of paths and text becomes SVG for papers, SVG in the
//! report (with colours as variables of the page: light, dark, print) and PNG (tiny-skia, with a
//! font in the binary, because boards have none); resvg alone takes 106 s of CPU time to build. The
//! report's script (about 500 lines, no library) adds hover, legend, keys and zoom; without it
//! every chart and number is still there.
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
