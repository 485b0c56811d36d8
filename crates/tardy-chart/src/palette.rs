//! Colours. Series differ in lightness as well as in hue, so that people who see few hues, and grey prints, can tell them apart.

use super::model::{HEAT_LEVELS, SERIES_TONES, Tone};

/// The shades of one ground.
#[derive(Debug, Clone, Copy)]
pub struct Palette {
    ink: &'static str,
    muted: &'static str,
    grid: &'static str,
    shade: &'static str,
    surface: &'static str,
    alarm: &'static str,
    series: [&'static str; SERIES_TONES],
    heat: [&'static str; HEAT_LEVELS],
}

/// On paper, and on light screens.
pub const LIGHT: Palette = Palette {
    ink: "#1b1f24",
    muted: "#59636e",
    grid: "#e3e7eb",
    shade: "#f4f6f8",
    surface: "#ffffff",
    alarm: "#c1121f",
    series: ["#0b62b5", "#d1570a", "#0f8a6d", "#a8328f", "#b08900", "#3aa0d8", "#6b4ccf"],
    heat: ["#e4eef7", "#c6dcef", "#9cc3e2", "#6ba5d2", "#4286bf", "#2567a5", "#124a83", "#072f5c"],
};

/// On dark screens.
pub const DARK: Palette = Palette {
    ink: "#e8ebee",
    muted: "#9aa4af",
    grid: "#2b3138",
    shade: "#1a1f25",
    surface: "#13171c",
    alarm: "#ff6b6b",
    series: ["#5aa9f0", "#f2944a", "#3fc7a1", "#e07cc8", "#dcbb3c", "#8fd3f7", "#a894ff"],
    heat: ["#16283a", "#1b3c59", "#225378", "#2b6c99", "#3a89bb", "#5aa8d6", "#8cc8ec", "#cdeafe"],
};

impl Palette {
    /// The colour as `#rrggbb`.
    #[must_use]
    pub fn color(&self, tone: Tone) -> &'static str {
        match tone {
            Tone::All | Tone::Ink => self.ink,
            Tone::Series(index) => self.series[index % SERIES_TONES],
            Tone::Heat(level) => self.heat[level.min(HEAT_LEVELS - 1)],
            Tone::Muted => self.muted,
            Tone::Grid => self.grid,
            Tone::Shade => self.shade,
            Tone::Surface => self.surface,
            Tone::Alarm => self.alarm,
        }
    }

    /// The colours as variables of a style sheet, named by [`variable`].
    #[must_use]
    pub fn style(&self) -> String {
        let tones = [Tone::Ink, Tone::Muted, Tone::Grid, Tone::Shade, Tone::Surface, Tone::Alarm].into_iter();
        let tones = tones.chain((0..SERIES_TONES).map(Tone::Series)).chain((0..HEAT_LEVELS).map(Tone::Heat));
        tones.map(|tone| format!("{}:{};", variable(tone), self.color(tone))).collect()
    }
}

/// The name of a tone's variable in a style sheet.
#[must_use]
pub fn variable(tone: Tone) -> String {
    match tone {
        Tone::All | Tone::Ink => "--ink".to_owned(),
        Tone::Series(index) => format!("--series-{}", index % SERIES_TONES),
        Tone::Heat(level) => format!("--heat-{}", level.min(HEAT_LEVELS - 1)),
        Tone::Muted => "--muted".to_owned(),
        Tone::Grid => "--grid".to_owned(),
        Tone::Shade => "--shade".to_owned(),
        Tone::Surface => "--surface".to_owned(),
        Tone::Alarm => "--alarm".to_owned(),
    }
}
