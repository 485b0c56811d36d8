//! A short, repeatable form of fuzzing: pages and event formats of real kernels with changed bytes.
//! The readers never panic, and the pieces of each explanation still add up.

use std::collections::HashMap;
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;
use tardy_trace::event::{Decoder, Kind};
use tardy_trace::explain::{Facts, Samples};
use tardy_trace::file::TraceFile;
use tardy_trace::format::EventFormat;
use tardy_trace::layout::PageLayout;
use tardy_trace::live::Live;
use tardy_trace::merge::Item;

/// The pages of one CPU that are taken at a time.
const PAGES: usize = 4;

fn data(name: &str) -> Vec<u8> {
    std::fs::read(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/data")
            .join(name),
    )
    .expect("it is kept beside the tests")
}

/// Formats, layout, and the pages of each CPU that has any.
fn trace(bytes: &[u8]) -> (Vec<EventFormat>, PageLayout, Vec<Vec<Vec<u8>>>) {
    let file = TraceFile::parse(bytes).expect("it is whole");
    let layout = file.layout;
    let pages = |cpu: &tardy_trace::file::CpuPages<'_>| -> Vec<Vec<u8>> {
        let chunks: Vec<u8> = cpu
            .chunks()
            .flat_map(|chunk| chunk.expect("it is whole").into_owned())
            .collect();
        chunks
            .chunks_exact(layout.page_bytes)
            .map(<[u8]>::to_vec)
            .collect()
    };
    let cpus = file
        .buffers
        .iter()
        .flat_map(|buffer| &buffer.cpus)
        .map(pages)
        .filter(|pages| !pages.is_empty())
        .collect();
    (file.formats, layout, cpus)
}

/// Texts of the formats of a trace.dat that is not compressed.
fn formats(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let begins: Vec<usize> = text
        .match_indices("name: ")
        .map(|(place, _)| place)
        .collect();
    let of = |&begin: &usize| {
        text[begin..]
            .split_once("print fmt")
            .map(|(format, _)| format.to_owned())
    };
    begins
        .iter()
        .filter_map(of)
        .filter(|format| format.len() < 4096 && format.contains("\nID: "))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn pages_of_a_kernel_with_changed_bytes_are_explained_to_the_nanosecond(
        name in prop_oneof![Just("application.dat"), Just("local.dat")],
        first in any::<Index>(), changes in proptest::collection::vec((0..PAGES, any::<Index>(), any::<u8>()), 1..40), is_in_head in any::<bool>(),
    ) {
        let (formats, layout, cpus) = trace(&data(name));
        let mut live = Live::new(Decoder::new(&formats), layout, 0..u32::try_from(cpus.len()).unwrap());
        let mut samples = Samples::new(Facts::default(), &HashMap::new());
        let mut bytes_given = 0;
        for (cpu, pages) in cpus.iter().enumerate() {
            let first = first.index(pages.len());
            for (place, page) in pages.iter().skip(first).take(PAGES).enumerate() {
                let mut page = page.clone();
                let within = if is_in_head { 64 } else { page.len() };
                for &(_, at, value) in changes.iter().filter(|&&(changed, ..)| changed == place) {
                    page[at.index(within)] = value;
                }
                bytes_given += page.len();
                // Damage is reported, and ends the page.
                let _ = live.page(cpu, &page);
            }
        }
        prop_assert!(live.counts().events <= bytes_given as u64 / 4);
        let (mut last, mut woken) = (0, Vec::new());
        while let Some(item) = live.next_before(u64::MAX) {
            prop_assert!(item.time() >= last, "the stream goes back");
            last = item.time();
            if let Item::Event(event) = item
                && let Kind::Waking { thread, .. } = event.kind
                && woken.len() < 100
            {
                samples.follow(thread.pid);
                samples.judge(thread.pid);
                woken.push((thread.pid, event.time));
            }
            samples.take(&item);
        }
        for (pid, waking) in woken {
            for (due, woke) in [(waking.saturating_sub(50_000), waking.saturating_add(100_000)), (waking, last), (last, u64::MAX)] {
                let woke = woke.max(due);
                let delay = samples.explain(&[pid], 0, due, woke);
                prop_assert_eq!(delay.pieces.iter().map(|piece| piece.length()).sum::<u64>(), woke - due, "{:?}", delay);
            }
        }
    }

    #[test]
    fn formats_of_a_kernel_with_changed_bytes_read_no_further_than_the_data(
        format in any::<Index>(), changes in proptest::collection::vec((any::<Index>(), "[ -~\n\t]"), 1..12), length in 0_usize..120,
    ) {
        let formats = formats(&data("local.dat"));
        prop_assert!(formats.len() > 20, "{} formats", formats.len());
        let mut text: Vec<char> = formats[format.index(formats.len())].chars().collect();
        for (at, character) in changes {
            let at = at.index(text.len());
            text[at] = character.chars().next().unwrap();
        }
        if let Ok(format) = EventFormat::parse("sched", &text.iter().collect::<String>()) {
            let data = vec![0x7f; length];
            for field in &format.fields {
                let _ = (field.number(&data), field.bytes(&data));
            }
            let decoder = Decoder::new(std::slice::from_ref(&format));
            let _ = decoder.decode(0, 0, &data);
            let _ = decoder.stack(&data).map(Iterator::count);
        }
    }
}
