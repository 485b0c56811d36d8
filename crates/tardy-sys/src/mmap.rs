//! Shared memory mappings of files and of device memory (mmap(2)).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// A readable and writable `MAP_SHARED` mapping of a file, unmapped when dropped.
///
/// All accesses are volatile. Reads are one byte wide; writes are eight bytes wide where the offset
/// is aligned, otherwise one byte. The file may be the memory of a device, and a `memcpy` by the
/// compiler may use unaligned or vector accesses, which fail on device memory of some
/// architectures.
#[derive(Debug)]
pub struct SharedMapping {
    start: NonNull<u8>,
    length: usize,
}

impl SharedMapping {
    /// Maps the first `length` bytes of `file`, which must be open for reading and writing.
    ///
    /// # Errors
    /// Returns the errors of mmap(2), such as `EINVAL` for a length of zero, or `EACCES` for a file
    /// opened without write permission.
    pub fn new(file: BorrowedFd<'_>, length: usize) -> io::Result<Self> {
        // SAFETY: a null hint without MAP_FIXED lets the kernel choose unused addresses, so no
        // existing object is touched. The kernel checks the descriptor and the length.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast::<u8>())
            .ok_or_else(|| io::Error::other("the kernel mapped address zero"))?;
        Ok(Self { start, length })
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns false, because the kernel refuses an empty mapping.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Copies `bytes` into the mapping, beginning at `offset`.
    ///
    /// # Errors
    /// Returns `UnexpectedEof` if the bytes do not fit; the mapping is unchanged then.
    pub fn write_at(&mut self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        if offset
            .checked_add(bytes.len())
            .is_none_or(|end| end > self.length)
        {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the write ends beyond the mapping",
            ));
        }
        let mut position = offset;
        let mut rest = bytes;
        while let Some(&first) = rest.first() {
            match rest.first_chunk::<8>() {
                Some(word) if position.is_multiple_of(8) => {
                    self.store_word(position, u64::from_ne_bytes(*word));
                    position += 8;
                    rest = &rest[8..];
                }
                _ => {
                    self.store_byte(position, first);
                    position += 1;
                    rest = &rest[1..];
                }
            }
        }
        Ok(())
    }

    /// Fills `target` with the bytes that start at `offset` of the mapping.
    ///
    /// # Errors
    /// Returns `UnexpectedEof` if the mapping ends earlier; `target` is unchanged then.
    pub fn read_at(&self, offset: usize, target: &mut [u8]) -> io::Result<()> {
        if offset
            .checked_add(target.len())
            .is_none_or(|end| end > self.length)
        {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the read ends beyond the mapping",
            ));
        }
        for (position, byte) in (offset..).zip(target) {
            // SAFETY: position < offset + target.len() <= length (checked above), so the result
            // lies inside the mapping.
            let source = unsafe { self.start.as_ptr().add(position) };
            // SAFETY: the byte lies inside the mapping, which is readable and lives as long as
            // `self`; bytes need no alignment. If another process writes at the same time, a
            // volatile read of one byte returns the old or the new value.
            *byte = unsafe { source.read_volatile() };
        }
        Ok(())
    }

    fn store_word(&mut self, position: usize, word: u64) {
        assert!(
            position.is_multiple_of(8) && position + 8 <= self.length,
            "write_at keeps each word aligned and inside the buffer"
        );
        // SAFETY: position + 8 <= length (asserted above), so the result lies inside the mapping.
        let target = unsafe { self.start.as_ptr().add(position) };
        #[allow(
            clippy::cast_ptr_alignment,
            reason = "mappings start at a page and position is a multiple of eight, asserted above"
        )]
        let target = target.cast::<u64>();
        // SAFETY: the word lies inside the mapping and is aligned (both asserted above); the
        // mapping is writable and lives as long as `self`; `&mut self` excludes other accesses by
        // this process.
        unsafe { target.write_volatile(word) };
    }

    fn store_byte(&mut self, position: usize, byte: u8) {
        assert!(position < self.length, "write_at keeps bytes inside");
        // SAFETY: position < length (asserted above), so the result lies inside the mapping.
        let target = unsafe { self.start.as_ptr().add(position) };
        // SAFETY: the byte lies inside the mapping, which is writable and lives as long as `self`;
        // bytes need no alignment; `&mut self` excludes other accesses by this process.
        unsafe { target.write_volatile(byte) };
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        // SAFETY: start and length are those of the mapping, and nothing borrows its memory,
        // because accesses copy.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    fn file_of(length: u64) -> (std::path::PathBuf, File) {
        let path = std::env::temp_dir().join(format!("tardy-mmap-{}-{length}", std::process::id()));
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .unwrap();
        file.set_len(length).unwrap();
        (path, file)
    }

    #[test]
    fn what_is_written_at_any_offset_is_found_in_the_file() {
        let (path, file) = file_of(4096);
        let mut mapping = SharedMapping::new(file.as_fd(), 4096).unwrap();
        let bytes: Vec<u8> = (0..=255).collect();
        mapping.write_at(3, &bytes).unwrap();
        mapping.write_at(4094, b"zz").unwrap();
        let mut read = [0; 256];
        mapping.read_at(3, &mut read).unwrap();
        assert_eq!(read[..], bytes[..]);
        drop(mapping);
        let content = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(&content[3..259], &bytes[..]);
        assert_eq!(
            (content[2], content[259], &content[4094..]),
            (0, 0, &b"zz"[..])
        );
    }

    #[test]
    fn reading_and_writing_past_the_end_are_refused() {
        let (path, file) = file_of(8);
        let mut mapping = SharedMapping::new(file.as_fd(), 8).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(
            mapping.write_at(1, &[0; 8]).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
        assert_eq!(
            mapping.write_at(usize::MAX, &[0; 8]).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
        assert_eq!(
            mapping.read_at(1, &mut [0; 8]).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
    }

    #[test]
    fn an_empty_mapping_is_refused_by_the_kernel() {
        let (path, file) = file_of(16);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(
            SharedMapping::new(file.as_fd(), 0)
                .unwrap_err()
                .raw_os_error(),
            Some(libc::EINVAL)
        );
    }
}
