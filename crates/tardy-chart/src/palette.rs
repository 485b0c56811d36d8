//! Colours. Series differ in lightness as well as in hue, so they can be distinguished by
//! colour-blind readers and in grey prints.
//!
//! Tests check that colours can be distinguished. Series differ by at least 0.08 in Oklab, also for
//! eyes that lack one type of cone cell, and their contrast with the background is at least 3:1
//! (WCAG 1.4.11). The first colour of a heat map has a contrast of 1.6:1, and a cell is at least 2
//! px wide, so that the rare late samples, which have this colour, are visible.

use super::model::{HEAT_LEVELS, SERIES_TONES, Tone};

/// The colours that suit one background.
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

/// Colours for paper and for light screens.
pub const LIGHT: Palette = Palette {
    ink: "#1b1f24",
    muted: "#59636e",
    grid: "#e3e7eb",
    shade: "#f4f6f8",
    surface: "#ffffff",
    alarm: "#c1121f",
    series: [
        "#013bce", "#af5b00", "#008c78", "#8f225e", "#cc8107", "#2794ff", "#8665ba",
    ],
    heat: [
        "#b0cee8", "#9ac0e1", "#82b1d9", "#6ba5d2", "#4286bf", "#2567a5", "#124a83", "#072f5c",
    ],
};

/// Colours for dark screens.
pub const DARK: Palette = Palette {
    ink: "#e8ebee",
    muted: "#9aa4af",
    grid: "#2b3138",
    shade: "#1a1f25",
    surface: "#13171c",
    alarm: "#ff6b6b",
    series: [
        "#66c7fd", "#e67000", "#27ab79", "#b46ebc", "#f8c326", "#bcdcdc", "#9f85ff",
    ],
    heat: [
        "#1f4a6e", "#235a84", "#286896", "#2f78a8", "#3a89bb", "#5aa8d6", "#8cc8ec", "#cdeafe",
    ],
};

impl Palette {
    /// Returns the colour as `#rrggbb`.
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

    /// Returns the colours as CSS variables, with the names from [`variable`].
    #[must_use]
    pub fn style(&self) -> String {
        let tones = [
            Tone::Ink,
            Tone::Muted,
            Tone::Grid,
            Tone::Shade,
            Tone::Surface,
            Tone::Alarm,
        ]
        .into_iter();
        let tones = tones
            .chain((0..SERIES_TONES).map(Tone::Series))
            .chain((0..HEAT_LEVELS).map(Tone::Heat));
        tones
            .map(|tone| format!("{}:{};", variable(tone), self.color(tone)))
            .collect()
    }
}

