//! The memory in which loops of other programs report their cycles; its layout is defined in
//! `tardy_app::layout`.
//!
//! Any process that has opened the file can write to it, so every word is treated as an untrusted
//! number.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use tardy_app::layout::{
    BEGUN, CLOSED, DUE, HEAD, HEAD_WORDS, MAGIC, NAME, NAME_WORDS, NEVER, OPEN, PERIOD, REFUSED,
    REGION_WORDS, REGIONS, RING, SLOT_WORDS, SLOTS, STATE, TAIL, THREAD,
};
use tardy_core::units::Nanos;
use tardy_sys::shared_words::SharedWords;

/// Capacity of a loop's ring in cycles: 1.6 s of a loop that runs 20,000 times a second. Each ring
/// takes one MiB.
pub const RING_CYCLES: usize = 32_768;

/// Name of the memory in the kernel's listings.
pub(super) const MEMORY_NAME: &str = "tardy-app";

/// One cycle of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cycle {
    /// Number of the cycle, from 0. A missing number means a lost cycle.
    pub number: u64,
    /// When the cycle was due.
    pub due: Nanos,
    /// The cycle's start, as reported by the loop.
    pub start: Nanos,
    /// When the cycle's work was complete; `None` if the loop did not report it.
    pub done: Option<Nanos>,
}

/// What a loop reports about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    pub name: String,
    /// Time between two due times; `None` if the due times are not equally spaced.
    pub period: Option<Nanos>,
    /// The thread that runs the loop, with its number in the program's own PID namespace; 0 if it
    /// is unknown.
    pub thread: i32,
}

/// Memory shared with a number of loops.
#[derive(Debug)]
pub struct AppMemory {
    words: SharedWords,
    loops: usize,
    slots: usize,
}

impl AppMemory {
    /// Makes memory for `loops` loops, each with a ring of `slots` cycles. `slots` must be a power
    /// of two.
    ///
    /// # Errors
    /// Returns an error if no file in memory can be made and mapped.
    pub fn create(loops: usize, slots: usize) -> io::Result<Self> {
        let region_words = RING + SLOT_WORDS * slots;
        let words = SharedWords::create(MEMORY_NAME, HEAD_WORDS + loops * region_words)?;
        for (place, value) in [
            (REGIONS, loops),
            (SLOTS, slots),
            (REGION_WORDS, region_words),
        ] {
            words[place].store(value as u64, Ordering::Relaxed);
        }
        words[0].store(MAGIC, Ordering::Release);
        Ok(Self {
            words,
            loops,
            slots,
        })
    }

    #[must_use]
    pub fn file(&self) -> &File {
        self.words.file()
    }

    /// Returns the path by which a program that inherits the descriptor opens the memory.
    #[must_use]
    pub fn path_for_children(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file().as_raw_fd()).into()
    }

    /// Returns the path by which other programs of the same user open the memory while this process
    /// lives.
    #[must_use]
    pub fn path_for_others(&self) -> PathBuf {
        format!(
            "/proc/{}/fd/{}",
            std::process::id(),
            self.file().as_raw_fd()
        )
        .into()
    }

    /// Returns the number of loops that found no free part of the memory.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.words[REFUSED].load(Ordering::Relaxed)
    }

    /// Returns whether a program still has a loop open. The check tries to get a file lock. The
    /// kernel releases the program's lock however the program ends, so the result is always
    /// correct.
    ///
    /// # Errors
    /// Returns an error if the file cannot be reopened because /proc is not mounted.
    pub fn is_anybody_there(&self) -> io::Result<bool> {
        // A lock belongs to an open file description, and programs inherit the description of this
        // memory's descriptor. To try the lock with another description, the check opens the file
        // again.
        let file = File::options()
            .read(true)
            .write(true)
            .open(self.path_for_children())?;
        match file.try_lock() {
            Ok(()) => Ok(false),
            Err(std::fs::TryLockError::WouldBlock) => Ok(true),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }

    /// Returns a reader for each region of the memory; each loop uses one region.
    #[must_use]
    pub fn readers(self: &std::sync::Arc<Self>) -> Vec<LoopReader> {
        (0..self.loops)
            .map(|index| LoopReader {
                memory: std::sync::Arc::clone(self),
                index,
                tail: 0,
            })
            .collect()
    }

    fn word(&self, region: usize, place: usize) -> &AtomicU64 {
        &self.words[HEAD_WORDS + region * (RING + SLOT_WORDS * self.slots) + place]
    }
}

/// Reads the region of one loop.
#[derive(Debug)]
pub struct LoopReader {
    memory: std::sync::Arc<AppMemory>,
    index: usize,
    tail: u64,
}

impl LoopReader {
    fn word(&self, place: usize) -> &AtomicU64 {
        self.memory.word(self.index, place)
    }

    /// Returns what the loop reported about itself; `None` before a loop uses the region.
    #[must_use]
    pub fn introduction(&self) -> Option<Introduction> {
        if self.word(STATE).load(Ordering::Acquire) < OPEN {
            return None;
        }
        let bytes = (0..NAME_WORDS).flat_map(|index| {
            self.word(NAME + index)
                .load(Ordering::Relaxed)
                .to_ne_bytes()
        });
        let name = bytes.take_while(|&byte| byte != 0).map(char::from);
        // Only letters, digits, `-` and `_` of the name are used, because it becomes part of a
        // file's name and the program may have written any bytes.
        let name: String = name
            .filter(|c| c.is_ascii_alphanumeric() || *c == '-' || *c == '_')
            .collect();
        let period = self.word(PERIOD).load(Ordering::Relaxed) as i64;
        Some(Introduction {
            name: if name.is_empty() {
                format!("loop{}", self.index)
            } else {
                name
            },
            period: (period > 0).then_some(Nanos(period)),
            thread: i32::try_from(self.word(THREAD).load(Ordering::Relaxed)).unwrap_or(0),
        })
    }

