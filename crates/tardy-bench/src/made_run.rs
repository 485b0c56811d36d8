//! Makes the run folder of a whole day within a minute: takes a real run of a second, and replaces
//! its samples by random ones.
//!
//! The recorder's library encodes the series and run.json, so the files have the format of a real
//! run.

use std::path::{Path, PathBuf};
use std::process::Command;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tardy_core::accounting::Counts;
use tardy_core::chunk::ChunkEncoder;
use tardy_core::cpu::CpuId;
use tardy_core::sample::{Record, Sample};
use tardy_core::series::{ClockKind, Descriptor, Schedule};
use tardy_core::units::Nanos;
use tardy_run::folder;
use tardy_run::record::{PhaseRecord, RunRecord, SeriesRecord};
use tardy_samples::series_writer::SeriesWriter;

use crate::failure::{Failure, Result, While};
use crate::{program, workspace};

const PERIOD: Nanos = Nanos::from_millis(1);
/// Samples per chunk: at 1 kHz, the recorder writes a chunk every 125 ms.
const SAMPLES_A_CHUNK: u64 = 125;

/// `cargo xtask make-run`.
#[derive(Debug, clap::Args)]
pub(crate) struct MakeRunArguments {
    /// Folder to create; it must not exist
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Number of CPUs
    #[arg(long, value_name = "N", default_value = "2")]
    series: u32,
    /// Samples per CPU, at 1 kHz
    #[arg(long, value_name = "N", default_value = "32750000")]
    samples: u64,
}

/// Runs the task.
pub(crate) fn run(arguments: &MakeRunArguments) -> Result<()> {
    make(
        &workspace::build_tardy()?,
        &arguments.folder,
        arguments.series,
        arguments.samples,
    )
}

/// Makes a run in `folder`: `series` CPUs with `samples` samples each, at 1 kHz. The first third of
/// the run is idle, the rest is under load.
pub(crate) fn make(tardy: &Path, folder: &Path, series: u32, samples: u64) -> Result<()> {
    let mut short = Command::new(tardy);
    short
        .args("run --for 1s --cpus 0 --load none --quiet --json --out".split(' '))
        .arg(folder);
    program::capture(&mut short)?;
    let record = folder::open(folder).while_doing(|| "reading the run just made".to_owned())?;
    let start = record.started.monotonic_ns;
    let files = folder.join("samples");
    std::fs::remove_dir_all(&files)
        .and_then(|()| std::fs::create_dir(&files))
        .while_doing(|| "emptying the run".to_owned())?;
    let length = PERIOD * i64::try_from(samples).unwrap_or(i64::MAX);
    let load_begins = start + Nanos(length.get() / 3);
    let mut entries = Vec::new();
    for cpu in 0..series {
        let descriptor = descriptor(CpuId(cpu), start);
        let counts = write_series(&files, &descriptor, load_begins, samples, u64::from(cpu))?;
        let file = descriptor.file_name();
        entries.push(SeriesRecord {
            file,
            probe: descriptor.probe,
            cpu: descriptor.cpu,
            counts: Some(counts),
            observed_ns: None,
            failure: None,
            elsewhere: Vec::new(),
        });
    }
    let record = of_a_day(
        record,
        entries,
        load_begins,
        start + length + Nanos::from_millis(1000),
    );
    let json = serde_json::to_vec_pretty(&record).while_doing(|| "writing run.json".to_owned())?;
    let path: PathBuf = folder.join("run.json");
    workspace::write(&path, json)
}

fn descriptor(cpu: CpuId, start: Nanos) -> Descriptor {
    let schedule = Schedule::Grid {
        period: PERIOD,
        start: start + Nanos(123_457 * (i64::from(cpu.0) + 1)),
        dither: Nanos::ZERO,
    };
    Descriptor::latency("cyclic", Some(cpu), ClockKind::Hardware, schedule)
}

