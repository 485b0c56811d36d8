//! Provides a gate at which the tasks of a load wait until all of them exist. When the gate opens,
//! all of them run at once.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;

use tardy_sys::signal::wait_readable;

/// A gate that can be opened and closed again, for processes and for threads.
#[derive(Debug)]
pub(super) struct Gate {
    arrived: (PipeReader, PipeWriter),
    opened: (PipeReader, PipeWriter),
}

impl Gate {
    /// Makes a closed gate.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            arrived: io::pipe()?,
            opened: io::pipe()?,
        })
    }

    /// Waits until the gate opens. A byte in a pipe opens the gate. Nobody reads the byte, so the
    /// pipe becomes readable for all waiting tasks at once. If each task had to read a byte, they
    /// would wake up one after the other.
    pub(super) fn wait(&self) -> io::Result<()> {
        (&self.arrived.1).write_all(&[0])?;
        while !wait_readable(&[self.opened.0.as_fd()], -1)?[0] {}
        Ok(())
    }

    /// Waits until `count` tasks wait at the gate, then opens it.
    pub(super) fn open(&self, count: u64) -> io::Result<()> {
        let mut arrived = (&self.arrived.0).take(count);
        io::copy(&mut arrived, &mut io::sink())?;
        self.open_at_once()
    }

    /// Opens the gate for present and future waiters.
    pub(super) fn open_at_once(&self) -> io::Result<()> {
        (&self.opened.1).write_all(&[0])
    }

    /// Closes the gate, after all tasks have passed.
    pub(super) fn close(&self) -> io::Result<()> {
        (&self.opened.0).read_exact(&mut [0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn nobody_passes_before_all_have_come() {
        let gate = Gate::new().unwrap();
        for _ in 0..3 {
            let (come, passed) = (AtomicU64::new(0), AtomicU64::new(0));
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        come.fetch_add(1, Ordering::SeqCst);
                        gate.wait().unwrap();
                        assert_eq!(come.load(Ordering::SeqCst), 8);
                        passed.fetch_add(1, Ordering::SeqCst);
                    });
                }
                gate.open(8).unwrap();
            });
            assert_eq!(passed.load(Ordering::SeqCst), 8);
            gate.close().unwrap();
        }
    }
}
