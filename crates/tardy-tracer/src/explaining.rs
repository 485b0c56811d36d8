//! Explains the samples of a run: takes decoded events and samples, and stores delays.
//!
//! Samples are explained after every 16,384 decoded events, rather than only when everything was
//! decoded. The reason: in a guest with only one CPU, a reader that was late found more events at
//! once than are stored per CPU. As a result, up to 2 % of the samples were partly unexplained,
//! although no event was lost.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;

use tardy_core::sample::Sample;
use tardy_samples::loop_rules::{LoopRules, RecordedKinds};
use tardy_trace::event::{Event, Kind};
use tardy_trace::explain::Samples;
use tardy_trace::live::Live;
use tardy_trace::merge::Item;

use crate::delays::{DelayFile, Holders};
use crate::events::VIOLATIONS;
use crate::evidence::Evidence;
use crate::second_opinion::Opinions;
use crate::tap::Batch;

/// A sample is explained when the stream has been read to this many ns after the sample's clock
/// read. The explanation may need the thread's first event after the clock read.
const SETTLED_NS: u64 = 20_000_000;
/// Events are forgotten when they are more than this many ns older than the last explained sample
/// of every series. If the last sample of a series is older than `REMEMBERED_MAX_NS`, events are
/// forgotten as if it had this age.
const REMEMBERED_NS: u64 = 1_000_000_000;
const REMEMBERED_MAX_NS: u64 = 30_000_000_000;
/// Maximum number of samples per series that wait until the trace has been read; it is reached only
/// if the trace stalls.
const WAITING_MAX: usize = 1 << 20;
/// Samples are explained each time this many events have been decoded. A reader that is late finds
/// more events at once than are stored per CPU.
const STEP_EVENTS: usize = 1 << 14;
/// Start of the text by which a measuring thread announces itself in the trace; the probe's index
/// comes after it.
pub(crate) const MARK: &str = "tardy ";

/// A series whose samples are explained.
#[derive(Debug)]
pub(crate) struct SeriesFollower {
    /// Index of the probe whose threads take the samples of the series.
    pub(crate) place: usize,
    /// The CPU whose trace is used if the trace does not show where the thread ran.
    pub(crate) home: u32,
    pub(crate) file: DelayFile,
    pub(crate) left_out: Arc<AtomicU64>,
    pub(crate) waiting: VecDeque<Sample>,
    /// When the last explained sample was due.
    pub(crate) explained_until: u64,
}

/// A loop of a program that is measured. The loop's thread writes nothing into the trace.
#[derive(Debug, Clone, Copy)]
pub struct FollowedLoop {
    /// Index of the probe that measures this loop.
    pub place: usize,
    /// The thread of the loop, by its ID in the kernel.
    pub thread: i32,
}

/// Explains samples.
#[derive(Debug)]
pub(crate) struct SampleExplainer {
    pub(crate) live: Live,
    pub(crate) samples: Samples,
    /// The measuring threads, by the probe index that they announced in the trace.
    pub(crate) threads: HashMap<usize, Vec<i32>>,
    /// The comparison with the timerlat tracer, if this tracer runs, too.
    pub(crate) opinions: Option<Opinions>,
    /// Loops of programs.
    pub(crate) loops: Vec<FollowedLoop>,
    pub(crate) series: Vec<SeriesFollower>,
    pub(crate) holders: Holders,
    pub(crate) evidence: Evidence,
    pub(crate) batches: Receiver<Batch>,
    pub(crate) new_series: Receiver<(Vec<SeriesFollower>, Vec<FollowedLoop>)>,
}

impl SampleExplainer {
    /// Writes all explanations that are not in the files yet.
    pub(crate) fn flush(&mut self) {
        let files = self.series.iter_mut().map(|series| &mut series.file);
        DelayFile::flush_all(files, &mut self.holders);
    }

    /// Decodes the events before `until`, and then explains the samples for which all events are
    /// known.
    pub(crate) fn advance(&mut self, until: u64) {
        loop {
            self.take_batches();
            let (mut events, mut reached) = (0, 0);
            while events < STEP_EVENTS
                && let Some(item) = self.live.next_before(until)
            {
                if let Item::Event(event) = &item {
                    self.learn_thread(event);
                    if let Some(opinions) = &mut self.opinions {
                        opinions.take(event, &mut self.samples);
                    }
                }
                self.samples.take(&item);
                (events, reached) = (events + 1, item.time());
            }
            let is_all = events < STEP_EVENTS;
            self.explain(if is_all { until } else { reached });
            if is_all {
                return;
            }
        }
    }

