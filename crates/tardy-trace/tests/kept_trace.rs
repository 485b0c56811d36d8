//! Tests the explanation of a real trace, in which a thread interferes with a loop.

use std::collections::HashMap;
use std::path::Path;

use tardy_trace::event::Decoder;
use tardy_trace::explain::{DueFrom, Explainer, Facts, Piece, Target, WakeUp};
use tardy_trace::file::TraceFile;
use tardy_trace::merge::{Item, Merge};

#[test]
fn the_interfering_thread_of_the_kept_trace_is_found() {
    let bytes =
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/application.dat"))
            .expect("it is kept beside the tests");
    let file = TraceFile::parse(&bytes).expect("it is a trace.dat");
    let decoder = Decoder::new(&file.formats);
    let items: Vec<Item> = Merge::new(
        file.buffer(None).expect("it has one"),
        &decoder,
        file.counter,
    )
    .collect();
    let target = Target::Names(vec!["my_loop".into()]);
    let mut explainer = Explainer::new(target, Facts::default(), &HashMap::new());
    items.iter().for_each(|item| explainer.take(item));
    let found: Vec<WakeUp> = explainer.finished().collect();
    for wake_up in &found {
        let sum: u64 = wake_up.pieces.iter().map(Piece::length).sum();
        assert_eq!(sum, wake_up.lateness(), "{wake_up:?}");
    }
    // The program runs 300 cycles. Each of them ends with one sleep, and the trace shows all their
    // timers.
    let timed: Vec<&WakeUp> = found
        .iter()
        .filter(|wake_up| wake_up.due_from == DueFrom::Timer)
        .collect();
    assert_eq!(
        timed.len() as u64 + explainer.unfinished(),
        300,
        "{}",
        found.len()
    );
    let of = |name: &str| {
        timed
            .iter()
            .flat_map(|wake_up| &wake_up.pieces)
            .filter(|piece| piece.holder.name.as_str() == name)
            .map(Piece::length)
            .sum::<u64>()
    };
    let all: u64 = timed.iter().map(|wake_up| wake_up.lateness()).sum();
    // In every tenth of the 300 cycles, the interference ends 300 us after the loop is due.
    let by_it = timed
        .iter()
        .filter(|wake_up| {
            wake_up
                .pieces
                .iter()
                .any(|piece| piece.holder.name.as_str() == "interference")
        })
        .count();
    assert!((29..=31).contains(&by_it), "{by_it}");
    assert!(
        of("interference") > all / 3,
        "{} of {all} ns",
        of("interference")
    );
    // In every 50th cycle, the loop touches a new page. At the end, the loop joins its threads and
    // is woken by the last of them; one more page fault occurs there.
    assert_eq!(
        explainer.rules().page_faults_user,
        6 + 1,
        "{:?}",
        explainer.rules()
    );
    assert_eq!(explainer.rules().woken_by_lower.values().sum::<u64>(), 1);
}
