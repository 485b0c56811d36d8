use super::*;

use proptest::prelude::*;

const SCHEDULE: Schedule = Schedule::Grid {
    period: Nanos(1_000),
    start: Nanos(0),
    dither: Nanos(0),
};

fn rule(cuts: Vec<Nanos>) -> CountingRule {
    CountingRule {
        window: Some(Window {
            latest: Nanos(500),
            earliest: Some(Nanos(-3)),
        }),
        is_work: false,
        cuts,
        stretch: HOUR,
    }
}

fn hours_of(latencies: &[i64]) -> Hours {
    let mut stretch = Stretch::beginning(Nanos(0));
    for (index, &latency) in latencies.iter().enumerate() {
        let sample = Sample {
            due: Nanos(index as i64 * 1_000),
            latency: Nanos(latency),
            skipped: u32::from(latency > 2_000),
        };
        stretch.add(
            Gap {
                lost: 1,
                skipped: 0,
            },
            sample,
            &rule(Vec::new()),
            &SCHEDULE,
            0,
        );
    }
    let mut hours = Hours::new(&rule(Vec::new()));
    hours.samples = latencies.len() as u64;
    hours.through = 12;
    hours.counts = Counts {
        expected: 9,
        recorded: 8,
        skipped: 1,
        lost: 0,
        unstored: 3,
    };
    hours.put(PackedStretch {
        part: 0,
        number: -1,
        bytes: stretch.encode(),
    });
    hours
}

#[test]
fn the_file_survives_a_round_trip_and_damage_is_noticed() {
    let mut hours = hours_of(&[-5, 7, 7, 12_000, 90_000_000]);
    let bytes = hours.encode(1 << 20);
    let read = Hours::decode(&bytes).unwrap();
    assert_eq!(
        (
            read.through,
            read.samples,
            read.counts,
            read.window,
            read.length
        ),
        (12, 5, hours.counts, hours.window, HOUR)
    );
    let stretch = read.stretches().next().unwrap();
    assert_eq!(
        (
            stretch.cell.sum,
            stretch.gaps.lost,
            stretch.cell.worst.unwrap().due
        ),
        (90_012_009, 5, Nanos(4_000))
    );
    assert_eq!(
        (
            stretch.cell.latency.min(),
            stretch.cell.latency.max(),
            stretch.skipping
        ),
        (Some(-5), Some(90_000_000), 2)
    );
    for position in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[position] ^= 1;
        assert!(Hours::decode(&damaged).is_none(), "byte {position}");
    }
}

#[test]
fn another_clock_moves_all_times_and_no_count() {
    let later = Nanos(HOUR.get() * 3 + 7);
    let mut hours = hours_of(&[-5, 7, 12_000]);
    let mut next = Stretch::beginning(HOUR);
    next.add(
        Gap::default(),
        Sample {
            due: HOUR,
            latency: Nanos(40),
            skipped: 0,
        },
        &rule(Vec::new()),
        &SCHEDULE,
        0,
    );
    hours.put(PackedStretch {
        part: 0,
        number: 1,
        bytes: next.encode(),
    });
    let last = hours.last_wake().unwrap();
    let moved = hours.clone().shifted(later);
    let times = |hours: &Hours| {
        hours
            .stretches()
            .map(|stretch| (stretch.first_due, stretch.cell.worst.unwrap().due))
            .collect::<Vec<_>>()
    };
    let expected: Vec<_> = times(&hours)
        .into_iter()
        .map(|(first, worst)| (first + later, worst + later))
        .collect();
    assert_eq!(
        (times(&moved), moved.last_wake()),
        (expected, Some(last + later))
    );
    assert_eq!(
        (moved.latency().count(), moved.samples, moved.counts),
        (4, hours.samples, hours.counts)
    );
    assert_eq!(
        moved
            .stretches
            .iter()
            .map(|packed| packed.number)
            .collect::<Vec<_>>(),
        [3, 4]
    );
    assert_eq!(times(&moved.shifted(-later)), times(&hours));
    // The first sample of each interval is at the start of an hour. A shift by -1 ns therefore
    // moves each interval into the previous hour.
    let earlier = hours.shifted(Nanos(-1));
    assert_eq!(
        earlier
            .stretches
            .iter()
            .map(|packed| packed.number)
            .collect::<Vec<_>>(),
        [-1, 0]
    );
}

#[test]
fn an_hour_is_cut_where_a_phase_ends() {
    let cuts = rule(vec![Nanos(2_000), Nanos(4_000)]);
    let mut counting = Hours::new(&cuts).begin_segment(&cuts, SCHEDULE);
    chunks(&[5; 6], 0)
        .iter()
        .for_each(|chunk| counting.add(chunk));
    let hours = counting.end_segment(1);
    let spans: Vec<_> = hours
        .stretches()
        .map(|stretch| {
            (
                stretch.first_due.get(),
                stretch.last_wake.get(),
                stretch.samples,
            )
        })
        .collect();
    assert_eq!(spans, [(0, 1_005, 2), (2_000, 3_005, 2), (4_000, 5_005, 2)]);
}

