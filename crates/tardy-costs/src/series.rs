//! Writes the trials of one metric as an event series.

use std::io;
use std::path::Path;

use tardy_core::accounting::Counts;
use tardy_core::chunk::ChunkEncoder;
use tardy_core::cpu::CpuId;
use tardy_core::sample::{Record, Sample};
use tardy_core::series::{ClockKind, Descriptor, Schedule};
use tardy_core::units::Nanos;
use tardy_run::cost::CostUnit;
use tardy_run::record::SeriesRecord;
use tardy_samples::series_writer::SeriesWriter;

/// Name of the quantity of a cost series whose values are times.
pub const QUANTITY: &str = "time of an operation";
/// Name of the quantity of a cost series whose values are counts of instructions, in an emulated
/// machine.
pub const QUANTITY_INSTRUCTIONS: &str = "instructions of an operation";

/// The series of one metric while it is being written.
#[derive(Debug)]
pub struct TrialSeries {
    descriptor: Descriptor,
    writer: SeriesWriter,
    encoder: ChunkEncoder,
    counts: Counts,
}

impl TrialSeries {
    /// Creates the file in `folder`. `length` is the requested length of a trial.
    ///
    /// # Errors
    /// Returns an error if the file cannot be created or written.
    pub fn create(
        folder: &Path,
        metric: &str,
        cpu: Option<CpuId>,
        unit: CostUnit,
        clock: ClockKind,
        length: Nanos,
    ) -> io::Result<Self> {
        let quantity = match unit {
            CostUnit::Time => QUANTITY,
            CostUnit::Instructions { .. } => QUANTITY_INSTRUCTIONS,
        };
        let schedule = Schedule::Event {
            request: length.max(Nanos(1)),
        };
        let descriptor = Descriptor {
            quantity: quantity.to_owned(),
            unit: unit.descriptor_unit().to_owned(),
            ..Descriptor::latency(metric, cpu, clock, schedule)
        };
        let writer = SeriesWriter::create(&folder.join(descriptor.file_name()), &descriptor)?;
        let encoder = ChunkEncoder::new(&descriptor);
        Ok(Self {
            descriptor,
            writer,
            encoder,
            counts: Counts::default(),
        })
    }

    /// Returns the file's name.
    #[must_use]
    pub fn file_name(&self) -> String {
        self.descriptor.file_name()
    }

    /// Returns the number of trials added.
    #[must_use]
    pub fn trials(&self) -> u64 {
        self.counts.recorded
    }

    /// Adds a trial that started at `begin`.
    pub fn push(&mut self, begin: Nanos, value: i64) {
        self.encoder.push(Record::Sample(Sample {
            due: begin,
            latency: Nanos(value),
            skipped: 0,
        }));
        self.counts.expected += 1;
        self.counts.recorded += 1;
    }

    /// Writes the added trials as a chunk.
    ///
    /// # Errors
    /// Returns an error if the chunk cannot be written.
    pub fn flush(&mut self, is_last: bool) -> io::Result<()> {
        if self.encoder.samples() == 0 && !is_last {
            return Ok(());
        }
        let mut bytes = Vec::new();
        self.encoder.finish(&self.counts, is_last, &mut bytes);
        self.writer.append(&bytes)?;
        if is_last { self.writer.sync() } else { Ok(()) }
    }

    /// Returns the series' entry for `run.json`. `is_closed` means that the counts are final.
    #[must_use]
    pub fn record(&self, is_closed: bool) -> SeriesRecord {
        SeriesRecord {
            file: self.file_name(),
            probe: self.descriptor.probe.clone(),
            cpu: self.descriptor.cpu,
            counts: is_closed.then_some(self.counts),
            observed_ns: None,
            failure: None,
            elsewhere: Vec::new(),
        }
    }
}
