//! The thread that reads the kernel's pages while the run lasts, decodes them, and explains samples as they come.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use tardy_core::sample::Sample;
use tardy_sys::clock;
use tardy_trace::event::{Event, Kind};
use tardy_trace::explain::Samples;
use tardy_trace::file::TraceHead;
use tardy_trace::live::Live;
use tardy_trace::merge::Item;
use tardy_trace::text::Text;

use crate::delays::{DelayFile, Holders};
use crate::evidence::Evidence;
use crate::instance::Instance;
use crate::kept::KeptPages;
use crate::pages::PageReader;
use crate::tap::Batch;

/// How often pages are read: rarely enough to find whole ones, and often enough for the buffers.
const PERIOD: Duration = Duration::from_millis(100);
/// An event may be written this long after its time, by a CPU that was interrupted or that a host stopped in between, in ns.
const LATE_NS: u64 = 20_000_000;
/// The stream must be so far behind a sample before that is explained: the first event of the thread after its clock read may be what tells of it, in ns.
const SETTLED_NS: u64 = 20_000_000;
/// What was before the last sample is remembered for so long, in ns; and at most for so long, where a series has no samples.
const REMEMBERED_NS: u64 = 1_000_000_000;
const REMEMBERED_MAX_NS: u64 = 30_000_000_000;
/// Pages of a CPU that are read in a row.
const PAGES_MAX: usize = 2048;
/// How often evidence is written on the way, in ns.
const EVIDENCE_NS: i64 = 10_000_000_000;
/// How often delays are written, in ns; a killed run has no explanation for its last samples.
const FLUSH_NS: i64 = 2_000_000_000;
/// Samples that wait for the trace, a series; there are more only if the trace stands still.
const WAITING_MAX: usize = 1 << 20;
/// Names of threads in the head of a file of pages; loads that fork make many.
const NAMES_MAX: usize = 16_384;
/// What a measuring thread writes into the trace; behind it stands its place.
pub(crate) const MARK: &str = "tardy ";

/// A series whose samples are explained.
#[derive(Debug)]
pub(crate) struct Followed {
    /// The place whose threads take its samples.
    pub(crate) place: usize,
    /// The CPU that is looked at where the trace does not tell which one it was.
    pub(crate) home: u32,
    pub(crate) file: DelayFile,
    pub(crate) left_out: Arc<AtomicU64>,
    pub(crate) waiting: VecDeque<Sample>,
    /// When the last sample that was explained was due.
    pub(crate) explained_until: u64,
}

/// All that the thread owns.
pub(crate) struct Follower {
    pub(crate) instance: Instance,
    pub(crate) reader: PageReader,
    pub(crate) live: Live,
    pub(crate) samples: Samples,
    /// Threads by the place that they wrote into the trace.
    pub(crate) threads: HashMap<usize, Vec<i32>>,
    pub(crate) series: Vec<Followed>,
    pub(crate) holders: Holders,
    pub(crate) evidence: Evidence,
    pub(crate) evidence_path: PathBuf,
    pub(crate) kept: Option<KeptPages>,
    pub(crate) batches: Receiver<Batch>,
    pub(crate) new_series: Receiver<Vec<Followed>>,
}

impl Follower {
    /// Follows until `is_ending`, and then to the end of what there is.
    // A function of its own, whose instructions a test counts (tests/alone/explaining.rs).
    #[inline(never)]
    pub(crate) fn run(&mut self, is_ending: &AtomicBool) {
        let (mut evidence_due, mut flush_due) = (clock::monotonic() + EVIDENCE_NS, clock::monotonic() + FLUSH_NS);
        loop {
            let ending = is_ending.load(Ordering::Acquire);
            if ending {
                self.instance.stop();
            }
            let now = clock::monotonic();
            let is_all = self.read();
            self.take_batches();
            let is_last = ending && is_all;
            // Where there may be more pages, nothing is known yet to be whole.
            let until = match (is_last, is_all) {
                (true, _) => u64::MAX,
                (false, true) => now.max(0).cast_unsigned().saturating_sub(LATE_NS),
                (false, false) => 0,
            };
            self.decode(until);
            self.explain(until);
            if is_last {
                break;
            }
            if now >= flush_due {
                self.series.iter_mut().for_each(|series| series.file.flush());
                flush_due = now + FLUSH_NS;
            }
            if now >= evidence_due {
                self.write_evidence();
                evidence_due = now + EVIDENCE_NS;
            }
            if is_all && !ending {
                std::thread::park_timeout(PERIOD);
            }
        }
        self.series.iter_mut().for_each(|series| series.file.flush());
        self.write_evidence();
    }

