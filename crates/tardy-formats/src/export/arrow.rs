//! All samples as an Arrow file (IPC file format, also called Feather 2): a row a sample, with the
//! units of its columns in the schema.
//!
//! Read by pyarrow, pandas, polars, DuckDB and R: `polars.read_ipc(file)`. Built with the feature
//! `arrow` alone.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray, UInt32Array,
};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;

use super::run::{ExportedRun, ExportedSeries};
use super::{ExportError, Exporter, Options};

/// Rows that are written at a time: memory does not depend on the run's length.
const ROWS_A_BATCH: usize = 1 << 16;

/// `--format arrow`.
pub(super) struct Arrow;

impl Exporter for Arrow {
    fn name(&self) -> &'static str {
        "arrow"
    }

    fn about(&self) -> &'static str {
        "samples as an Arrow file (Feather): series, probe, quantity, cpu, copy, phase, due_ns, \
         latency_ns, skipped"
    }

    fn is_binary(&self) -> bool {
        true
    }

    fn write(
        &self,
        run: &ExportedRun,
        _: &Options,
        out: &mut dyn Write,
    ) -> Result<(), ExportError> {
        run.needs_samples()?;
        let schema: SchemaRef = Arc::new(schema(run));
        let mut writer = FileWriter::try_new(out, &schema).map_err(unwritable)?;
        let of_run = Phases::of(run);
        let words = Words::of(run);
        for (index, series) in run.series.iter().enumerate() {
            let phases = of_run.on(run, series.descriptor.cpu);
            let mut rows = Rows::default();
            series.samples(|sample| {
                rows.phase.push(phases.at(sample.due));
                rows.due.push(
                    sample
                        .due
                        .get()
                        .wrapping_sub(run.record.started.monotonic_ns.get()),
                );
                rows.latency.push(sample.latency.get());
                rows.skipped.push(sample.skipped);
                if rows.due.len() == ROWS_A_BATCH {
                    let batch = std::mem::take(&mut rows)
                        .batch(&schema, &words, &phases, (index, series))
                        .map_err(std::io::Error::other)?;
                    writer.write(&batch).map_err(in_io)?;
                }
                Ok(())
            })?;
            if !rows.due.is_empty() {
                let batch = rows
                    .batch(&schema, &words, &phases, (index, series))
                    .map_err(unwritable)?;
                writer.write(&batch).map_err(unwritable)?;
            }
        }
        writer.finish().map_err(unwritable)
    }
}

fn unwritable(error: ArrowError) -> ExportError {
    ExportError::Write(in_io(error))
}

/// What the disk said, where it was the disk: a broken pipe must be told from all else.
fn in_io(error: ArrowError) -> std::io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        other => std::io::Error::other(other),
    }
}

