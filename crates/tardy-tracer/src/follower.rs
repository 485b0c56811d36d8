//! The thread that reads the kernel's pages during the run.
//!
//! The names of threads come from events, rather than from the file `saved_cmdlines`. While that
//! file is read, preemption is off: for 390 to 950 us in a guest. These were the worst latencies of
//! 6.1-rt and 6.12-rt, and the explanations named the tool's own reader as the cause.
//!
//! The reader polls ten times a second; the kernel does not wake it. If every page woke the reader,
//! the reader's own events would be among those of the machine. The buffer holds the events of one
//! second at 200,000 events per second.
//!
//! The reader stays 20 ms behind the clock, because a CPU may be stopped between the time of an
//! event and the moment at which the event can be read. A sample is explained another 20 ms later,
//! so that the thread's next event is known.

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

/// Interval at which pages are read: long enough for whole pages, and short enough that the buffers
/// do not overflow.
const PERIOD: Duration = Duration::from_millis(100);
/// Maximum time in ns from an event until the event can be read. In between, an interrupt or a host
/// may stop the CPU.
const LATE_NS: u64 = 20_000_000;
/// Maximum number of a CPU's pages that are read before their events are explained.
const PAGES_MAX: usize = 128;
/// Interval in ns at which evidence is written during the run.
const EVIDENCE_NS: i64 = 10_000_000_000;
/// Interval in ns at which delays are written; if a run is killed, its last samples have no
/// explanation.
const FLUSH_NS: i64 = 2_000_000_000;
/// Maximum number of thread names in the head of a file with pages, because loads that fork create
/// many threads.
const NAMES_MAX: usize = 16_384;

/// The tracing thread's state: the instance, the reader of its pages, and the explanations.
pub(crate) struct Follower {
    pub(crate) instance: Instance,
    pub(crate) reader: PageReader,
    pub(crate) explaining: SampleExplainer,
    pub(crate) evidence_path: PathBuf,
    pub(crate) kept: Option<KeptPages>,
    /// Whether the kernel records stacks.
    pub(crate) has_stacks: bool,
    /// The IDs of the measuring threads that the event filters select, sorted.
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

    /// Reads the pages that are available. If there may be more pages, returns a time before which
    /// they contain no event. A backlog is explained while it is read, because its events take
    /// several times the memory of the pages.
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

    /// Makes the filters for measuring threads select the threads that are known by now.
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
                // If this fails, the kernel records only the stacks of interrupts.
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

    /// Returns the head for files of pages; it contains the names that are known by now. The names
    /// of threads come from events, because reading the kernel's list of them keeps preemption off
    /// for hundreds of microseconds (kernel/trace/trace_sched_switch.c, `saved_cmdlines_start`).
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
