//! Writes charts to a file: a picture, or their numbers. The end of the file name selects the
//! format. Standard output (`-`) always gets an SVG.

use std::path::{Path, PathBuf};

use tardy_run::output_file::{is_standard_output, write};

use super::csv;
use super::draw::{Frame, beside, draw};
use super::model::Chart;
use super::png::{self, PngError};
use super::svg;

/// Why no picture was written.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// The file name selects no format.
    #[error("{0}: the name must end in .svg, .png or .csv")]
    Format(PathBuf),
    /// The picture could not be drawn.
    #[error(transparent)]
    Png(#[from] PngError),
    /// The file could not be written.
    #[error("cannot write {0}: {1}: give another file")]
    Unwritable(PathBuf, std::io::Error),
}

/// The file that a picture is written to.
#[derive(Debug, Clone)]
pub struct Picture {
    path: PathBuf,
    format: Format,
}

#[derive(Debug, Clone, Copy)]
enum Format {
    Svg,
    Png,
    Csv,
}

impl Picture {
    /// Prepares a picture at `path`, without writing it.
    ///
    /// # Errors
    /// Fails with [`PictureError::Format`] if the file name selects no format.
    pub fn at(path: &Path) -> Result<Self, PictureError> {
        let format = match path.extension().and_then(|extension| extension.to_str()) {
            Some("svg") => Format::Svg,
            Some("png") => Format::Png,
            Some("csv") => Format::Csv,
            None if is_standard_output(path) => Format::Svg,
            _ => return Err(PictureError::Format(path.to_owned())),
        };
        Ok(Self {
            path: path.to_owned(),
            format,
        })
    }

    /// Writes charts with the same axes side by side, or their numbers with the names of the
    /// charts. `size` is the size of each chart in px. In a PNG, each px is drawn as `scale`
    /// pixels.
    ///
    /// # Errors
    /// Fails with [`PictureError::Png`] if the picture cannot be drawn, or with
    /// [`PictureError::Unwritable`] if the file cannot be written.
    pub fn write(
        &self,
        charts: &[(&str, &Chart)],
        size: (f64, f64),
        scale: f64,
    ) -> Result<(), PictureError> {
        let scene = || {
            beside(
                charts
                    .iter()
                    .map(|(_, chart)| draw(chart, size, Frame::Figure).0)
                    .collect(),
            )
        };
        let bytes = match self.format {
            Format::Svg => svg::file(&scene()).into_bytes(),
            Format::Png => png::file(&scene(), scale)?,
            Format::Csv => csv::text(charts).into_bytes(),
        };
        write(&self.path, &bytes)
            .map_err(|error| PictureError::Unwritable(self.path.clone(), error))
    }
}
