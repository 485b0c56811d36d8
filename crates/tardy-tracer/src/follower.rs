//! The thread that reads the kernel's pages while the run lasts.
//!
//! Names of threads come from events, not from `saved_cmdlines`. Reading that file keeps preemption
//! off throughout, which took 390 to 950 us in a guest. These sections caused the worst latencies
//! of 6.1-rt and 6.12-rt, and the tool's own explanation attributed them to its reader.
//!
//! The reader polls ten times a second instead of being woken. A wake-up for each page would put
//! the reader's own events among those of the machine; the buffer holds the events of one second at
//! 200,000 events per second.
//!
//! The stream is read 20 ms behind the clock, because a CPU may be stopped between the time of an
//! event and its commit. A sample is explained another 20 ms later, so that the thread's next event
//! is known.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tardy_sys::clock;
use tardy_trace::file::TraceHead;
use tardy_trace::text::Text;

use crate::explaining::SampleExplainer;
use crate::instance::Instance;
use crate::kept::KeptPages;
use crate::pages::PageReader;

/// Interval between reads of pages: long enough for whole pages, and short enough for the buffers.
const PERIOD: Duration = Duration::from_millis(100);
/// Maximum time from an event's time to its commit, in ns. A CPU may be interrupted, or stopped by
/// a host, in between.
const LATE_NS: u64 = 20_000_000;
/// Maximum number of pages of a CPU that are read before their events are explained.
const PAGES_MAX: usize = 128;
/// Interval between writes of evidence during the run, in ns.
const EVIDENCE_NS: i64 = 10_000_000_000;
/// Interval between writes of delays, in ns; a killed run has no explanation for its last samples.
const FLUSH_NS: i64 = 2_000_000_000;
/// Maximum number of thread names in the head of a file of pages; loads that fork create many
/// threads.
const NAMES_MAX: usize = 16_384;

/// The state of the tracing thread.
pub(crate) struct Follower {
    pub(crate) instance: Instance,
    pub(crate) reader: PageReader,
    pub(crate) explaining: SampleExplainer,
    pub(crate) evidence_path: PathBuf,
    pub(crate) kept: Option<KeptPages>,
    /// Whether the kernel records stacks.
    pub(crate) has_stacks: bool,
    /// IDs of the measuring threads to which the event filters are restricted, sorted.
    pub(crate) threads_known: Vec<i32>,
}

impl Follower {
    /// Reads until `is_ending` is true, then to the end of the buffered data.
    // This is a separate function because a test counts its instructions
    // (tests/alone/explaining.rs).
    #[inline(never)]
    pub(crate) fn run(&mut self, is_ending: &AtomicBool) {
        let (mut evidence_due, mut flush_due) = (
            clock::monotonic() + EVIDENCE_NS,
            clock::monotonic() + FLUSH_NS,
        );
        loop {
            let ending = is_ending.load(Ordering::Acquire);
            if ending {
                self.instance.stop();
            }
            let now = clock::monotonic();
            let unread = self.read();
            let is_all = unread.is_none();
            let is_last = ending && is_all;
            let until = if is_last {
                u64::MAX
            } else {
                let written = now.max(0).cast_unsigned().saturating_sub(LATE_NS);
                written.min(unread.unwrap_or(u64::MAX))
            };
            self.explaining.advance(until);
            self.record_known_threads();
            if is_last {
                break;
            }
            if now >= flush_due {
                self.explaining.flush();
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
        self.explaining.flush();
        self.write_evidence();
    }

    /// Reads the available pages. If more pages may be available, returns a time; the unread pages
    /// contain no event before this time. A backlog is explained while it is read, because its
    /// events take several times the memory of the pages.
    fn read(&mut self) -> Option<u64> {
        let mut unread: Option<u64> = None;
        for place in 0..self.reader.cpus().len() {
            let (mut pages, mut reached) = (0, 0);
            while let Ok(Some(page)) = self.reader.next(place) {
                if let Some(kept) = &mut self.kept {
                    kept.append(place, &page);
                }
                if let Ok(begins) = self.explaining.live.page(place, &page) {
                    reached = begins.saturating_sub(LATE_NS);
                    self.explaining.evidence.page(place, begins, page);
                }
                pages += 1;
                if pages == PAGES_MAX {
                    unread = Some(unread.map_or(reached, |least| least.min(reached)));
                    break;
                }
            }
        }
        unread
    }

    /// Restricts the events of measuring threads to the threads that are known by now.
    fn record_known_threads(&mut self) {
        let mut threads: Vec<i32> = self
            .explaining
            .threads
            .values()
            .flatten()
            .copied()
            .collect();
        threads.sort_unstable();
        if threads != self.threads_known {
            self.instance.record_events_of(&threads);
            if self.has_stacks {
                // If this fails, only the stacks of interrupts are recorded.
                let _ = self.instance.record_stacks_of_switches_to(&threads);
            }
            self.threads_known = threads;
        }
    }

    fn write_evidence(&mut self) {
        let head = self.head();
        let _ = self
            .explaining
            .evidence
            .write(&self.evidence_path, &head, self.reader.cpus());
    }

    /// Returns the head of files of pages, with the names that are known by now. Thread names come
    /// from the events: reading the kernel's list of them disables preemption for hundreds of
    /// microseconds (kernel/trace/trace_sched_switch.c, `saved_cmdlines_start`).
    pub(crate) fn head(&self) -> TraceHead {
        let line = |(pid, name): (i32, Text)| format!("{pid} {name}\n");
        TraceHead {
            commands: self
                .explaining
                .samples
                .names()
                .take(NAMES_MAX)
                .map(line)
                .collect(),
            symbols: self.explaining.holders.symbol_lines(),
            ..self.instance.head.clone()
        }
    }
}
