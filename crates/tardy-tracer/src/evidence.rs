//! Raw pages around the worst samples, as a self-contained trace.dat: formats, names, pages.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::Arc;

use tardy_samples::reserved_file;
use tardy_trace::file::TraceHead;

/// Number of worst samples for which pages are stored.
const WORST: usize = 16;
/// How many bytes of recent pages are kept in memory, per CPU.
const RECENT_BYTES_MAX: usize = 8 << 20;
/// How old the events in recent pages may be, in ns. A sample is recorded soon after its clock
/// read, so older pages would only be used for latencies that are about as long.
const RECENT_NS_MAX: u64 = 60_000_000_000;
/// Maximum number of pages that are stored for one sample, per CPU.
const PAGES_MAX: usize = 64;
/// The stored pages cover the time from this many ns before the due time until this many ns after
/// the clock read.
const AROUND: u64 = 1_000_000;
/// Index of a byte in a page, and the bit of this byte which states that events were lost before
/// the page. The bit is the highest one in the lower 32 bits of `commit`, which is little-endian
/// (kernel/trace/ring_buffer.c, RB_MISSED_EVENTS).
const MISSED_BYTE: (usize, u8) = (11, 0x80);

/// A page of one CPU.
#[derive(Debug, Clone)]
struct KeptPage {
    /// Number of the page among those of its CPU; a gap in the numbers shows that pages are
    /// missing.
    number: u64,
    begins: u64,
    bytes: Arc<Vec<u8>>,
}

/// The recent pages, and those that are stored for the worst samples.
#[derive(Debug)]
pub(crate) struct Evidence {
    recent: Vec<VecDeque<KeptPage>>,
    numbers: Vec<u64>,
    bytes: Vec<usize>,
    /// The worst samples, worst first: latency, and pages by index of the CPU.
    worst: Vec<(u64, Vec<(usize, KeptPage)>)>,
    /// The first index of a CPU whose pages belong to the instance, and the name of the instance.
    /// Pages with lower indices belong to the main buffer.
    instance: Option<(usize, &'static str)>,
    /// Maximum size in bytes of all pages that are stored for the worst samples.
    bytes_max: u64,
    has_changed: bool,
}

impl Evidence {
    /// Creates an empty store for the pages of `cpus` CPUs. For the worst samples, it stores pages
    /// of at most `bytes_max` bytes in total.
    pub(crate) fn new(cpus: usize, bytes_max: Option<u64>) -> Self {
        Self {
            recent: vec![VecDeque::new(); cpus],
            numbers: vec![0; cpus],
            bytes: vec![0; cpus],
            worst: Vec::new(),
            instance: None,
            bytes_max: bytes_max.unwrap_or(u64::MAX),
            has_changed: false,
        }
    }

    /// Declares that pages with an index of at least `first` belong to an instance with this name.
    pub(crate) fn with_instance(self, first: usize, name: &'static str) -> Self {
        Self {
            instance: Some((first, name)),
            ..self
        }
    }

    pub(crate) fn page(&mut self, place: usize, begins: u64, page: Vec<u8>) {
        let recent = &mut self.recent[place];
        self.bytes[place] += page.len();
        self.numbers[place] += 1;
        recent.push_back(KeptPage {
            number: self.numbers[place],
            begins,
            bytes: Arc::new(page),
        });
        let oldest = begins.saturating_sub(RECENT_NS_MAX);
        // The events of a page come before the beginning of the next page.
        let is_old = |recent: &VecDeque<KeptPage>| {
            recent.get(1).is_some_and(|second| second.begins <= oldest)
        };
        while self.bytes[place] > RECENT_BYTES_MAX || is_old(recent) {
            let Some(gone) = recent.pop_front() else {
                break;
            };
            self.bytes[place] -= gone.bytes.len();
        }
    }

    /// If a sample is among the worst, stores its pages.
    pub(crate) fn sample(&mut self, due: u64, woke: u64) {
        let latency = woke - due;
        let place = self.worst.partition_point(|&(other, _)| other >= latency);
        if place >= WORST {
            return;
        }
        let (from, to) = (due.saturating_sub(AROUND), woke.saturating_add(AROUND));
        let mut pages = Vec::new();
        for (place, recent) in self.recent.iter().enumerate() {
            let begin = recent
                .partition_point(|page| page.begins <= from)
                .saturating_sub(1);
            pages.extend(
                recent
                    .range(begin..)
                    .take_while(|page| page.begins <= to)
                    .take(PAGES_MAX)
                    .map(|page| (place, page.clone())),
            );
        }
        self.worst.insert(place, (latency, pages));
        self.worst.truncate(WORST);
        while self.kept_bytes() > self.bytes_max {
            self.worst.pop();
        }
        self.has_changed = true;
    }

    fn kept_bytes(&self) -> u64 {
        let pages = self.worst.iter().flat_map(|(_, pages)| pages);
        pages.map(|(_, page)| page.bytes.len() as u64).sum()
    }

