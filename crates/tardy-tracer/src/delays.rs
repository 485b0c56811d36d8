//! Writes explained samples to the files next to their series.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use foldhash::HashMap;
use tardy_core::units::Nanos;
use tardy_run::tracing::ExplainedSeries;
use tardy_samples::delays::{DelayHolder, DelayPiece, DelayWaker, DelayWriter, SampleDelay};
use tardy_trace::explain::{Cause, Certainty, Delay, Holder, Piece, Waker};
use tardy_trace::live::Live;
use tardy_trace::symbols::Symbols;
use tardy_trace::text::Text;

/// Maximum number of different holders. Names of threads keep changing, so the number of holders
/// would grow forever without this limit.
const HOLDERS_MAX: usize = 1 << 16;
/// If there are more holders than this, all of them are forgotten as soon as no chunk of a file
/// needs them.
const HOLDERS_KEPT: usize = 1 << 12;
/// Maximum number of innermost frames that may come from the recording itself.
const OWN_FRAMES_MAX: usize = 16;

/// Returns whether a function is the entry of an interrupt. The functions that such an entry calls
/// do not belong to the interrupted code (arch/x86/include/asm/idtentry.h,
/// arch/arm64/kernel/entry.S, arch/riscv/kernel/entry.S).
fn is_interrupts_entry(name: &str) -> bool {
    [
        "asm_sysvec_",
        "asm_common_interrupt",
        "asm_call_irq",
        "el1h_64_irq",
        "el0t_64_irq",
    ]
    .iter()
    .any(|prefix| name.starts_with(prefix))
        || [
            "el1_irq",
            "el0_irq",
            "handle_exception",
            "ret_from_exception",
            "do_irq",
        ]
        .contains(&name)
}

/// Returns whether a function is the one by which the scheduler switches threads.
fn is_schedulers(name: &str) -> bool {
    name.starts_with("__schedule")
}

/// Returns how many of the innermost frames come from the recording: all frames up to the last one
/// of the first run of adjacent frames that `is_own` accepts. In the stack of a softirq, the frames
/// of the interrupt are further out.
fn own_frames(names: &[Arc<str>], is_own: fn(&str) -> bool) -> usize {
    let first = names
        .iter()
        .take(OWN_FRAMES_MAX)
        .position(|name| is_own(name));
    first.map_or(0, |first| {
        first
            + names[first..]
                .iter()
                .take_while(|name| is_own(name))
                .count()
    })
}

/// Holders by index. They contain names instead of addresses, so they stay valid on other machines.
#[derive(Debug)]
pub(crate) struct Holders {
    symbols: Symbols,
    /// Names of the functions that were looked up so far, by address.
    functions: BTreeMap<u64, Arc<str>>,
    places: HashMap<Key, usize>,
    pub(crate) words: Vec<DelayHolder>,
}

/// A holder, how certain it is, and the indices of its two stacks.
type Key = (Holder, Certainty, [Option<u32>; 2]);

impl Holders {
    pub(crate) fn new(symbols: Symbols) -> Self {
        Self {
            symbols,
            functions: BTreeMap::new(),
            places: HashMap::default(),
            words: Vec::new(),
        }
    }

    /// Forgets all holders if there are too many. Returns whether it did so. If so, indices that
    /// were returned earlier are no longer valid.
    fn forget(&mut self) -> bool {
        let are_many = self.words.len() > HOLDERS_KEPT;
        if are_many {
            (self.places, self.words) = Default::default();
        }
        are_many
    }

    fn place(&mut self, mut key: Key, live: &Live) -> usize {
        let (holder, known, _) = key;
        if let Some(&place) = self.places.get(&key) {
            return place;
        }
        if self.words.len() >= HOLDERS_MAX {
            key = (
                Holder {
                    name: Text::from("too many names"),
                    ..Holder::of(holder.cause)
                },
                known,
                [None; 2],
            );
            if let Some(&place) = self.places.get(&key) {
                return place;
            }
        }
        let (holder, known, stacks) = key;
        let [stack, ended] = stacks.map(|place| place.map_or(&[][..], |place| live.stack(place)));
        let (stack, ended) = (
            self.functions(stack, is_interrupts_entry),
            self.functions(ended, is_schedulers),
        );
        let work = holder
            .work
            .map(|address| self.function(address).to_string());
        let Holder {
            cause,
            name,
            priority,
            sender,
            ..
        } = holder;
        let sender = sender.map(|sender| sender.to_string());
        self.words.push(DelayHolder {
            cause,
            known,
            name: name.to_string(),
            priority,
            work,
            stack,
            ended,
            sender,
        });
        self.places.insert(key, self.words.len() - 1);
        self.words.len() - 1
    }

