//! The frame of an HTML file that needs nothing else.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use tardy_chart::palette::{DARK, LIGHT};

/// What a file consists of that its text does not show.
pub(super) struct Page<'a> {
    pub(super) title: &'a str,
    /// The whole style sheet.
    pub(super) style: &'a str,
    /// As of `script-src` in a Content-Security-Policy, with its semicolon; empty where no script
    /// may run.
    pub(super) scripts: &'a str,
}

impl Page<'_> {
    /// The file. Nothing is ever fetched, even if some text did end up as markup.
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

/// Which program made the file.
pub(super) fn maker() -> &'static str {
    concat!("tardy ", env!("CARGO_PKG_VERSION"))
}

/// `style` with the colours that charts have. Paper is light, whatever the screen is.
pub(super) fn themed(style: &str) -> String {
    let (light, dark) = (LIGHT.style(), DARK.style());
    format!(
        ":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}{style}"
    )
}
