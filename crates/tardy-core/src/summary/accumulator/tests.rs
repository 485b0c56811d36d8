use super::*;
use crate::chunk::{CHUNK_HEAD_BYTES, ChunkEncoder};
use crate::sample::Record;
use crate::series::{ClockKind, Descriptor};
use crate::summary::cell::Misses;
use proptest::prelude::*;

const PERIOD: i64 = 1_000;
const GRID: Schedule = Schedule::Grid {
    period: Nanos(PERIOD),
    start: Nanos(0),
    dither: Nanos(0),
};

/// Makes a series as a probe would: a late wake-up skips due times, up to the next multiple of the
/// period.
fn samples(latencies: &[i64]) -> Vec<Sample> {
    let mut place = 0;
    latencies
        .iter()
        .map(|&latency| {
            let skipped = (latency.max(0) / PERIOD) as u32;
            let sample = Sample {
                due: Nanos(place * PERIOD),
                latency: Nanos(latency),
                skipped,
            };
            place += 1 + i64::from(skipped);
            sample
        })
        .collect()
}

fn chunks(samples: &[Sample], size: usize) -> Vec<Chunk> {
    let descriptor = Descriptor::latency("cyclic", None, ClockKind::Hardware, GRID);
    let mut encoder = ChunkEncoder::new(&descriptor);
    let mut counts = Counts::default();
    samples
        .chunks(size)
        .map(|part| {
            for &sample in part {
                encoder.push(Record::Sample(sample));
                counts.recorded += 1;
                counts.skipped += u64::from(sample.skipped);
                counts.expected += 1 + u64::from(sample.skipped);
            }
            let mut bytes = Vec::new();
            encoder.finish(&counts, false, &mut bytes);
            let mut chunk = Chunk::default();
            chunk.decode(&bytes[CHUNK_HEAD_BYTES..]).unwrap();
            chunk
        })
        .collect()
}

fn accumulate(chunks: &[Chunk], questions: &SummaryOptions) -> SeriesAccumulator {
    let mut accumulator = SeriesAccumulator::new(GRID, questions.clone());
    chunks.iter().for_each(|chunk| accumulator.add(chunk));
    accumulator
}

fn listed(histogram: &Histogram) -> Vec<(i64, u64)> {
    let mut list = Vec::new();
    histogram.for_each(|value, count| list.push((value, count)));
    list
}

#[test]
fn skipped_due_times_are_expanded_and_miss_where_their_own_lateness_does() {
    let questions = SummaryOptions {
        window: Some(Window::deadline(Nanos(500))),
        ..SummaryOptions::default()
    };
    let accumulator = accumulate(&chunks(&samples(&[10, 3_400, 20, 600, 30]), 2), &questions);
    let whole = accumulator.whole();
    assert_eq!(
        listed(&whole.latency_skipped),
        [(400, 1), (1_400, 1), (2_400, 1)]
    );
    assert_eq!(
        (whole.misses, whole.misses_skipped, whole.skipped),
        (1 + 2 + 1, 2, 3)
    );
    assert_eq!(accumulator.miss_runs.longest().unwrap().length, 3);
    assert_eq!(accumulator.miss_runs.longest().unwrap().place, 1);
    assert_eq!(whole.corrected().unwrap().count(), 8);
}

#[test]
fn due_times_skipped_for_another_reason_than_a_late_wake_up_count_but_get_no_latency() {
    // Each unit of work starts in time but takes three periods. The due times in between are
    // skipped, and the latencies of their starts are unknown.
    let mut taken = samples(&[10, 10, 10, 10, 20]);
    taken.drain(1..3);
    taken[0].skipped = 2;
    let accumulator = accumulate(&chunks(&taken, 2), &SummaryOptions::default());
    let whole = accumulator.whole();
    assert_eq!((whole.skipped, whole.latency_skipped.count()), (2, 0));
    assert!(whole.corrected().is_none());
    assert_eq!(
        listed(&whole.latency_skipped_at_most),
        [(1_000, 1), (2_000, 1)],
        "the probe was back before the third due time"
    );
}

#[test]
fn where_work_was_due_a_skipped_due_time_misses_any_deadline() {
    let window = Window::deadline(Nanos(50_000));
    let questions = SummaryOptions {
        window: Some(window),
        is_work: true,
        ..SummaryOptions::default()
    };
    let whole = accumulate(&chunks(&samples(&[10, 3_400, 20, 30]), 2), &questions).whole();
    assert_eq!((whole.misses, whole.misses_skipped), (3, 3));
    let misses = |is_work| whole.misses_of(&window, is_work).all;
    assert_eq!((misses(true), misses(false)), (3, 0));
}

#[test]
fn early_wake_ups_and_stalls_are_counted() {
    let questions = SummaryOptions {
        stall: Some(Nanos(50_000)),
        ..SummaryOptions::default()
    };
    let accumulator = accumulate(
        &chunks(&samples(&[10, -7, 49_000, 39_000, 61_000, -3]), 4),
        &questions,
    );
    assert_eq!(
        accumulator.early,
        EarlyCounts {
            count: 2,
            earliest: -7
        }
    );
    assert_eq!(accumulator.stalls, 1);
}

