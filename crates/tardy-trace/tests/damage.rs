//! Tests that the reader of trace.dat does not panic on any bytes, and that it reports damage.

use std::path::Path;

use proptest::prelude::*;
use tardy_trace::event::Decoder;
use tardy_trace::file::{FileError, TraceFile};
use tardy_trace::merge::{Item, Merge};

fn data(name: &str) -> Vec<u8> {
    std::fs::read(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/data")
            .join(name),
    )
    .expect("it is kept beside the tests")
}

/// Reads a whole file. Returns how many events, how many gaps with lost events, and how many cases
/// of damage it has.
fn read(bytes: &[u8]) -> Result<(usize, usize, usize), FileError> {
    let file = TraceFile::parse(bytes)?;
    let decoder = Decoder::new(&file.formats);
    let (mut events, mut lost, mut damage) = (0, 0, 0);
    for buffer in &file.buffers {
        let mut merge = Merge::new(buffer, &decoder, file.counter);
        let mut last = 0;
        for item in &mut merge {
            assert!(item.time() >= last, "the stream goes back");
            last = item.time();
            match item {
                Item::Event(_) => events += 1,
                Item::Lost { .. } => lost += 1,
            }
        }
        damage += merge.damage().len();
    }
    Ok((events, lost, damage))
}

#[test]
fn whole_files_are_read_in_the_order_of_time_without_loss() {
    assert_eq!(
        read(&data("application.dat")).expect("it is whole"),
        (9453, 0, 0)
    );
    assert_eq!(read(&data("local.dat")).expect("it is whole"), (1757, 0, 0));
}

#[test]
fn files_that_are_not_read_are_refused_by_name() {
    let error = |bytes: &[u8]| read(bytes).expect_err("it is not read").to_string();
    assert_eq!(error(b"perf"), "this is not a trace.dat of trace-cmd");
    assert_eq!(
        error(b"\x17\x08\x44tracing6\0\x01\x08"),
        "trace.dat is from a big-endian machine: only little-endian traces can be read"
    );
    assert!(
        error(b"\x17\x08\x44tracing5\0").starts_with("trace.dat has version 5"),
        "{}",
        error(b"\x17\x08\x44tracing5\0")
    );
}

#[test]
fn a_damaged_page_costs_its_own_events() {
    let mut bytes = data("local.dat");
    // The first page of CPU 1 starts at a page boundary of the file. Into this page, the test
    // writes an impossible length.
    let start =
        TraceFile::parse(&bytes).expect("it is whole").buffers[1].cpus[0].stored_bytes() + 0x6000;
    bytes[start + 8..start + 11].copy_from_slice(&[255, 255, 3]);
    let (events, lost, damage) = read(&bytes).expect("its head is whole");
    assert!(events > 1000 && events < 1757, "{events}");
    assert_eq!((lost, damage), (1, 1));
}

proptest! {
    #[test]
    fn no_damage_makes_the_reader_panic(
        is_compressed in any::<bool>(), cut in any::<prop::sample::Index>(), changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        is_cut in any::<bool>(), is_in_head in any::<bool>(),
    ) {
        let mut bytes = data(if is_compressed { "application.dat" } else { "local.dat" });
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let within = if is_in_head { bytes.len().min(400) } else { bytes.len() };
        for (place, value) in changes {
            if within > 0 {
                bytes[place.index(within)] = value;
            }
        }
        let _ = read(&bytes);
    }
}