/// Adds up two intervals in the slow way, which decodes all histograms.
fn merged_decoded(own: &[u8], next: &[u8]) -> Vec<u8> {
    let [mut own, next] = [own, next].map(|bytes| Stretch::decode(bytes).unwrap());
    own.merge(&next);
    own.encode()
}

/// Returns chunks with samples that have these latencies; the first sample is due at `from` us.
fn chunks(latencies: &[i64], from: i64) -> Vec<Chunk> {
    let descriptor = tardy_core::series::Descriptor::latency(
        "cyclic",
        None,
        tardy_core::series::ClockKind::Hardware,
        SCHEDULE,
    );
    let chunk = |(place, latencies): (usize, &[i64])| {
        let mut encoder = tardy_core::chunk::ChunkEncoder::new(&descriptor);
        for (index, &latency) in latencies.iter().enumerate() {
            encoder.push(tardy_core::sample::Record::Sample(Sample {
                due: Nanos((from + (place * 100 + index) as i64) * 1_000),
                latency: Nanos(latency),
                skipped: 0,
            }));
        }
        let mut bytes = Vec::new();
        encoder.finish(&Counts::default(), false, &mut bytes);
        let mut chunk = Chunk::default();
        let body = &bytes[tardy_core::chunk::CHUNK_HEAD_BYTES..];
        chunk.decode(body).unwrap();
        chunk
    };
    latencies.chunks(100).enumerate().map(chunk).collect()
}

#[test]
fn a_segment_is_folded_in_little_memory_however_many_values_its_hour_has() {
    let rule = rule(Vec::new());
    let folded = |hours: Hours, latencies: &[i64], from| {
        let chunks = chunks(latencies, from);
        let mut after = None;
        let memory = allocation_counter::measure(|| {
            let mut counting = hours.begin_segment(&rule, SCHEDULE);
            chunks.iter().for_each(|chunk| counting.add(chunk));
            after = Some(counting.end_segment(1));
        });
        (after.unwrap(), memory.bytes_max)
    };
    // The values are 1.1 us apart, so each page of a histogram would contain only a few of them.
    let different: Vec<i64> = (0..60_000).map(|index| index * 1_100).collect();
    let (hours, _) = folded(Hours::new(&rule), &different, 0);
    let bytes = hours.stretches[0].bytes.len() as u64;
    let (hours, most) = folded(hours, &[5, 1_100, 66_000_000], 60_000);
    assert!(bytes < 200_000 && most < 2 * bytes, "{bytes} {most}");
    let stretch = hours.stretches().next().unwrap();
    assert_eq!((stretch.samples, stretch.coarse), (60_003, 0));
    assert_eq!(
        stretch.cell.sum,
        different
            .iter()
            .map(|&value| i128::from(value))
            .sum::<i128>()
            + 66_001_105
    );
    let mut expected = different;
    expected.extend([5, 1_100, 66_000_000]);
    expected.sort_unstable();
    let mut found = Vec::new();
    let mut note = |value, count| found.extend(std::iter::repeat_n(value, count as usize));
    stretch.cell.latency.for_each(&mut note);
    assert_eq!(found, expected);
}

proptest! {
    #[test]
    fn encoded_intervals_add_up_as_decoded_ones(
        own in proptest::collection::vec(-5_i64..10_000, 1..40),
        next in proptest::collection::vec(-5_i64..10_000, 1..40),
    ) {
        let [own, next] = [own, next].map(|latencies| hours_of(&latencies).stretches.remove(0).bytes);
        prop_assert_eq!(merged(&own, &next).unwrap(), merged_decoded(&own, &next));
    }

    #[test]
    fn no_bytes_make_a_reader_panic(mut body in proptest::collection::vec(any::<u8>(), 0..300)) {
        let crc = crc32fast::hash(&body).to_le_bytes();
        let mut bytes = MAGIC.to_vec();
        bytes.append(&mut body);
        bytes.extend_from_slice(&crc);
        if let Some(hours) = Hours::decode(&bytes) {
            hours.stretches().count();
        }
    }

    #[test]
    fn sums_below_zero_survive(latencies in proptest::collection::vec(-1_000_000_000_i64..1_000, 1..50)) {
        let bytes = hours_of(&latencies).encode(1 << 20);
        let stretch = Hours::decode(&bytes).unwrap().stretches().next().unwrap();
        prop_assert_eq!(stretch.cell.sum, latencies.iter().map(|&latency| i128::from(latency)).sum::<i128>());
    }
}
