//! Words in memory that other processes can also read and write. They are in a mapping of a sealed
//! memory file (memfd_create(2), fcntl(2) F_ADD_SEALS).

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, FromRawFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Words of 64 bits in a memory file of fixed size. The words are zero at first.
///
/// The words are atomics, because any process with the file may write any value at any time.
#[derive(Debug)]
pub struct SharedWords {
    file: File,
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping belongs to the value and stays in place; atomics may be used from any thread.
unsafe impl Send for SharedWords {}
// SAFETY: as above; a shared reference gives access to atomics only.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Creates `words` words, in a file that /proc shows as `name`.
    ///
    /// # Errors
    /// Returns EMFILE, ENFILE, ENOMEM; EINVAL for 0 words, or a name longer than 249 bytes.
    pub fn create(name: &str, words: usize) -> io::Result<Self> {
        let name = CString::new(name)?;
        // SAFETY: `name` is a C string that outlives the call.
        let fd = crate::check(unsafe {
            libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING)
        })?;
        // SAFETY: the descriptor was just opened, and nothing else owns it.
        let file = unsafe { File::from_raw_fd(fd) };
        let bytes = words
            .checked_mul(8)
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        file.set_len(bytes as u64)?;
        // The seals keep others from truncating the file, which would raise SIGBUS here.
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: F_ADD_SEALS takes an integer.
        crate::check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) })?;
        // SAFETY: a null address without MAP_FIXED lets the kernel choose, so no existing mapping
        // is touched.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start =
            NonNull::new(start.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Self { file, start, words })
    }

    /// Returns the file. Programs that this process starts do not inherit its descriptor, unless
    /// [`set_close_on_exec`] allows it.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl Deref for SharedWords {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has `words` words, starts at a page, is readable and writable while
        // `self` lives, and its file cannot shrink (sealed). Every value is a valid AtomicU64, and
        // every access in this process is atomic, because there is no other kind of reference to
        // the memory.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.words * 8) };
    }
}

/// Sets whether the descriptor of `file` is closed in programs that this process starts.
///
/// # Errors
/// Returns the errors of fcntl(2), which does not fail for an open file.
pub fn set_close_on_exec(file: &impl AsFd, is_closed: bool) -> io::Result<()> {
    let flags = if is_closed { libc::FD_CLOEXEC } else { 0 };
    // SAFETY: F_SETFD takes an integer.
    crate::check(unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_SETFD, flags) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::Ordering;

    #[test]
    fn what_is_written_to_the_file_is_read_from_the_words_and_nobody_can_cut_them_off() {
        let words = SharedWords::create("tardy-test", 1024).unwrap();
        assert_eq!(words.len(), 1024);
        words
            .file()
            .write_at(&7_u64.to_ne_bytes(), 8 * 1023)
            .unwrap();
        assert_eq!(words[1023].load(Ordering::Relaxed), 7);
        assert_eq!(
            words.file().set_len(8).unwrap_err().raw_os_error(),
            Some(libc::EPERM)
        );
        assert!(SharedWords::create("none", 0).is_err());
    }

    #[test]
    fn a_program_has_the_file_only_where_it_was_left_open() {
        let words = SharedWords::create("tardy-test", 8).unwrap();
        let has_it = || {
            let path = format!("/proc/self/fd/{}", words.file().as_raw_fd());
            std::process::Command::new("readlink")
                .arg(path)
                .output()
                .unwrap()
                .status
                .success()
        };
        assert!(!has_it());
        set_close_on_exec(words.file(), false).unwrap();
        assert!(has_it());
        set_close_on_exec(words.file(), true).unwrap();
        assert!(!has_it());
    }
}
