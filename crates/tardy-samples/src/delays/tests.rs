use proptest::prelude::*;

use super::*;

fn holder(cause: Cause, known: Certainty, name: &str) -> DelayHolder {
    let stack = |of: &str| {
        if name == of {
            vec!["_raw_spin_lock".into(), "shrink_node".into()]
        } else {
            Vec::new()
        }
    };
    let work = (name == "kworker/0:1").then(|| "vmstat_update".into());
    DelayHolder {
        cause,
        known,
        name: name.into(),
        priority: Some(-1),
        work,
        stack: stack("dd"),
        ended: stack("kworker/0:1"),
        sender: (name == "dd").then(|| "sh".into()),
    }
}

fn holders() -> Vec<DelayHolder> {
    let cannot_tell = Certainty::CannotTell(Cause::LateInterrupt);
    let named = [
        ("", Certainty::Seen),
        ("dd", Certainty::Inferred),
        ("kworker/0:1", cannot_tell),
    ];
    Cause::ALL
        .iter()
        .flat_map(|&cause| named.map(|(name, known)| holder(cause, known, name)))
        .collect()
}

fn sample() -> impl Strategy<Value = SampleDelay> {
    let waker = prop_oneof![
        Just(DelayWaker::Nobody),
        Just(DelayWaker::Timer("hrtimer_wakeup".into())),
        Just(DelayWaker::Interrupt),
        Just(DelayWaker::Softirq),
        "[a-z]{0,3}".prop_map(|name| DelayWaker::Thread(name.into()))
    ];
    let piece = (
        0..Component::ALL.len(),
        0..holders().len(),
        0_u32..4,
        any::<u32>(),
    )
        .prop_map(|(component, holder, cpu, length)| DelayPiece {
            component: Component::ALL[component],
            holder,
            cpu,
            length: length.into(),
        });
    (
        any::<i32>(),
        0_u32..4,
        waker,
        any::<bool>(),
        proptest::collection::vec(piece, 0..6),
    )
        .prop_map(|(due, cpu, waker, is_switch_seen, pieces)| SampleDelay {
            due: Nanos(due.into()),
            cpu,
            waker,
            is_switch_seen,
            pieces,
        })
}

fn by_name(chunk: &DelayChunk) -> Vec<(SampleDelay, Vec<DelayHolder>)> {
    let with_holders = |sample: &SampleDelay| {
        let holders = sample
            .pieces
            .iter()
            .map(|piece| chunk.holders[piece.holder].clone())
            .collect();
        let pieces = sample
            .pieces
            .iter()
            .map(|piece| DelayPiece {
                holder: 0,
                ..*piece
            })
            .collect();
        (
            SampleDelay {
                pieces,
                ..sample.clone()
            },
            holders,
        )
    };
    chunk.samples.iter().map(with_holders).collect()
}

fn read(path: &Path) -> (Vec<DelayChunk>, u64) {
    let mut reader = DelayReader::open(path).unwrap();
    let chunks = std::iter::from_fn(|| reader.next_chunk().unwrap()).collect();
    (chunks, reader.damaged_bytes())
}

proptest! {
    #[test]
    fn what_is_written_is_read(samples in proptest::collection::vec(sample(), 0..40), cut in 1_usize..40) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.delays");
        let mut writer = DelayWriter::create(&path).unwrap();
        for (index, sample) in samples.iter().enumerate() {
            writer.push(sample, &holders()).unwrap();
            if index % cut == 0 {
                writer.flush().unwrap();
            }
        }
        writer.flush().unwrap();
        prop_assert_eq!(writer.written(), (samples.len() as u64, fs::metadata(&path).unwrap().len()));
        let (chunks, damaged) = read(&path);
        prop_assert_eq!(damaged, 0);
        let found: Vec<_> = chunks.iter().flat_map(by_name).collect();
        prop_assert_eq!(found, by_name(&DelayChunk { holders: holders(), samples }));
    }

    #[test]
    fn no_bytes_make_the_reader_panic(body in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = decode(&body);
    }
}

