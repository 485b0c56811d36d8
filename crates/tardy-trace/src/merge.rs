//! Merges the events of all CPUs into one stream in order of time. The stream also states where
//! events were lost.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::event::{Decoder, Event};
use crate::file::{Buffer, CompressionError, CounterRate, CpuPages};
use crate::layout::PageLayout;
use crate::page::{LostEvents, Page, PageError};

/// An item in a trace's stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Item {
    /// An event of any CPU.
    Event(Event),
    /// Events of this CPU were lost, all of them before `time`.
    Lost {
        /// The CPU whose events were lost.
        cpu: u32,
        /// When events resume.
        time: u64,
        /// How many events were lost; `None` if this is unknown, or if bytes were damaged.
        count: Option<u64>,
    },
}

impl Item {
    /// Returns the time of the item, in the unit of the trace's clock.
    #[must_use]
    pub fn time(&self) -> u64 {
        match self {
            Self::Event(event) => event.time,
            Self::Lost { time, .. } => *time,
        }
    }
}

/// Damage that was found while a file was read.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// A page is damaged, so the events after the damage are lost.
    #[error(transparent)]
    Page(#[from] PageError),
    /// A chunk is damaged, so all later events of the CPU are lost.
    #[error(transparent)]
    Chunk(#[from] CompressionError),
}

/// Merges the pages of all CPUs into one stream.
pub struct Merge<'a> {
    streams: Vec<Stream<'a>>,
    /// For each stream that has a next item: the time of this item, and the index of the stream in
    /// `streams`.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    /// The first cases of damage that were found, each with its CPU.
    damage: Vec<(u32, Damage)>,
}

/// Maximum number of cases of damage that are stored.
const DAMAGE_MAX: usize = 20;

impl<'a> Merge<'a> {
    /// Starts to merge the pages of all CPUs, beginning with the first page of each. If times are
    /// values of a CPU counter, `rate` converts them to ns.
    #[must_use]
    pub fn new(buffer: &Buffer<'a>, decoder: &'a Decoder, rate: Option<CounterRate>) -> Self {
        let stream = |pages: &CpuPages<'a>| Stream {
            cpu: pages.cpu,
            layout: buffer.layout,
            decoder,
            rate,
            chunks: Box::new(pages.chunks()),
            chunk: Cow::Borrowed(&[]),
            at: 0,
            queue: VecDeque::new(),
            last: 0,
        };
        let mut merge = Self {
            streams: buffer.cpus.iter().map(stream).collect(),
            next: BinaryHeap::new(),
            damage: Vec::new(),
        };
        for index in 0..merge.streams.len() {
            merge.fill(index);
        }
        merge
    }

    /// Returns the first cases of damage that were found so far, each with its CPU.
    #[must_use]
    pub fn damage(&self) -> &[(u32, Damage)] {
        &self.damage
    }

    fn fill(&mut self, index: usize) {
        let stream = &mut self.streams[index];
        while stream.queue.is_empty() {
            let damage = match stream.read_page() {
                Ok(true) => continue,
                Ok(false) => break,
                Err(damage) => damage,
            };
            if self.damage.len() < DAMAGE_MAX {
                self.damage.push((stream.cpu, damage));
            }
        }
        if let Some(item) = stream.queue.front() {
            self.next.push(Reverse((item.time(), index)));
        }
    }
}

impl Iterator for Merge<'_> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        let Reverse((_, index)) = self.next.pop()?;
        let item = self.streams[index].queue.pop_front();
        self.fill(index);
        item
    }
}

/// The pages of one CPU. Only one page of them is decoded at a time.
struct Stream<'a> {
    cpu: u32,
    layout: PageLayout,
    decoder: &'a Decoder,
    rate: Option<CounterRate>,
    chunks: Box<dyn Iterator<Item = Result<Cow<'a, [u8]>, CompressionError>> + 'a>,
    chunk: Cow<'a, [u8]>,
    at: usize,
    queue: VecDeque<Item>,
    /// The latest time so far. The time of the stream never decreases, even if the pages are out of
    /// order.
    last: u64,
}

impl Stream<'_> {
    /// Decodes the next page, and adds its events to the queue. Returns false if there are no more
    /// pages.
    fn read_page(&mut self) -> Result<bool, Damage> {
        if self.at >= self.chunk.len() {
            let Some(chunk) = self.chunks.next() else {
                return Ok(false);
            };
            (self.chunk, self.at) = (chunk?, 0);
            return Ok(true);
        }
        let end = self.chunk.len().min(self.at + self.layout.page_bytes);
        let bytes = &self.chunk[self.at..end];
        self.at = end;
        let lost = |time, count| Item::Lost {
            cpu: self.cpu,
            time,
            count,
        };
        let ns = |time: u64| self.rate.map_or(time, |rate| rate.ns(time));
        let mut page = match Page::new(bytes, self.layout) {
            Ok(page) => page,
            Err(error) => {
                self.queue.push_back(lost(self.last, None));
                return Err(error.into());
            }
        };
        if let Some(missed) = page.missed() {
            self.last = self.last.max(ns(page.time()));
            let count = if let LostEvents::Counted(count) = missed {
                Some(count)
            } else {
                None
            };
            self.queue.push_back(lost(self.last, count));
        }
        for record in &mut page {
            match record {
                Ok(record) => {
                    self.last = self.last.max(ns(record.time));
                    self.queue.extend(
                        self.decoder
                            .decode(self.last, self.cpu, record.data)
                            .map(Item::Event),
                    );
                }
                Err(error) => {
                    self.queue.push_back(lost(self.last, None));
                    return Err(error.into());
                }
            }
        }
        Ok(true)
    }
}

impl CounterRate {
    /// Converts a counter's value to ns.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "only a damaged file has a shift that leaves more than 64 bits"
    )]
    pub fn ns(self, count: u64) -> u64 {
        ((u128::from(count) * u128::from(self.multiplier)) >> self.shift.min(127)) as u64
    }
}
