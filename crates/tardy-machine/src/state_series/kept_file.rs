//! A kernel file that stays open and is read repeatedly from its start.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Maximum number of bytes that are read from a file. Only /proc/interrupts can be larger, on
/// machines with hundreds of CPUs. Then only its first part is parsed.
const BYTES_MAX: usize = 8 << 20;

#[derive(Debug)]
pub(super) struct KeptFile {
    path: PathBuf,
    file: Option<File>,
}

impl KeptFile {
    pub(super) fn new(path: PathBuf) -> Self {
        let file = File::open(&path).ok();
        Self { path, file }
    }

    /// Returns whether the file could be opened.
    pub(super) fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Returns the content. `buffer` is reused, and grows to the largest file. After an error, for
    /// example because a CPU went offline, the next call opens the file again.
    pub(super) fn read<'a>(&mut self, buffer: &'a mut Vec<u8>) -> Option<&'a str> {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        let Some(length) = read_all(self.file.as_ref()?, buffer) else {
            self.file = None;
            return None;
        };
        std::str::from_utf8(&buffer[..length]).ok()
    }

    /// Returns the content as a number.
    pub(super) fn number<T: std::str::FromStr>(&mut self, buffer: &mut Vec<u8>) -> Option<T> {
        self.read(buffer)?.trim().parse().ok()
    }
}

fn read_all(file: &File, buffer: &mut Vec<u8>) -> Option<usize> {
    const STEP: usize = 4096;
    let mut length = 0;
    loop {
        if buffer.len() < length + STEP {
            if length >= BYTES_MAX {
                return Some(length);
            }
            buffer.resize((buffer.len() * 2).max(length + STEP), 0);
        }
        match file.read_at(&mut buffer[length..], length as u64) {
            Ok(0) => return Some(length),
            Ok(count) => length += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}
