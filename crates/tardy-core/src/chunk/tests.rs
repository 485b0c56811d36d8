use super::*;
use crate::cpu::CpuId;
use crate::series::ClockKind;
use crate::summary::accumulator::{SeriesAccumulator, SummaryOptions};
use proptest::prelude::*;

fn descriptor(schedule: Schedule) -> Descriptor {
    Descriptor::latency("cyclic", Some(CpuId(0)), ClockKind::Hardware, schedule)
}

fn encode(schedule: Schedule, records: &[Record]) -> Vec<u8> {
    let mut encoder = ChunkEncoder::new(&descriptor(schedule));
    records.iter().for_each(|&record| encoder.push(record));
    let mut out = Vec::new();
    encoder.finish(&Counts::default(), false, &mut out);
    out
}

fn decode(schedule: Schedule, bytes: &[u8]) -> Vec<(Gap, Sample)> {
    let head = ChunkHead::decode(bytes).unwrap();
    let body = &bytes[CHUNK_HEAD_BYTES..];
    assert!(verify(&head, body));
    let mut chunk = Chunk::default();
    chunk.decode(body).unwrap();
    chunk.samples(&schedule).collect()
}

const GRID: Schedule = Schedule::Grid {
    period: Nanos(1_000_000),
    start: Nanos(0),
    dither: Nanos(0),
};

fn on_grid(latencies: &[i64]) -> Vec<Record> {
    let mut due = Nanos(7_000_000_000);
    latencies
        .iter()
        .map(|&latency| {
            let skipped = u32::try_from((latency / 1_000_000).max(0)).unwrap();
            let sample = Sample {
                due,
                latency: Nanos(latency),
                skipped,
            };
            due += Nanos(1_000_000) * (1 + i64::from(skipped));
            Record::Sample(sample)
        })
        .collect()
}

#[test]
fn a_quiet_second_takes_two_bytes_a_sample() {
    let latencies: Vec<i64> = (0..1000).map(|i| 20_000 + (i * 7919) % 4000).collect();
    let bytes = encode(GRID, &on_grid(&latencies));
    assert!(bytes.len() <= 2 * 1000 + 60, "{} bytes", bytes.len());
}

#[test]
fn a_gap_is_kept_before_the_sample_behind_it() {
    let gap = Gap {
        lost: 3,
        skipped: 2,
    };
    let first = Sample {
        due: Nanos(1_000_000),
        latency: Nanos(10),
        skipped: 0,
    };
    let second = Sample {
        due: Nanos(7_000_000),
        latency: Nanos(12),
        skipped: 0,
    };
    let bytes = encode(
        GRID,
        &[
            Record::Sample(first),
            Record::Gap(gap),
            Record::Sample(second),
        ],
    );
    assert_eq!(
        decode(GRID, &bytes),
        [(Gap::default(), first), (gap, second)]
    );
    let mut chunk = Chunk::default();
    chunk.decode(&bytes[CHUNK_HEAD_BYTES..]).unwrap();
    assert_eq!(
        chunk.due,
        [(0, 1)],
        "lost samples are accounted for in the prediction"
    );
}

#[test]
fn a_flipped_bit_anywhere_in_the_body_is_noticed() {
    let bytes = encode(GRID, &on_grid(&[10, 20, 30]));
    let head = ChunkHead::decode(&bytes).unwrap();
    for position in CHUNK_HEAD_BYTES..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[position] ^= 0x10;
        assert!(!verify(&head, &damaged[CHUNK_HEAD_BYTES..]));
    }
}

#[test]
fn an_unknown_column_is_skipped() {
    let mut body = Vec::new();
    for value in [1, varint::fold(5), 0, 0, 0, 0, 0, 2, 77, 3] {
        varint::put(&mut body, value);
    }
    body.extend_from_slice(&[9, 9, 9]);
    for value in [COLUMN_LATENCY, 1, varint::fold(21)] {
        varint::put(&mut body, value);
    }
    let mut chunk = Chunk::default();
    chunk.decode(&body).unwrap();
    assert_eq!(
        (chunk.latency.as_slice(), chunk.first_due),
        ([21].as_slice(), Nanos(5))
    );
}

