//! Asks which of many descriptors are ready: select(2).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Descriptors whose numbers fit into one `fd_set`.
#[derive(Clone, Copy)]
pub struct DescriptorSet {
    set: libc::fd_set,
    above_highest: libc::c_int,
}

impl DescriptorSet {
    /// Creates the set of these descriptors.
    ///
    /// # Errors
    /// Returns EINVAL for a number of 1024 or more, which select(2) cannot take.
    pub fn new<'a>(descriptors: impl IntoIterator<Item = BorrowedFd<'a>>) -> io::Result<Self> {
        let mut set = MaybeUninit::uninit();
        // SAFETY: FD_ZERO fills the whole set at the pointer, which is valid for writing.
        unsafe { libc::FD_ZERO(set.as_mut_ptr()) };
        // SAFETY: FD_ZERO filled the set.
        let mut set = unsafe { set.assume_init() };
        let mut above_highest = 0;
        for descriptor in descriptors {
            let number = descriptor.as_raw_fd();
            if usize::try_from(number).is_ok_and(|number| number >= libc::FD_SETSIZE) {
                return Err(io::Error::from_raw_os_error(libc::EINVAL));
            }
            // SAFETY: the number belongs to an open descriptor, so it is not negative, and it is
            // below FD_SETSIZE (checked above).
            unsafe { libc::FD_SET(number, &mut set) };
            above_highest = above_highest.max(number + 1);
        }
        Ok(Self { set, above_highest })
    }

    /// Returns how many of the descriptors can be read now. Does not wait.
    ///
    /// # Errors
    /// Returns EBADF if one of them was closed.
    #[inline]
    pub fn readable(&self) -> io::Result<usize> {
        let mut set = self.set;
        let mut at_once = libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        };
        // SAFETY: the sets are valid or null, the numbers below `above_highest` lie within the set,
        // and the time is a valid timeval.
        let ready = crate::check(unsafe {
            libc::select(
                self.above_highest,
                &mut set,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                &mut at_once,
            )
        })?;
        Ok(ready as usize)
    }
}

impl std::fmt::Debug for DescriptorSet {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("DescriptorSet")
            .field("above_highest", &self.above_highest)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn only_what_can_be_read_is_counted() {
        let (first, mut first_end) = std::io::pipe().unwrap();
        let (second, _second_end) = std::io::pipe().unwrap();
        let set = DescriptorSet::new([first.as_fd(), second.as_fd()]).unwrap();
        assert_eq!(set.readable().unwrap(), 0);
        first_end.write_all(b"x").unwrap();
        assert_eq!(set.readable().unwrap(), 1);
    }

    #[test]
    fn a_number_that_the_set_cannot_take_is_refused() {
        // SAFETY: the number is only compared, and no call uses it.
        let high = unsafe { BorrowedFd::borrow_raw(libc::FD_SETSIZE as i32) };
        assert_eq!(
            DescriptorSet::new([high]).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
    }
}
