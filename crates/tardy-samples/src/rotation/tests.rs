use super::*;

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use tardy_core::accounting::Counts;
use tardy_core::chunk::ChunkEncoder;
use tardy_core::sample::{Record, Sample};
use tardy_core::series::{ClockKind, Schedule};

use crate::series_writer::SeriesWriter;

const PERIOD: i64 = 1_000_000;
const SCHEDULE: Schedule = Schedule::Grid {
    period: Nanos(PERIOD),
    start: Nanos(0),
    dither: Nanos(0),
};
/// An artificially short hour, so that a test covers many hours.
const TEST_HOUR: Nanos = Nanos(700 * PERIOD);

fn descriptor() -> Descriptor {
    Descriptor::latency("cyclic", None, ClockKind::Hardware, SCHEDULE)
}

fn rule(kept_bytes: u64, hours_bytes: u64) -> RotationRule {
    RotationRule {
        kept_bytes,
        hours_bytes,
        window: Some(Window::deadline(Nanos(900))),
        cuts: Vec::new(),
        hour: TEST_HOUR,
    }
}

/// A series that is being written, and its samples.
struct GrowingSeries {
    writer: SeriesWriter,
    rotation: Arc<Rotation>,
    encoder: ChunkEncoder,
    counts: Counts,
    samples: Vec<Sample>,
    next: i64,
}

impl GrowingSeries {
    fn new(path: &Path, rule: RotationRule) -> Self {
        let rotation = Arc::new(Rotation::new(path, rule));
        let mut writer = SeriesWriter::without_head_in(Arc::clone(&rotation)).unwrap();
        writer.write_head(&descriptor()).unwrap();
        Self {
            writer,
            rotation,
            encoder: ChunkEncoder::new(&descriptor()),
            counts: Counts::default(),
            samples: Vec::new(),
            next: 0,
        }
    }

    /// Writes a chunk of `count` samples; every 50th skips two due times.
    fn write(&mut self, count: i64) -> io::Result<()> {
        for _ in 0..count {
            let skipped = if self.next % 50 == 7 { 2 } else { 0 };
            let latency = Nanos((self.next * 7919) % 1_000 + i64::from(skipped) * PERIOD);
            let sample = Sample {
                due: Nanos(self.next * PERIOD),
                latency,
                skipped,
            };
            self.encoder.push(Record::Sample(sample));
            self.samples.push(sample);
            self.counts.recorded += 1;
            self.counts.skipped += u64::from(skipped);
            self.next += 1 + i64::from(skipped);
            self.counts.expected = self.next as u64;
        }
        let mut bytes = Vec::new();
        self.encoder.finish(&self.counts, false, &mut bytes);
        self.writer.append(&bytes)
    }
}

/// What a reader finds: number of samples by latency, skipped due times, the worst sample, and
/// misses.
#[derive(Debug, PartialEq)]
struct ReadTotals {
    latencies: BTreeMap<i64, u64>,
    skipped: u64,
    worst: (i64, i64),
    misses: u64,
}

fn worse(worst: (i64, i64), latency: i64, due: i64) -> (i64, i64) {
    if latency > worst.0 || (latency == worst.0 && due < worst.1) {
        (latency, due)
    } else {
        worst
    }
}

fn misses(sample: Sample) -> u64 {
    let skipped = (1..=i64::from(sample.skipped))
        .filter(|step| sample.latency.get() - step * PERIOD > 900)
        .count() as u64;
    u64::from(sample.latency.get() > 900) + skipped
}

fn truth(samples: &[Sample]) -> ReadTotals {
    let mut found = ReadTotals {
        latencies: BTreeMap::new(),
        skipped: 0,
        worst: (i64::MIN, 0),
        misses: 0,
    };
    samples.iter().for_each(|sample| found.add(*sample));
    found
}

impl ReadTotals {
    fn add(&mut self, sample: Sample) {
        *self.latencies.entry(sample.latency.get()).or_default() += 1;
        self.skipped += u64::from(sample.skipped);
        self.worst = worse(self.worst, sample.latency.get(), sample.due.get());
        self.misses += misses(sample);
    }
}

