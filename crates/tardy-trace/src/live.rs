//! Pages of a ring buffer that is being written, page by page as they are read, as one stream of all CPUs in the order of time.
//!
//! The stream goes on up to a time of which the reader knows that every CPU's pages were read. Memory is bounded: what waits for that time and is
//! more than `WAITING_MAX` events is given out before it.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};

use crate::event::Decoder;
use crate::layout::PageLayout;
use crate::merge::Item;
use crate::page::{Missed, Page, PageError};

/// Events that wait at most: 4 million, or some 500 MB; 2 s at a million events a second.
const WAITING_MAX: usize = 4 << 20;

/// One stream from pages as they come.
#[derive(Debug)]
pub struct Live {
    decoder: Decoder,
    layout: PageLayout,
    streams: Vec<Stream>,
    /// The next item of each stream that has one: time, place of the stream.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    waiting: usize,
    counts: Counts,
}

#[derive(Debug)]
struct Stream {
    cpu: u32,
    queue: VecDeque<Item>,
    last: u64,
}

/// What was read so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Pages.
    pub pages: u64,
    /// Events.
    pub events: u64,
    /// Places where events were lost.
    pub losses: u64,
    /// Events that were lost there, as far as the kernel counted them.
    pub lost_events: u64,
}

impl Live {
    /// For these CPUs.
    #[must_use]
    pub fn new(decoder: Decoder, layout: PageLayout, cpus: impl IntoIterator<Item = u32>) -> Self {
        let streams = cpus.into_iter().map(|cpu| Stream { cpu, queue: VecDeque::new(), last: 0 }).collect();
        Self { decoder, layout, streams, next: BinaryHeap::new(), waiting: 0, counts: Counts::default() }
    }

    /// Takes in the next page of the CPU at this place of the list. Returns the time of its first event, or of its head.
    ///
    /// # Errors
    /// If it is damaged: the events behind the damage are lost.
    pub fn page(&mut self, place: usize, bytes: &[u8]) -> Result<u64, PageError> {
        let stream = &mut self.streams[place];
        let was_empty = stream.queue.is_empty();
        self.counts.pages += 1;
        let before = stream.queue.len();
        let read = stream.read(bytes, &self.decoder, self.layout, &mut self.counts);
        if read.is_err() {
            self.counts.losses += 1;
            stream.queue.push_back(Item::Lost { cpu: stream.cpu, time: stream.last, count: None });
        }
        self.waiting += stream.queue.len() - before;
        if was_empty && let Some(item) = stream.queue.front() {
            self.next.push(Reverse((item.time(), place)));
        }
        read
    }

    /// The next item before `until`, in the order of time.
    pub fn next_before(&mut self, until: u64) -> Option<Item> {
        let mut next = self.next.peek_mut()?;
        let Reverse((time, place)) = *next;
        if time >= until && self.waiting <= WAITING_MAX {
            return None;
        }
        let queue = &mut self.streams[place].queue;
        let item = queue.pop_front();
        match queue.front() {
            Some(item) => *next = Reverse((item.time(), place)),
            None => drop(PeekMut::pop(next)),
        }
        self.waiting -= 1;
        item
    }

    /// What was read so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

impl Stream {
    fn read(&mut self, bytes: &[u8], decoder: &Decoder, layout: PageLayout, counts: &mut Counts) -> Result<u64, PageError> {
        let mut page = Page::new(bytes, layout)?;
        let begin = page.time();
        if let Some(missed) = page.missed() {
            self.last = self.last.max(begin);
            let count = if let Missed::Counted(count) = missed { Some(count) } else { None };
            counts.losses += 1;
            counts.lost_events += count.unwrap_or(0);
            self.queue.push_back(Item::Lost { cpu: self.cpu, time: self.last, count });
        }
        for record in &mut page {
            let record = record?;
            self.last = self.last.max(record.time);
            if let Some(event) = decoder.decode(self.last, self.cpu, record.data) {
                counts.events += 1;
                self.queue.push_back(Item::Event(event));
            }
        }
        Ok(begin)
    }
}
