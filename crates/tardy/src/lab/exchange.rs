//! The memory that host and guest share (QEMU's ivshmem device): a header and one archive.
//!
//! The guest sees the memory as a PCI resource, for which no kernel needs a driver; writing to it costs no virtual time worth naming and wakes nothing on the
//! host, so the measurement stays deterministic. The header is written last: a guest that stops in between has handed out nothing.

use std::io::{self, Write};

use tardy_sys::mmap::SharedMapping;

/// Length of the header in bytes: magic, version, CRC-32 of the archive, length of the archive; little-endian, rest zero.
const HEADER_LENGTH: usize = 64;
const MAGIC: &[u8; 8] = b"tardylab";
const VERSION: u32 = 1;

/// Writes an archive into the shared memory; [`Sender::finish`] makes it valid.
pub struct Sender {
    memory: SharedMapping,
    position: usize,
    checksum: crc32fast::Hasher,
}

impl Sender {
    /// An empty archive in this memory.
    #[must_use]
    pub fn new(memory: SharedMapping) -> Self {
        Self { memory, position: HEADER_LENGTH, checksum: crc32fast::Hasher::new() }
    }

    /// Writes the header.
    ///
    /// # Errors
    /// `UnexpectedEof` when the memory is smaller than a header.
    pub fn finish(mut self) -> io::Result<()> {
        let mut header = [0; HEADER_LENGTH];
        header[..8].copy_from_slice(MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[12..16].copy_from_slice(&self.checksum.clone().finalize().to_le_bytes());
        header[16..24].copy_from_slice(&((self.position - HEADER_LENGTH) as u64).to_le_bytes());
        self.memory.write_at(0, &header)
    }
}

impl Write for Sender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.memory.write_at(self.position, bytes)?;
        self.position += bytes.len();
        self.checksum.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Why the shared memory holds no archive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveError {
    /// The guest never finished.
    #[error("the guest handed out nothing")]
    Nothing,
    /// A header of another version.
    #[error("the guest's binary speaks version {0} of the exchange, this one {VERSION}: use the same build for both")]
    Version(u32),
    /// The archive is not what the header says.
    #[error("what the guest handed out is torn")]
    Torn,
}

/// The archive in the shared memory's bytes.
///
/// # Errors
/// [`ReceiveError`].
pub fn receive(memory: &[u8]) -> Result<&[u8], ReceiveError> {
    let header = memory.get(..HEADER_LENGTH).filter(|header| header.starts_with(MAGIC)).ok_or(ReceiveError::Nothing)?;
    let word = |at: usize| header[at..].first_chunk().map(|bytes| u32::from_le_bytes(*bytes)).unwrap_or_default();
    if word(8) != VERSION {
        return Err(ReceiveError::Version(word(8)));
    }
    let length = header[16..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes)).and_then(|length| usize::try_from(length).ok());
    let archive = length.and_then(|length| memory[HEADER_LENGTH..].get(..length)).ok_or(ReceiveError::Torn)?;
    if crc32fast::hash(archive) == word(12) { Ok(archive) } else { Err(ReceiveError::Torn) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    fn memory_after(write: impl FnOnce(Sender)) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory");
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        file.set_len(4096).unwrap();
        write(Sender::new(SharedMapping::new(file.as_fd(), 4096).unwrap()));
        std::fs::read(path).unwrap()
    }

    #[test]
    fn what_is_sent_arrives() {
        let memory = memory_after(|mut sender| {
            sender.write_all(b"part one, ").unwrap();
            sender.write_all(b"part two").unwrap();
            sender.finish().unwrap();
        });
        assert_eq!(receive(&memory), Ok(&b"part one, part two"[..]));
    }

    #[test]
    fn a_guest_that_stops_before_the_header_has_handed_out_nothing() {
        let memory = memory_after(|mut sender| sender.write_all(b"part one").unwrap());
        assert_eq!(receive(&memory), Err(ReceiveError::Nothing));
        assert_eq!(receive(&[]), Err(ReceiveError::Nothing));
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let memory = memory_after(|mut sender| {
            sender.write_all(b"result").unwrap();
            sender.finish().unwrap();
        });
        for position in (0..24).chain(HEADER_LENGTH..HEADER_LENGTH + 6) {
            let mut changed = memory.clone();
            changed[position] ^= 1;
            assert!(receive(&changed).is_err(), "{position}");
        }
    }

    #[test]
    fn more_than_fits_is_an_error_of_the_sender() {
        memory_after(|mut sender| assert_eq!(sender.write_all(&[1; 5000]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof));
    }
}