    fn function(&mut self, address: u64) -> Arc<str> {
        if let Some(name) = self.functions.get(&address) {
            return Arc::clone(name);
        }
        let name: Arc<str> = self.symbols.name_or_address(address).into();
        if self.functions.len() < HOLDERS_MAX {
            self.functions.insert(address, Arc::clone(&name));
        }
        name
    }

    /// Returns the functions in a stack, without those that recorded it.
    fn functions(&mut self, stack: &[u64], is_own: fn(&str) -> bool) -> Vec<Arc<str>> {
        let mut names: Vec<Arc<str>> = stack
            .iter()
            .map(|&address| self.function(address))
            .collect();
        names.drain(..own_frames(&names, is_own));
        names
    }

    /// Returns the functions that were looked up so far, in the form of /proc/kallsyms.
    pub(crate) fn symbol_lines(&self) -> String {
        self.functions
            .iter()
            .map(|(address, name)| format!("{address:016x} T {name}\n"))
            .collect()
    }

    fn waker(&mut self, waker: Option<Waker>) -> DelayWaker {
        match waker {
            None => DelayWaker::Nobody,
            Some(Waker::Timer(function)) => DelayWaker::Timer(self.function(function)),
            Some(Waker::Interrupt) => DelayWaker::Interrupt,
            Some(Waker::Softirq) => DelayWaker::Softirq,
            Some(Waker::Thread(thread)) => DelayWaker::Thread(thread.name.as_str().into()),
        }
    }
}

/// The file with the explanations of one series.
#[derive(Debug)]
pub(crate) struct DelayFile {
    /// `None` if a write has failed. In that case, the file contains whole chunks only.
    writer: Option<DelayWriter>,
    /// The sample to store. Its memory is reused, so that storing allocates nothing.
    sample: SampleDelay,
    /// The holders of the previous sample and their indices. The next sample usually has the same
    /// holders.
    last: Vec<(Key, usize)>,
    pub(crate) counts: ExplainedSeries,
}

impl DelayFile {
    /// Creates the file. If `bytes` is given, the explanations in the file take at most this many
    /// bytes.
    pub(crate) fn create(
        path: &Path,
        counts: ExplainedSeries,
        bytes: Option<u64>,
    ) -> io::Result<Self> {
        let writer = match bytes {
            Some(bytes) => DelayWriter::bounded(path, bytes)?,
            None => DelayWriter::create(path)?,
        };
        let sample = SampleDelay {
            due: Nanos::ZERO,
            cpu: 0,
            waker: DelayWaker::Nobody,
            is_switch_seen: false,
            pieces: Vec::new(),
        };
        Ok(Self {
            writer: Some(writer),
            sample,
            last: Vec::new(),
            counts,
        })
    }

    /// Stores the explanation of a sample.
    pub(crate) fn store(&mut self, due: Nanos, delay: &Delay, holders: &mut Holders, live: &Live) {
        self.counts.explained += 1;
        let is_unknown = |piece: &Piece| matches!(piece.holder.cause, Cause::Lost | Cause::Unknown);
        self.counts.with_unknown += u64::from(delay.pieces.iter().any(is_unknown));
        let sample = &mut self.sample;
        sample.pieces.clear();
        for (index, piece) in delay.pieces.iter().enumerate() {
            let key = (piece.holder, piece.known, [piece.stack, piece.ended]);
            let holder = match self.last.get_mut(index) {
                Some((last, place)) if *last == key => *place,
                last => {
                    let place = holders.place(key, live);
                    match last {
                        Some(last) => *last = (key, place),
                        None => self.last.push((key, place)),
                    }
                    place
                }
            };
            sample.pieces.push(DelayPiece {
                component: piece.component,
                holder,
                cpu: piece.cpu,
                length: piece.length(),
            });
        }
        (sample.due, sample.cpu, sample.is_switch_seen) = (due, delay.cpu, delay.is_switch_seen);
        sample.waker = holders.waker(delay.waker);
        if let Some(Err(_)) = self
            .writer
            .as_mut()
            .map(|writer| writer.push(sample, &holders.words))
        {
            self.writer = None;
        }
    }

