//! The frame of a self-contained HTML file.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use tardy_chart::palette::{DARK, LIGHT};

/// The parts of an HTML file outside its body.
pub(super) struct Page<'a> {
    pub(super) title: &'a str,
    /// The whole style sheet.
    pub(super) style: &'a str,
    /// Value of `script-src` in the Content-Security-Policy, with a semicolon; empty if no script
    /// may run.
    pub(super) scripts: &'a str,
}

impl Page<'_> {
    /// Returns the complete file. The file's policy forbids all requests, so text that is inserted
    /// as markup by mistake cannot cause one.
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

/// Returns the name and version of the program that made the file.
pub(super) fn maker() -> &'static str {
    concat!("tardy ", env!("CARGO_PKG_VERSION"))
}

/// Returns `style` with the colours of charts. Print always uses the light colours.
pub(super) fn themed(style: &str) -> String {
    let (light, dark) = (LIGHT.style(), DARK.style());
    format!(
        ":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}{style}"
    )
}