fn of_a_day(
    record: RunRecord,
    series: Vec<SeriesRecord>,
    load_begins: Nanos,
    end: Nanos,
) -> RunRecord {
    let start = record.started.monotonic_ns;
    let phase = |name: &str, begin, end| PhaseRecord {
        name: name.to_owned(),
        loads: if name == "idle" {
            Vec::new()
        } else {
            vec!["io".to_owned(), "fork".to_owned()]
        },
        begin_ns: begin,
        end_ns: Some(end),
        planned_ns: (begin, end),
        cpu_busy_ns: std::collections::BTreeMap::new(),
    };
    let phases = vec![
        phase("idle", start, load_begins),
        phase("io+fork", load_begins, end),
    ];
    let measured_cpus = series.iter().filter_map(|series| series.cpu).collect();
    RunRecord {
        ended_ns: Some(end),
        phases,
        series,
        measured_cpus,
        ..record
    }
}

fn write_series(
    files: &Path,
    descriptor: &Descriptor,
    load_begins: Nanos,
    samples: u64,
    seed: u64,
) -> Result<Counts> {
    let path = files.join(descriptor.file_name());
    let writing = || format!("writing {}", path.display());
    let Schedule::Grid { start, .. } = descriptor.schedule else {
        return Err(Failure::new("only grids are made"));
    };
    let mut writer = SeriesWriter::create(&path, descriptor).while_doing(writing)?;
    let mut encoder = ChunkEncoder::new(descriptor);
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut counts = Counts::default();
    let mut bytes = Vec::new();
    let mut due = start;
    for index in 1..=samples {
        let latency = draw_latency(&mut random, due >= load_begins);
        let skipped = u32::try_from(latency / PERIOD.get()).unwrap_or(u32::MAX);
        encoder.push(Record::Sample(Sample {
            due,
            latency: Nanos(latency),
            skipped,
        }));
        counts.recorded += 1;
        counts.skipped += u64::from(skipped);
        counts.expected += 1 + u64::from(skipped);
        due += PERIOD * (1 + i64::from(skipped));
        if index.is_multiple_of(SAMPLES_A_CHUNK) || index == samples {
            bytes.clear();
            encoder.finish(&counts, index == samples, &mut bytes);
            writer.append(&bytes).while_doing(writing)?;
        }
    }
    Ok(counts)
}

/// Returns a random latency, distributed as in the tool's runs on a virtual machine: about
/// log-normal around 13 us when idle and 21 us under load. One sample in a thousand has an
/// additional delay, exponentially distributed with mean 100 us; one in 300,000 has one with mean
/// 1.5 ms.
fn draw_latency(random: &mut Pcg64Mcg, is_loaded: bool) -> i64 {
    let (median, spread) = if is_loaded {
        (21_000.0, 0.25)
    } else {
        (13_000.0, 0.15)
    };
    let bits: u64 = random.random();
    // The sum of four random 16-bit numbers, as fractions of their range, has mean 2 and variance
    // 1/3.
    let uniform: f64 = (0..4)
        .map(|part| f64::from((bits >> (16 * part)) as u16) / 65_536.0)
        .sum();
    let body = median * f64::exp(spread * (uniform - 2.0) * f64::sqrt(3.0));
    let tail = match random.random_range(0..300_000_u32) {
        0 => exponential(random, 1_500_000.0),
        1..=300 => exponential(random, 100_000.0),
        _ => 0.0,
    };
    (body + tail) as i64
}

fn exponential(random: &mut Pcg64Mcg, mean: f64) -> f64 {
    -mean * f64::ln(1.0 - random.random_range(0.0..1.0_f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_samples::read_series::SeriesFile;

    #[test]
    fn a_made_series_reads_back_whole_with_exact_accounting() {
        let folder = tempfile::tempdir().unwrap();
        let descriptor = descriptor(CpuId(0), Nanos(1_000_000_000));
        let counts =
            write_series(folder.path(), &descriptor, Nanos(2_000_000_000), 100_060, 7).unwrap();
        let mut read = (0, Counts::default());
        let file = SeriesFile::open(&folder.path().join(descriptor.file_name())).unwrap();
        let end = file
            .read(&mut |chunk| read = (read.0 + chunk.latency.len(), chunk.counts))
            .unwrap();
        assert!(end.is_closed && counts.is_exact());
        assert_eq!(read, (100_060, counts));
    }
}
