//! Writes the JSON documents of commands. The first key of each document names its format, so that
//! readers can refuse formats that they do not know.
//!
//! The schemas are files in the source tree. They are not derived from the types, because this
//! would need another macro on three hundred types. Tests check every document against its schema.
//! The schemas forbid unknown keys, so a test fails if a schema lacks a key of its document.
//! Readers, however, must ignore unknown keys.
//!
//! A format is identified by a name and a version, under the key `format`. No result type uses this
//! key for anything else. Because the format is inside the document, it is still known when the
//! document is copied out of its file.

use serde::Serialize;

/// Format of a document, stored under the key `format`.
///
/// The version increases when a key changes its meaning or is removed. New keys do not change the
/// version, because readers ignore unknown keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Format {
    /// Name of the format in `tardy schema`.
    pub name: &'static str,
    /// Version, starting from 1.
    pub version: u32,
}

#[derive(Serialize)]
struct Document<'a, T> {
    format: Format,
    #[serde(flatten)]
    content: &'a T,
}

impl Format {
    pub const ADVISE: Self = Self::first("advise");
    pub const ADVISE_PAPER: Self = Self::first("advise-paper");
    pub const ATTACH: Self = Self::first("attach");
    /// In version 1 (2026-11), the key `skipped` was named `missed`.
    pub const BREAKDOWN: Self = Self {
        name: "breakdown",
        version: 2,
    };
    /// In version 1 (2026-11), the key `skipped` was named `missed`.
    pub const COMPARE: Self = Self {
        name: "compare",
        version: 2,
    };
    pub const COMPARE_OVER_TIME: Self = Self::first("compare-over-time");
    pub const COST: Self = Self::first("cost");
    pub const COST_COMPARE: Self = Self::first("cost-compare");
    pub const COST_COMPARE_OVER_TIME: Self = Self::first("cost-compare-over-time");
    pub const DOCTOR: Self = Self::first("doctor");
    pub const EXPLAIN_CYCLES: Self = Self::first("explain-cycles");
    pub const EXPLAIN_RUN: Self = Self::first("explain-run");
    pub const EXPLAIN_TRACE: Self = Self::first("explain-trace");
    /// In version 1 (2026-11), the value of `format` was a number. In version 2, the key `skipped`
    /// was named `missed`.
    pub const EXPORT: Self = Self {
        name: "export",
        version: 3,
    };
    pub const HISTORY: Self = Self::first("history");
    pub const LAB_APP: Self = Self::first("lab-app");
    pub const LAB_ATLAS: Self = Self::first("lab-atlas");
    pub const LAB_BISECT: Self = Self::first("lab-bisect");
    pub const LAB_CHECK: Self = Self::first("lab-check");
    pub const LAB_COST: Self = Self::first("lab-cost");
    pub const LAB_HUNT: Self = Self::first("lab-hunt");
    pub const LAB_KERNELS: Self = Self::first("lab-kernels");
    pub const LAB_RUN: Self = Self::first("lab-run");
    pub const LIST: Self = Self::first("list");
    pub const LOAD: Self = Self::first("load");
    pub const PLAN: Self = Self::first("plan");
    pub const REPRODUCE: Self = Self::first("reproduce");
    pub const RESPOND: Self = Self::first("respond");
    pub const SECTIONS: Self = Self::first("sections");
    pub const SECTIONS_COMPARE: Self = Self::first("sections-compare");
    /// In version 1 (2026-11), the key `skipped` was named `missed`.
    pub const SHOW: Self = Self {
        name: "show",
        version: 2,
    };
    pub const TUNE_LAB: Self = Self::first("tune-lab");
    pub const TUNE_PLAN: Self = Self::first("tune-plan");
    pub const TUNE_SEARCH: Self = Self::first("tune-search");
    pub const WHY: Self = Self::first("why");

    const fn first(name: &'static str) -> Self {
        Self { name, version: 1 }
    }

    /// Returns the document as text, with a final line end. `content` must be an object.
    ///
    /// # Panics
    /// Panics if the content is not an object of plain data. All result types are such objects.
    #[must_use]
    pub fn document(self, content: &impl Serialize) -> String {
        let document = Document {
            format: self,
            content,
        };
        serde_json::to_string_pretty(&document)
            .expect("keys are text and numbers finite or null, as JSON requires")
            + "\n"
    }

    /// Returns the document on one line, without a line end.
    ///
    /// # Panics
    /// Panics like [`Self::document`].
    #[must_use]
    pub fn line(self, content: &impl Serialize) -> String {
        serde_json::to_string(&Document {
            format: self,
            content,
        })
        .expect("keys are text and numbers finite or null, as JSON requires")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_comes_first() {
        let content = serde_json::json!({"a": 1, "worst": null});
        assert_eq!(
            Format::SHOW.line(&content),
            r#"{"format":{"name":"show","version":2},"a":1,"worst":null}"#
        );
        assert!(Format::SHOW.document(&content).ends_with("\n}\n"));
    }
}
