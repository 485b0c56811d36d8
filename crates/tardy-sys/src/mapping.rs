//! Memory straight from the kernel: mmap(2), mprotect(2), madvise(2), munmap(2).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

/// Bytes of a page on every architecture that tardy is built for in its usual configuration; a
/// larger page only makes touching slower.
pub const PAGE_BYTES: usize = 4096;
/// Size of a cache line in bytes on nearly every CPU that runs Linux; with longer lines, some are
/// written twice.
const LINE_BYTES: usize = 64;
/// From include/uapi/asm-generic/mman-common.h.
const MADV_COLLAPSE: libc::c_int = 25;

/// A private mapping, readable and writable unless another protection is set; unmapped on drop.
///
/// It gives no slice, because the pages may be protected or shared with another process. Access is
/// by page, through methods.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<libc::c_void>,
    bytes: usize,
    writable: bool,
}

// SAFETY: the mapping is plain memory that belongs to the value; moving it to another thread moves
// the right to use it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// `bytes` of private zero pages, none of them present yet.
    ///
    /// # Errors
    /// Returns ENOMEM; EINVAL for 0 bytes.
    pub fn anonymous(bytes: usize) -> io::Result<Self> {
        Self::new(
            bytes,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
        )
    }

    /// Maps the first `bytes` of `file`, shared with it. The file must not become shorter, or
    /// touching raises SIGBUS.
    ///
    /// # Errors
    /// Returns EACCES if the file is not open for reading and writing; ENODEV; EINVAL for 0 bytes.
    pub fn shared(file: &File, bytes: usize) -> io::Result<Self> {
        Self::new(bytes, libc::MAP_SHARED, file.as_raw_fd())
    }

    fn new(bytes: usize, flags: libc::c_int, fd: libc::c_int) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a null address without MAP_FIXED lets the kernel choose, so that no existing
        // mapping is touched.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, fd, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start =
            NonNull::new(start).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Self {
            start,
            bytes,
            writable: true,
        })
    }

    /// Its size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Never true: an empty mapping cannot be made.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Returns its start, for fault handlers, which get addresses.
    pub(crate) fn address(&self) -> *mut libc::c_void {
        self.start.as_ptr()
    }

    /// Writes the first byte, even if it is protected: a handler of the fault must finally allow
    /// the write.
    pub(crate) fn write_even_if_protected(&mut self) {
        // SAFETY: the first byte is mapped, and a volatile write of one byte needs no alignment;
        // where it is protected the CPU faults, and the write is done again when the handler
        // returns.
        unsafe { self.start.as_ptr().cast::<u8>().write_volatile(1) };
    }

    /// Returns the sum of all words of [`from`, `to`), each read individually: the compiler cannot
    /// vectorise the reads.
    ///
    /// # Panics
    /// Panics if the range is not within the mapping, or does not consist of words of eight bytes.
    #[must_use]
    pub fn sum(&self, from: usize, to: usize) -> u64 {
        assert!(
            from <= to && to <= self.bytes && from.is_multiple_of(8) && to.is_multiple_of(8),
            "{from}..{to} of {} bytes",
            self.bytes
        );
        // SAFETY: `from` is within the mapping (asserted above).
        let first = unsafe { self.start.as_ptr().cast::<u8>().add(from) };
        #[allow(
            clippy::cast_ptr_alignment,
            reason = "mappings begin at a page, and `from` is a multiple of eight, asserted above"
        )]
        let words = first.cast::<u64>();
        let word = |index| {
            // SAFETY: the word lies within the mapping (asserted above).
            let word = unsafe { words.add(index) };
            // SAFETY: the mapping is readable and zeroed or a file's; while `self` is borrowed,
            // only another process that shares the file can write to it: a word is then one of its
            // values, and only its sum is returned.
            unsafe { word.read_volatile() }
        };
        (0..(to - from) / 8).fold(0, |sum: u64, index| sum.wrapping_add(word(index)))
    }

    /// Reads `bytes` from the file, from `at` on, to the start of the mapping.
    ///
    /// # Errors
    /// Returns errors of pread(2); `UnexpectedEof` if it reads less.
    ///
    /// # Panics
    /// Panics if the mapping is shorter.
    pub fn fill_from(&mut self, file: &File, at: i64, bytes: usize) -> io::Result<()> {
        assert!(bytes <= self.bytes, "{bytes} of {} bytes", self.bytes);
        // SAFETY: the kernel writes so many bytes to the mapping, which is as long (asserted
        // above), lives, and is borrowed for this call alone.
        let read =
            unsafe { libc::pread64(file.as_raw_fd(), self.start.as_ptr().cast(), bytes, at) };
        match usize::try_from(read) {
            Ok(read) if read == bytes => Ok(()),
            Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }

    /// Writes one byte into each page of [`from`, `to`), in order, so that each is present
    /// afterwards. Returns the number of pages.
    ///
    /// # Panics
    /// Panics if the range is not within the mapping, or the mapping is write-protected.
    pub fn touch(&mut self, from: usize, to: usize) -> usize {
        self.touch_every(from, to, PAGE_BYTES)
    }

    /// Writes one byte into each cache line of [`from`, `to`), in order. Returns the number of
    /// writes.
    ///
    /// # Panics
    /// As [`Mapping::touch`].
    pub fn touch_lines(&mut self, from: usize, to: usize) -> usize {
        self.touch_every(from, to, LINE_BYTES)
    }

    /// Writes one byte every `step` bytes of [`from`, `to`), in order. Returns the number of
    /// writes.
    ///
    /// # Panics
    /// Panics like [`Mapping::touch`], and if `step` is 0.
    pub fn touch_every(&mut self, from: usize, to: usize, step: usize) -> usize {
        assert!(
            self.writable && from <= to && to <= self.bytes,
            "{from}..{to} of {} bytes, writable: {}",
            self.bytes,
            self.writable
        );
        let mut writes = 0;
        for offset in (from..to).step_by(step) {
            // SAFETY: `offset` is below `bytes` (asserted above), so that the pointer stays within
            // the mapping.
            let byte = unsafe { self.start.as_ptr().cast::<u8>().add(offset) };
            // SAFETY: the byte is mapped and writable (asserted above); a volatile write of one
            // byte needs no alignment.
            unsafe { byte.write_volatile(offset as u8 | 1) };
            writes += 1;
        }
        writes
    }

    /// Sets whether the pages of [`from`, `to`) may be written. Both must be multiples of the page
    /// size. While any page is protected, [`Mapping::touch`] refuses; make all writable again
    /// first.
    ///
    /// # Errors
    /// Returns EINVAL for a range that is no range of pages; ENOMEM at the limit of mappings.
    pub fn set_writable(&mut self, from: usize, to: usize, writable: bool) -> io::Result<()> {
        self.check_range(from, to)?;
        let protection = if writable {
            libc::PROT_READ | libc::PROT_WRITE
        } else {
            libc::PROT_READ
        };
        // SAFETY: `from` is within the mapping (checked above).
        let start = unsafe { self.start.as_ptr().cast::<u8>().add(from) };
        // SAFETY: the range belongs to this mapping alone, and no reference to its memory exists
        // outside of `touch`.
        crate::check(unsafe { libc::mprotect(start.cast(), to - from, protection) })?;
        self.writable = writable && (self.writable || (from == 0 && to == self.bytes));
        Ok(())
    }

    /// Gives the pages of [`from`, `to`) back to the kernel (MADV_DONTNEED); they read as zero (or
    /// as the file) afterwards.
    ///
    /// # Errors
    /// Returns EINVAL for a range that is no range of pages, or locked pages.
    pub fn discard(&mut self, from: usize, to: usize) -> io::Result<()> {
        self.check_range(from, to)?;
        // SAFETY: `from` is within the mapping (checked above).
        let start = unsafe { self.start.as_ptr().cast::<u8>().add(from) };
        // SAFETY: the range belongs to this mapping alone; its contents may change because no
        // reference to its memory exists.
        crate::check(unsafe { libc::madvise(start.cast(), to - from, libc::MADV_DONTNEED) })
            .map(drop)
    }

    /// Asks for small pages only, so that a fault brings one page and not two megabytes.
    ///
    /// # Errors
    /// Returns EINVAL on kernels without transparent huge pages, which have small pages only
    /// anyway.
    pub fn forbid_huge_pages(&mut self) -> io::Result<()> {
        // SAFETY: the range is exactly this mapping.
        crate::check(unsafe {
            libc::madvise(self.start.as_ptr(), self.bytes, libc::MADV_NOHUGEPAGE)
        })
        .map(drop)
    }

    /// Requests huge pages where the mapping contains whole ones.
    ///
    /// # Errors
    /// Returns EINVAL on kernels without transparent huge pages.
    pub fn ask_for_huge_pages(&mut self) -> io::Result<()> {
        // SAFETY: the range is exactly this mapping.
        crate::check(unsafe { libc::madvise(self.start.as_ptr(), self.bytes, libc::MADV_HUGEPAGE) })
            .map(drop)
    }

    /// Has the kernel put small pages together to huge ones now, as khugepaged would some time
    /// (MADV_COLLAPSE, Linux 6.1).
    ///
    /// # Errors
    /// Returns EINVAL in older kernels, and if no huge page fits; EAGAIN, EBUSY or ENOMEM if a page
    /// could not be put together at present.
    pub fn collapse(&mut self) -> io::Result<()> {
        // SAFETY: the range is exactly this mapping; its content does not change.
        crate::check(unsafe { libc::madvise(self.start.as_ptr(), self.bytes, MADV_COLLAPSE) })
            .map(drop)
    }

    /// Allows the kernel to take the pages of a private mapping when it needs memory (MADV_FREE,
    /// Linux 4.5); they may then read as zero.
    ///
    /// # Errors
    /// Returns EINVAL in older kernels, for shared mappings and for locked pages.
    pub fn free_lazily(&mut self) -> io::Result<()> {
        // SAFETY: the range is exactly this mapping; its contents may change because no reference
        // to its memory exists.
        crate::check(unsafe { libc::madvise(self.start.as_ptr(), self.bytes, libc::MADV_FREE) })
            .map(drop)
    }

    /// Writes the dirty pages of a shared mapping back to its file and waits for it.
    ///
    /// # Errors
    /// EIO.
    pub fn sync(&self) -> io::Result<()> {
        // SAFETY: the range is exactly this mapping.
        crate::check(unsafe { libc::msync(self.start.as_ptr(), self.bytes, libc::MS_SYNC) })
            .map(drop)
    }

    fn check_range(&self, from: usize, to: usize) -> io::Result<()> {
        let good = from <= to
            && to <= self.bytes
            && from.is_multiple_of(PAGE_BYTES)
            && to.is_multiple_of(PAGE_BYTES);
        if good {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(libc::EINVAL))
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is exactly this mapping, which nothing uses any more.
        unsafe { libc::munmap(self.start.as_ptr(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_of_the_range_is_touched() {
        let mut mapping = Mapping::anonymous(10 * PAGE_BYTES).unwrap();
        assert_eq!(mapping.touch(0, 10 * PAGE_BYTES), 10);
        assert_eq!(mapping.touch(PAGE_BYTES, PAGE_BYTES), 0);
        mapping.discard(0, PAGE_BYTES).unwrap();
        assert_eq!(
            Mapping::anonymous(0).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
    }

    #[test]
    fn advice_is_taken_or_the_kernel_is_too_old() {
        let mut mapping = Mapping::anonymous(4 << 20).unwrap();
        let is_old = |result: io::Result<()>| {
            result.is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL))
        };
        let advised = mapping.ask_for_huge_pages();
        assert!(advised.is_ok() || is_old(advised));
        mapping.touch(0, 4 << 20);
        // Whether memory for huge pages is there is the machine's matter.
        let _ = mapping.collapse();
        assert_eq!(
            mapping.touch(0, 4 << 20),
            1024,
            "a mapping that was put together is as it was"
        );
        assert!(mapping.free_lazily().is_ok() || is_old(mapping.free_lazily()));
        assert_eq!(
            mapping.touch(0, PAGE_BYTES),
            1,
            "freed pages can be written again"
        );
    }

    #[test]
    fn protected_pages_are_not_touched() {
        let mut mapping = Mapping::anonymous(4 * PAGE_BYTES).unwrap();
        mapping.set_writable(0, PAGE_BYTES, false).unwrap();
        assert!(
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| mapping.touch(0, PAGE_BYTES)))
                .is_err()
        );
        mapping.set_writable(0, 2 * PAGE_BYTES, true).unwrap();
        assert!(
            !mapping.writable,
            "a part of the range cannot speak for the whole"
        );
        mapping.set_writable(0, 4 * PAGE_BYTES, true).unwrap();
        assert_eq!(mapping.touch(0, 4 * PAGE_BYTES), 4);
        assert_eq!(
            mapping
                .set_writable(1, PAGE_BYTES, true)
                .unwrap_err()
                .raw_os_error(),
            Some(libc::EINVAL)
        );
        assert_eq!(
            mapping
                .discard(0, 5 * PAGE_BYTES)
                .unwrap_err()
                .raw_os_error(),
            Some(libc::EINVAL)
        );
    }

    #[test]
    fn a_shared_mapping_writes_to_its_file() {
        let mut file = crate::memory_file::create("tardy-mapping").unwrap();
        file.set_len(PAGE_BYTES as u64).unwrap();
        let mut mapping = Mapping::shared(&file, PAGE_BYTES).unwrap();
        mapping.touch(0, PAGE_BYTES);
        mapping.sync().unwrap();
        let mut first = [0];
        std::io::Read::read_exact(&mut file, &mut first).unwrap();
        assert_eq!(first, [1]);
    }
}
