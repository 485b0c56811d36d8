//! Lets `tardy` measure a loop of your program with the same care as its own probes.
//!
//! ```no_run
//! # fn sleep_until(_: i64) {}
//! # fn work() {}
//! const PERIOD: i64 = 1_000_000;
//! let mut control = tardy_app::Loop::open("control", PERIOD)?;
//! let mut next = tardy_app::now();
//! loop {
//!     next += PERIOD;
//!     sleep_until(next);  // CLOCK_MONOTONIC
//!     control.due(next);  // first thing after waking up: this cycle was due at `next`
//!     work();
//!     control.done();     // last thing: the cycle's work is complete
//! }
//! # #[allow(unreachable_code)]
//! # Ok::<(), tardy_app::OpenError>(())
//! ```
//!
//! The loop is measured if `tardy run -- ./program` started the program; otherwise, the calls do
//! nothing. [`Loop::due`] and [`Loop::done`] allocate nothing, take no lock and never wait. If the
//! clock can be read without a system call, neither function makes one. If tardy reads too slowly,
//! cycles are dropped and counted as lost.
//!
//! `include/tardy.h` offers the same for C and C++, and uses the same layout of the shared memory.
#![deny(unsafe_code)]
#![warn(missing_docs)]

#[doc(hidden)]
pub mod layout;
#[cfg_attr(
    target_pointer_width = "64",
    expect(
        unsafe_code,
        reason = "mmap and the clock, called without a dependency; the other files call it safely"
    )
)]
mod memory;
mod region;

use std::fmt;
use std::io;

use region::Region;

/// A loop that runs on one thread. tardy measures it if tardy started the program.
#[derive(Debug)]
pub struct Loop {
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    region: Region,
    /// Due time and start of the current cycle, which is not published yet.
    begun: Option<(i64, i64)>,
}

/// Why a loop cannot be measured although tardy started the program.
#[derive(Debug)]
pub enum OpenError {
    /// The name is empty, is longer than 47 bytes, or contains a character other than ASCII
    /// letters, digits, `-` and `_`; or the period is negative.
    Argument,
    /// The shared memory has no free region for another loop.
    TooMany,
    /// The tardy that started this program uses another layout of the shared memory.
    Version,
    /// The memory that tardy shares could not be opened.
    System(io::Error),
}

impl Loop {
    /// Opens a loop named `name` for the calling thread.
    ///
    /// `period` is the time between two due times in ns. If `period` is not 0, all due times must
    /// be at `first + k * period` for whole numbers `k`. If `period` is 0, the time between due
    /// times may vary: a cycle can be late, but no due time is counted as skipped.
    ///
    /// If tardy did not start the program (the variable `TARDY_APP` is not set), the returned loop
    /// is not measured, and its calls do nothing.
    ///
    /// # Errors
    /// Returns [`OpenError`] if the loop cannot be measured; the caller can continue with
    /// [`Loop::unmeasured`].
    pub fn open(name: &str, period: i64) -> Result<Self, OpenError> {
        match std::env::var_os("TARDY_APP").filter(|path| !path.is_empty()) {
            None => Ok(Self::unmeasured()),
            Some(path) => Self::open_at(path.as_ref(), name, period),
        }
    }

    /// Returns a loop whose calls do nothing.
    #[must_use]
    pub fn unmeasured() -> Self {
        Self { open: None }
    }

    /// Works like [`Loop::open`], with the shared memory at `path` instead of the path in
    /// `TARDY_APP`.
    ///
    /// # Errors
    /// Returns an [`OpenError`] if the loop cannot be measured.
    pub fn open_at(path: &std::path::Path, name: &str, period: i64) -> Result<Self, OpenError> {
        Ok(Self {
            open: Some(Open {
                region: Region::claim(path, name, period)?,
                begun: None,
            }),
        })
    }

    /// Returns whether the loop is being measured.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.open.is_some()
    }

    /// Records the start of a cycle that was due at `due`, in ns of CLOCK_MONOTONIC. Call it
    /// directly after waking up.
    #[inline]
    pub fn due(&mut self, due: i64) {
        let Some(open) = &mut self.open else { return };
        let start = now();
        if let Some((due, start)) = open.begun {
            open.region.hand_over(due, start, None);
        }
        open.begun = Some((due, start));
        open.region.begin(due);
    }

    /// Marks the work of the cycle as complete. If a loop never calls this function, only the
    /// starts of its cycles are measured.
    #[inline]
    pub fn done(&mut self) {
        if let Some(open) = &mut self.open
            && let Some((due, start)) = open.begun.take()
        {
            open.region.hand_over(due, start, Some(now()));
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if let Some(open) = &mut self.open {
            if let Some((due, start)) = open.begun.take() {
                open.region.hand_over(due, start, None);
            }
            open.region.close();
        }
    }
}

/// Returns the time on CLOCK_MONOTONIC in ns.
#[inline]
#[must_use]
pub fn now() -> i64 {
    memory::now()
}

