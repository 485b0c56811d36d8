//! `pipe`: one thread waits to read a byte, and another thread writes it. This is the oldest way
//! for one thread to wake another one.

use std::io::{self, PipeReader, PipeWriter, Read, Write};

use super::ProbeInfo;
use super::pair::{self, Channel};

pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "pipe",
    about: "one thread wakes another through a pipe",
    times: "write(2) of a byte wakes a thread that reads a pipe: from the waker's clock read just before write to the woken \
            thread's clock read just after read returns",
    source: "williams2002 (wake-ups by threads)",
    open: pair::open::<Pipe>,
    system_calls: &["clock_nanosleep", "write", "read"],
    ..pair::INFO
};

struct Pipe {
    reader: PipeReader,
    writer: PipeWriter,
}

impl Channel for Pipe {
    fn new() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        Ok(Self { reader, writer })
    }

    #[inline]
    fn wake(&self) -> io::Result<()> {
        (&self.writer).write_all(&[1])
    }

    #[inline]
    fn wait(&self) -> io::Result<()> {
        (&self.reader).read_exact(&mut [0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_period_is_accounted_for() {
        pair::tests::accounts_for_every_period::<Pipe>();
    }
}
