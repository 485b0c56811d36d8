//! Tests violations that are reported by the kernel's monitors of runtime verification: from the
//! bytes of these events to the counts of a loop.

use std::collections::HashMap;

use tardy_trace::event::{Decoder, Kind};
use tardy_trace::explain::{Facts, Samples};
use tardy_trace::format::EventFormat;
use tardy_trace::merge::Item;

const LOOP: i32 = 10;
const WAKER: i32 = 20;

/// The format of an event of `rv` on Linux 7.3 (kernel/trace/rv/rv_trace.h).
fn format(name: &str, id: u16, fields: &str) -> EventFormat {
    let text = format!(
        "name: {name}\nID: {id}\nformat:\n\
         \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
         \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
         \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
         \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n{fields}"
    );
    EventFormat::parse("rv", &text).expect("it is a format")
}

/// Returns a decoder for the events of four monitors: one names a thread by its task, one names a
/// thread by an ID, one has a time limit, and one watches a CPU.
fn decoder() -> Decoder {
    let task = "\tfield:__data_loc char[] comm;\toffset:8;\tsize:4;\tsigned:0;\n\
                \tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;\n";
    let id = "\tfield:int id;\toffset:8;\tsize:4;\tsigned:1;\n\
              \tfield:__data_loc char[] state;\toffset:12;\tsize:4;\tsigned:0;\n";
    let state = "\tfield:__data_loc char[] state;\toffset:8;\tsize:4;\tsigned:0;\n\
                 \tfield:__data_loc char[] event;\toffset:12;\tsize:4;\tsigned:0;\n";
    Decoder::new(&[
        format("error_wakeup", 1, task),
        format("error_stall", 2, id),
        format("error_env_stall", 3, id),
        format("error_sco", 4, state),
    ])
}

/// Creates the data of an event that the waker wrote.
fn data(event: u16, words: [i32; 2]) -> Vec<u8> {
    let mut data = event.to_le_bytes().to_vec();
    data.extend([0, 0]);
    for word in [WAKER].iter().chain(&words) {
        data.extend(word.to_le_bytes());
    }
    data
}

#[test]
fn violations_are_counted_for_the_thread_that_they_name() {
    let decoder = decoder();
    let mut samples = Samples::new(Facts::default(), &HashMap::new());
    samples.follow(LOOP);
    samples.judge(LOOP);
    let events = [
        (1, [0, LOOP]),
        (1, [0, LOOP]),
        (1, [0, WAKER]),
        (2, [LOOP, 0]),
        (3, [LOOP, 0]),
        (4, [LOOP, LOOP]),
    ];
    for (time, (event, words)) in (1_000..).zip(events) {
        let event = decoder.decode(time, 0, &data(event, words));
        samples.take(&Item::Event(event.expect("the format is known")));
    }
    let (_, rules) = samples.rules(LOOP).expect("the loop is judged");
    let reports: Vec<_> = rules
        .reports
        .iter()
        .map(|(monitor, &count)| (monitor.as_str(), count))
        .collect();
    assert_eq!(reports, [("stall", 2), ("wakeup", 2)]);
}

#[test]
fn a_monitor_of_a_cpu_names_no_thread() {
    let event = decoder().decode(1_000, 0, &data(4, [LOOP, LOOP]));
    let expected = Kind::Violation {
        monitor: "sco".into(),
        pid: None,
    };
    assert_eq!(event.expect("the format is known").kind, expected);
}
