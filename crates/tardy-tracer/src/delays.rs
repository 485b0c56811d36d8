//! Explained samples on their way to the files beside their series.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use foldhash::HashMap;
use tardy_core::units::Nanos;
use tardy_run::delays::{DelayHolder, DelayPiece, DelayWaker, DelayWriter, SampleDelay};
use tardy_run::tracing::ExplainedSeries;
use tardy_trace::explain::{Cause, Delay, Holder, Known, Piece, Waker};
use tardy_trace::symbols::Symbols;
use tardy_trace::text::Text;

/// Holders that are told apart; names of threads come and go.
const HOLDERS_MAX: usize = 1 << 16;

/// Holders by place, in words that outlive the machine.
#[derive(Debug)]
pub(crate) struct Holders {
    symbols: Symbols,
    /// Names of functions that were met, by address.
    functions: BTreeMap<u64, Arc<str>>,
    places: HashMap<(Holder, Known), usize>,
    pub(crate) words: Vec<DelayHolder>,
}

impl Holders {
    pub(crate) fn new(symbols: Symbols) -> Self {
        Self { symbols, functions: BTreeMap::new(), places: HashMap::default(), words: Vec::new() }
    }

    fn place(&mut self, piece: &Piece) -> usize {
        let mut key = (piece.holder, piece.known);
        if let Some(&place) = self.places.get(&key) {
            return place;
        }
        if self.words.len() >= HOLDERS_MAX {
            key.0 = Holder { name: Text::from("too many names"), ..Holder::of(piece.holder.cause) };
            if let Some(&place) = self.places.get(&key) {
                return place;
            }
        }
        let (holder, known) = key;
        let work = holder.work.map(|address| self.function(address).to_string());
        self.words.push(DelayHolder { cause: holder.cause, known, name: holder.name.to_string(), priority: holder.priority, work });
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

    /// The functions that were met, as lines of /proc/kallsyms.
    pub(crate) fn symbol_lines(&self) -> String {
        self.functions.iter().map(|(address, name)| format!("{address:016x} T {name}\n")).collect()
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

/// The file of one series.
#[derive(Debug)]
pub(crate) struct DelayFile {
    /// Nothing once a write failed: what stands in the file then is whole.
    writer: Option<DelayWriter>,
    /// The sample that is stored: kept, so that none needs memory of its own.
    sample: SampleDelay,
    pub(crate) counts: ExplainedSeries,
}

impl DelayFile {
    pub(crate) fn create(path: &Path, counts: ExplainedSeries) -> io::Result<Self> {
        let sample = SampleDelay { due: Nanos::ZERO, cpu: 0, waker: DelayWaker::Nobody, is_switch_seen: false, pieces: Vec::new() };
        Ok(Self { writer: Some(DelayWriter::create(path)?), sample, counts })
    }

    /// Stores the way of a sample.
    pub(crate) fn store(&mut self, due: Nanos, delay: &Delay, holders: &mut Holders) {
        self.counts.explained += 1;
        let is_unknown = |piece: &Piece| matches!(piece.holder.cause, Cause::Lost | Cause::Unknown);
        self.counts.with_unknown += u64::from(delay.pieces.iter().any(is_unknown));
        let piece =
            |piece: &Piece| DelayPiece { component: piece.component, holder: holders.place(piece), cpu: piece.cpu, length: piece.length() };
        let sample = &mut self.sample;
        sample.pieces.clear();
        sample.pieces.extend(delay.pieces.iter().map(piece));
        (sample.due, sample.cpu, sample.is_switch_seen) = (due, delay.cpu, delay.is_switch_seen);
        sample.waker = holders.waker(delay.waker);
        if let Some(Err(_)) = self.writer.as_mut().map(|writer| writer.push(sample, &holders.words)) {
            self.writer = None;
        }
    }

    /// Writes what waits.
    pub(crate) fn flush(&mut self) {
        if let Some(writer) = &mut self.writer {
            let result = writer.flush();
            self.counts.bytes = writer.written().1;
            if result.is_err() {
                self.writer = None;
            }
        }
    }
}
