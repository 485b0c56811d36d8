//! Merges the pages of a ring buffer while the kernel still writes to it. The stream contains the
//! events of all CPUs in the order of time. A page is merged as soon as it has been read.
//!
//! The reader gives the stream a time before which it has read all events of every CPU. The stream
//! returns only events before this time. To bound memory, there is an exception: while more than
//! `WAITING_MAX` events wait, the stream also returns events at and after that time.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use crate::event::{Decoder, Kind};
use crate::layout::PageLayout;
use crate::merge::Item;
use crate::page::{LostEvents, Page, PageError};
use crate::recent::Recent;

/// Maximum number of events that wait: 4 million, which take some 500 MB, and occur in 4 s at a
/// million events a second.
const WAITING_MAX: usize = 4 << 20;
/// A queue always keeps memory for this many events.
const ROOM_KEPT: usize = 1 << 12;
/// Minimum number of recent stacks that are stored.
const STACKS_MAX: usize = 1 << 12;

/// Merges each page, as soon as it has been read, into one stream in the order of time.
#[derive(Debug)]
pub struct Live {
    decoder: Decoder,
    layout: PageLayout,
    streams: Vec<Stream>,
    /// For each stream that has a next item: the time of this item, and the index of the stream.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    waiting: usize,
    counts: Counts,
    stacks: Stacks,
}

/// The most recent kernel stacks, without duplicates.
#[derive(Debug)]
struct Stacks {
    places: Recent<Arc<[u64]>, u32>,
    stacks: Recent<u32, Arc<[u64]>>,
    /// The index that the next new stack will get; no index is used twice.
    next: u32,
    /// The frames of the current stack. The memory is reused, so that a stack that is already
    /// stored allocates nothing.
    frames: Vec<u64>,
}

impl Default for Stacks {
    fn default() -> Self {
        Self {
            places: Recent::new(STACKS_MAX),
            stacks: Recent::new(STACKS_MAX),
            next: 0,
            frames: Vec::new(),
        }
    }
}

impl Stacks {
    /// Returns the index of a stack; `None` if there are no more indices.
    fn place(&mut self, frames: impl Iterator<Item = u64>) -> Option<u32> {
        self.frames.clear();
        self.frames.extend(frames);
        if let Some(&mut place) = self.places.touch(&*self.frames) {
            self.stacks.touch(&place);
            return Some(place);
        }
        let (stack, place) = (Arc::<[u64]>::from(&*self.frames), self.next);
        self.next = place.checked_add(1)?;
        self.places.insert(Arc::clone(&stack), place);
        self.stacks.insert(place, stack);
        Some(place)
    }
}

#[derive(Debug)]
struct Stream {
    cpu: u32,
    queue: VecDeque<Item>,
    last: u64,
}

/// How much was read so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Number of pages.
    pub pages: u64,
    /// Number of events.
    pub events: u64,
    /// Number of gaps.
    pub losses: u64,
    /// Number of lost events, as far as the kernel counted them.
    pub lost_events: u64,
    /// Number of kernel stacks, which are not counted as events.
    pub stacks: u64,
}

impl Live {
    /// Creates a stream for these CPUs.
    #[must_use]
    pub fn new(decoder: Decoder, layout: PageLayout, cpus: impl IntoIterator<Item = u32>) -> Self {
        let streams = cpus
            .into_iter()
            .map(|cpu| Stream {
                cpu,
                queue: VecDeque::new(),
                last: 0,
            })
            .collect();
        Self {
            decoder,
            layout,
            streams,
            next: BinaryHeap::new(),
            waiting: 0,
            counts: Counts::default(),
            stacks: Stacks::default(),
        }
    }

    /// Reads the next page of a CPU, which is given by its index in the list. Returns the time in
    /// the page's header.
    ///
    /// # Errors
    /// Returns an error if the page is damaged. The events after the damage are then lost.
    pub fn page(&mut self, place: usize, bytes: &[u8]) -> Result<u64, PageError> {
        let stream = &mut self.streams[place];
        let was_empty = stream.queue.is_empty();
        self.counts.pages += 1;
        let before = stream.queue.len();
        let read = stream.read(
            bytes,
            &self.decoder,
            self.layout,
            &mut self.counts,
            &mut self.stacks,
        );
        if read.is_err() {
            self.counts.losses += 1;
            stream.queue.push_back(Item::Lost {
                cpu: stream.cpu,
                time: stream.last,
                count: None,
            });
        }
        self.waiting += stream.queue.len() - before;
        if was_empty && let Some(item) = stream.queue.front() {
            self.next.push(Reverse((item.time(), place)));
        }
        read
    }

    /// Returns the time of the next item.
    #[must_use]
    pub fn next_time(&self) -> Option<u64> {
        self.next.peek().map(|&Reverse((time, _))| time)
    }

    /// Returns the next item in the order of time, if it is before `until`. While too many items
    /// wait, returns the next item even if it is not before `until`.
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
        // If a CPU is busy, its queue is never empty. Without this, the queue would forever keep
        // the memory that its largest burst needed.
        if queue.capacity() > ROOM_KEPT && queue.len() < queue.capacity() / 4 {
            queue.shrink_to(queue.capacity() / 2);
        }
        self.waiting -= 1;
        item
    }

    /// Returns the addresses of the stack with an index, innermost first; no addresses if the stack
    /// was forgotten.
    #[must_use]
    pub fn stack(&self, place: u32) -> &[u64] {
        self.stacks.stacks.get(&place).map_or(&[], |stack| stack)
    }

    /// Returns how much was read so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

