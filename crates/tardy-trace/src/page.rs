//! Pages of the ring buffer, in the format of `per_cpu/cpuN/trace_pipe_raw`: a time, the length of
//! the data, then events with the time since the previous one (kernel: include/linux/ring_buffer.h,
//! kernel/trace/ring_buffer.c).

use crate::bytes::{Cursor, EndOfData};
use crate::layout::PageLayout;

/// The first word of an event: five bits of type or length, and 27 bits of time since the previous
/// event.
const TYPE_BITS: u32 = 5;
const DELTA_BITS: u32 = 27;
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// An absolute stamp has 59 bits; the upper bits are those of the previous stamp.
const STAMP_BITS: u32 = 59;
/// The upper bits of this word are not part of the length, but flags. One flag means that events
/// were lost before this page. The other means that the number of lost events is stored after the
/// data.
const LENGTH_MASK: u64 = (1 << 27) - 1;
const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;

/// Why a page cannot be read, or cannot be read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// The page is truncated.
    #[error("a page of the ring buffer: {0}")]
    End(#[from] EndOfData),
    /// The page states a length of the data that exceeds the length of the page.
    #[error("a page of the ring buffer claims {data} bytes of data but has room for {room}")]
    TooMuch {
        /// The declared value.
        data: usize,
        /// The available space.
        room: usize,
    },
    /// An event has an impossible length.
    #[error("an event at byte {at} of a page's data claims a length of {length} bytes")]
    Length {
        /// Offset of the event.
        at: usize,
        /// The declared length.
        length: u32,
    },
}

/// Whether and how many events were lost before a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostEvents {
    /// This many events were lost, as counted by the kernel.
    Counted(u64),
    /// The number of lost events is unknown.
    Uncounted,
}

/// Iterates over the events of a page.
#[derive(Debug, Clone)]
pub struct Page<'a> {
    data: &'a [u8],
    at: usize,
    /// Time of the event read last, in the trace clock's unit; at first, the time of the page.
    time: u64,
    missed: Option<LostEvents>,
}

/// An event of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Time of the event, in the unit of the trace's clock, which is ns for most clocks.
    pub time: u64,
    /// The data of the event, which its format describes.
    pub data: &'a [u8],
}

impl<'a> Page<'a> {
    /// Parses the head of a page. `bytes` may be longer than the data, for example a whole page,
    /// but not shorter.
    ///
    /// # Errors
    /// Returns an error if `bytes` are not a page of this layout.
    pub fn new(bytes: &'a [u8], layout: PageLayout) -> Result<Self, PageError> {
        let mut head = Cursor::at(bytes, 0);
        let time = head.u64()?;
        let commit = if layout.long_bytes == 8 {
            head.u64()?
        } else {
            u64::from(head.u32()?)
        };
        let length = usize::try_from(commit & LENGTH_MASK).expect("it has 27 bits");
        let rest = bytes.get(layout.data_offset..).unwrap_or_default();
        let data = rest.get(..length).ok_or(PageError::TooMuch {
            data: length,
            room: rest.len(),
        })?;
        let missed = match (commit & MISSED != 0, commit & MISSED_STORED != 0) {
            (false, _) => None,
            (true, false) => Some(LostEvents::Uncounted),
            (true, true) => {
                let mut count = Cursor::at(rest, length);
                Some(LostEvents::Counted(if layout.long_bytes == 8 {
                    count.u64()?
                } else {
                    u64::from(count.u32()?)
                }))
            }
        };
        Ok(Self {
            data,
            at: 0,
            time,
            missed,
        })
    }

    /// Returns the time of the page's start, in the unit of the trace's clock.
    #[must_use]
    pub fn time(&self) -> u64 {
        self.time
    }

    /// Returns which events were lost between the previous page and this one.
    #[must_use]
    pub fn missed(&self) -> Option<LostEvents> {
        self.missed
    }

