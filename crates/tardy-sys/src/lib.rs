//! The kernel facilities that tardy uses, one file each. This crate has all unsafe code of the
//! project, except the shared memory of `tardy-app`.
//!
//! The crate decides nothing and prints nothing: each wrapper returns an `io::Result` and owns the
//! resources that it opened. Times are nanoseconds in an `i64`.

pub mod affinity;
pub mod bpf;
pub mod capability;
pub mod child;
pub mod clock;
pub mod console;
pub mod cycle_counter;
pub mod disk;
pub mod epoll;
pub mod ethtool;
pub mod event_fd;
pub mod file;
pub mod file_pages;
pub mod futex;
pub mod gpio_lines;
pub mod inheriting_lock;
pub mod init;
pub mod interval_timer;
pub mod io_uring;
pub mod kernel_file;
pub mod landlock;
pub mod mapping;
pub mod membarrier;
pub mod memlock;
pub mod memory_file;
pub mod message_queue;
pub mod mmap;
pub mod module;
pub mod mount;
pub mod namespace;
pub mod parallel_port;
pub mod pcm;
pub mod posix_timer;
pub mod post;
pub mod printable;
pub mod private_folder;
pub mod process;
pub mod regular_file;
pub mod rlimit;
pub mod rtc;
pub mod sandbox;
pub mod sched;
pub mod scoped;
pub mod select;
pub mod serial;
pub mod shared_words;
pub mod signal;
pub mod signal_handler;
pub mod silent_timer;
pub mod socket;
pub mod spawn;
pub mod stamped_socket;
pub mod standard_error;
pub mod terminal;
pub mod thread_signal;
pub mod timer_fd;
pub mod tracepoint_counter;
pub mod unnamed_file;
pub mod usage;
pub mod user;
pub mod watched;

use std::io;

/// Converts a C function's return value of -1 to the error in `errno`.
fn check(value: libc::c_int) -> io::Result<libc::c_int> {
    if value == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(value)
    }
}