    /// Returns whether the loop reported its last cycle. If so, the caller must read the ring once
    /// more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.word(STATE).load(Ordering::Acquire) == CLOSED
    }

    /// Returns the number and due time of the cycle that started last; `None` before the first.
    #[must_use]
    pub fn latest_begun(&self) -> Option<(u64, Nanos)> {
        loop {
            let begun = self.word(BEGUN).load(Ordering::Acquire);
            let due = self
                .word(DUE + (begun & 1) as usize)
                .load(Ordering::Relaxed) as i64;
            fence(Ordering::Acquire);
            // The due time is in one of two words, which the loop uses alternately. The loop reuses
            // a word only after it has counted another cycle, so the due time is intact if the
            // count did not change.
            if self.word(BEGUN).load(Ordering::Relaxed) == begun {
                return Some((begun.checked_sub(1)?, Nanos(due)));
            }
        }
    }

    /// Returns the number of unread cycles in the ring.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.word(HEAD)
            .load(Ordering::Acquire)
            .wrapping_sub(self.tail)
            .min(self.memory.slots as u64)
    }

    /// Passes the unread cycles in order to `take` until it returns false. The cycle for which
    /// `take` returns false stays in the ring.
    pub fn drain(&mut self, mut take: impl FnMut(Cycle) -> bool) {
        for _ in 0..self.waiting() {
            let slot = RING + SLOT_WORDS * (self.tail as usize & (self.memory.slots - 1));
            let at = |place: usize| self.word(slot + place).load(Ordering::Relaxed);
            let done = at(3) as i64;
            let done = (done != NEVER).then_some(Nanos(done));
            if !take(Cycle {
                number: at(0),
                due: Nanos(at(1) as i64),
                start: Nanos(at(2) as i64),
                done,
            }) {
                break;
            }
            self.tail = self.tail.wrapping_add(1);
        }
        self.word(TAIL).store(self.tail, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tardy_app::Loop;

    fn open(memory: &AppMemory, name: &str, period: i64) -> Result<Loop, tardy_app::OpenError> {
        Loop::open_at(&memory.path_for_others(), name, period)
    }

    fn drained(reader: &mut LoopReader) -> Vec<Cycle> {
        let mut cycles = Vec::new();
        reader.drain(|cycle| {
            cycles.push(cycle);
            true
        });
        cycles
    }

    #[test]
    fn what_a_loop_reports_is_read_with_its_numbers() {
        let memory = Arc::new(AppMemory::create(2, 4).unwrap());
        let mut readers = memory.readers();
        assert_eq!(readers[0].introduction(), None);
        assert!(!memory.is_anybody_there().unwrap());
        let mut control = open(&memory, "control", 1000).unwrap();
        assert!(memory.is_anybody_there().unwrap());
        let said = readers[0].introduction().unwrap();
        assert_eq!(
            (said.name.as_str(), said.period),
            ("control", Some(Nanos(1000)))
        );
        assert_eq!(said.thread, tardy_sys::sched::thread_id());
        assert_eq!(readers[0].latest_begun(), None);
        for cycle in 0..7 {
            control.due(cycle * 1000);
            control.done();
            if cycle == 1 {
                assert_eq!(drained(&mut readers[0]).len(), 2);
            }
        }
        assert_eq!(readers[0].latest_begun(), Some((6, Nanos(6000))));
        let cycles = drained(&mut readers[0]);
        assert_eq!(
            cycles.iter().map(|cycle| cycle.number).collect::<Vec<_>>(),
            [2, 3, 4, 5],
            "the seventh found the ring full"
        );
        assert!(cycles.iter().all(|cycle| cycle.start <= cycle.done.unwrap()
            && cycle.due == Nanos(cycle.number as i64 * 1000)));
        drop(control);
        assert!(readers[0].is_closed() && !readers[1].is_closed());
        assert!(!memory.is_anybody_there().unwrap());
    }

    #[test]
    fn loops_beyond_those_told_are_refused_and_counted() {
        let memory = Arc::new(AppMemory::create(1, 4).unwrap());
        let first = open(&memory, "first", 0).unwrap();
        assert!(open(&memory, "second", 0).is_err());
        assert_eq!(
            (
                memory.refused(),
                memory.readers()[0].introduction().unwrap().period
            ),
            (1, None)
        );
        drop(first);
    }

    #[test]
    fn whatever_a_program_writes_is_read_without_harm() {
        let memory = Arc::new(AppMemory::create(1, 4).unwrap());
        for word in &memory.words[HEAD_WORDS..] {
            word.store(u64::MAX, Ordering::Relaxed);
        }
        let mut reader = memory.readers().remove(0);
        assert_eq!(
            reader.introduction(),
            Some(Introduction {
                name: "loop0".into(),
                period: None,
                thread: 0
            })
        );
        assert_eq!(drained(&mut reader).len(), 4);
    }
}