#[test]
fn a_run_of_no_due_times_is_damage() {
    let body = |run: u64| {
        let mut body = Vec::new();
        for value in [
            2,
            varint::fold(5),
            0,
            0,
            0,
            0,
            0,
            2,
            COLUMN_LATENCY,
            2,
            varint::fold(21),
            varint::fold(22),
            COLUMN_DUE,
            2,
            varint::fold(7),
            run,
        ] {
            varint::put(&mut body, value);
        }
        body
    };
    let mut chunk = Chunk::default();
    chunk.decode(&body(1)).unwrap();
    assert_eq!(
        chunk
            .samples(&GRID)
            .map(|(_, sample)| sample.due)
            .collect::<Vec<_>>(),
        [Nanos(5), Nanos(1_000_012)]
    );
    assert_eq!(chunk.decode(&body(0)), Err(FormatError::Damaged));
}

#[test]
fn counts_that_no_series_reaches_are_damage() {
    let body = |expected: u64, lost: u64| {
        let mut body = Vec::new();
        let head = [
            1,
            varint::fold(5),
            expected,
            0,
            0,
            0,
            0,
            2,
            COLUMN_LATENCY,
            1,
            varint::fold(21),
            COLUMN_GAPS,
        ];
        let mut gap = Vec::new();
        [0, lost, 1]
            .iter()
            .for_each(|&value| varint::put(&mut gap, value));
        head.iter().for_each(|&value| varint::put(&mut body, value));
        varint::put(&mut body, gap.len() as u64);
        body.extend(gap);
        body
    };
    let mut chunk = Chunk::default();
    chunk.decode(&body(COUNT_MAX, COUNT_MAX - 1)).unwrap();
    let mut accumulator = SeriesAccumulator::new(GRID, SummaryOptions::default());
    (0..3).for_each(|_| accumulator.add(&chunk));
    assert_eq!(accumulator.gaps.lost, 3 * (COUNT_MAX - 1));
    for (expected, lost) in [(COUNT_MAX + 1, 0), (0, COUNT_MAX), (u64::MAX, u64::MAX)] {
        assert_eq!(
            chunk.decode(&body(expected, lost)),
            Err(FormatError::Damaged),
            "{expected} {lost}"
        );
    }
}

#[test]
fn a_head_survives_a_round_trip_and_damage_is_noticed() {
    let bytes = encode_head(b"{\"probe\":\"cyclic\"}");
    assert_eq!(
        decode_head(&bytes),
        Ok((b"{\"probe\":\"cyclic\"}".as_slice(), bytes.len()))
    );
    assert_eq!(
        decode_head(b"PK\x03\x04 something"),
        Err(FormatError::NotASeries)
    );
    for end in FILE_MAGIC.len()..bytes.len() {
        assert_eq!(decode_head(&bytes[..end]), Err(FormatError::BadDescriptor));
    }
}

fn any_record() -> impl Strategy<Value = Record> {
    prop_oneof![
        8 => (any::<i64>(), any::<i64>(), any::<u32>())
            .prop_map(|(due, latency, skipped)| Record::Sample(Sample { due: Nanos(due), latency: Nanos(latency), skipped })),
        1 => (0_u64..1 << 40, 0_u64..1 << 40).prop_map(|(lost, skipped)| Record::Gap(Gap { lost, skipped })),
    ]
}

proptest! {
    #[test]
    fn whatever_is_written_is_read_back(
        records in proptest::collection::vec(any_record(), 0..60),
        grid in any::<bool>(),
        period in 1_i64..1 << 40,
    ) {
        let schedule = if grid {
            Schedule::Grid { period: Nanos(period), start: Nanos(0), dither: Nanos(0) }
        } else {
            Schedule::Event { request: Nanos(period) }
        };
        let mut expected = Vec::new();
        let mut gap = Gap::default();
        for record in &records {
            match *record {
                Record::Sample(sample) => expected.push((std::mem::take(&mut gap), sample)),
                Record::Gap(more) => { gap.lost += more.lost; gap.skipped += more.skipped; }
            }
        }
        prop_assert_eq!(decode(schedule, &encode(schedule, &records)), expected);
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut chunk = Chunk::default();
        if chunk.decode(&bytes).is_ok() {
            prop_assert_eq!(chunk.samples(&GRID).count(), chunk.latency.len());
        }
        let _ = ChunkHead::decode(&bytes);
        let _ = decode_head(&bytes);
    }
}
