//! Writes an import into a run folder.
//!
//! The folder is created next to its final path under another name, and renamed when complete, so
//! an unreadable input leaves nothing behind.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tardy_core::accounting::Counts;
use tardy_core::chunk::ChunkEncoder;
use tardy_core::cpu::CpuList;
use tardy_core::histogram::Histogram;
use tardy_core::sample::{Record, Sample};
use tardy_core::series::Descriptor;
use tardy_core::units::Nanos;
use tardy_core::warning::Warning;
use tardy_machine::journal::Scratch;
use tardy_run::folder::{FolderError, RunFolder};
use tardy_run::imported::{ImportRecord, StatedTotals};
use tardy_run::plan::Plan;
use tardy_run::record::{RunKind, RunRecord, SeriesRecord, StartTime, State, Tool};
use tardy_samples::histogram_file;
use tardy_samples::series_writer::SeriesWriter;

use super::sink::{ImportedRun, Sink};
use super::{Format, ImportError, Settings, Source};

/// Samples per chunk. Nobody reads an import while it grows, so its chunks can be large: they take
/// less space in total, and are faster to read.
const SAMPLES_A_CHUNK: u64 = 4096;

/// The result of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportResult {
    pub folder: PathBuf,
    /// Name of the format.
    pub format: &'static str,
    pub series: usize,
    /// Number of samples in all series.
    pub samples: u64,
    /// Caveats, shown before the numbers.
    pub notes: Vec<String>,
}

/// Reads `path` in `format`, or in the detected format, and writes the run folder `out`.
///
/// # Errors
/// Returns [`ImportError`]. After an error, `out` does not exist or is unchanged.
pub fn import(
    path: &Path,
    format: Option<&'static Format>,
    settings: &Settings,
    out: &Path,
) -> Result<ImportResult, ImportError> {
    if fs::symlink_metadata(out).is_ok() {
        return Err(FolderError::Exists(out.to_owned()).into());
    }
    let mut source = Source::open(path)?;
    let format = match format {
        Some(format) => format,
        None => source.detect()?,
    };
    let beside = out
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let part = fs::create_dir_all(beside).and_then(|()| Scratch::plan(beside, "import"));
    let part = part.map_err(|error| ImportError::Unwritable {
        path: out.to_owned(),
        error,
    })?;
    make(&mut source, format, settings, part.path(), out)
}

fn make(
    source: &mut Source,
    format: &'static Format,
    settings: &Settings,
    part: &Path,
    out: &Path,
) -> Result<ImportResult, ImportError> {
    let mut sink = FolderSink {
        folder: RunFolder::create(part)?,
        series: Vec::new(),
    };
    let imported = format.read(source, settings, &mut sink)?;
    let unwritable = |error| ImportError::Unwritable {
        path: out.to_owned(),
        error,
    };
    let modified = fs::metadata(&source.path)
        .and_then(|metadata| metadata.modified())
        .ok();
    let made = sink
        .close(format, source, imported, modified)
        .map_err(unwritable)?;
    fs::rename(part, out).map_err(unwritable)?;
    Ok(ImportResult {
        folder: out.to_owned(),
        ..made
    })
}

struct FolderSink {
    folder: RunFolder,
    series: Vec<Open>,
}

struct Open {
    descriptor: Descriptor,
    writer: SeriesWriter,
    encoder: ChunkEncoder,
    bytes: Vec<u8>,
    counts: Counts,
    /// The last sample, at which the grid of due times currently ends.
    last: Option<Sample>,
    stated: StatedTotals,
}

impl Open {
    fn write(&mut self, is_last: bool) -> io::Result<()> {
        if let Some(last) = self.last {
            let passed = self.descriptor.schedule.expected_at(last.due);
            self.counts.expected = passed.map_or(self.counts.recorded, |passed| {
                passed + u64::from(last.skipped)
            });
        }
        self.bytes.clear();
        self.encoder.finish(&self.counts, is_last, &mut self.bytes);
        self.writer.append(&self.bytes)
    }
}

impl FolderSink {
    fn create(&mut self, descriptor: Descriptor) -> io::Result<usize> {
        let writer = SeriesWriter::create(
            &self.folder.samples().join(descriptor.file_name()),
            &descriptor,
        )?;
        let encoder = ChunkEncoder::new(&descriptor);
        self.series.push(Open {
            descriptor,
            writer,
            encoder,
            bytes: Vec::new(),
            counts: Counts::default(),
            last: None,
            stated: StatedTotals::default(),
        });
        Ok(self.series.len() - 1)
    }

