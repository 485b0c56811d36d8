//! The frame of a self-contained HTML file.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use tardy_chart::palette::{DARK, LIGHT};

/// The parts of a file that its text does not show.
pub(super) struct Page<'a> {
    pub(super) title: &'a str,
    /// The whole style sheet.
    pub(super) style: &'a str,
    /// Value for `script-src` in a Content-Security-Policy, with its semicolon; empty if no script
    /// may run.
    pub(super) scripts: &'a str,
}

impl Page<'_> {
    /// Returns the complete file. Its policy allows no requests, even if some text did end up as
    /// markup.
    pub(super) fn around(&self, body: &Markup) -> String {
        let policy = format!(
            "default-src 'none'; style-src 'unsafe-inline'; {}base-uri 'none'; form-action 'none'",
            self.scripts
        );
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(policy);
                    meta name="viewport" content="width=device-width,initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (self.title) }
                    style { (PreEscaped(self.style)) }
                }
                body { (body) }
            }
        };
        page.into_string()
    }
}

/// Returns the program that made the file.
pub(super) fn maker() -> &'static str {
    concat!("tardy ", env!("CARGO_PKG_VERSION"))
}

/// Returns `style` with the colours of charts. Paper is light, for any screen theme.
pub(super) fn themed(style: &str) -> String {
    let (light, dark) = (LIGHT.style(), DARK.style());
    format!(
        ":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}{style}"
    )
}
