//! Stores all pages of a run, for `--keep-trace`: one file per CPU, and the head of a trace.dat
//! that can be made from them.
//!
//! Independently of these files, the tracer keeps the recent events of each CPU in memory. These
//! events start one second before the last sample that the recorder passed on. Older events are
//! dropped, because explaining becomes slower with more events in memory: with 13 MB of events per
//! CPU, cache misses took a fifth of all the time (`tests/alone/explaining.rs` counts the
//! instructions).

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use tardy_trace::file::TraceHead;

/// The files with pages, by the CPU's index.
#[derive(Debug)]
pub(crate) struct KeptPages {
    files: Vec<Option<File>>,
}

impl KeptPages {
    pub(crate) fn create(folder: &Path, cpus: &[u32]) -> io::Result<Self> {
        let create = |cpu: &u32| {
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(folder.join(format!("cpu{cpu}.pages")))
                .map(Some)
        };
        Ok(Self {
            files: cpus.iter().map(create).collect::<io::Result<_>>()?,
        })
    }

    /// Appends a page. After an error, nothing more is written, so that the existing content stays
    /// whole.
    pub(crate) fn append(&mut self, place: usize, page: &[u8]) {
        use std::io::Write;
        if self.files[place]
            .as_mut()
            .is_some_and(|file| file.write_all(page).is_err())
        {
            self.files[place] = None;
        }
    }

    /// Writes the head. The head states 0 as the length of every CPU's pages. The reader that
    /// combines the head and the pages into a trace.dat fills in the lengths.
    pub(crate) fn write_head(folder: &Path, head: &TraceHead, cpus: &[u32]) -> io::Result<()> {
        let count = cpus.iter().max().map_or(0, |&cpu| cpu as usize + 1);
        fs::write(folder.join("head.dat"), head.encode(&vec![0; count]))
    }
}