    fn step(&mut self) -> Result<Option<Record<'a>>, PageError> {
        while self.at < self.data.len() {
            let start = self.at;
            let mut cursor = Cursor::at(self.data, start);
            let word = cursor.u32()?;
            let (type_or_length, delta) =
                (word & ((1 << TYPE_BITS) - 1), u64::from(word >> TYPE_BITS));
            match type_or_length {
                PADDING if delta == 0 => break,
                // The kernel discarded this event after it had written later events. Nevertheless,
                // its time counts, because later events state only how much time passed since this
                // one.
                PADDING => {
                    let length = cursor.u32()?;
                    self.time = self.time.wrapping_add(delta);
                    self.at = skip(start, 4, length)?;
                }
                TIME_EXTEND => {
                    self.time = self
                        .time
                        .wrapping_add((u64::from(cursor.u32()?) << DELTA_BITS) + delta);
                    self.at = cursor.position();
                }
                TIME_STAMP => {
                    self.time = stamp((u64::from(cursor.u32()?) << DELTA_BITS) + delta, self.time);
                    self.at = cursor.position();
                }
                _ => {
                    self.time = self.time.wrapping_add(delta);
                    let length = if type_or_length > 0 {
                        type_or_length * 4
                    } else {
                        // The stated length includes the word with the length.
                        let said = cursor.u32()?;
                        said.checked_sub(4).ok_or(PageError::Length {
                            at: start,
                            length: said,
                        })?
                    };
                    let data = cursor.take(length as usize)?;
                    self.at = skip(cursor.position(), 0, length.next_multiple_of(4) - length)?;
                    return Ok(Some(Record {
                        time: self.time,
                        data,
                    }));
                }
            }
        }
        Ok(None)
    }
}

/// Returns the position after `head` and `length` bytes, counted from `start`.
fn skip(start: usize, head: usize, length: u32) -> Result<usize, PageError> {
    let end = start
        .checked_add(head)
        .and_then(|at| at.checked_add(length as usize));
    end.ok_or(PageError::Length { at: start, length })
}

/// Returns a complete time stamp from its low 59 bits and from an earlier time stamp.
fn stamp(low: u64, before: u64) -> u64 {
    let low = low & ((1 << STAMP_BITS) - 1);
    let high = before >> STAMP_BITS << STAMP_BITS;
    let whole = high | low;
    if high != 0 && whole < before {
        whole.wrapping_add(1 << STAMP_BITS)
    } else {
        whole
    }
}

impl<'a> Iterator for Page<'a> {
    type Item = Result<Record<'a>, PageError>;

    /// An error ends the page, because the position of the next event is unknown.
    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if step.is_err() {
            self.at = self.data.len();
        }
        step.transpose()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LAYOUT_64: PageLayout = PageLayout {
        long_bytes: 8,
        data_offset: 16,
        page_bytes: 4096,
    };
    const LAYOUT_32: PageLayout = PageLayout {
        long_bytes: 4,
        data_offset: 12,
        page_bytes: 4096,
    };

    fn word(type_or_length: u32, delta: u32) -> [u8; 4] {
        (type_or_length | delta << TYPE_BITS).to_le_bytes()
    }

    fn page(layout: PageLayout, flags: u64, words: &[[u8; 4]], behind: &[u8]) -> Vec<u8> {
        let data = words.concat();
        let mut bytes = 1_000_u64.to_le_bytes().to_vec();
        bytes.extend_from_slice(&(data.len() as u64 | flags).to_le_bytes()[..layout.long_bytes]);
        bytes.extend_from_slice(&data);
        bytes.extend_from_slice(behind);
        bytes
    }

    fn times(bytes: &[u8], layout: PageLayout) -> Vec<u64> {
        Page::new(bytes, layout)
            .expect("a page")
            .map(|record| record.expect("an event").time)
            .collect()
    }

    #[test]
    fn events_of_every_kind_carry_the_time_on() {
        let words = [
            word(1, 5),
            *b"aaaa",
            word(PADDING, 7), // discarded event, whose time counts
            4_u32.to_le_bytes(),
            word(TIME_EXTEND, 3),
            2_u32.to_le_bytes(),
            word(0, 1), // a separate length, which includes itself
            8_u32.to_le_bytes(),
            *b"bbbb",
            word(TIME_STAMP, 9),
            1_u32.to_le_bytes(),
            word(1, 0),
            *b"cccc",
            word(PADDING, 0),
            [255; 4],
        ];
        for layout in [LAYOUT_64, LAYOUT_32] {
            let bytes = page(layout, 0, &words, &[]);
            assert_eq!(
                times(&bytes, layout),
                [1_005, 1_012 + 3 + (2 << 27) + 1, (1 << 27) + 9]
            );
            let data: Vec<_> = Page::new(&bytes, layout)
                .expect("a page")
                .map(|record| record.expect("an event").data)
                .collect();
            assert_eq!(data, [b"aaaa", b"bbbb", b"cccc"]);
        }
    }

