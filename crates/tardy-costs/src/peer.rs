//! The other participant of a metric: a process that answers the tool, or a thread that takes turns
//! with it. The process or the thread ends when the value that owns it is dropped.
//!
//! A metric with two processes must fork before this process has threads. The peer ends when the
//! tool ends. The tool and its peer run on the same CPU (except for `shared-line` and
//! `tcp-connect`), because the scheduler would otherwise place the two differently from run to run.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tardy_sys::process;

use super::metric::Unavailable;

/// Maximum time until joined threads of an earlier metric disappear from the list of threads. The
/// kernel wakes the joining thread a little before it removes the joined thread from the list.
const THREADS_GONE: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// A process that does the other half of a metric's work. The process ends when this value is
/// dropped, or when tardy ends.
#[derive(Debug)]
pub struct Peer {
    pid: i32,
}

impl Peer {
    /// Starts a process that runs `body`, on the same CPU. The calling process drops the resources
    /// of `body`, so that reads from the started process return end-of-file once that process has
    /// ended.
    ///
    /// # Errors
    /// Returns [`Unavailable::System`] if the limit on processes is reached.
    pub fn start(body: impl FnOnce() -> io::Result<()>) -> Result<Self, Unavailable> {
        let tool = process::id();
        let mut body = Some(body);
        let mut waited = Duration::ZERO;
        loop {
            let forked = process::fork(|| {
                let tied = process::set_parent_death_signal(process::KILL);
                // The tool may have ended before this process asked the kernel to kill it when the
                // tool ends.
                if tied.is_err() || process::parent_id() != tool {
                    return 1;
                }
                i32::from(body.take().is_none_or(|body| body().is_err()))
            });
            match forked {
                Ok(pid) => return Ok(Self { pid }),
                Err(error)
                    if error.kind() == io::ErrorKind::ResourceBusy && waited < THREADS_GONE =>
                {
                    std::thread::sleep(LOOK_EVERY);
                    waited += LOOK_EVERY;
                }
                Err(error) => return Err(Unavailable::system("start a process")(error)),
            }
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if process::kill(self.pid, process::KILL).is_ok() {
            let _ = process::reap(self.pid, true);
        }
    }
}

/// A thread that takes turns with this one. Dropping this value stops the other thread.
pub struct Partner {
    is_over: Arc<AtomicBool>,
    wake: Box<dyn Fn()>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Partner {
    /// Starts a thread that runs `body`. The thread is stopped by setting the flag that `body` gets
    /// and calling `wake`; `body` must return soon afterwards.
    ///
    /// # Errors
    /// Returns [`Unavailable::System`] if the limit on threads is reached.
    pub fn start(
        body: impl FnOnce(&AtomicBool) -> io::Result<()> + Send + 'static,
        wake: impl Fn() + 'static,
    ) -> Result<Self, Unavailable> {
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_over);
        let thread = std::thread::Builder::new()
            .name("partner".to_owned())
            .spawn(move || body(&flag));
        Ok(Self {
            is_over,
            wake: Box::new(wake),
            thread: Some(thread.map_err(Unavailable::system("start a thread"))?),
        })
    }

    /// Returns whether the thread has ended. The thread ends by itself only after a failure, and
    /// then it does not answer.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        (self.wake)();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