impl Stream {
    fn read(
        &mut self,
        bytes: &[u8],
        decoder: &Decoder,
        layout: PageLayout,
        counts: &mut Counts,
        stacks: &mut Stacks,
    ) -> Result<u64, PageError> {
        let mut page = Page::new(bytes, layout)?;
        let begin = page.time();
        if let Some(missed) = page.missed() {
            self.last = self.last.max(begin);
            let count = if let LostEvents::Counted(count) = missed {
                Some(count)
            } else {
                None
            };
            counts.losses += 1;
            counts.lost_events += count.unwrap_or(0);
            self.queue.push_back(Item::Lost {
                cpu: self.cpu,
                time: self.last,
                count,
            });
        }
        for record in &mut page {
            let record = record?;
            self.last = self.last.max(record.time);
            if let Some(mut event) = decoder.decode(self.last, self.cpu, record.data) {
                if let Kind::Stack { place } = &mut event.kind {
                    *place = decoder
                        .stack(record.data)
                        .and_then(|frames| stacks.place(frames));
                    counts.stacks += 1;
                } else {
                    counts.events += 1;
                }
                self.queue.push_back(Item::Event(event));
            }
        }
        Ok(begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::EventFormat;

    const FORMAT: &str = "name: kernel_stack\nID: 4\n\tfield:unsigned short \
                          common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\tfield:unsigned char \
                          common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\tfield:int \
                          size;\toffset:8;\tsize:4;\tsigned:1;
\tfield:unsigned long caller[8];\toffset:16;\tsize:64;\tsigned:0;\n";

    /// Makes a stack that states that it has `count` frames, and contains `frames`.
    fn stack(count: i32, frames: &[u64]) -> Vec<u8> {
        let mut data = vec![4, 0, 0, 0, 7, 0, 0, 0];
        data.extend_from_slice(&count.to_le_bytes());
        data.extend_from_slice(&[0; 4]);
        frames
            .iter()
            .for_each(|frame| data.extend_from_slice(&frame.to_le_bytes()));
        data
    }

    fn page(stacks: &[Vec<u8>]) -> Vec<u8> {
        let mut data = Vec::new();
        for stack in stacks {
            // A length that does not fit into five bits is stored in a separate word, and includes
            // this word.
            data.extend_from_slice(&[0; 4]);
            data.extend_from_slice(&(u32::try_from(stack.len()).unwrap() + 4).to_le_bytes());
            data.extend_from_slice(stack);
        }
        let mut page = [100_u64.to_le_bytes(), (data.len() as u64).to_le_bytes()].concat();
        page.extend_from_slice(&data);
        page.resize(4096, 0);
        page
    }

    #[test]
    fn a_stack_is_kept_once_and_is_no_longer_than_its_data() {
        let decoder = Decoder::new(&[EventFormat::parse("ftrace", FORMAT).unwrap()]);
        let layout = PageLayout {
            long_bytes: 8,
            data_offset: 16,
            page_bytes: 4096,
        };
        let mut live = Live::new(decoder, layout, [0]);
        let many = (1..=100).collect::<Vec<u64>>();
        let stacks = [
            stack(2, &[5, 6]),
            stack(3, &[5, 6, 7]),
            stack(2, &[5, 6]),
            stack(1000, &[5]),
            stack(-1, &[5]),
            stack(100, &many),
        ];
        live.page(0, &page(&stacks)).unwrap();
        let mut found = Vec::new();
        while let Some(item) = live.next_before(u64::MAX) {
            let Item::Event(event) = item else {
                panic!("expected an event")
            };
            let Kind::Stack { place } = event.kind else {
                panic!("{event:?}")
            };
            found.push(place.map(|place| live.stack(place).to_vec()));
        }
        let some = |frames: &[u64]| Some(frames.to_vec());
        assert_eq!(
            found[..5],
            [
                some(&[5, 6]),
                some(&[5, 6, 7]),
                some(&[5, 6]),
                some(&[5]),
                None
            ]
        );
        assert_eq!(found[5].as_ref().map(Vec::len), Some(64), "{found:?}");
        assert_eq!(
            (live.counts().stacks, live.counts().events, live.stacks.next),
            (6, 0, 4)
        );
        assert_eq!(live.stack(9_999), &[0_u64; 0]);
    }

    #[test]
    fn a_queue_that_is_never_empty_gives_back_the_room_of_a_burst() {
        let decoder = Decoder::new(&[EventFormat::parse("ftrace", FORMAT).unwrap()]);
        let layout = PageLayout {
            long_bytes: 8,
            data_offset: 16,
            page_bytes: 4096,
        };
        let mut live = Live::new(decoder, layout, [0]);
        let full = page(&vec![stack(1, &[5]); 100]);
        for _ in 0..1_000 {
            live.page(0, &full).unwrap();
        }
        assert!(live.streams[0].queue.capacity() >= 100_000);
        while live.waiting > 100 {
            live.next_before(u64::MAX).unwrap();
        }
        let capacity = live.streams[0].queue.capacity();
        assert!(capacity <= 2 * ROOM_KEPT, "{capacity}");
    }

    #[test]
    fn stacks_that_came_long_ago_are_forgotten() {
        let mut stacks = Stacks::default();
        let first = stacks.place([7, 8].into_iter()).unwrap();
        let again = stacks.place([9].into_iter()).unwrap();
        for address in 100..100 + 10 * STACKS_MAX as u64 {
            let place = stacks.place(std::iter::once(address)).unwrap();
            assert_eq!(stacks.stacks.get(&place).unwrap()[..], [address]);
            // If a stack occurs again, it has the same index.
            assert_eq!(stacks.place([9].into_iter()), Some(again));
        }
        assert_eq!(stacks.stacks.get(&first), None);
        assert_eq!(stacks.stacks.get(&again).unwrap()[..], [9]);
    }
}