    /// Reads what there is; false where there may be more.
    fn read(&mut self) -> bool {
        let mut is_all = true;
        for place in 0..self.reader.cpus().len() {
            let mut pages = 0;
            while let Ok(Some(page)) = self.reader.next(place) {
                if let Some(kept) = &mut self.kept {
                    kept.append(place, &page);
                }
                if let Ok(begins) = self.live.page(place, &page) {
                    self.evidence.page(place, begins, page);
                }
                pages += 1;
                if pages == PAGES_MAX {
                    is_all = false;
                    break;
                }
            }
        }
        is_all
    }

    fn take_batches(&mut self) {
        while let Ok(series) = self.new_series.try_recv() {
            self.series = series;
        }
        for batch in self.batches.try_iter() {
            let Some(series) = self.series.get_mut(batch.series) else { continue };
            let late = batch.samples.iter().filter(|sample| sample.latency.get() > 0);
            let before = series.waiting.len();
            series.waiting.extend(late);
            series.file.counts.samples += (series.waiting.len() - before) as u64;
            let over = series.waiting.len().saturating_sub(WAITING_MAX);
            series.waiting.drain(..over);
            series.left_out.fetch_add(over as u64, Ordering::Relaxed);
        }
    }

    fn decode(&mut self, until: u64) {
        while let Some(item) = self.live.next_before(until) {
            if let Item::Event(event) = &item {
                self.learn_thread(event);
            }
            self.samples.take(&item);
        }
    }

    /// A measuring thread has said which place it measures.
    fn learn_thread(&mut self, event: &Event) {
        let Kind::Marker { text } = event.kind else { return };
        // The kernel ends the line, and `Text` shows that as a mark.
        let place = text.as_str().strip_prefix(MARK).map(|place| place.trim_end_matches('?'));
        if let Some(place) = place.and_then(|place| place.parse().ok()) {
            self.threads.entry(place).or_default().push(event.head.pid);
            self.samples.follow(event.head.pid);
        }
    }

    fn explain(&mut self, until: u64) {
        let settled = until.saturating_sub(SETTLED_NS);
        for series in &mut self.series {
            let threads = self.threads.get(&series.place).map_or(&[][..], Vec::as_slice);
            while let Some(sample) = series.waiting.front() {
                let (due, woke) = (sample.due.get().max(0).cast_unsigned(), sample.wake().get().max(0).cast_unsigned());
                if woke >= settled {
                    break;
                }
                let delay = self.samples.explain(threads, series.home, due, woke);
                series.file.store(sample.due, &delay, &mut self.holders);
                self.evidence.sample(due, woke);
                series.explained_until = due;
                series.waiting.pop_front();
            }
        }
        // What is handed over next is later than what was handed over last, however far behind the recorder is.
        let explained = self.series.iter().map(|series| series.explained_until).min().unwrap_or(settled);
        let begin = settled.saturating_sub(REMEMBERED_MAX_NS);
        self.samples.forget_before(explained.clamp(begin, settled).saturating_sub(REMEMBERED_NS));
    }

    fn write_evidence(&mut self) {
        let head = self.head();
        let _ = self.evidence.write(&self.evidence_path, &head, self.reader.cpus());
    }

    /// The head of files of pages, with the names that are known by now. Those of threads are the events' own: whoever reads the kernel's list of them
    /// keeps preemption off for hundreds of microseconds (kernel/trace/trace_sched_switch.c, `saved_cmdlines_start`).
    pub(crate) fn head(&self) -> TraceHead {
        let line = |(pid, name): (i32, Text)| format!("{pid} {name}\n");
        TraceHead {
            commands: self.samples.names().take(NAMES_MAX).map(line).collect(),
            symbols: self.holders.symbol_lines(),
            ..self.instance.head.clone()
        }
    }
}
