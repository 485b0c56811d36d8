//! Memory directly from the kernel: mmap(2), mprotect(2), madvise(2), munmap(2).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

/// Size of a page in bytes, in the usual configuration of every architecture that tardy is built
/// for. If pages are larger, each is touched several times, which takes longer, but is still
/// correct.
pub const PAGE_BYTES: usize = 4096;
/// Size of a cache line in bytes, on nearly every CPU that runs Linux. If lines are longer, each is
/// written more than once.
const LINE_BYTES: usize = 64;
/// From include/uapi/asm-generic/mman-common.h.
const MADV_COLLAPSE: libc::c_int = 25;

/// A mapping of private memory of this process, or a shared mapping of a file. It is readable and
/// writable unless another protection is set, and is unmapped on drop.
///
/// The memory can be accessed only through methods. These methods return no slice of the memory,
/// because its pages may be protected, or shared with another process.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<libc::c_void>,
    bytes: usize,
    writable: bool,
}

// SAFETY: the mapping is plain memory owned by the value; moving the value to another thread moves
// the right to use the memory.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `bytes` of private zero pages. No page is present yet.
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

    /// Maps the first `bytes` of `file`, so that writes change the file. The file must not become
    /// shorter, because access beyond its end raises SIGBUS.
    ///
    /// # Errors
    /// Returns EACCES if the file is not open for reading and writing; ENODEV; EINVAL for 0 bytes.
    pub fn shared(file: &File, bytes: usize) -> io::Result<Self> {
        Self::new(bytes, libc::MAP_SHARED, file.as_raw_fd())
    }

    fn new(bytes: usize, flags: libc::c_int, fd: libc::c_int) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a null address without MAP_FIXED lets the kernel choose, so no existing mapping
        // is touched.
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

    /// Returns the size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Returns false, because an empty mapping cannot be made.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Returns the start address, for fault handlers.
    pub(crate) fn address(&self) -> *mut libc::c_void {
        self.start.as_ptr()
    }

    /// Writes the first byte even if it is protected. The handler of the fault must then eventually
    /// allow the write.
    pub(crate) fn write_even_if_protected(&mut self) {
        // SAFETY: the first byte is mapped, and a volatile write of one byte needs no alignment. If
        // the byte is protected, the CPU faults and repeats the write when the handler returns.
        unsafe { self.start.as_ptr().cast::<u8>().write_volatile(1) };
    }

    /// Returns the sum of all words in [`from`, `to`). Each word is read by a volatile read, so the
    /// compiler cannot vectorise the reads.
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
            // SAFETY: the mapping is readable, and its bytes are zeros or those of a file. While
            // `self` is borrowed, only another process that shares the file can write. The read
            // then returns either the old or the new value, and only the sum is used.
            unsafe { word.read_volatile() }
        };
        (0..(to - from) / 8).fold(0, |sum: u64, index| sum.wrapping_add(word(index)))
    }

    /// Reads `bytes` bytes of the file into the start of the mapping, beginning at offset `at` of
    /// the file.
    ///
    /// # Errors
    /// Returns the errors of pread(2), or `UnexpectedEof` if the file ends earlier.
    ///
    /// # Panics
    /// Panics if the mapping is shorter than `bytes`.
    pub fn fill_from(&mut self, file: &File, at: i64, bytes: usize) -> io::Result<()> {
        assert!(bytes <= self.bytes, "{bytes} of {} bytes", self.bytes);
        // SAFETY: the kernel writes `bytes` bytes to the mapping, which is at least that long
        // (asserted above) and exclusively borrowed during the call.
        let read =
            unsafe { libc::pread64(file.as_raw_fd(), self.start.as_ptr().cast(), bytes, at) };
        match usize::try_from(read) {
            Ok(read) if read == bytes => Ok(()),
            Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }

    /// Writes one byte into each page of [`from`, `to`), in order, so that each page is present
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
    /// Panics as [`Mapping::touch`] does.
    pub fn touch_lines(&mut self, from: usize, to: usize) -> usize {
        self.touch_every(from, to, LINE_BYTES)
    }

    /// Writes one byte every `step` bytes of [`from`, `to`), in order. Returns the number of
    /// writes.
    ///
    /// # Panics
    /// Panics as [`Mapping::touch`] does, and if `step` is 0.
    pub fn touch_every(&mut self, from: usize, to: usize, step: usize) -> usize {
        assert!(
            self.writable && from <= to && to <= self.bytes,
            "{from}..{to} of {} bytes, writable: {}",
            self.bytes,
            self.writable
        );
        let mut writes = 0;
        for offset in (from..to).step_by(step) {
            // SAFETY: `offset` is below `bytes` (asserted above), so the pointer stays within the
            // mapping.
            let byte = unsafe { self.start.as_ptr().cast::<u8>().add(offset) };
            // SAFETY: the byte is mapped and writable (asserted above); a volatile write of one
            // byte needs no alignment.
            unsafe { byte.write_volatile(offset as u8 | 1) };
            writes += 1;
        }
        writes
    }

    /// Sets whether the pages of [`from`, `to`) may be written. `from` and `to` must be multiples
    /// of the page size. After any page was write-protected, [`Mapping::touch`] panics until a
    /// single call of this function makes the whole mapping writable.
    ///
    /// # Errors
    /// Returns EINVAL if the range does not consist of whole pages; ENOMEM if the process would
    /// exceed its maximum number of mappings.
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

    /// Gives the pages of [`from`, `to`) back to the kernel (MADV_DONTNEED). Afterwards these pages
    /// read as zeros, or as the file's content.
    ///
    /// # Errors
    /// Returns EINVAL if the range does not consist of whole pages, or if pages are locked.
    pub fn discard(&mut self, from: usize, to: usize) -> io::Result<()> {
        self.check_range(from, to)?;
        // SAFETY: `from` is within the mapping (checked above).
        let start = unsafe { self.start.as_ptr().cast::<u8>().add(from) };
        // SAFETY: the range belongs to this mapping alone; its contents may change because no
        // reference to its memory exists.
        crate::check(unsafe { libc::madvise(start.cast(), to - from, libc::MADV_DONTNEED) })
            .map(drop)
    }

    /// Requests small pages only, so that a fault adds one page instead of two megabytes.
    ///
    /// # Errors
    /// Returns EINVAL if the kernel lacks transparent huge pages; in this case, all pages are small
    /// anyway.
    pub fn forbid_huge_pages(&mut self) -> io::Result<()> {
        // SAFETY: the range is exactly this mapping.
        crate::check(unsafe {
            libc::madvise(self.start.as_ptr(), self.bytes, libc::MADV_NOHUGEPAGE)
        })
        .map(drop)
    }

    /// Requests huge pages, where they fit into the mapping.
    ///
    /// # Errors
    /// Returns EINVAL on kernels without transparent huge pages.
    pub fn ask_for_huge_pages(&mut self) -> io::Result<()> {
        // SAFETY: the range is exactly this mapping.
        crate::check(unsafe { libc::madvise(self.start.as_ptr(), self.bytes, libc::MADV_HUGEPAGE) })
            .map(drop)
    }

    /// Makes the kernel merge small pages into huge ones now (MADV_COLLAPSE, Linux 6.1). Otherwise
    /// khugepaged would do so at some later time.
    ///
    /// # Errors
    /// Returns EINVAL in older kernels, and if no huge page fits; EAGAIN, EBUSY or ENOMEM if the
    /// pages cannot be merged at the moment.
    pub fn collapse(&mut self) -> io::Result<()> {
        // SAFETY: the range is exactly this mapping; its content does not change.
        crate::check(unsafe { libc::madvise(self.start.as_ptr(), self.bytes, MADV_COLLAPSE) })
            .map(drop)
    }

    /// Allows the kernel to reclaim the pages of a private mapping when it needs memory (MADV_FREE,
    /// Linux 4.5). Reclaimed pages read as zeros.
    ///
    /// # Errors
    /// Returns EINVAL in older kernels, for shared mappings and for locked pages.
    pub fn free_lazily(&mut self) -> io::Result<()> {
        // SAFETY: the range is exactly this mapping; its contents may change because no reference
        // to its memory exists.
        crate::check(unsafe { libc::madvise(self.start.as_ptr(), self.bytes, libc::MADV_FREE) })
            .map(drop)
    }

    /// Writes the dirty pages of a shared mapping to its file, and waits until they are written.
    ///
    /// # Errors
    /// Returns EIO.
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
        // SAFETY: the range is exactly this mapping, and nothing uses it any more.
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
        // The machine may have too little memory for huge pages, so the test accepts an error.
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
