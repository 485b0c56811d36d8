//! The memory that host and guest share (QEMU's ivshmem device). It contains a header and one
//! archive, in which the guest exports its result. If the run starts from a snapshot, the memory
//! first contains the job. While the guest measures, the header also contains its progress.
//!
//! To the guest, the memory is a resource of a PCI device, so the kernel needs no driver for it.
//! Writing to the memory costs negligible virtual time and wakes nothing on the host, so the
//! measurement stays deterministic. The guest writes the header last. So if the guest stops during
//! the export, it has exported nothing.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use tardy_core::units::Nanos;
use tardy_sys::mmap::SharedMapping;

use super::qemu::SHARED_NAME;

/// Length of the header in bytes. The header contains magic, version, CRC-32 of the data and length
/// of the data, all little-endian. The rest is zero, or the progress of a run: ns since its start,
/// planned ns, and the first bytes of its phase's name.
const HEADER_LENGTH: usize = 64;
const PROGRESS_AT: usize = 24;
const PHASE_AT: usize = PROGRESS_AT + 16;
/// Magic of a header that is followed by an archive.
const MAGIC: &[u8; 8] = b"tardylab";
/// Magic of a header by which a guest announces that it has stopped itself and waits for a job. No
/// data follows this header.
const PAUSE_MAGIC: &[u8; 8] = b"tardywai";
/// Magic of a header that is followed by a job for the guest.
const JOB_MAGIC: &[u8; 8] = b"tardyask";
const VERSION: u32 = 1;

/// Writes an archive into the shared memory; [`Sender::finish`] marks it as complete.
pub struct Sender {
    memory: SharedMapping,
    position: usize,
    checksum: crc32fast::Hasher,
}

impl Sender {
    /// Starts an archive, still empty, in this memory.
    #[must_use]
    pub fn new(memory: SharedMapping) -> Self {
        Self {
            memory,
            position: HEADER_LENGTH,
            checksum: crc32fast::Hasher::new(),
        }
    }

    /// Writes the header.
    ///
    /// # Errors
    /// Returns `UnexpectedEof` if the memory is smaller than a header.
    pub fn finish(mut self) -> io::Result<()> {
        let length = self.position - HEADER_LENGTH;
        self.memory
            .write_at(0, &header(MAGIC, self.checksum.clone().finalize(), length))
    }
}

fn header(magic: &[u8; 8], checksum: u32, length: usize) -> [u8; HEADER_LENGTH] {
    let mut header = [0; HEADER_LENGTH];
    header[..8].copy_from_slice(magic);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..16].copy_from_slice(&checksum.to_le_bytes());
    header[16..24].copy_from_slice(&(length as u64).to_le_bytes());
    header
}

/// Announces that the guest is about to stop itself and wait for a job.
///
/// # Errors
/// Returns `UnexpectedEof` if the memory is smaller than a header.
pub fn announce_pause(memory: &mut SharedMapping) -> io::Result<()> {
    memory.write_at(0, &header(PAUSE_MAGIC, 0, 0))
}

/// Returns whether the guest's latest message is the announcement that it will stop itself and wait
/// for a job. `memory` must be at least as long as the header.
#[must_use]
pub fn is_paused(memory: &[u8]) -> bool {
    memory.starts_with(PAUSE_MAGIC)
}

/// Encodes a job, as it is written to the start of the shared memory.
#[must_use]
pub fn job_block(job: &[u8]) -> Vec<u8> {
    let mut block = header(JOB_MAGIC, crc32fast::hash(job), job.len()).to_vec();
    block.extend_from_slice(job);
    block
}

/// Reads the job that the host has written with [`job_block`].
///
/// # Errors
/// Returns `InvalidData` if there is no job.
pub fn read_job(memory: &SharedMapping) -> io::Result<Vec<u8>> {
    let none = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "the host resumed the guest without giving it a job",
        )
    };
    let mut header = [0; HEADER_LENGTH];
    memory.read_at(0, &mut header)?;
    let length = usize::try_from(u64_at(&header, 16))
        .ok()
        .filter(|length| *length <= memory.len());
    let mut job = vec![
        0;
        length
            .filter(|_| header.starts_with(JOB_MAGIC))
            .ok_or_else(none)?
    ];
    memory.read_at(HEADER_LENGTH, &mut job)?;
    if crc32fast::hash(&job) == u32_at(&header, 12) {
        Ok(job)
    } else {
        Err(none())
    }
}

/// How far the guest's run is, in virtual time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestProgress {
    /// The first 24 letters of the phase's name.
    pub phase: String,
    pub elapsed: Nanos,
    pub planned: Nanos,
}

/// Writes the progress of a run into the header.
///
/// # Errors
/// Returns `UnexpectedEof` if the memory is smaller than a header.
pub fn tell_progress(
    memory: &mut SharedMapping,
    phase: &str,
    elapsed: Nanos,
    planned: Nanos,
) -> io::Result<()> {
    let mut block = [0; HEADER_LENGTH - PROGRESS_AT];
    block[..8].copy_from_slice(&elapsed.get().to_le_bytes());
    block[8..16].copy_from_slice(&planned.get().to_le_bytes());
    for (place, byte) in block[PHASE_AT - PROGRESS_AT..]
        .iter_mut()
        .zip(phase.bytes())
    {
        *place = byte;
    }
    memory.write_at(PROGRESS_AT, &block)
}

