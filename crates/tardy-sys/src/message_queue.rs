//! POSIX message queues: mq_open(3), mq_send(3), mq_receive(3).

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// Size of a message in bytes.
const MESSAGE_BYTES: usize = 8;

/// An unnamed queue of one-word messages. Sending blocks while the queue is full, and receiving
/// blocks while it is empty.
#[derive(Debug)]
pub struct MessageQueue(OwnedFd);

impl MessageQueue {
    /// Creates a queue for `capacity` messages. Without CAP_SYS_RESOURCE, the capacity is limited
    /// by /proc/sys/fs/mqueue/msg_max, which is usually 10.
    ///
    /// # Errors
    /// Returns ENOSYS in kernels without message queues; EINVAL for a capacity of 0 or beyond the
    /// limit; EMFILE beyond RLIMIT_MSGQUEUE; ENOSPC beyond /proc/sys/fs/mqueue/queues_max.
    pub fn new(capacity: usize) -> io::Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "/tardy-{}-{}",
            std::process::id(),
            MADE.fetch_add(1, Ordering::Relaxed)
        );
        let name = CString::new(name).expect("digits and letters have no zero byte");
        // SAFETY: mq_attr is plain data, for which zeros are valid.
        let mut attributes: libc::mq_attr = unsafe { std::mem::zeroed() };
        attributes.mq_maxmsg = capacity as _;
        attributes.mq_msgsize = MESSAGE_BYTES as _;
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        // SAFETY: the name ends with a zero byte and the attributes are valid for the call; with
        // O_CREAT both further arguments are read.
        let fd = crate::check(unsafe {
            libc::mq_open(
                name.as_ptr(),
                flags,
                0o600 as libc::mode_t,
                std::ptr::from_ref(&attributes),
            )
        })?;
        // SAFETY: on Linux a queue is a file descriptor. The descriptor was just opened, and
        // nothing else owns it.
        let queue = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        // SAFETY: the name ends with a zero byte. A queue without a name disappears when its last
        // descriptor is closed, no matter how the tool ends.
        crate::check(unsafe { libc::mq_unlink(name.as_ptr()) })?;
        Ok(queue)
    }

    /// Waits while the queue is full; then appends `word`.
    ///
    /// # Errors
    /// Returns the errors of mq_send(3) except EINTR.
    #[inline]
    pub fn send(&self, word: u64) -> io::Result<()> {
        let message = word.to_ne_bytes();
        loop {
            // SAFETY: the kernel reads the whole message; the call states its length.
            match crate::check(unsafe {
                libc::mq_send(
                    self.0.as_raw_fd(),
                    message.as_ptr().cast(),
                    MESSAGE_BYTES,
                    0,
                )
            }) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other.map(drop),
            }
        }
    }

    /// Waits while the queue is empty; then removes its first word and returns it.
    ///
    /// # Errors
    /// Returns the errors of mq_receive(3) except EINTR.
    #[inline]
    pub fn receive(&self) -> io::Result<u64> {
        let mut message = [0_u8; MESSAGE_BYTES];
        loop {
            // SAFETY: the kernel writes at most the length of the message; a null priority is
            // allowed.
            let read = unsafe {
                libc::mq_receive(
                    self.0.as_raw_fd(),
                    message.as_mut_ptr().cast(),
                    MESSAGE_BYTES,
                    std::ptr::null_mut(),
                )
            };
            match crate::check(read as libc::c_int) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other.map(|_| u64::from_ne_bytes(message)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_out_in_the_order_in_which_they_went_in() {
        match MessageQueue::new(2) {
            Ok(queue) => {
                queue.send(7).unwrap();
                queue.send(8).unwrap();
                assert_eq!((queue.receive().unwrap(), queue.receive().unwrap()), (7, 8));
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOSYS), "{error}"),
        }
    }

    #[test]
    fn a_queue_for_nothing_is_refused_and_leaves_no_name() {
        let error = MessageQueue::new(0).unwrap_err().raw_os_error();
        assert!(
            matches!(error, Some(libc::EINVAL | libc::ENOSYS)),
            "{error:?}"
        );
        let queues: Vec<_> = (0..3).filter_map(|_| MessageQueue::new(1).ok()).collect();
        drop(queues);
        let left = std::fs::read_dir("/dev/mqueue")
            .into_iter()
            .flatten()
            .flatten();
        assert!(!left.into_iter().any(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .starts_with(&format!("tardy-{}-", std::process::id()))
        }));
    }
}