/// Returns the name of a tone's CSS variable.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Matrices that convert linear red, green and blue to the colours that different eyes
    /// perceive: Machado, Oliveira and Fernandes 2009, table 1, severity 1.0. The first matrix is
    /// for eyes with all types of cone cells; each other matrix is for eyes that lack one type.
    const EYES: [(&str, [[f64; 3]; 3]); 4] = [
        (
            "all cones",
            [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        ),
        (
            "protanopia",
            [
                [0.152_286, 1.052_583, -0.204_868],
                [0.114_503, 0.786_281, 0.099_216],
                [-0.003_882, -0.048_116, 1.051_998],
            ],
        ),
        (
            "deuteranopia",
            [
                [0.367_322, 0.860_646, -0.227_968],
                [0.280_085, 0.672_501, 0.047_413],
                [-0.011_820, 0.042_940, 0.968_881],
            ],
        ),
        (
            "tritanopia",
            [
                [1.255_528, -0.076_749, -0.178_779],
                [-0.078_411, 0.930_809, 0.147_602],
                [0.004_733, 0.691_367, 0.303_900],
            ],
        ),
    ];

    /// Distance in Oklab at which adjacent lines are easily distinguished. A just noticeable
    /// distance is about 0.02.
    const APART: f64 = 0.08;

    /// Returns the linear red, green and blue of `#rrggbb`, as defined by sRGB (IEC 61966-2-1).
    fn linear(color: &str) -> [f64; 3] {
        [1, 3, 5].map(|at| {
            let share = f64::from(u8::from_str_radix(&color[at..at + 2], 16).unwrap()) / 255.0;
            if share <= 0.040_45 {
                share / 12.92
            } else {
                ((share + 0.055) / 1.055).powf(2.4)
            }
        })
    }

    fn times(matrix: &[[f64; 3]; 3], vector: [f64; 3]) -> [f64; 3] {
        matrix.map(|row| {
            row.iter()
                .zip(vector)
                .map(|(share, value)| share * value)
                .sum()
        })
    }

    /// Returns the contrast of two colours as defined by WCAG 2.2, from 1 to 21.
    fn contrast(one: &str, other: &str) -> f64 {
        let luminance = |color: &str| times(&[[0.2126, 0.7152, 0.0722]; 3], linear(color))[0];
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    /// Returns the colour that `eye` perceives, in Oklab (Ottosson 2020).
    fn seen(eye: &[[f64; 3]; 3], color: &str) -> [f64; 3] {
        const CONES: [[f64; 3]; 3] = [
            [0.412_221_470_8, 0.536_332_536_3, 0.051_445_992_9],
            [0.211_903_498_2, 0.680_699_545_1, 0.107_396_956_6],
            [0.088_302_461_9, 0.281_718_837_6, 0.629_978_700_5],
        ];
        const LAB: [[f64; 3]; 3] = [
            [0.210_454_255_3, 0.793_617_785_0, -0.004_072_046_8],
            [1.977_998_495_1, -2.428_592_205_0, 0.450_593_709_9],
            [0.025_904_037_1, 0.782_771_766_2, -0.808_675_766_0],
        ];
        let shown = times(eye, linear(color)).map(|value| value.clamp(0.0, 1.0));
        times(&LAB, times(&CONES, shown).map(f64::cbrt))
    }

    #[test]
    fn lines_and_single_late_samples_stand_out_from_the_ground() {
        for (ground, palette) in [("light", LIGHT), ("dark", DARK)] {
            for color in palette.series {
                let contrast = contrast(color, palette.surface);
                assert!(
                    contrast >= 3.0,
                    "series {color} on {ground}: {contrast:.2}, and WCAG 1.4.11 asks for 3"
                );
            }
            // A cell with a single late sample has the first colour of a heat map. This colour must
            // also be visible in shaded phases.
            for (behind, least) in [(palette.surface, 1.6), (palette.shade, 1.4)] {
                let contrast = contrast(palette.heat[0], behind);
                assert!(
                    contrast >= least,
                    "{} on {behind} ({ground}): {contrast:.2}",
                    palette.heat[0]
                );
            }
            let steps: Vec<f64> = palette
                .heat
                .iter()
                .map(|color| contrast(color, palette.surface))
                .collect();
            assert!(
                steps.windows(2).all(|two| two[1] >= two[0] * 1.15),
                "{ground}: each count stands out more than a smaller one: {steps:.2?}"
            );
        }
    }

    #[test]
    fn no_two_series_look_alike_to_eyes_without_one_kind_of_cones() {
        for (ground, palette) in [("light", LIGHT), ("dark", DARK)] {
            for (eye, matrix) in &EYES {
                for (index, one) in palette.series.iter().enumerate() {
                    for other in &palette.series[..index] {
                        let squares = seen(matrix, one)
                            .into_iter()
                            .zip(seen(matrix, other))
                            .map(|(one, other)| (one - other).powi(2));
                        let distance = squares.sum::<f64>().sqrt();
                        assert!(
                            distance >= APART,
                            "{one} and {other} ({ground}, {eye}): {distance:.3}"
                        );
                    }
                }
            }
        }
    }
}