    /// Writes all samples that are waiting to be written. Each file then starts a new chunk, which
    /// names its holders again.
    pub(crate) fn flush_all<'a>(files: impl Iterator<Item = &'a mut Self>, holders: &mut Holders) {
        let are_forgotten = holders.forget();
        for file in files {
            file.flush();
            if are_forgotten {
                file.last.clear();
            }
        }
    }

    fn flush(&mut self) {
        if let Some(writer) = &mut self.writer {
            let result = writer.flush();
            self.counts.bytes = writer.written().1;
            self.counts.given_way = writer.given_way();
            if result.is_err() {
                self.writer = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_samples::delays::DelayReader;
    use tardy_trace::event::Decoder;
    use tardy_trace::explain::Component;
    use tardy_trace::layout::PageLayout;

    #[test]
    fn a_stack_begins_with_what_was_interrupted_or_gave_the_cpu_up() {
        let left = |names: &str, is_own: fn(&str) -> bool| {
            let names: Vec<Arc<str>> = names.split(' ').map(Arc::from).collect();
            names[own_frames(&names, is_own)..].join(" ")
        };
        let interrupted = "trace_event_raw_event_x86_irq_vector sysvec_apic_timer_interrupt \
                           asm_sysvec_apic_timer_interrupt net_rx_action __do_softirq \
                           sysvec_apic_timer_interrupt asm_sysvec_apic_timer_interrupt read_zero";
        assert_eq!(
            left(interrupted, is_interrupts_entry),
            "net_rx_action __do_softirq sysvec_apic_timer_interrupt \
             asm_sysvec_apic_timer_interrupt read_zero"
        );
        assert_eq!(
            left(
                "trace el1_interrupt el1h_64_irq_handler el1h_64_irq clear_page",
                is_interrupts_entry
            ),
            "clear_page"
        );
        let switched = "trace_event_raw_event_sched_switch __schedule preempt_schedule_irq \
                        asm_sysvec_reschedule_ipi shrink_node";
        assert_eq!(
            left(switched, is_schedulers),
            "preempt_schedule_irq asm_sysvec_reschedule_ipi shrink_node"
        );
        assert_eq!(
            left("0xffff 0xfffe", is_schedulers),
            "0xffff 0xfffe",
            "functions without names"
        );
    }

    #[test]
    fn holders_are_forgotten_when_they_are_many_and_files_have_all_of_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cyclic.delays");
        let counts = ExplainedSeries {
            file: "cyclic".into(),
            probe: "cyclic".into(),
            cpu: None,
            samples: 0,
            explained: 0,
            with_unknown: 0,
            left_out: 0,
            given_way: 0,
            bytes: 0,
        };
        let mut file = DelayFile::create(&path, counts, None).unwrap();
        let mut holders = Holders::new(Symbols::default());
        let layout = PageLayout {
            long_bytes: 8,
            data_offset: 16,
            page_bytes: 4096,
        };
        let live = Live::new(Decoder::new(&[]), layout, [0]);
        for number in 0..100_000 {
            let held = |name: String| Piece {
                component: Component::Switch,
                holder: Holder {
                    name: Text::from(name.as_str()),
                    ..Holder::of(Cause::HigherPriority)
                },
                known: Certainty::Seen,
                cpu: 0,
                start: 0,
                end: 1,
                stack: None,
                ended: None,
            };
            let delay = Delay {
                pid: None,
                cpu: 0,
                waker: None,
                is_switch_seen: true,
                pieces: vec![held("always".to_owned()), held(format!("thread-{number}"))],
            };
            file.store(Nanos(number), &delay, &mut holders, &live);
            if number % 500 == 0 {
                DelayFile::flush_all(std::iter::once(&mut file), &mut holders);
            }
            assert!(holders.words.len() <= HOLDERS_KEPT + 2 * 500);
        }
        DelayFile::flush_all(std::iter::once(&mut file), &mut holders);
        let mut reader = DelayReader::open(&path).unwrap();
        let mut number = 0;
        while let Some(chunk) = reader.next_chunk().unwrap() {
            for sample in chunk.samples {
                let names = sample
                    .pieces
                    .iter()
                    .map(|piece| &chunk.holders[piece.holder].name);
                let expected = ["always".to_owned(), format!("thread-{number}")];
                assert!(names.eq(&expected), "{number}");
                number += 1;
            }
        }
        assert_eq!(number, 100_000);
    }
}
