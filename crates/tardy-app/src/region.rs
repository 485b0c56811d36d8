//! A loop's part of the memory that is shared with tardy; see `layout`.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::OpenError;
use crate::layout::{
    BEGUN, CLAIMED, CLOSED, DUE, FREE, HEAD, HEAD_WORDS, MAGIC, NAME, NAME_WORDS, NEVER, OPEN,
    PERIOD, REFUSED, REGION_WORDS, REGIONS, RING, SLOT_WORDS, SLOTS, STATE, TAIL, THREAD,
};
use crate::memory::Memory;

/// A region that belongs to one loop.
#[derive(Debug)]
pub(crate) struct Region {
    memory: Memory,
    /// The lock on this file shows tardy that the program is alive. The kernel releases the lock no
    /// matter how the program ends.
    _file: File,
    begin: usize,
    slots: u64,
    head: u64,
    free_until: u64,
    begun: u64,
}

impl Region {
    /// Takes the first free region of the memory in the file `path`.
    pub(crate) fn claim(path: &Path, name: &str, period: i64) -> Result<Self, OpenError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if name.is_empty()
            || name.len() >= NAME_WORDS * 8
            || !name.bytes().all(is_plain)
            || period < 0
        {
            return Err(OpenError::Argument);
        }
        let file = File::options()
            .read(true)
            .write(true)
            .open(path)
            .map_err(OpenError::System)?;
        file.lock_shared().map_err(OpenError::System)?;
        let bytes = file.metadata().map_err(OpenError::System)?.len();
        if bytes < (HEAD_WORDS * 8) as u64 {
            return Err(OpenError::Version);
        }
        let memory = Memory::map(&file, bytes as usize / 8).map_err(OpenError::System)?;
        let words = memory.words();
        let at = |place: usize| words[place].load(Ordering::Relaxed);
        let (regions, slots, region_words) = (at(REGIONS), at(SLOTS), at(REGION_WORDS));
        let needed = regions
            .checked_mul(region_words)
            .and_then(|words| words.checked_add(HEAD_WORDS as u64));
        let ring = slots
            .checked_mul(SLOT_WORDS as u64)
            .and_then(|words| words.checked_add(RING as u64));
        let is_whole = needed.is_some_and(|needed| needed <= words.len() as u64)
            && ring.is_some_and(|ring| ring <= region_words);
        if words[0].load(Ordering::Acquire) != MAGIC || !slots.is_power_of_two() || !is_whole {
            return Err(OpenError::Version);
        }
        let begins = (0..regions as usize).map(|index| HEAD_WORDS + index * region_words as usize);
        let is_taken = |begin: &usize| {
            words[begin + STATE]
                .compare_exchange(FREE, CLAIMED, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        };
        let Some(begin) = { begins }.find(is_taken) else {
            words[REFUSED].fetch_add(1, Ordering::Relaxed);
            return Err(OpenError::TooMany);
        };
        let region = Self {
            memory,
            _file: file,
            begin,
            slots,
            head: 0,
            free_until: slots,
            begun: 0,
        };
        region.introduce(name, period);
        Ok(region)
    }

    fn introduce(&self, name: &str, period: i64) {
        self.word(PERIOD).store(period as u64, Ordering::Relaxed);
        self.word(THREAD).store(thread_id(), Ordering::Relaxed);
        for (index, part) in name.as_bytes().chunks(8).enumerate() {
            let mut bytes = [0; 8];
            bytes[..part.len()].copy_from_slice(part);
            self.word(NAME + index)
                .store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        }
        self.word(STATE).store(OPEN, Ordering::Release);
    }

    #[inline]
    fn word(&self, place: usize) -> &AtomicU64 {
        &self.memory.words()[self.begin + place]
    }

    /// Records the start of a cycle. Consecutive cycles write their due times to two words in turn,
    /// so a reader never takes the next cycle's due time for the current cycle's.
    #[inline]
    pub(crate) fn begin(&mut self, due: i64) {
        self.begun += 1;
        self.word(DUE + (self.begun & 1) as usize)
            .store(due as u64, Ordering::Relaxed);
        self.word(BEGUN).store(self.begun, Ordering::Release);
    }

    /// Publishes the current cycle. `done` is `None` if the loop did not report the end of the
    /// work.
    #[inline]
    pub(crate) fn hand_over(&mut self, due: i64, start: i64, done: Option<i64>) {
        if self.head == self.free_until {
            self.free_until = self
                .word(TAIL)
                .load(Ordering::Acquire)
                .wrapping_add(self.slots);
            // The ring is still full, so this cycle is lost. tardy notices this by the gap in the
            // cycle numbers.
            if self.head == self.free_until {
                return;
            }
        }
        let slot = RING + SLOT_WORDS * (self.head & (self.slots - 1)) as usize;
        let words = [
            self.begun - 1,
            due as u64,
            start as u64,
            done.unwrap_or(NEVER) as u64,
        ];
        for (index, word) in words.into_iter().enumerate() {
            self.word(slot + index).store(word, Ordering::Relaxed);
        }
        self.head += 1;
        self.word(HEAD).store(self.head, Ordering::Release);
    }

    /// Marks the region as closed after the last cycle was published.
    pub(crate) fn close(&self) {
        self.word(STATE).store(CLOSED, Ordering::Release);
    }
}

/// Returns the ID of the calling thread, read from the link /proc/thread-self; 0 if /proc is not
/// mounted.
fn thread_id() -> u64 {
    let link = std::fs::read_link("/proc/thread-self").unwrap_or_default();
    link.file_name()
        .and_then(|name| name.to_str())
        .and_then(|name| name.parse().ok())
        .unwrap_or(0)
}