fn read(path: &Path) -> (ReadTotals, Vec<Sample>, Counts) {
    let series = SeriesFile::open(path).unwrap();
    let mut found = truth(&[]);
    let hours = series.hours().unwrap();
    let mut samples = 0;
    for stretch in hours.stretches() {
        stretch
            .cell
            .latency
            .for_each(|latency, count| *found.latencies.entry(latency).or_default() += count);
        found.skipped += stretch.cell.skipped;
        found.misses += stretch.cell.misses;
        let worst = stretch.cell.worst.unwrap();
        found.worst = worse(found.worst, worst.latency.get(), worst.due.get());
        samples += stretch.samples;
        assert_eq!(
            (stretch.cell.latency.count(), stretch.coarse),
            (stretch.samples, 0)
        );
    }
    assert_eq!(samples, hours.samples);
    let (mut single, mut counts) = (Vec::new(), hours.counts);
    let end = series
        .read(&mut |chunk| {
            single.extend(chunk.samples(&SCHEDULE).map(|(_, sample)| sample));
            counts = chunk.counts;
        })
        .unwrap();
    assert_eq!((end.damaged_bytes, end.torn_bytes), (0, 0));
    single.iter().for_each(|sample| found.add(*sample));
    (found, single, counts)
}

fn folder_bytes(folder: &Path) -> u64 {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum()
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn the_oldest_samples_give_way_and_nothing_is_lost_or_counted_twice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(descriptor().file_name());
    let (kept, hours) = (128 << 10, 64 << 10);
    let mut written = GrowingSeries::new(&path, rule(kept, hours));
    for chunk in 0..400 {
        written.write(300 + chunk % 7).unwrap();
        if written.rotation.wants_room() {
            written.rotation.make_room().unwrap();
        }
        assert!(
            folder_bytes(folder.path()) <= kept + 2 * hours,
            "{:?}",
            files(folder.path())
        );
    }
    let (found, single, counts) = read(&path);
    assert_eq!(found, truth(&written.samples));
    assert_eq!(counts, written.counts);
    // The individually stored samples are the newest ones, and there is no gap between them.
    assert!(
        single.len() > 5_000 && single.len() < written.samples.len() / 2,
        "{}",
        single.len()
    );
    assert_eq!(
        single,
        written.samples[written.samples.len() - single.len()..]
    );
    assert_eq!(
        written.rotation.given_way(),
        (written.samples.len() - single.len()) as u64
    );
    let leftover = files(folder.path())
        .into_iter()
        .filter(|name| name.ends_with(".new"))
        .count();
    assert_eq!(leftover, 0);
}

#[test]
fn a_reader_in_parts_finds_what_one_finds_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(descriptor().file_name());
    let mut written = GrowingSeries::new(&path, rule(256 << 10, 64 << 10));
    (0..200).for_each(|_| {
        written.write(250).unwrap();
        written.rotation.make_room().unwrap();
    });
    let series = SeriesFile::open(&path).unwrap();
    let (_, single, _) = read(&path);
    for parts in [1, 2, 7, 40] {
        let mut all = Vec::new();
        for part in series.parts(parts) {
            series
                .read_part(part, &mut |chunk| {
                    all.extend(chunk.samples(&SCHEDULE).map(|(_, sample)| sample))
                })
                .unwrap();
        }
        assert_eq!(all, single, "{parts} parts");
    }
}

#[test]
fn whoever_reads_on_gets_each_sample_once_while_older_ones_give_way() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(descriptor().file_name());
    let mut written = GrowingSeries::new(&path, rule(128 << 10, 64 << 10));
    let series = SeriesFile::open(&path).unwrap();
    let (mut place, mut seen) = (0, Vec::new());
    for _ in 0..200 {
        written.write(300).unwrap();
        place = series
            .read_on(place, &mut |chunk| {
                seen.extend(chunk.samples(&SCHEDULE).map(|(_, sample)| sample))
            })
            .unwrap();
        written.rotation.make_room().unwrap();
    }
    assert!(written.rotation.given_way() > 0);
    assert_eq!(seen, written.samples);
}

#[test]
fn an_open_series_is_read_although_its_segments_give_way_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(descriptor().file_name());
    let mut written = GrowingSeries::new(&path, rule(128 << 10, 64 << 10));
    while written.rotation.given_way() == 0 {
        written.write(300).unwrap();
        written.rotation.make_room().unwrap();
    }
    let series = SeriesFile::open(&path).unwrap();
    let expected = written.samples.len() as u64 - written.rotation.given_way();
    for _ in 0..200 {
        written.write(300).unwrap();
        written.rotation.make_room().unwrap();
    }
    let mut samples = 0;
    series
        .read(&mut |chunk| samples += chunk.latency.len() as u64)
        .unwrap();
    assert!(samples == expected, "{samples} of {expected}");
}

#[test]
fn samples_find_no_room_beyond_the_bound_and_the_error_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(descriptor().file_name());
    let mut written = GrowingSeries::new(&path, rule(64 << 10, 32 << 10));
    let error = (0..1_000)
        .find_map(|_| written.write(300).err())
        .expect("the folder fills up");
    assert!(error.to_string().contains("--disk"), "{error}");
    assert!(folder_bytes(folder.path()) <= (64 << 10) + (32 << 10));
    written.rotation.make_room().unwrap();
    written.write(300).expect("there is room again");
}

