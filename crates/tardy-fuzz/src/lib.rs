//! The fuzz targets, one file each. Each target passes the fuzzer's bytes to a reader of tardy. The
//! reader may reject the bytes with an error, but must not panic.
//!
//! A fuzzer calls these functions until it is stopped (`fuzz/fuzz_targets`, a separate workspace,
//! because it needs a nightly compiler). An ordinary test of this crate calls them with the stored
//! seeds. The functions write only to temporary folders.
#![forbid(unsafe_code)]

pub mod apt;
pub mod chunk;
pub mod command_line;
pub mod configuration;
pub mod console;
pub mod deb;
pub mod delays;
pub mod documents;
pub mod folder;
pub mod guest_text;
pub mod hand_out;
pub mod histogram;
pub mod import;
pub mod journal;
pub mod kernel_image;
mod place;
pub mod scenario;
pub mod sections;
pub mod trace;
pub mod trace_format;
pub mod trace_page;

/// A reader of tardy, and the check of what the reader returns.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Name of the fuzz target and of the folder with its seeds.
    pub name: &'static str,
    /// The input that the reader parses.
    pub reads: &'static str,
    /// Passes bytes to the reader, and checks that the result is consistent.
    pub check: fn(&[u8]),
}

/// All targets, sorted by name.
pub const TARGETS: [Target; 20] = [
    Target {
        name: "apt",
        reads: "the machine's package sources, and what apt-cache shows",
        check: apt::check,
    },
    Target {
        name: "chunk",
        reads: "a chunk of a series",
        check: chunk::check,
    },
    Target {
        name: "command_line",
        reads: "the command line",
        check: command_line::check,
    },
    Target {
        name: "configuration",
        reads: "a user's defaults",
        check: configuration::check,
    },
    Target {
        name: "console",
        reads: "the console of a guest that failed",
        check: console::check,
    },
    Target {
        name: "deb",
        reads: "a Debian package",
        check: deb::check,
    },
    Target {
        name: "delays",
        reads: "a chunk of explained samples",
        check: delays::check,
    },
    Target {
        name: "documents",
        reads: "accepted.json, cells.json of an atlas, lab.json",
        check: documents::check,
    },
    Target {
        name: "folder",
        reads: "a whole run folder",
        check: folder::check,
    },
    Target {
        name: "guest_text",
        reads: "texts from guests: symbols, a kernel's configuration, a log of delays",
        check: guest_text::check,
    },
    Target {
        name: "hand_out",
        reads: "the memory that a guest hands its archive out in",
        check: hand_out::check,
    },
    Target {
        name: "histogram",
        reads: "a stored histogram",
        check: histogram::check,
    },
    Target {
        name: "import",
        reads: "the output of other tools",
        check: import::check,
    },
    Target {
        name: "journal",
        reads: "a journal that was left behind",
        check: journal::check,
    },
    Target {
        name: "kernel_image",
        reads: "the head of a kernel image",
        check: kernel_image::check,
    },
    Target {
        name: "scenario",
        reads: "a scenario",
        check: scenario::check,
    },
    Target {
        name: "sections",
        reads: "the recorded sections of a watched guest",
        check: sections::check,
    },
    Target {
        name: "trace",
        reads: "a trace.dat",
        check: trace::check,
    },
    Target {
        name: "trace_format",
        reads: "the text of an event's format",
        check: trace_format::check,
    },
    Target {
        name: "trace_page",
        reads: "a page of the kernel's ring buffer",
        check: trace_page::check,
    },
];

/// Returns the longest valid text at the start of the bytes.
fn text(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    }
}
