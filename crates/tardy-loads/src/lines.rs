//! Reads lines from a descriptor, without blocking and without a thread.

use std::io::{self, Read};
use std::os::fd::AsFd;

use tardy_sys::signal::wait_readable;

/// Maximum length of a line. Real lines are shorter: a plan of a hundred loads has some tens of
/// KiB.
const LINE_BYTES_MAX: usize = 1 << 20;

/// Splits the content of a pipe into lines.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    source: R,
    pending: Vec<u8>,
    ended: bool,
}

impl<R: Read + AsFd> Lines<R> {
    pub(crate) fn new(source: R) -> Self {
        Self {
            source,
            pending: Vec::new(),
            ended: false,
        }
    }

    /// Returns whether [`Lines::take`] has seen the end of the input, or a line that is too long.
    /// [`Lines::take`] has then returned all complete lines.
    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    /// Returns all complete lines that have arrived, without waiting. Keeps an incomplete line
    /// until the rest arrives.
    pub(crate) fn take(&mut self) -> Vec<String> {
        while !self.ended
            && wait_readable(&[self.source.as_fd()], 0).is_ok_and(|readable| readable[0])
        {
            self.read_once();
        }
        self.cut()
    }

    /// Works like `take`, but waits up to `timeout_ms` for the first byte.
    pub(crate) fn take_within(&mut self, timeout_ms: i32) -> io::Result<Vec<String>> {
        wait_readable(&[self.source.as_fd()], timeout_ms)?;
        Ok(self.take())
    }

    fn read_once(&mut self) {
        let mut bytes = [0; 16 << 10];
        match self.source.read(&mut bytes) {
            Ok(0) => self.ended = true,
            Ok(count) if self.pending.len() + count <= LINE_BYTES_MAX => {
                self.pending.extend_from_slice(&bytes[..count])
            }
            // tardy's own processes never write such a long line, so nothing more is read from this
            // writer.
            Ok(_) => self.ended = true,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.ended = true,
        }
    }

    fn cut(&mut self) -> Vec<String> {
        let Some(end) = self.pending.iter().rposition(|&byte| byte == b'\n') else {
            return Vec::new();
        };
        let whole: Vec<u8> = self.pending.drain(..=end).collect();
        String::from_utf8_lossy(&whole)
            .lines()
            .map(ToOwned::to_owned)
            .collect()
    }
}

impl<R: AsFd> AsFd for Lines<R> {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.source.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_line_in_two_parts_is_one_line() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut lines = Lines::new(reader);
        assert_eq!(lines.take(), [""; 0]);
        writer.write_all(b"one\ntw").unwrap();
        assert_eq!(lines.take(), ["one"]);
        writer.write_all(b"o\nthree\nrest").unwrap();
        assert_eq!(lines.take(), ["two", "three"]);
        assert!(!lines.ended());
        drop(writer);
        // Another test may have just forked a process that still holds a copy of the writer.
        while !lines.ended() {
            assert_eq!(lines.take_within(1000).unwrap(), [""; 0]);
        }
    }

    #[test]
    fn a_line_without_end_is_not_kept_for_ever() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut lines = Lines::new(reader);
        let pusher = std::thread::spawn(move || while writer.write_all(&[b'x'; 4096]).is_ok() {});
        while !lines.ended() {
            lines.take_within(1000).unwrap();
        }
        drop(lines);
        pusher.join().unwrap();
    }
}