fn schema(run: &ExportedRun) -> Schema {
    let words = || DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let of = |pairs: &[(&str, &str)]| -> HashMap<String, String> {
        pairs
            .iter()
            .map(|&(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    };
    let fields = vec![
        Field::new("series", words(), false),
        Field::new("probe", words(), false),
        Field::new("quantity", words(), false),
        Field::new("cpu", DataType::Int32, true)
            .with_metadata(of(&[("null", "the probe was not bound to a CPU")])),
        Field::new("copy", DataType::Int32, true)
            .with_metadata(of(&[("null", "the probe ran once, or once a CPU")])),
        Field::new("phase", words(), true),
        Field::new("due_ns", DataType::Int64, false)
            .with_metadata(of(&[("unit", "ns"), ("from", "start of the run")])),
        Field::new("latency_ns", DataType::Int64, false).with_metadata(of(&[("unit", "ns")])),
        Field::new("skipped", DataType::UInt32, false).with_metadata(of(&[("unit", "due times")])),
    ];
    let machine = &run.record.machine;
    let metadata = of(&[
        ("tool", &format!("tardy {}", env!("CARGO_PKG_VERSION"))),
        ("run", &run.summary.run),
        ("scenario", &run.record.plan.scenario),
        (
            "started_realtime_ns",
            &run.record.started.realtime_ns.get().to_string(),
        ),
        ("clock", &format!("{:?}", run.record.clock).to_lowercase()),
        ("host", machine.host_name.as_deref().unwrap_or_default()),
        (
            "kernel",
            machine.kernel.release.as_deref().unwrap_or_default(),
        ),
        (
            "unstored_samples",
            &run.summary
                .series
                .iter()
                .map(|series| series.counts.unstored)
                .sum::<u64>()
                .to_string(),
        ),
    ]);
    Schema::new_with_metadata(fields, metadata)
}

/// The texts of the run's series, the same in every batch: the file format holds a dictionary once.
struct Words {
    series: ArrayRef,
    probe: ArrayRef,
    quantity: ArrayRef,
}

impl Words {
    fn of(run: &ExportedRun) -> Self {
        let words = |word: &dyn Fn(&ExportedSeries) -> String| -> ArrayRef {
            Arc::new(
                run.series
                    .iter()
                    .map(|one| Some(word(one)))
                    .collect::<StringArray>(),
            )
        };
        Self {
            series: words(&|one| {
                one.descriptor
                    .file_name()
                    .trim_end_matches(".series")
                    .to_owned()
            }),
            probe: words(&|one| one.descriptor.probe.clone()),
            quantity: words(&|one| one.descriptor.quantity.clone()),
        }
    }
}

/// The run's phases, with their names as a dictionary.
struct Phases {
    spans: Vec<(Nanos, Nanos)>,
    names: ArrayRef,
}

impl Phases {
    fn of(run: &ExportedRun) -> Self {
        let names: StringArray = run
            .record
            .phases
            .iter()
            .map(|phase| Some(phase.name.as_str()))
            .collect();
        Self {
            spans: Vec::new(),
            names: Arc::new(names),
        }
    }

    /// The same where `cpu` is concerned; the names stay the very same.
    fn on(&self, run: &ExportedRun, cpu: Option<CpuId>) -> Self {
        Self {
            spans: run
                .phases(cpu)
                .iter()
                .map(|&(begin, end, _)| (begin, end))
                .collect(),
            names: Arc::clone(&self.names),
        }
    }

    fn at(&self, due: Nanos) -> Option<i32> {
        let place = self
            .spans
            .iter()
            .position(|&(begin, end)| begin <= due && due < end);
        place.and_then(|place| i32::try_from(place).ok())
    }
}

/// Rows of one series that are not written yet.
#[derive(Default)]
struct Rows {
    phase: Vec<Option<i32>>,
    due: Vec<i64>,
    latency: Vec<i64>,
    skipped: Vec<u32>,
}

impl Rows {
    fn batch(
        self,
        schema: &SchemaRef,
        words: &Words,
        phases: &Phases,
        (index, series): (usize, &ExportedSeries),
    ) -> Result<RecordBatch, ArrowError> {
        let rows = self.due.len();
        let word = |keys: Int32Array, names: &ArrayRef| -> Result<ArrayRef, ArrowError> {
            Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(
                keys,
                Arc::clone(names),
            )?))
        };
        let key = i32::try_from(index).unwrap_or(i32::MAX);
        let keys = || Int32Array::from(vec![key; rows]);
        let number = |number: Option<u32>| -> ArrayRef {
            Arc::new(Int32Array::from(vec![
                number.and_then(|number| {
                    i32::try_from(number).ok()
                });
                rows
            ]))
        };
        RecordBatch::try_new(
            Arc::clone(schema),
            vec![
                word(keys(), &words.series)?,
                word(keys(), &words.probe)?,
                word(keys(), &words.quantity)?,
                number(series.descriptor.cpu.map(|cpu| cpu.0)),
                number(series.descriptor.copy),
                word(Int32Array::from(self.phase), &phases.names)?,
                Arc::new(Int64Array::from(self.due)),
                Arc::new(Int64Array::from(self.latency)),
                Arc::new(UInt32Array::from(self.skipped)),
            ],
        )
    }
}