    fn take_batches(&mut self) {
        while let Ok((series, loops)) = self.new_series.try_recv() {
            (self.series, self.loops) = (series, loops);
            for &FollowedLoop { place, thread } in &self.loops {
                let own = self.threads.insert(place, vec![thread]).unwrap_or_default();
                own.into_iter()
                    .for_each(|pid| self.samples.add_observer(pid));
                self.samples.follow(thread);
                self.samples.judge(thread);
            }
        }
        for batch in self.batches.try_iter() {
            let Some(series) = self.series.get_mut(batch.series) else {
                continue;
            };
            let late = batch
                .samples
                .iter()
                .filter(|sample| sample.latency.get() > 0);
            let before = series.waiting.len();
            series.waiting.extend(late);
            series.file.counts.samples += (series.waiting.len() - before) as u64;
            let over = series.waiting.len().saturating_sub(WAITING_MAX);
            series.waiting.drain(..over);
            series.left_out.fetch_add(over as u64, Ordering::Relaxed);
        }
    }

    /// Records the probe index that a measuring thread announced.
    fn learn_thread(&mut self, event: &Event) {
        let Kind::Marker { text } = event.kind else {
            return;
        };
        // The kernel adds a line end, which `Text` converts to a question mark.
        let place = text
            .as_str()
            .strip_prefix(MARK)
            .map(|place| place.trim_end_matches('?'));
        let Some(place) = place.and_then(|place| place.parse().ok()) else {
            return;
        };
        if self.loops.iter().any(|looped| looped.place == place) {
            // This thread of tardy measures nothing: it only passes on the samples of a program's
            // loop.
            self.samples.add_observer(event.head.pid);
            return;
        }
        self.threads.entry(place).or_default().push(event.head.pid);
        self.samples.follow(event.head.pid);
    }

    /// Returns how often loops of programs violated the rules for real-time loops, as far as
    /// `events` show.
    pub(crate) fn judged(&self, events: &[String]) -> Vec<LoopRules> {
        let recorded = RecordedKinds::of(events);
        let monitors = || {
            let events = events.iter();
            events
                .filter_map(|event| event.strip_prefix(VIOLATIONS))
                .filter(|name| !name.starts_with("env_"))
        };
        let rules = |looped: &FollowedLoop| {
            let (thread, rules) = self.samples.rules(looped.thread)?;
            Some(LoopRules::of(thread, rules, recorded).with_monitors(rules, monitors()))
        };
        self.loops.iter().filter_map(rules).collect()
    }

