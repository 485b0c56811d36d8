//! Draws a scene as PNG, with built-in fonts, because the machine may have none.

use tiny_skia::{
    Color, FillRule, LineCap, LineJoin, Mask, Paint, Path, PathBuilder, Pixmap, StrokeDash,
    Transform,
};
use ttf_parser::{Face, GlyphId, OutlineBuilder};

use super::model::Tone;
use super::palette::LIGHT;
use super::scene::{Anchor, Group, Item, Scene, Step, Stroke, Text};

const REGULAR: &[u8] = include_bytes!("../assets/Roboto-Regular-subset.ttf");
const BOLD: &[u8] = include_bytes!("../assets/Roboto-Bold-subset.ttf");
/// Maximum number of pixels of a picture. A larger picture would need gigabytes of memory.
const PIXELS_MAX: f64 = 64e6;

/// Why a scene cannot be drawn as PNG.
#[derive(Debug, thiserror::Error)]
pub enum PngError {
    /// The picture would have too many pixels.
    #[error(
        "a picture of {0} by {1} px is too large: at most 64 million px; give a smaller --size or \
         --scale, or write SVG"
    )]
    TooLarge(f64, f64),
    /// The encoder failed; contains its message.
    #[error("cannot encode the picture: {0}")]
    Encoding(String),
}

/// Returns the scene as a PNG file in which each px of the scene is `scale` pixels wide.
///
/// # Errors
/// Fails with a [`PngError`] if the picture is too large or cannot be encoded.
pub fn file(scene: &Scene, scale: f64) -> Result<Vec<u8>, PngError> {
    let (width, height) = (
        (scene.width * scale).round(),
        (scene.height * scale).round(),
    );
    let too_large = || PngError::TooLarge(width, height);
    if width * height > PIXELS_MAX {
        return Err(too_large());
    }
    let mut pixmap = Pixmap::new(width as u32, height as u32).ok_or_else(too_large)?;
    pixmap.fill(color(Tone::Surface, 1.0));
    let fonts = Fonts {
        regular: face(REGULAR),
        bold: face(BOLD),
    };
    let mut canvas = Canvas {
        pixmap,
        transform: Transform::from_scale(scale as f32, scale as f32),
        fonts,
    };
    scene.items.iter().for_each(|item| canvas.item(item, None));
    canvas
        .pixmap
        .encode_png()
        .map_err(|error| PngError::Encoding(error.to_string()))
}

struct Fonts {
    regular: Face<'static>,
    bold: Face<'static>,
}