#[test]
fn many_hours_become_longer_ones_and_one_too_large_loses_digits_but_no_count() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(descriptor().file_name());
    let hours_bytes = 3_000;
    let mut written = GrowingSeries::new(&path, rule(64 << 10, hours_bytes));
    for _ in 0..600 {
        written.write(300).unwrap();
        written.rotation.make_room().unwrap();
        assert!(fs::metadata(hours::path(&path)).unwrap().len() <= hours_bytes);
    }
    let stored = Hours::read(&hours::path(&path)).unwrap().unwrap();
    assert!(stored.length > TEST_HOUR);
    let samples = &written.samples[..usize::try_from(written.rotation.given_way()).unwrap()];
    let stretches: Vec<_> = stored.stretches().collect();
    let sum = |of: &dyn Fn(&crate::hours::Stretch) -> u64| stretches.iter().map(of).sum::<u64>();
    let true_counts = truth(samples);
    assert_eq!(sum(&|stretch| stretch.samples), samples.len() as u64);
    assert_eq!(
        sum(&|stretch| stretch.cell.latency.count()),
        samples.len() as u64
    );
    assert_eq!(
        (
            sum(&|stretch| stretch.cell.skipped),
            sum(&|stretch| stretch.cell.misses)
        ),
        (true_counts.skipped, true_counts.misses)
    );
    assert!(sum(&|stretch| stretch.coarse) > 0);
    let worst = stretches
        .iter()
        .filter_map(|stretch| stretch.cell.worst)
        .fold((i64::MIN, 0), |worst, sample| {
            worse(worst, sample.latency.get(), sample.due.get())
        });
    assert_eq!(worst, true_counts.worst);
    let total: i128 = stretches.iter().map(|stretch| stretch.cell.sum).sum();
    assert_eq!(
        total,
        samples
            .iter()
            .map(|sample| i128::from(sample.latency.get()))
            .sum::<i128>()
    );
}

#[test]
fn what_was_not_on_the_disk_yet_costs_no_sample_that_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(descriptor().file_name());
    let mut written = GrowingSeries::new(&path, rule(128 << 10, 64 << 10));
    assert!(written.rotation.has_new_segment() && !written.rotation.has_new_segment());
    while !written.rotation.has_new_segment() {
        written.write(300).unwrap();
    }
    written.rotation.settle().unwrap();
    let found = || {
        let hours = Rotation::new(&path, rule(128 << 10, 64 << 10))
            .with_all_segments()
            .unwrap();
        (hours.samples, hours.through)
    };
    let (all, second) = (written.samples.len() as u64, segment_path(&path, 2));
    assert_eq!(found(), (all, 2));
    // If the head of a segment is damaged, readers use the head of the series.
    let bytes = fs::read(&second).unwrap();
    fs::write(&second, [&[0; 20], &bytes[20..]].concat()).unwrap();
    assert_eq!(found(), (all, 2));
    fs::write(hours::path(&path), "").unwrap();
    assert_eq!(found(), (all, 2));
    for left in [&bytes[..0], &bytes[..20]] {
        fs::write(&second, left).unwrap();
        let (first, through) = found();
        assert!(
            first < all && first + 300 >= all && through == 2,
            "{first} of {all}, {through}"
        );
        fs::write(hours::path(&path), "").unwrap();
    }
    let head = fs::read(&path).unwrap();
    fs::write(&path, "").unwrap();
    assert_eq!(found().1, 2);
    fs::write(&path, head).unwrap();
    // The segment with the damaged head is folded like any other.
    for _ in 0..200 {
        written.write(300).unwrap();
        written.rotation.make_room().unwrap();
    }
    assert!(written.rotation.given_way() > 0);
}

#[test]
fn the_head_of_the_part_before_stands_until_the_new_one_is_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(descriptor().file_name());
    let mut written = GrowingSeries::new(&path, rule(128 << 10, 64 << 10));
    written.write(300).unwrap();
    let earlier = Rotation::new(&path, rule(128 << 10, 64 << 10))
        .with_all_segments()
        .unwrap();
    fs::remove_file(segment_path(&path, 1)).unwrap();
    fs::write(hours::path(&path), earlier.clone().encode(64 << 10)).unwrap();
    let rotation = Arc::new(Rotation::behind(&path, rule(128 << 10, 64 << 10), &earlier));
    let mut writer = SeriesWriter::without_head_in(Arc::clone(&rotation)).unwrap();
    let start = Nanos(300 * PERIOD);
    let next = Descriptor {
        schedule: Schedule::Grid {
            period: Nanos(PERIOD),
            start,
            dither: Nanos(0),
        },
        ..descriptor()
    };
    writer.write_head(&next).unwrap();
    let head = || SeriesFile::open(&path).unwrap().descriptor().schedule;
    assert_eq!(head(), SCHEDULE);
    assert!(rotation.has_new_segment());
    writer.sync().unwrap();
    assert_eq!(head(), next.schedule);
    rotation.settle().unwrap();
    assert!(!new_head_path(&path).exists());
}