    fn explain(&mut self, until: u64) {
        let settled = until.saturating_sub(SETTLED_NS);
        if let Some(opinions) = &mut self.opinions {
            opinions.compare(settled, &mut self.samples);
        }
        for series in &mut self.series {
            let threads = self
                .threads
                .get(&series.place)
                .map_or(&[][..], Vec::as_slice);
            while let Some(sample) = series.waiting.front() {
                let (due, woke) = (
                    sample.due.get().max(0).cast_unsigned(),
                    sample.wake().get().max(0).cast_unsigned(),
                );
                if woke >= settled {
                    break;
                }
                let delay = self.samples.explain(threads, series.home, due, woke);
                series
                    .file
                    .store(sample.due, &delay, &mut self.holders, &self.live);
                self.samples.give_back(delay);
                self.evidence.sample(due, woke);
                series.explained_until = due;
                series.waiting.pop_front();
            }
        }
        // Samples arrive in the order of time, however late the recorder is.
        let explained = self
            .series
            .iter()
            .map(|series| series.explained_until)
            .min()
            .unwrap_or(settled);
        let begin = settled.saturating_sub(REMEMBERED_MAX_NS);
        self.samples.forget_before(
            explained
                .clamp(begin, settled)
                .saturating_sub(REMEMBERED_NS),
        );
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tardy_core::units::Nanos;
    use tardy_run::tracing::ExplainedSeries;
    use tardy_trace::event::Decoder;
    use tardy_trace::explain::Facts;
    use tardy_trace::format::EventFormat;
    use tardy_trace::layout::PageLayout;
    use tardy_trace::symbols::Symbols;

    use super::*;

    const LAYOUT: PageLayout = PageLayout {
        long_bytes: 8,
        data_offset: 16,
        page_bytes: 4096,
    };
    const PROBE: i32 = 10;
    const LOAD: i32 = 20;

    /// Returns the text of an event's format. These fields come after the common fields, and each
    /// has four bytes.
    fn format(system: &str, name: &str, id: u16, fields: &[&str]) -> EventFormat {
        let mut text = format!("name: {name}\nID: {id}\n");
        let common = [
            ("unsigned short common_type", 0, 2),
            ("unsigned char common_flags", 2, 1),
            ("unsigned char common_preempt_count", 3, 1),
        ];
        for (field, offset, size) in common {
            text += &format!("\tfield:{field};\toffset:{offset};\tsize:{size};\tsigned:0;\n");
        }
        for (place, field) in std::iter::once(&"int common_pid").chain(fields).enumerate() {
            text += &format!(
                "\tfield:{field};\toffset:{};\tsize:4;\tsigned:1;\n",
                4 + 4 * place
            );
        }
        EventFormat::parse(system, &text).unwrap()
    }

    fn formats() -> Vec<EventFormat> {
        let switch = [
            "int prev_pid",
            "int prev_prio",
            "char prev_comm[4]",
            "int next_pid",
            "int next_prio",
            "char next_comm[4]",
            "int prev_state",
        ];
        vec![
            format("sched", "sched_switch", 1, &switch),
            format(
                "sched",
                "sched_waking",
                2,
                &["int pid", "int prio", "char comm[4]", "int target_cpu"],
            ),
            format("irq", "softirq_raise", 3, &["int vec"]),
        ]
    }

    /// Pages of one CPU.
    struct Pages {
        time: u64,
        page: Vec<u8>,
        pages: Vec<Vec<u8>>,
    }

    impl Pages {
        fn event(&mut self, time: u64, id: u16, pid: i32, fields: &[i32]) {
            let words = 2 + fields.len();
            if self.page.len() + 4 + words * 4 > LAYOUT.page_bytes {
                self.end();
            }
            if self.page.is_empty() {
                self.page = time.to_le_bytes().to_vec();
                self.page.extend_from_slice(&[0; 8]);
                self.time = time;
            }
            let head =
                u32::try_from(time - self.time).unwrap() << 5 | u32::try_from(words).unwrap();
            self.page.extend_from_slice(&head.to_le_bytes());
            self.page.extend_from_slice(&u32::from(id).to_le_bytes());
            std::iter::once(&pid)
                .chain(fields)
                .for_each(|field| self.page.extend_from_slice(&field.to_le_bytes()));
            self.time = time;
        }

        fn end(&mut self) {
            let mut page = std::mem::take(&mut self.page);
            let data = (page.len() - LAYOUT.data_offset) as u64;
            page[8..16].copy_from_slice(&data.to_le_bytes());
            page.resize(LAYOUT.page_bytes, 0);
            self.pages.push(page);
        }
    }

    #[test]
    fn a_reader_that_was_far_behind_explains_all_that_it_then_reads() {
        let folder = tempfile::tempdir().unwrap();
        let (batches, batches_end) = mpsc::sync_channel(64);
        let (_series, new_series) = mpsc::sync_channel(1);
        let counts = ExplainedSeries {
            file: "cyclic.series".into(),
            probe: "cyclic".into(),
            cpu: None,
            samples: 0,
            explained: 0,
            with_unknown: 0,
            left_out: 0,
            given_way: 0,
            bytes: 0,
        };
        let file = DelayFile::create(&folder.path().join("cyclic.delays"), counts, None).unwrap();
        let left_out = Arc::new(AtomicU64::new(0));
        let mut samples = Samples::new(Facts::default(), &HashMap::new());
        samples.follow(PROBE);
        let mut explaining = SampleExplainer {
            live: Live::new(Decoder::new(&formats()), LAYOUT, [0]),
            samples,
            threads: HashMap::from([(0, vec![PROBE])]),
            opinions: None,
            loops: Vec::new(),
            series: vec![SeriesFollower {
                place: 0,
                home: 0,
                file,
                left_out,
                waiting: VecDeque::new(),
                explained_until: 0,
            }],
            holders: Holders::new(Symbols::default()),
            evidence: Evidence::new(1, None),
            batches: batches_end,
            new_series,
        };
        // Events of 2 s arrive all at once; these are more than are stored per CPU.
        let mut pages = Pages {
            time: 0,
            page: Vec::new(),
            pages: Vec::new(),
        };
        let mut taken = Vec::new();
        pages.event(999_000_000, 1, PROBE, &[PROBE, 19, 0, LOAD, 120, 0, 1]);
        for cycle in 0..2_000_u64 {
            let due = 1_000_000_000 + cycle * 1_000_000;
            pages.event(due + 1_000, 2, LOAD, &[PROBE, 19, 0, 0]);
            pages.event(due + 2_000, 1, LOAD, &[LOAD, 120, 0, PROBE, 19, 0, 0]);
            pages.event(due + 5_000, 1, PROBE, &[PROBE, 19, 0, LOAD, 120, 0, 1]);
            (0..200).for_each(|place| pages.event(due + 10_000 + place * 1_000, 3, LOAD, &[3]));
            taken.push(Sample {
                due: Nanos(due.cast_signed()),
                latency: Nanos(3_000),
                skipped: 0,
            });
        }
        pages.end();
        for page in &pages.pages {
            explaining.live.page(0, page).unwrap();
        }
        batches
            .try_send(Batch {
                series: 0,
                samples: taken,
            })
            .unwrap();
        explaining.advance(u64::MAX);
        let counts = &explaining.series[0].file.counts;
        assert_eq!((counts.explained, counts.with_unknown), (2_000, 0));
        assert!(explaining.live.counts().events > 400_000);
    }
}