fn face(bytes: &'static [u8]) -> Face<'static> {
    Face::parse(bytes, 0).expect("the fonts are part of the program, and a test reads them")
}

struct Canvas {
    pixmap: Pixmap,
    transform: Transform,
    fonts: Fonts,
}

impl Canvas {
    fn item(&mut self, item: &Item, mask: Option<&Mask>) {
        match item {
            Item::Path {
                steps,
                fill,
                stroke,
            } => {
                let Some(path) = path(steps) else { return };
                if let Some((tone, opacity)) = fill {
                    self.pixmap.fill_path(
                        &path,
                        &paint(*tone, *opacity),
                        FillRule::Winding,
                        self.transform,
                        mask,
                    );
                }
                self.stroke(&path, stroke.as_ref(), mask);
            }
            Item::Circle {
                at,
                radius,
                fill,
                stroke,
            } => {
                let Some(path) = PathBuilder::from_circle(at.0 as f32, at.1 as f32, *radius as f32)
                else {
                    return;
                };
                if let Some(tone) = fill {
                    self.pixmap.fill_path(
                        &path,
                        &paint(*tone, 1.0),
                        FillRule::Winding,
                        self.transform,
                        mask,
                    );
                }
                self.stroke(&path, stroke.as_ref(), mask);
            }
            Item::Text(text) => self.text(text, mask),
            Item::Group(group) => self.group(group, mask),
        }
    }

    fn group(&mut self, group: &Group, outer: Option<&Mask>) {
        if group.is_hidden {
            return;
        }
        let clip = group.clip.and_then(|(left, top, width, height)| {
            let rectangle =
                tiny_skia::Rect::from_xywh(left as f32, top as f32, width as f32, height as f32)?;
            let mut mask = Mask::new(self.pixmap.width(), self.pixmap.height())?;
            mask.fill_path(
                &PathBuilder::from_rect(rectangle),
                FillRule::Winding,
                true,
                self.transform,
            );
            Some(mask)
        });
        group
            .items
            .iter()
            .for_each(|item| self.item(item, clip.as_ref().or(outer)));
    }

    fn stroke(&mut self, path: &Path, stroke: Option<&Stroke>, mask: Option<&Mask>) {
        let Some(stroke) = stroke else { return };
        let dash = if stroke.is_dashed {
            StrokeDash::new(vec![6.0, 4.0], 0.0)
        } else {
            None
        };
        let line = tiny_skia::Stroke {
            width: stroke.width as f32,
            line_join: LineJoin::Round,
            line_cap: LineCap::Butt,
            dash,
            ..Default::default()
        };
        self.pixmap.stroke_path(
            path,
            &paint(stroke.tone, stroke.opacity),
            &line,
            self.transform,
            mask,
        );
    }

    fn text(&mut self, text: &Text, mask: Option<&Mask>) {
        let face = if text.is_bold {
            &self.fonts.bold
        } else {
            &self.fonts.regular
        };
        let scale = text.size as f32 / f32::from(face.units_per_em());
        let glyph = |character: char| {
            face.glyph_index(character)
                .or_else(|| face.glyph_index('\u{fffd}'))
                .unwrap_or(GlyphId(0))
        };
        let advance =
            |glyph: GlyphId| f32::from(face.glyph_hor_advance(glyph).unwrap_or(0)) * scale;
        let glyphs: Vec<GlyphId> = text.text.chars().map(glyph).collect();
        let width: f32 = glyphs.iter().copied().map(advance).sum();
        let mut x = text.at.0 as f32
            - match text.anchor {
                Anchor::Start => 0.0,
                Anchor::Middle => width / 2.0,
                Anchor::End => width,
            };
        let mut outline = Outline {
            builder: PathBuilder::new(),
            x,
            y: text.at.1 as f32,
            scale,
        };
        for glyph in glyphs {
            outline.x = x;
            let _ = face.outline_glyph(glyph, &mut outline);
            x += advance(glyph);
        }
        let Some(path) = outline.builder.finish() else {
            return;
        };
        if text.has_halo {
            let line = tiny_skia::Stroke {
                width: 3.5,
                line_join: LineJoin::Round,
                ..Default::default()
            };
            self.pixmap.stroke_path(
                &path,
                &paint(Tone::Surface, 1.0),
                &line,
                self.transform,
                mask,
            );
        }
        self.pixmap.fill_path(
            &path,
            &paint(text.tone, 1.0),
            FillRule::Winding,
            self.transform,
            mask,
        );
    }
}

/// Collects a glyph's outline. In the font, y increases upwards; in px, it increases downwards.
struct Outline {
    builder: PathBuilder,
    x: f32,
    y: f32,
    scale: f32,
}

impl Outline {
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        (self.x + x * self.scale, self.y - y * self.scale)
    }
}

impl OutlineBuilder for Outline {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.builder.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.builder.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.builder.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.builder.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.builder.close();
    }
}

fn path(steps: &[Step]) -> Option<Path> {
    let mut builder = PathBuilder::new();
    for step in steps {
        match *step {
            Step::Move(x, y) => builder.move_to(x as f32, y as f32),
            Step::Line(x, y) => builder.line_to(x as f32, y as f32),
            Step::Close => builder.close(),
        }
    }
    builder.finish()
}

fn color(tone: Tone, opacity: f64) -> Color {
    let hex = u32::from_str_radix(LIGHT.color(tone).trim_start_matches('#'), 16).unwrap_or(0);
    let [_, red, green, blue] = hex.to_be_bytes();
    Color::from_rgba8(red, green, blue, (opacity * 255.0).round() as u8)
}

fn paint(tone: Tone, opacity: f64) -> Paint<'static> {
    let mut paint = Paint {
        anti_alias: true,
        ..Paint::default()
    };
    paint.set_color(color(tone, opacity));
    paint
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_that_charts_write_is_in_the_fonts() {
        for face in [face(REGULAR), face(BOLD)] {
            for character in ('!'..='~').chain("µ×⁻⁰¹²³⁴⁵⁶⁷⁸⁹≥…\u{fffd}".chars())
            {
                assert!(face.glyph_index(character).is_some(), "{character}");
            }
        }
    }

    #[test]
    fn a_picture_has_the_size_asked_for_and_too_large_ones_are_refused() {
        let scene = Scene {
            width: 30.0,
            height: 20.0,
            ..Scene::default()
        };
        let bytes = file(&scene, 2.0).unwrap();
        let decoded = Pixmap::decode_png(&bytes).unwrap();
        assert_eq!((decoded.width(), decoded.height()), (60, 40));
        assert!(matches!(file(&scene, 1e4), Err(PngError::TooLarge(..))));
    }
}
