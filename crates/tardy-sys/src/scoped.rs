//! Starts threads, and continues with fewer or none if the kernel refuses to start them. The kernel
//! refuses to start a thread (EAGAIN) when a user, a control group or the machine has reached its
//! limit of processes.
//!
//! A caller that reads recorded data then uses fewer threads: other processes may use up a
//! container's limit at any time, and one thread computes the same summary as several. A
//! measurement instead reports that the limit was reached, because with fewer threads than planned
//! it would measure something else.

use std::io;
use std::sync::Mutex;
use std::thread::{Builder, Scope, scope};

/// What the user can do if no thread can be started.
pub const REMEDY: &str = "raise the limit on processes (`ulimit -u`, TasksMax= of systemd, \
                          pids.max of the control group), or stop some processes";

/// The error if no thread could be started.
#[derive(Debug)]
struct ThreadLimit;

impl std::fmt::Display for ThreadLimit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "the kernel allows this process no more threads: {REMEDY}"
        )
    }
}

impl std::error::Error for ThreadLimit {}

/// Adds the remedy to an error of starting a thread, if a limit caused the error.
#[must_use]
pub fn refused(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock {
        io::Error::new(io::ErrorKind::WouldBlock, ThreadLimit)
    } else {
        error
    }
}

/// Returns whether [`refused`] made `error` because of a limit on threads.
#[must_use]
pub fn is_refusal(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(|inner| inner.is::<ThreadLimit>())
}

/// Runs `work` on a new thread, and returns the result of `work`. `work` may change the CPUs,
/// policy and groups of this thread.
///
/// # Errors
/// Returns an error with the remedy of [`refused`] if a thread cannot be started, or `Other` if
/// `work` panicked.
pub fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    scope(|scope| {
        let thread = Builder::new().spawn_scoped(scope, work).map_err(refused)?;
        thread
            .join()
            .map_err(|_| io::Error::other("a thread ended unexpectedly"))
    })
}

/// Runs `work` on up to `count` threads at the same time, or on the calling thread if no other can
/// be started. `work` must return when no work is left.
pub fn share(count: usize, work: impl Fn() + Sync) {
    share_by(count, &work, |scope, work| {
        Builder::new().spawn_scoped(scope, work).map(drop)
    });
}

fn share_by<W: Fn() + Sync>(
    count: usize,
    work: &W,
    start: impl for<'scope, 'work> Fn(&'scope Scope<'scope, 'work>, &'work W) -> io::Result<()>,
) {
    scope(|scope| {
        let started = (0..count)
            .take_while(|_| start(scope, work).is_ok())
            .count();
        if started == 0 {
            work();
        }
    });
}

/// Applies `make` to each item, on up to `count` threads, or on the calling thread if no other can
/// be started. Returns the results in order.
pub fn map<T: Send, R: Send>(items: Vec<T>, count: usize, make: impl Fn(T) -> R + Sync) -> Vec<R> {
    let made: Mutex<Vec<Option<R>>> = Mutex::new(items.iter().map(|_| None).collect());
    let count = count.min(items.len());
    let left = Mutex::new(items.into_iter().enumerate());
    share(count, || {
        loop {
            // A thread holds neither of the two locks while it calls `make`, so a panic in `make`
            // leaves their content valid.
            let next = left
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .next();
            let Some((place, item)) = next else { return };
            let result = make(item);
            made.lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)[place] = Some(result);
        }
    });
    // Every item has a result here, because `share` returns after every thread has ended, and
    // panics if one of them panicked.
    made.into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .into_iter()
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn items_keep_their_order_on_any_number_of_threads() {
        let expected: Vec<usize> = (0..100).map(|item| item * 2).collect();
        for count in [0, 1, 3, 1000] {
            assert_eq!(
                map((0..100).collect(), count, |item: usize| item * 2),
                expected,
                "{count}"
            );
        }
        assert_eq!(map(Vec::<u8>::new(), 4, |item| item), [0; 0]);
    }

    #[test]
    fn what_no_thread_can_do_the_calling_one_does() {
        let own = std::thread::current().id();
        let calls = AtomicUsize::new(0);
        let work = || {
            assert_eq!(std::thread::current().id(), own);
            calls.fetch_add(1, Ordering::Relaxed);
        };
        share_by(4, &work, |_, _| {
            Err(io::Error::from_raw_os_error(libc::EAGAIN))
        });
        assert_eq!(calls.into_inner(), 1);
    }

    #[test]
    fn a_refused_thread_is_told_from_another_error() {
        let error = refused(io::Error::from_raw_os_error(libc::EAGAIN));
        assert!(
            is_refusal(&error) && error.to_string().ends_with(REMEDY),
            "{error}"
        );
        assert!(!is_refusal(&refused(io::Error::from_raw_os_error(
            libc::ENOMEM
        ))));
        assert!(
            !is_refusal(&io::Error::from_raw_os_error(libc::EAGAIN)),
            "timers have it too"
        );
        assert_ne!(
            apart(|| std::thread::current().id()).unwrap(),
            std::thread::current().id()
        );
    }
}