impl fmt::Display for OpenError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument => formatter.write_str(
                "a loop's name must have 1 to 47 letters, digits, - or _, and its period must not \
                 be negative",
            ),
            Self::TooMany => formatter.write_str(
                "tardy measures only the first loop of a program, and this is another one: open \
                 only the loop to measure",
            ),
            Self::Version => formatter.write_str(
                "tardy uses another version of the shared memory: build the program with the \
                 tardy-app of the same release as tardy",
            ),
            Self::System(error) => write!(
                formatter,
                "the memory named by TARDY_APP cannot be used: {error}"
            ),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::path::{Path, PathBuf};

    /// Makes a shared file like the one that tardy makes: the head, then regions with rings of
    /// `slots` cycles each.
    struct SharedFile(PathBuf);

    impl SharedFile {
        fn new(name: &str, regions: u64, slots: u64) -> Self {
            let path =
                std::env::temp_dir().join(format!("tardy-app-{name}-{}", std::process::id()));
            let words = 32 + 4 * slots;
            let mut all = vec![0_u64; (512 + regions * words) as usize];
            all[..4].copy_from_slice(&[u64::from_ne_bytes(*b"TARDYAP1"), regions, slots, words]);
            std::fs::write(
                &path,
                all.iter()
                    .flat_map(|word| word.to_ne_bytes())
                    .collect::<Vec<_>>(),
            )
            .unwrap();
            Self(path)
        }

        fn words(&self) -> Vec<u64> {
            let mut bytes = Vec::new();
            std::fs::File::open(&self.0)
                .unwrap()
                .read_to_end(&mut bytes)
                .unwrap();
            bytes
                .chunks_exact(8)
                .map(|word| u64::from_ne_bytes(word.try_into().unwrap()))
                .collect()
        }
    }

    impl Drop for SharedFile {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn cycles_stand_in_the_ring_with_their_numbers_and_what_does_not_fit_leaves_a_hole() {
        let shared = SharedFile::new("ring", 1, 2);
        let mut control = Loop::open_at(&shared.0, "control", 1000).unwrap();
        let before = now();
        for cycle in 0..3 {
            control.due(5000 + cycle * 1000);
            if cycle != 1 {
                control.done();
            }
        }
        drop(control);
        let words = shared.words();
        let region = &words[512..];
        assert_eq!(&region[..2], &[3, 1000], "closed, with its period");
        assert!(region[2] > 0, "the thread's number");
        assert_eq!(&region[4].to_ne_bytes()[..7], b"control");
        assert_eq!(&region[16..18], &[2, 3], "two handed over, three begun");
        assert_eq!(
            (region[19], region[18]),
            (7000, 6000),
            "the due times of the third cycle and of the second"
        );
        assert_eq!((region[32], region[33]), (0, 5000));
        assert!(
            before <= region[34] as i64 && region[34] <= region[35],
            "start, then end of work"
        );
        assert_eq!(
            (region[36], region[37], region[39] as i64),
            (1, 6000, i64::MIN),
            "the second cycle was never done"
        );
    }

    #[test]
    fn a_loop_too_many_is_counted_and_told() {
        let shared = SharedFile::new("many", 1, 2);
        let first = Loop::open_at(&shared.0, "first", 0).unwrap();
        assert!(matches!(
            Loop::open_at(&shared.0, "second", 0),
            Err(OpenError::TooMany)
        ));
        assert!(first.is_measured());
        assert_eq!(shared.words()[4], 1);
    }

    #[test]
    fn what_is_no_memory_of_tardys_is_refused() {
        let shared = SharedFile::new("bad", 1, 2);
        let open = |path: &Path, name: &str, period| Loop::open_at(path, name, period).map(drop);
        assert!(matches!(open(&shared.0, "", 0), Err(OpenError::Argument)));
        assert!(matches!(
            open(&shared.0, "two words", 0),
            Err(OpenError::Argument)
        ));
        assert!(matches!(
            open(&shared.0, &"n".repeat(48), 0),
            Err(OpenError::Argument)
        ));
        assert!(matches!(open(&shared.0, "n", -1), Err(OpenError::Argument)));
        let mut bytes = std::fs::read(&shared.0).unwrap();
        // The head claims 200 regions, which would extend beyond the end of the file.
        bytes[8] = 200;
        std::fs::write(&shared.0, &bytes).unwrap();
        assert!(matches!(open(&shared.0, "n", 0), Err(OpenError::Version)));
        std::fs::write(&shared.0, b"short").unwrap();
        assert!(matches!(open(&shared.0, "n", 0), Err(OpenError::Version)));
        assert!(matches!(
            open(Path::new("/nonexistent"), "n", 0),
            Err(OpenError::System(_))
        ));
    }

    #[test]
    fn without_tardy_the_calls_do_nothing() {
        let mut control = Loop::unmeasured();
        control.due(1);
        control.done();
        assert!(!control.is_measured());
    }
}
