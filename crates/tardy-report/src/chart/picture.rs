//! A scene as a picture's file: SVG or PNG by the end of its name.

use std::io::Write;
use std::path::{Path, PathBuf};

use tardy_run::output_file::replace;

use super::png::{self, PngError};
use super::scene::Scene;
use super::svg;

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// The name tells no format.
    #[error("{0} ends neither in .svg nor in .png: give the picture such a name")]
    Format(PathBuf),
    /// It could not be drawn.
    #[error(transparent)]
    Png(#[from] PngError),
    /// It could not be written.
    #[error("cannot write {0}: {1}: give another file")]
    Unwritable(PathBuf, std::io::Error),
}

/// A picture to be written.
#[derive(Debug, Clone)]
pub struct Picture {
    path: PathBuf,
    is_svg: bool,
}

impl Picture {
    /// A picture at `path`; nothing is written yet.
    ///
    /// # Errors
    /// [`PictureError::Format`].
    pub fn at(path: &Path) -> Result<Self, PictureError> {
        let is_svg = match path.extension().and_then(|extension| extension.to_str()) {
            Some("svg") => true,
            Some("png") => false,
            _ => return Err(PictureError::Format(path.to_owned())),
        };
        Ok(Self { path: path.to_owned(), is_svg })
    }

    /// Writes it; `scale` is how many pixels of a PNG stand for each px of the scene.
    ///
    /// # Errors
    /// [`PictureError::Png`], [`PictureError::Unwritable`].
    pub fn write(&self, scene: &Scene, scale: f64) -> Result<(), PictureError> {
        let bytes = if self.is_svg { svg::file(scene).into_bytes() } else { png::file(scene, scale)? };
        replace(&self.path, |mut file| file.write_all(&bytes)).map_err(|error| PictureError::Unwritable(self.path.clone(), error))
    }
}
