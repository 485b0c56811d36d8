//! The layout of a ring buffer's page, as in the file `events/header_page` of tracefs.

use crate::format::{EventFormat, FormatError};

/// Maximum size of a sub-buffer; larger ones are not read. The kernel allows at most 16 pages of up
/// to 64 KiB.
pub const PAGE_BYTES_MAX: usize = 1 << 20;

/// The layout of the pages in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLayout {
    /// Size of the kernel's `long` in bytes, 4 or 8; the length of the data is stored in a `long`.
    pub long_bytes: usize,
    /// Where the data start, in bytes from the start of the page: 12 or 16.
    pub data_offset: usize,
    /// Size of a page in bytes, at least 4096 (`buffer_subbuf_size_kb`).
    pub page_bytes: usize,
}

/// Why a text is not a layout of pages.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The text cannot be parsed.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A field is missing.
    #[error("header_page has no field {0}")]
    Missing(&'static str),
    /// The layout has values that no kernel writes.
    #[error(
        "header_page has a field {field} at offset {offset} with a size of {size} bytes, which no \
         known kernel has"
    )]
    Unknown {
        /// Name of the field in header_page.
        field: &'static str,
        /// Offset of the field.
        offset: usize,
        /// Size of the field.
        size: usize,
    },
}

impl PageLayout {
    /// Parses the content of the file `header_page`.
    ///
    /// # Errors
    /// Returns an error if the text is not a layout of a known kernel.
    pub fn parse(text: &str) -> Result<Self, LayoutError> {
        // The text has the same lines as an event's format, but without the lines at the start.
        let format = EventFormat::parse("header", &format!("name: header_page\nID: 0\n{text}"))?;
        let find = |name| {
            format
                .field(name)
                .map(|field| (field.offset, field.size))
                .ok_or(LayoutError::Missing(name))
        };
        let refuse = |field, (offset, size)| {
            Err(LayoutError::Unknown {
                field,
                offset,
                size,
            })
        };
        let (timestamp, commit, data) = (find("timestamp")?, find("commit")?, find("data")?);
        if timestamp != (0, 8) {
            return refuse("timestamp", timestamp);
        }
        if commit.0 != 8 || !matches!(commit.1, 4 | 8) {
            return refuse("commit", commit);
        }
        if data.0 != 8 + commit.1 || data.1 == 0 || data.1 > PAGE_BYTES_MAX {
            return refuse("data", data);
        }
        Ok(Self {
            long_bytes: commit.1,
            data_offset: data.0,
            page_bytes: data.0 + data.1,
        })
    }

    /// Returns this layout with another size of a page, for a buffer whose pages have that size.
    #[must_use]
    pub fn with_page_bytes(self, page_bytes: usize) -> Self {
        Self { page_bytes, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(commit: usize, data_offset: usize, data: usize) -> String {
        format!(
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t \
             commit;\toffset:8;\tsize:{commit};\tsigned:1;\n\tfield: int \
             overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\tfield: char \
             data;\toffset:{data_offset};\tsize:{data};\tsigned:0;\n"
        )
    }

    #[test]
    fn layouts_of_both_word_lengths_are_read() {
        assert_eq!(
            PageLayout::parse(&text(8, 16, 4080)),
            Ok(PageLayout {
                long_bytes: 8,
                data_offset: 16,
                page_bytes: 4096
            })
        );
        assert_eq!(
            PageLayout::parse(&text(4, 12, 4084)),
            Ok(PageLayout {
                long_bytes: 4,
                data_offset: 12,
                page_bytes: 4096
            })
        );
        assert_eq!(
            PageLayout::parse(&text(8, 16, 65520)).map(|layout| layout.page_bytes),
            Ok(65536)
        );
    }

    #[test]
    fn a_layout_that_no_kernel_has_is_refused() {
        assert!(matches!(
            PageLayout::parse(&text(2, 10, 4080)),
            Err(LayoutError::Unknown {
                field: "commit",
                ..
            })
        ));
        assert!(matches!(
            PageLayout::parse(&text(8, 16, usize::MAX)),
            Err(LayoutError::Unknown { field: "data", .. })
        ));
        assert_eq!(
            PageLayout::parse(""),
            Err(LayoutError::Missing("timestamp"))
        );
    }
}