#[test]
fn a_damaged_chunk_costs_itself_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.delays");
    let mut writer = DelayWriter::create(&path).unwrap();
    for due in [1, 2, 3] {
        let sample = SampleDelay {
            due: Nanos(due),
            cpu: 0,
            waker: DelayWaker::Nobody,
            is_switch_seen: true,
            pieces: Vec::new(),
        };
        writer.push(&sample, &[]).unwrap();
        writer.flush().unwrap();
    }
    let mut bytes = fs::read(&path).unwrap();
    let middle = 8 + (bytes.len() - 8) / 2;
    bytes[middle] ^= 0xff;
    bytes.pop();
    fs::write(&path, &bytes).unwrap();
    let (chunks, damaged) = read(&path);
    let dues: Vec<_> = chunks
        .iter()
        .flat_map(|chunk| &chunk.samples)
        .map(|sample| sample.due.get())
        .collect();
    assert_eq!(
        (dues, damaged > 0),
        (vec![1], true),
        "the last one is cut off"
    );
}

#[test]
fn a_quiet_second_takes_20_bytes_a_sample() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = DelayWriter::create(&folder.path().join("a.delays")).unwrap();
    let holders = holders();
    // The pieces of a wake-up by a timer on a quiet CPU; their lengths are in ns.
    let pieces: [(Component, u64); 5] = [
        (Component::Timer, 900),
        (Component::Interrupt, 2_400),
        (Component::Expiry, 1_300),
        (Component::Switch, 3_800),
        (Component::Return, 1_100),
    ];
    for number in 0..1_000_u64 {
        let piece = |(holder, (component, length))| DelayPiece {
            component,
            holder,
            cpu: 0,
            length: length + number * 7_919 % (length / 2),
        };
        let sample = SampleDelay {
            due: Nanos(number.cast_signed() * 1_000_000),
            cpu: 0,
            waker: DelayWaker::Timer("hrtimer_wakeup".into()),
            is_switch_seen: true,
            pieces: pieces.into_iter().enumerate().map(piece).collect(),
        };
        writer.push(&sample, &holders).unwrap();
    }
    writer.flush().unwrap();
    let (samples, bytes) = writer.written();
    assert_eq!(samples, 1_000);
    assert!(bytes <= 20_000, "{bytes} bytes");
}

#[test]
fn bounded_files_keep_the_newest_and_the_worst_and_count_what_gave_way() {
    const BYTES: u64 = 64 << 10;
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("cyclic.cpu0.delays");
    let mut writer = DelayWriter::bounded(&path, BYTES).unwrap();
    let holders = holders();
    let length = |number: u64| match number {
        100 | 70_000 => 1_000_000_000 + number,
        _ => 1_000 + number * 7_919 % 100_000,
    };
    for number in 0..200_000_u64 {
        let piece = |share| DelayPiece {
            component: Component::ALL[0],
            holder: (number % 5) as usize,
            cpu: 0,
            length: share,
        };
        let sample = SampleDelay {
            due: Nanos(number.cast_signed() * 1_000_000),
            cpu: 0,
            waker: DelayWaker::Interrupt,
            is_switch_seen: true,
            pieces: vec![piece(length(number))],
        };
        writer.push(&sample, &holders).unwrap();
        if number % 1_000 == 0 {
            writer.flush().unwrap();
            let sizes = std::fs::read_dir(place.path()).unwrap();
            let size: u64 = sizes
                .map(|entry| entry.unwrap().metadata().unwrap().len())
                .sum();
            assert!(size <= BYTES, "{size} bytes after {number} samples");
        }
    }
    writer.flush().unwrap();
    let mut found = Vec::new();
    let mut reader = DelayReader::open(&path).unwrap();
    while let Some(chunk) = reader.next_chunk().unwrap() {
        for sample in chunk.samples {
            let number = (sample.due.get() / 1_000_000).cast_unsigned();
            assert_eq!(sample.sum(), length(number));
            let holder = &chunk.holders[sample.pieces[0].holder];
            assert_eq!(*holder, holders[(number % 5) as usize]);
            found.push(number);
        }
    }
    assert!(
        found.is_sorted_by(|one, other| one < other),
        "in time, none twice"
    );
    assert!(found.starts_with(&[100]) && found.contains(&70_000));
    assert!(found.ends_with(&[199_997, 199_998, 199_999]));
    assert_eq!(found.len() as u64 + writer.given_way(), 200_000);
    assert!(writer.given_way() > 150_000);
}
