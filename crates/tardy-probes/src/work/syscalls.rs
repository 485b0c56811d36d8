//! System calls that take locks and use the file system, like those of ordinary programs.

use std::ffi::CStr;
use std::io::{self, PipeReader, PipeWriter, Read, Write};

/// A path that exists on every system. Its attributes are in memory, so no step waits for a disk.
const PATH: &CStr = c"/proc/self";

/// Each step writes a byte into a pipe and reads it again (which takes a mutex in the kernel
/// twice), and asks for a file's attributes by its path.
#[derive(Debug)]
pub(super) struct SystemCalls {
    reader: PipeReader,
    writer: PipeWriter,
}

impl SystemCalls {
    /// Makes the pipe.
    pub(super) fn new() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        Ok(Self { reader, writer })
    }

    #[inline]
    pub(super) fn step(&mut self, steps: u64) -> io::Result<()> {
        let mut byte = [0];
        for _ in 0..steps {
            self.writer.write_all(&byte)?;
            self.reader.read_exact(&mut byte)?;
            tardy_sys::file::stat(PATH)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_step_leaves_nothing_in_the_pipe() {
        let mut calls = SystemCalls::new().unwrap();
        calls.step(3).unwrap();
        assert_eq!(
            tardy_sys::signal::wait_readable(&[calls.reader.as_fd()], 0).unwrap(),
            [false]
        );
        calls.writer.write_all(b"x").unwrap();
        assert_eq!(
            tardy_sys::signal::wait_readable(&[calls.reader.as_fd()], 0).unwrap(),
            [true]
        );
    }
}
