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
