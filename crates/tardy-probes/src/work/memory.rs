//! Work that waits for reads from memory.

use std::hint::black_box;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A cache line of 64 bytes, the size on nearly every CPU that runs Linux. Its first word is the
/// index of the line to read next.
#[derive(Debug, Clone, Default)]
#[repr(align(64))]
struct Line(u32);

const LINE_BYTES: u64 = 64;

/// All lines of an area of memory, linked to a cycle in random order. Prefetchers cannot predict
/// the next line, and a read cannot start before the previous one has ended.
#[derive(Debug)]
pub(super) struct Memory {
    lines: Vec<Line>,
    at: u32,
}

impl Memory {
    /// Makes an area of this many bytes, at least two lines, and touches all of it.
    pub(super) fn new(bytes: u64) -> Self {
        let count = (bytes / LINE_BYTES).clamp(2, u64::from(u32::MAX)) as u32;
        let mut lines: Vec<Line> = (0..count).map(Line).collect();
        // Sattolo's shuffle: every result is one cycle through all lines. The seed is fixed, so
        // that every run does the same work.
        let mut random = Pcg64Mcg::seed_from_u64(1);
        for end in (1..lines.len()).rev() {
            lines.swap(end, random.random_range(0..end));
        }
        Self { lines, at: 0 }
    }

    /// Continues the walk by this many lines. A unit thus does not read the lines that the previous
    /// unit has just brought into the caches.
    #[inline]
    pub(super) fn step(&mut self, steps: u64) {
        let mut at = self.at;
        for _ in 0..steps {
            at = self.lines[at as usize].0;
        }
        self.at = black_box(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read_once_before_any_is_read_again() {
        let mut memory = Memory::new(1000 * LINE_BYTES);
        let mut seen = vec![false; 1000];
        for _ in 0..1000 {
            memory.step(1);
            assert!(
                !std::mem::replace(&mut seen[memory.at as usize], true),
                "line {} twice",
                memory.at
            );
        }
        assert_eq!(memory.at, 0);
    }

    #[test]
    fn steps_can_be_cut_anywhere_and_an_area_of_nothing_has_two_lines() {
        let (mut whole, mut cut) = (Memory::new(1 << 16), Memory::new(1 << 16));
        whole.step(777);
        (0..7).for_each(|_| cut.step(111));
        assert_eq!(whole.at, cut.at);
        assert_eq!(Memory::new(0).lines.len(), 2);
    }
}