    #[test]
    fn lost_events_are_counted_where_the_kernel_did() {
        for layout in [LAYOUT_64, LAYOUT_32] {
            let missed = |flags, behind: &[u8]| {
                Page::new(&page(layout, flags, &[], behind), layout).map(|page| page.missed())
            };
            assert_eq!(missed(0, &[]), Ok(None));
            assert_eq!(missed(MISSED, &[]), Ok(Some(LostEvents::Uncounted)));
            assert_eq!(
                missed(MISSED | MISSED_STORED, &[7, 0, 0, 0, 0, 0, 0, 0]),
                Ok(Some(LostEvents::Counted(7)))
            );
            assert!(missed(MISSED | MISSED_STORED, &[7]).is_err());
        }
    }

    #[test]
    fn a_stamp_takes_its_upper_bits_from_the_one_before() {
        assert_eq!(stamp(5, 4), 5);
        let high = 3 << STAMP_BITS;
        assert_eq!(stamp(5, high | 4), high | 5);
        assert_eq!(
            stamp(3, high | 4),
            (4 << STAMP_BITS) | 3,
            "the low bits ran over"
        );
    }

    #[test]
    fn a_page_larger_than_4_kib_is_read_to_its_end() {
        let words: Vec<_> = (0..8_000).flat_map(|_| [word(1, 1), *b"data"]).collect();
        let bytes = page(LAYOUT_64, 0, &words, &[]);
        assert!(bytes.len() > 60_000);
        assert_eq!(times(&bytes, LAYOUT_64.with_page_bytes(65536)).len(), 8_000);
    }

    #[test]
    fn damage_ends_the_page_and_not_the_reader() {
        let cut = page(LAYOUT_64, 0, &[word(1, 1), *b"data", word(28, 1)], &[]);
        let mut events = Page::new(&cut, LAYOUT_64).expect("a page");
        assert!(events.next().expect("an event").is_ok());
        assert!(matches!(events.next(), Some(Err(PageError::End(_)))));
        assert!(events.next().is_none());
        let short = page(LAYOUT_64, 0, &[word(0, 1), 3_u32.to_le_bytes()], &[]);
        let error = Page::new(&short, LAYOUT_64).expect("a page").next();
        assert_eq!(error, Some(Err(PageError::Length { at: 0, length: 3 })));
        assert_eq!(
            Page::new(&page(LAYOUT_64, 9_999, &[], &[]), LAYOUT_64).err(),
            Some(PageError::TooMuch {
                data: 9_999,
                room: 0
            })
        );
        assert!(Page::new(&[1, 2], LAYOUT_64).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic_or_run_on(
            bytes in proptest::collection::vec(any::<u8>(), 0..300), length in 0_u64..300, flags in 0_u64..4, is_long in any::<bool>(),
        ) {
            let mut page = 1_u64.to_le_bytes().to_vec();
            page.extend_from_slice(&(length | flags << 30).to_le_bytes());
            page.extend_from_slice(&bytes);
            let layout = if is_long { LAYOUT_64 } else { LAYOUT_32 };
            if let Ok(page) = Page::new(&page, layout) {
                prop_assert!(page.count() <= 300);
            }
        }

        #[test]
        fn what_is_written_is_read(events in proptest::collection::vec((0_u32..1 << 27, 1_usize..40), 0..60)) {
            let mut words = Vec::new();
            for &(delta, length) in &events {
                if length <= 28 {
                    words.push(word(u32::try_from(length).unwrap(), delta));
                } else {
                    words.extend([word(0, delta), u32::try_from(4 * length + 4).unwrap().to_le_bytes()]);
                }
                words.extend(std::iter::repeat_n([9; 4], length));
            }
            let bytes = page(LAYOUT_64, 0, &words, &[]);
            let mut time = 1_000;
            let expected: Vec<_> = events.iter().map(|&(delta, length)| { time += u64::from(delta); (time, 4 * length) }).collect();
            let read: Vec<_> = Page::new(&bytes, LAYOUT_64).unwrap().map(|record| record.map(|record| (record.time, record.data.len())).unwrap()).collect();
            prop_assert_eq!(read, expected);
        }
    }
}