#[test]
fn nobody_is_asked_again_at_once_where_no_room_can_be_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(descriptor().file_name());
    let mut written = GrowingSeries::new(&path, rule(128 << 10, 64 << 10));
    while !written.rotation.wants_room() {
        written.write(300).unwrap();
    }
    let hours = fs::read(hours::path(&path)).unwrap();
    fs::remove_file(hours::path(&path)).unwrap();
    let mut rests = Vec::new();
    for _ in 0..7 {
        assert!(written.rotation.make_room().is_err() && !written.rotation.wants_room());
        rests.push(written.rotation.kept().rest.unwrap().0.as_secs());
    }
    assert_eq!(rests, [2, 4, 8, 16, 32, 60, 60]);
    // When the pause is over, space is requested again. When space has been freed, no more space is
    // requested.
    written.rotation.kept().rest = Some((Duration::ZERO, Instant::now()));
    assert!(written.rotation.wants_room());
    fs::write(hours::path(&path), hours).unwrap();
    written.rotation.make_room().unwrap();
    assert!(written.rotation.kept().rest.is_none());
}

#[test]
fn damage_to_the_histograms_is_told_and_costs_no_single_sample() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(descriptor().file_name());
    let mut written = GrowingSeries::new(&path, rule(128 << 10, 64 << 10));
    for _ in 0..200 {
        written.write(300).unwrap();
        written.rotation.make_room().unwrap();
    }
    let (_, single, _) = read(&path);
    let hours_path = hours::path(&path);
    let mut bytes = fs::read(&hours_path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(&hours_path, bytes).unwrap();
    let series = SeriesFile::open(&path).unwrap();
    let mut samples = 0;
    let end = series
        .read(&mut |chunk| samples += chunk.latency.len())
        .unwrap();
    assert_eq!(samples, single.len());
    assert!(end.damaged_bytes > 0);
    // If the file of the histograms is unreadable, segments are not folded.
    (0..100).for_each(|_| drop(written.write(300)));
    assert!(written.rotation.make_room().is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// After a crash at any step, a reader finds each sample exactly once, and a resumed run loses
    /// no sample.
    #[test]
    fn a_crash_between_two_steps_counts_nothing_twice(chunks in proptest::collection::vec(1_i64..600, 60..160), stop in 0_usize..40) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(descriptor().file_name());
        let mut written = GrowingSeries::new(&path, rule(96 << 10, 32 << 10));
        let (mut steps, mut crashed) = (0, None);
        for count in chunks {
            written.write(count).unwrap();
            let behind = |step| {
                steps += 1;
                if steps > stop { Err(io::Error::other(format!("{step:?}"))) } else { Ok(()) }
            };
            if let Err(error) = written.rotation.make_room_watched(behind) {
                crashed = Some(error.to_string());
                break;
            }
        }
        let (found, single, counts) = read(&path);
        prop_assert_eq!(&found, &truth(&written.samples), "behind {:?}", crashed);
        prop_assert_eq!(counts, written.counts);
        prop_assert_eq!(&single[..], &written.samples[written.samples.len() - single.len()..]);
        // The next fold starts with the segment that was counted but not removed.
        written.rotation.make_room().unwrap();
        prop_assert_eq!(read(&path).0, truth(&written.samples));
        prop_assert!(files(folder.path()).iter().all(|name| crashed.is_some() || !name.ends_with(".new")));
    }
}

#[test]
fn the_bytes_are_divided_so_that_all_of_it_fits() {
    for series in [1_usize, 2, 7, 64, 256] {
        let least = DiskDivision::of(0, series).unwrap_err();
        assert_eq!(DiskDivision::of(least - 1, series), Err(least));
        for bytes in [least, least + 1, 8 * least, 2 << 30, 1 << 40] {
            let Ok(division) = DiskDivision::of(bytes, series) else {
                continue;
            };
            let of_series = division.kept_bytes + 2 * division.hours_bytes + 3 * HISTOGRAM_BYTES;
            assert!(
                RECORD_BYTES + 2 * division.state_bytes + series as u64 * of_series <= bytes,
                "{bytes} {series} {division:?}"
            );
        }
    }
}