    /// Writes the file again if there are new samples. `cpus` names the CPU for each index.
    pub(crate) fn write(&mut self, path: &Path, head: &TraceHead, cpus: &[u32]) -> io::Result<()> {
        match self.changed(|| head.clone(), cpus) {
            Some(bytes) => reserved_file::replace(path, &bytes),
            None => Ok(()),
        }
    }

    /// Returns the content of the file, if it has changed since the last call.
    pub(crate) fn changed(
        &mut self,
        head: impl FnOnce() -> TraceHead,
        cpus: &[u32],
    ) -> Option<Vec<u8>> {
        std::mem::take(&mut self.has_changed).then(|| self.encode(&head(), cpus))
    }

    /// Forgets the worst samples, but not the recent pages.
    pub(crate) fn forget(&mut self) {
        self.worst.clear();
        self.has_changed = false;
    }

    fn encode(&self, head: &TraceHead, cpus: &[u32]) -> Vec<u8> {
        // A file lists all CPUs up to the highest one, even those without pages.
        let count = cpus.iter().max().map_or(0, |&cpu| cpu as usize + 1);
        let first = self.instance.map_or(usize::MAX, |(first, _)| first);
        let mut by_cpu: Vec<BTreeMap<u64, &KeptPage>> = vec![BTreeMap::new(); 2 * count];
        for (place, page) in self.worst.iter().flat_map(|(_, pages)| pages) {
            let at = usize::from(*place >= first) * count + cpus[*place] as usize;
            by_cpu[at].insert(page.number, page);
        }
        let length = |pages: &BTreeMap<u64, &KeptPage>| {
            pages.values().map(|page| page.bytes.len() as u64).sum()
        };
        let lengths: Vec<u64> = by_cpu.iter().map(length).collect();
        let (main, more) = lengths.split_at(count);
        let instance = self.instance.map(|(_, name)| (name, more));
        let mut out = head.encode_with(main, instance);
        for pages in &by_cpu {
            let mut last = 0;
            for (&number, page) in pages {
                let start = out.len();
                out.extend_from_slice(&page.bytes);
                if number != last + 1 && last != 0 {
                    let (at, bit) = MISSED_BYTE;
                    out[start + at] |= bit;
                }
                last = number;
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use tardy_trace::file::TraceFile;
    use tardy_trace::page::Page;

    use super::*;

    fn page(begins: u64) -> Vec<u8> {
        let mut page = begins.to_le_bytes().to_vec();
        page.resize(4096, 0);
        page
    }

    #[test]
    fn pages_around_the_worst_samples_stay_and_gaps_between_them_are_marked() {
        let mut evidence = Evidence::new(1, None);
        let ms = 1_000_000;
        for number in 0..100 {
            evidence.page(0, number * 10 * ms, page(number * 10 * ms));
        }
        evidence.sample(200 * ms + 5 * ms, 200 * ms + 6 * ms);
        evidence.sample(500 * ms + 5 * ms, 520 * ms);
        let field = |name: &str, offset, size| {
            format!("\tfield: u64 {name};\toffset:{offset};\tsize:{size};\tsigned:0;\n")
        };
        let header_page =
            field("timestamp", 0, 8) + &field("commit", 8, 8) + &field("data", 16, 4080);
        let head = TraceHead {
            header_page,
            page_bytes: 4096,
            ..TraceHead::default()
        };
        let bytes = evidence.encode(&head, &[2]);
        let file = TraceFile::parse(&bytes).unwrap();
        let buffer = file.buffer(None).unwrap();
        assert_eq!(buffer.cpus.len(), 3);
        let pages: Vec<u8> = buffer.cpus[2]
            .chunks()
            .flat_map(|chunk| chunk.unwrap().into_owned())
            .collect();
        let found: Vec<_> = pages
            .chunks(4096)
            .map(|page| Page::new(page, file.layout).unwrap())
            .collect();
        let found: Vec<_> = found
            .iter()
            .map(|page| (page.time() / ms, page.missed().is_some()))
            .collect();
        assert_eq!(
            found,
            [(200, false), (500, true), (510, false), (520, false)]
        );
    }

    #[test]
    fn only_pages_with_events_of_the_last_minute_are_kept() {
        let mut evidence = Evidence::new(1, None);
        let seconds = 1_000_000_000;
        for number in 0..100 {
            evidence.page(0, number * 25 * seconds, page(0));
        }
        let begins = evidence.recent[0].iter().map(|page| page.begins / seconds);
        // The last page begins at 2475 s, and the events of the first one end at 2425 s.
        assert_eq!(begins.collect::<Vec<_>>(), [2400, 2425, 2450, 2475]);
        assert_eq!(evidence.bytes, [4 * 4096]);
    }

    #[test]
    fn a_sample_that_is_not_among_the_worst_costs_nothing() {
        let mut evidence = Evidence::new(1, None);
        for latency in (1..=40).rev() {
            evidence.sample(1_000, 1_000 + latency);
        }
        assert_eq!(
            (evidence.worst.len(), evidence.worst[WORST - 1].0),
            (WORST, 25)
        );
    }
}