    fn close(
        mut self,
        format: &'static Format,
        source: &Source,
        imported: ImportedRun,
        modified: Option<std::time::SystemTime>,
    ) -> io::Result<ImportResult> {
        for series in &mut self.series {
            series.write(true)?;
            series.writer.sync()?;
        }
        let samples = self
            .series
            .iter()
            .map(|series| series.counts.recorded)
            .sum();
        let made = ImportResult {
            folder: PathBuf::new(),
            format: format.name,
            series: self.series.len(),
            samples,
            notes: imported.notes.clone(),
        };
        let record = self.record(format, source, imported, modified);
        self.folder.finish(&record).map_err(io::Error::other)?;
        Ok(made)
    }

    fn record(
        &self,
        format: &'static Format,
        source: &Source,
        imported: ImportedRun,
        modified: Option<std::time::SystemTime>,
    ) -> RunRecord {
        let mut notes = imported.notes;
        let since_1970 = modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        let written = since_1970
            .and_then(|time| i64::try_from(time.as_nanos()).ok())
            .map(Nanos);
        if imported.started.is_none() {
            notes.push(
                "the file does not state the start of the run: tardy uses the time when the file \
                 was written"
                    .to_owned(),
            );
        }
        let first_due = self
            .series
            .iter()
            .filter_map(|series| match series.descriptor.schedule {
                tardy_core::series::Schedule::Grid { start, .. } => Some(start),
                tardy_core::series::Schedule::Event { .. } => None,
            });
        let start = first_due.min().unwrap_or_default();
        let measured_cpus: CpuList = self
            .series
            .iter()
            .filter_map(|series| series.descriptor.cpu)
            .collect();
        let warnings = notes.into_iter().map(|text| Warning::Note { text });
        let maximum_unsure = imported
            .maximum_unsure
            .map(|reason| Warning::MaximumUnsure { reason });
        let warnings = maximum_unsure.into_iter().chain(warnings).collect();
        let entry = |series: &Open| SeriesRecord {
            file: series.descriptor.file_name(),
            probe: series.descriptor.probe.clone(),
            cpu: series.descriptor.cpu,
            counts: Some(series.counts),
            observed_ns: None,
            failure: None,
            elsewhere: Vec::new(),
        };
        let started = StartTime {
            realtime_ns: imported.started.or(written).unwrap_or_default(),
            monotonic_ns: start,
        };
        // The plan of a run by another tool is unknown.
        let plan = Plan::without_probes("imported", &measured_cpus, &CpuList::default());
        RunRecord {
            tool: Tool {
                name: imported.tool.clone(),
                version: env!("CARGO_PKG_VERSION").into(),
                process: 0,
            },
            state: State::Finished,
            ended_ns: imported.length.map(|length| start.saturating_add(length)),
            warnings,
            imported: Some(ImportRecord {
                format: format.name.to_owned(),
                file: source.path.display().to_string(),
                command_line: imported.command_line,
                series: self.series.iter().map(|series| series.stated).collect(),
                has_no_times: imported.has_no_times,
            }),
            series: self.series.iter().map(entry).collect(),
            ..RunRecord::begun(RunKind::Imported, plan, imported.machine, started)
        }
    }
}

impl Sink for FolderSink {
    fn open(&mut self, descriptor: Descriptor) -> io::Result<usize> {
        self.create(descriptor)
    }

    #[inline]
    fn push(&mut self, series: usize, record: Record) -> io::Result<()> {
        let Some(open) = self.series.get_mut(series) else {
            return Ok(());
        };
        match record {
            Record::Sample(sample) => {
                open.counts.recorded += 1;
                open.counts.skipped += u64::from(sample.skipped);
                open.last = Some(sample);
            }
            Record::Gap(gap) => {
                open.counts.lost += gap.lost;
                open.counts.skipped += gap.skipped;
            }
        }
        open.encoder.push(record);
        if open.encoder.samples() >= SAMPLES_A_CHUNK {
            open.write(false)
        } else {
            Ok(())
        }
    }

    fn state(&mut self, series: usize, stated: StatedTotals) {
        if let Some(open) = self.series.get_mut(series) {
            open.stated = stated;
        }
    }

    fn whole(
        &mut self,
        descriptor: Descriptor,
        histogram: &Histogram,
        stated: StatedTotals,
    ) -> io::Result<()> {
        let samples = stated
            .samples
            .unwrap_or(0)
            .saturating_sub(stated.lost)
            .max(histogram.count());
        let path = self
            .folder
            .samples()
            .join(descriptor.file_name())
            .with_extension("histogram");
        let series = self.create(descriptor)?;
        if histogram.count() > 0 {
            fs::write(&path, histogram_file::encode(histogram, &path))?;
        }
        let open = &mut self.series[series];
        open.stated = stated;
        let skipped = stated.skipped.unwrap_or(0);
        let expected = samples.saturating_add(stated.lost).saturating_add(skipped);
        open.counts = Counts {
            expected,
            recorded: samples,
            skipped,
            lost: stated.lost,
            unstored: samples,
        };
        Ok(())
    }
}