#[test]
fn marks_at_the_edges_of_phases_fall_in_the_phases_that_they_touch() {
    // The phases last from period 100 to 200, and from 200 to 300. Each late sample is due shortly
    // before an edge or on it, and wakes up before, on or after that edge.
    let phases: Vec<PhaseSpan> = [100, 200]
        .map(|begin| PhaseSpan {
            begin: Nanos(begin * PERIOD),
            end: Nanos((begin + 100) * PERIOD),
        })
        .to_vec();
    let marks = [
        (98, 601, 0),
        (99, 1_000, 1),
        (100, 602, 1),
        (199, 603, 1),
        (199, 1_000, 3),
        (200, 604, 2),
        (299, 605, 2),
        (299, 1_000, 2),
        (300, 606, 0),
    ];
    for (due, latency, expected) in marks {
        let series: Vec<Sample> = (0..400)
            .map(|place| Sample {
                due: Nanos(place * PERIOD),
                latency: Nanos(if place == due { latency } else { 5 }),
                skipped: 0,
            })
            .collect();
        for size in [1, 7, 400] {
            let questions = SummaryOptions {
                phases: phases.clone(),
                ..SummaryOptions::default()
            };
            let accumulator = accumulate(&chunks(&series, size), &questions);
            let touched: i64 = (0..2)
                .map(|phase| {
                    (accumulator.phases(&[phase]).latency.max() == Some(latency)) as i64
                        * (1 << phase)
                })
                .sum();
            assert_eq!(
                touched, expected,
                "due {due}, latency {latency}, chunks of {size}"
            );
        }
    }
}

fn any_latencies() -> impl Strategy<Value = Vec<i64>> {
    proptest::collection::vec(
        prop_oneof![8 => 0_i64..900, 1 => -50_i64..0, 1 => 900_i64..7_000],
        1..200,
    )
}

proptest! {
    /// Compares the result with an oracle that walks through the samples one by one, and knows
    /// nothing of chunks or cells.
    #[test]
    fn chunks_phases_and_parts_give_what_the_samples_give(
        latencies in any_latencies(), size in 1_usize..50, cut in 0_usize..200,
        edges in proptest::collection::vec((0_i64..150, 1_i64..100), 0..4), limit in 0_i64..2_000, is_work: bool,
    ) {
        let samples = samples(&latencies);
        let chunks = chunks(&samples, size);
        let phases: Vec<PhaseSpan> =
            edges.iter().map(|&(begin, length)| PhaseSpan { begin: Nanos(begin * PERIOD), end: Nanos((begin + length) * PERIOD) }).collect();
        let questions = SummaryOptions { window: Some(Window::deadline(Nanos(limit))), phases: phases.clone(), is_work, ..SummaryOptions::default() };
        let mut accumulator = accumulate(&chunks[..cut.min(chunks.len())], &questions);
        accumulator.merge(&accumulate(&chunks[cut.min(chunks.len())..], &questions));

        let whole = accumulator.whole();
        let mut sorted = latencies.clone();
        sorted.sort_unstable();
        let found: Vec<i64> = listed(&whole.latency).iter().flat_map(|&(value, count)| std::iter::repeat_n(value, count as usize)).collect();
        prop_assert_eq!(&found, &sorted);
        prop_assert_eq!(whole.worst.map(|worst| worst.latency.get()), sorted.last().copied());
        prop_assert_eq!(whole.sum, latencies.iter().map(|&latency| i128::from(latency)).sum::<i128>());

        let skipped_misses = |sample: &Sample| (1..=i64::from(sample.skipped)).map(|periods| is_work || sample.latency.get() - periods * PERIOD > limit).collect::<Vec<_>>();
        let misses_of = |sample: &Sample| u64::from(sample.latency.get() > limit) + skipped_misses(sample).iter().filter(|&&miss| miss).count() as u64;
        let window = Window::deadline(Nanos(limit));
        let counted = Misses { all: whole.misses, skipped: whole.misses_skipped, undecided: 0 };
        prop_assert_eq!(whole.misses_of(&window, is_work), counted);
        prop_assert_eq!(whole.misses, samples.iter().map(misses_of).sum::<u64>());
        let mut flags = Vec::new();
        for sample in &samples {
            flags.push(sample.latency.get() > limit);
            flags.extend(skipped_misses(sample));
        }
        let longest = flags.split(|miss| !miss).map(<[bool]>::len).max().unwrap_or(0) as u64;
        prop_assert_eq!(accumulator.miss_runs.longest().map_or(0, |run| run.length), longest);

        let mut jitter: Vec<i64> = latencies.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
        jitter.sort_unstable();
        let found: Vec<i64> = listed(&accumulator.jitter).iter().flat_map(|&(value, count)| std::iter::repeat_n(value, count as usize)).collect();
        prop_assert_eq!(found, jitter);

        for (index, phase) in phases.iter().enumerate() {
            let inside: Vec<&Sample> = samples.iter().filter(|sample| phase.begin <= sample.wake() && sample.due.min(sample.wake()) < phase.end).collect();
            let cell = accumulator.phases(&[index]);
            prop_assert_eq!(cell.latency.count(), inside.len() as u64);
            prop_assert_eq!(cell.misses, inside.iter().map(|sample| misses_of(sample)).sum::<u64>());
            prop_assert_eq!(cell.worst.map(|worst| worst.latency), inside.iter().map(|sample| sample.latency).max());
        }
        prop_assert_eq!(accumulator.early.count, latencies.iter().filter(|&&latency| latency < 0).count() as u64);
        prop_assert_eq!((accumulator.samples, accumulator.first_due), (samples.len() as u64, Some(samples[0].due)));
        prop_assert_eq!(accumulator.last_wake, samples.last().map(Sample::wake));
    }
}