/// Returns how far the run of the guest in `folder` is; `None` before the guest measures.
/// Characters of the phase's name that must not reach a terminal are replaced by `?`, because a
/// guest can write anything there.
#[must_use]
pub fn progress(folder: &Path) -> Option<GuestProgress> {
    let mut header = [0; HEADER_LENGTH];
    File::open(folder.join(SHARED_NAME))
        .and_then(|mut file| file.read_exact(&mut header))
        .ok()?;
    let nanos = |at| i64::try_from(u64_at(&header, at)).ok().map(Nanos);
    let (elapsed, planned) = (nanos(PROGRESS_AT)?, nanos(PROGRESS_AT + 8)?);
    let letters = header[PHASE_AT..].iter().take_while(|byte| **byte != 0);
    let is_letter = |byte: &u8| {
        if byte.is_ascii_graphic() {
            char::from(*byte)
        } else {
            '?'
        }
    };
    (planned > Nanos::ZERO).then(|| GuestProgress {
        phase: letters.map(is_letter).collect(),
        elapsed: elapsed.min(planned),
        planned,
    })
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..]
        .first_chunk()
        .map(|bytes| u32::from_le_bytes(*bytes))
        .unwrap_or_default()
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..]
        .first_chunk()
        .map(|bytes| u64::from_le_bytes(*bytes))
        .unwrap_or_default()
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

/// Why there is no archive in the shared memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveError {
    /// The guest did not complete its archive.
    #[error("the guest returned no result")]
    Nothing,
    /// The header has a version that this program does not know.
    #[error(
        "the guest's binary uses version {0} of the exchange, this one uses {VERSION}: use the \
         same build for both"
    )]
    Version(u32),
    /// The archive differs from what its header states.
    #[error("the guest's result is incomplete")]
    Torn,
}

/// Returns the archive from the content of the shared memory.
///
/// # Errors
/// Returns [`ReceiveError`].
pub fn receive(memory: &[u8]) -> Result<&[u8], ReceiveError> {
    let header = memory
        .get(..HEADER_LENGTH)
        .filter(|header| header.starts_with(MAGIC))
        .ok_or(ReceiveError::Nothing)?;
    let version = u32_at(header, 8);
    if version != VERSION {
        return Err(ReceiveError::Version(version));
    }
    let length = usize::try_from(u64_at(header, 16)).ok();
    let archive = length
        .and_then(|length| memory[HEADER_LENGTH..].get(..length))
        .ok_or(ReceiveError::Torn)?;
    if crc32fast::hash(archive) == u32_at(header, 12) {
        Ok(archive)
    } else {
        Err(ReceiveError::Torn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    fn memory_after(write: impl FnOnce(Sender)) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory");
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
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
    fn a_plan_reaches_the_guest_that_waits_for_one_and_is_no_result() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory");
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        file.set_len(4096).unwrap();
        let mut memory = SharedMapping::new(file.as_fd(), 4096).unwrap();
        announce_pause(&mut memory).unwrap();
        assert!(is_paused(&std::fs::read(&path).unwrap()));
        assert_eq!(
            read_job(&memory).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
        std::os::unix::fs::FileExt::write_all_at(&file, &job_block(b"job"), 0).unwrap();
        assert_eq!(read_job(&memory).unwrap(), b"job");
        let content = std::fs::read(&path).unwrap();
        assert!(!is_paused(&content));
        assert_eq!(receive(&content), Err(ReceiveError::Nothing));
        memory.write_at(HEADER_LENGTH, b"x").unwrap();
        assert!(read_job(&memory).is_err(), "a changed job is noticed");
    }

    #[test]
    fn the_host_reads_how_far_the_guest_is_and_the_result_hides_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(folder.path().join(SHARED_NAME))
            .unwrap();
        file.set_len(4096).unwrap();
        let mapping = || SharedMapping::new(file.as_fd(), 4096).unwrap();
        assert_eq!(progress(folder.path()), None, "before it measures");
        let (now, all) = (Nanos::from_secs(12), Nanos::from_secs(40));
        tell_progress(
            &mut mapping(),
            "memory+io+fs+network+receive+reclaim",
            now,
            all,
        )
        .unwrap();
        let told = progress(folder.path()).unwrap();
        assert_eq!((told.elapsed, told.planned), (now, all));
        assert_eq!(told.phase, "memory+io+fs+network+rec");
        tell_progress(&mut mapping(), "\u{1b}[2J", now, all).unwrap();
        assert_eq!(progress(folder.path()).unwrap().phase, "?[2J");
        Sender::new(mapping()).finish().unwrap();
        assert_eq!(progress(folder.path()), None);
        let memory = std::fs::read(folder.path().join(SHARED_NAME)).unwrap();
        assert_eq!(receive(&memory), Ok(&b""[..]));
    }

    #[test]
    fn more_than_fits_is_an_error_of_the_sender() {
        memory_after(|mut sender| {
            assert_eq!(
                sender.write_all(&[1; 5000]).unwrap_err().kind(),
                io::ErrorKind::UnexpectedEof
            )
        });
    }
}
