//! Tests that files for Perfetto contain what the trace contains: events as `trace-cmd report`
//! prints them, and wake-ups as they were explained. These tests read the file by the field numbers
//! of the published schema; `cargo xtask perfetto` reads it with the schema itself.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Write};
use std::path::Path;

use tardy_trace::event::{Decoder, Event, Head, Kind, Thread};
use tardy_trace::explain::{Component, DueFrom, Explainer, Facts, Piece, Target, WakeUp, Waker};
use tardy_trace::file::TraceFile;
use tardy_trace::merge::{Item, Merge};
use tardy_trace::perfetto::{LeftOut, Writer};

/// Value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Fields of a message, in order.
struct Message<'a>(Vec<(u64, Value<'a>)>);

fn varint(bytes: &mut &[u8]) -> u64 {
    let length = bytes
        .iter()
        .position(|byte| byte & 0x80 == 0)
        .expect("a varint ends")
        + 1;
    let (taken, rest) = bytes.split_at(length);
    *bytes = rest;
    taken
        .iter()
        .rev()
        .fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f))
}

impl<'a> Message<'a> {
    fn read(mut bytes: &'a [u8]) -> Self {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let tag = varint(&mut bytes);
            let value = match tag & 7 {
                0 => Value::Number(varint(&mut bytes)),
                2 => {
                    let length = usize::try_from(varint(&mut bytes)).expect("it is short");
                    let (taken, rest) = bytes.split_at(length);
                    bytes = rest;
                    Value::Bytes(taken)
                }
                other => panic!("a field of wire type {other}"),
            };
            fields.push((tag >> 3, value));
        }
        Self(fields)
    }

    fn number(&self, field: u64) -> Option<u64> {
        self.0.iter().find_map(|&(of, value)| {
            if let Value::Number(number) = value {
                (of == field).then_some(number)
            } else {
                None
            }
        })
    }

    fn signed(&self, field: u64) -> i64 {
        self.number(field).expect("it has the field").cast_signed()
    }

    fn all(&self, field: u64) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter_map(move |&(of, value)| {
            if let Value::Bytes(bytes) = value {
                (of == field).then_some(bytes)
            } else {
                None
            }
        })
    }

    fn message(&self, field: u64) -> Option<Message<'a>> {
        self.all(field).next().map(Self::read)
    }

    fn text(&self, field: u64) -> &'a str {
        std::str::from_utf8(self.all(field).next().expect("it has the field")).expect("it is text")
    }
}

fn packets(file: &[u8]) -> Vec<Message<'_>> {
    let packets: Vec<_> = Message::read(file).all(1).map(Message::read).collect();
    assert!(
        packets
            .iter()
            .all(|packet| packet.number(10).is_some_and(|sequence| sequence > 0)),
        "each packet is of a sequence"
    );
    packets
}

/// Returns the kernel's events: CPU and message.
fn kernel_events<'a>(packets: &[Message<'a>]) -> Vec<(u64, Message<'a>)> {
    let bundles = packets.iter().filter_map(|packet| packet.message(1));
    bundles
        .flat_map(|bundle| {
            bundle
                .all(2)
                .map(|event| (bundle.number(1).expect("a processor"), Message::read(event)))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Returns the slices of each track, by the track's name: start, end, depth, name. The slices are
/// in the order of their starts.
fn slices<'a>(packets: &[Message<'a>]) -> BTreeMap<&'a str, Vec<(u64, u64, usize, &'a str)>> {
    let names: HashMap<u64, &str> = packets
        .iter()
        .filter_map(|packet| packet.message(60))
        .map(|track| (track.number(1).expect("a number"), track.text(2)))
        .collect();
    let mut open: HashMap<u64, Vec<usize>> = HashMap::new();
    let mut found: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    let mut last: HashMap<u64, u64> = HashMap::new();
    for packet in packets {
        let Some(event) = packet.message(11) else {
            continue;
        };
        let (time, track) = (
            packet.number(8).expect("a time"),
            event.number(11).expect("a track"),
        );
        assert!(
            last.insert(track, time).is_none_or(|last| last <= time),
            "a track goes back"
        );
        let (found, open) = (
            found.entry(names[&track]).or_default(),
            open.entry(track).or_default(),
        );
        if event.number(9) == Some(1) {
            open.push(found.len());
            found.push((time, u64::MAX, open.len(), event.text(23)));
        } else {
            found[open.pop().expect("it was begun")].1 = time;
        }
    }
    assert!(open.values().all(Vec::is_empty), "a slice without an end");
    found
}

fn component(component: Component) -> &'static str {
    match component {
        Component::Timer => "timer",
        Component::Interrupt => "interrupt",
        Component::Expiry => "expiry",
        Component::Switch => "switch",
        _ => "other",
    }
}

fn holder(piece: &Piece) -> String {
    format!(
        "{:?} {} {:?}",
        piece.holder.cause, piece.holder.name, piece.known
    )
}

/// Returns the stored trace as a file for Perfetto, and the trace's wake-ups.
fn written() -> (Vec<u8>, Vec<WakeUp>) {
    let bytes =
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/application.dat"))
            .expect("it is kept");
    let file = TraceFile::parse(&bytes).expect("it is a trace.dat");
    let decoder = Decoder::new(&file.formats);
    let mut explainer = Explainer::new(
        Target::Names(vec!["my_loop".into()]),
        Facts::default(),
        &file.commands,
    );
    let (mut out, mut found) = (Vec::new(), Vec::new());
    let mut writer = Writer::new(&mut out, true);
    for item in Merge::new(
        file.buffer(None).expect("it has one"),
        &decoder,
        file.counter,
    ) {
        writer.item(&item).expect("memory takes it");
        explainer.take(&item);
        for wake_up in explainer.finished() {
            writer
                .wake_up(&wake_up, component, holder)
                .expect("memory takes it");
            found.push(wake_up);
        }
    }
    assert_eq!(
        writer.finish().expect("memory takes it"),
        LeftOut::default()
    );
    (out, found)
}

/// Returns the events with this name that trace-cmd prints: CPU, time in ns, fields.
fn printed(event: &str) -> Vec<(u64, u64, String)> {
    let bytes = std::fs::read(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/application.report.gz"),
    )
    .expect("it is kept");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&bytes[..])
        .read_to_string(&mut text)
        .expect("it is text");
    let line = |line: &str| {
        let (_, rest) = line.split_once(" [")?;
        let (cpu, rest) = rest.split_once("] ")?;
        let (time, rest) = rest.trim_start().split_once(": ")?;
        let fields = rest.trim().strip_prefix(event)?.strip_prefix(':')?;
        let (seconds, nanos) = time.split_once('.')?;
        let time =
            seconds.trim().parse::<u64>().ok()? * 1_000_000_000 + nanos.parse::<u64>().ok()?;
        Some((cpu.parse().ok()?, time, fields.trim().to_owned()))
    };
    let mut lines: Vec<_> = text.lines().filter_map(line).collect();
    lines.sort();
    lines
}

/// Returns the events with this name in the file for Perfetto, in the same form. `fields` writes an
/// event in the form of trace-cmd.
fn of_kind(
    events: &[(u64, Message<'_>)],
    field: u64,
    fields: impl Fn(&Message<'_>) -> String,
) -> Vec<(u64, u64, String)> {
    let of = |(cpu, event): &(u64, Message<'_>)| {
        Some((*cpu, event.number(1)?, fields(&event.message(field)?)))
    };
    let mut found: Vec<_> = events.iter().filter_map(of).collect();
    found.sort();
    found
}

#[test]
fn events_are_those_that_trace_cmd_prints_field_by_field() {
    let (file, _) = written();
    let events = kernel_events(&packets(&file));
    let switches = of_kind(&events, 4, |event| {
        let from = format!(
            "prev_comm={} prev_pid={} prev_prio={}",
            event.text(1),
            event.signed(2),
            event.signed(3)
        );
        let to = format!(
            "next_comm={} next_pid={} next_prio={}",
            event.text(5),
            event.signed(6),
            event.signed(7)
        );
        format!("{from} prev_state={} {to}", event.signed(4))
    });
    assert_eq!(switches.len(), 2117);
    assert_eq!(switches, printed("sched_switch"));
    let wakings = of_kind(&events, 20, |event| {
        format!(
            "comm={} pid={} prio={} target_cpu={:03}",
            event.text(1),
            event.signed(2),
            event.signed(3),
            event.signed(5)
        )
    });
    assert_eq!(wakings.len(), 1089);
    assert_eq!(wakings, printed("sched_waking"));
    for (field, name, count) in [
        (24, "softirq_entry", 106),
        (25, "softirq_exit", 106),
        (26, "softirq_raise", 106),
    ] {
        let found = of_kind(&events, field, |event| format!("vec={}", event.signed(1)));
        assert_eq!(found.len(), count);
        assert_eq!(found, printed(name));
    }
    // The schema has the vector's number, but the trace's reader knows the vector by its name.
    for (field, name) in [(559, "local_timer_entry"), (560, "local_timer_exit")] {
        let found: Vec<_> = of_kind(&events, field, |_| String::new())
            .into_iter()
            .map(|(cpu, time, _)| (cpu, time))
            .collect();
        let printed: Vec<_> = printed(name)
            .into_iter()
            .map(|(cpu, time, _)| (cpu, time))
            .collect();
        assert_eq!((found.len(), &found), (1086, &printed));
    }
    // Every event names the thread that wrote it, and the file contains no further events.
    assert!(events.iter().all(|(_, event)| event.number(2).is_some()));
    assert_eq!(events.len(), 2117 + 1089 + 3 * 106 + 2 * 1086);
}

#[test]
fn slices_are_the_pieces_of_each_wake_up_and_add_up_to_its_lateness() {
    let (file, wake_ups) = written();
    let slices = slices(&packets(&file));
    assert_eq!(slices.len(), 1, "{:?}", slices.keys());
    let (name, slices) = slices.iter().next().expect("there is one");
    assert_eq!(
        *name,
        format!("my_loop {}: from due to running", wake_ups[0].thread.pid)
    );
    let mut expected = Vec::new();
    for wake_up in &wake_ups {
        expected.push((
            wake_up.due,
            wake_up.ran,
            1,
            format!("late by {} ns", wake_up.lateness()),
        ));
        let mut part = None;
        for piece in &wake_up.pieces {
            if part != Some(piece.component) {
                part = Some(piece.component);
                let end = wake_up
                    .pieces
                    .iter()
                    .filter(|other| part == Some(other.component))
                    .map(|other| other.end)
                    .max();
                expected.push((
                    piece.start,
                    end.expect("it has this one"),
                    2,
                    component(piece.component).to_owned(),
                ));
            }
            expected.push((piece.start, piece.end, 3, holder(piece)));
        }
    }
    let found: Vec<_> = slices
        .iter()
        .map(|&(begin, end, depth, name)| (begin, end, depth, name.to_owned()))
        .collect();
    assert_eq!(found, expected);
    for depth in [1, 2, 3] {
        let sum: u64 = slices
            .iter()
            .filter(|slice| slice.2 == depth)
            .map(|slice| slice.1 - slice.0)
            .sum();
        assert_eq!(
            sum,
            wake_ups.iter().map(WakeUp::lateness).sum::<u64>(),
            "at depth {depth}"
        );
    }
}

#[test]
fn stamps_of_the_monotonic_clock_are_said_to_be_of_it() {
    let (file, _) = written();
    let snapshots: Vec<_> = packets(&file)
        .iter()
        .filter_map(|packet| packet.message(6))
        .collect();
    assert_eq!(snapshots.len(), 1);
    assert_eq!(
        snapshots[0].number(2),
        Some(3),
        "the monotonic clock is the primary one"
    );
    let clocks: Vec<_> = snapshots[0]
        .all(1)
        .map(Message::read)
        .map(|clock| (clock.number(1), clock.number(2)))
        .collect();
    assert_eq!(
        clocks,
        [(Some(6), clocks[0].1), (Some(3), clocks[0].1)],
        "boot time is set equal to it"
    );
    let mut other = Vec::new();
    let mut writer = Writer::new(&mut other, false);
    writer
        .item(&Item::Event(idle(5, 0)))
        .expect("memory takes it");
    writer.finish().expect("memory takes it");
    assert!(
        packets(&other)
            .iter()
            .all(|packet| packet.message(6).is_none()),
        "another clock is not mentioned"
    );
}

fn idle(time: u64, cpu: u32) -> Event {
    Event {
        time,
        cpu,
        head: Head {
            flags: 0,
            preempt_count: 0,
            pid: -1,
        },
        kind: Kind::CpuIdle { state: None },
    }
}

fn wake_up(due: u64, ran: u64) -> WakeUp {
    let thread = Thread {
        pid: 7,
        priority: 120,
        name: "my_loop".into(),
    };
    WakeUp {
        thread,
        due,
        due_from: DueFrom::Timer,
        waker: Waker::Interrupt,
        interrupt: None,
        expiry: None,
        waking: ran,
        waking_cpu: 0,
        ran,
        first_sign: None,
        cpu: 0,
        pieces: vec![],
    }
}

#[test]
fn wake_ups_that_overlap_lie_side_by_side() {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, true);
    // The second wake-up is due before the thread ran for the first one. The third wake-up fits on
    // the track of the first one, because it starts when the first one has ended.
    for (due, ran) in [(10, 30), (20, 40), (30, 50)] {
        writer
            .wake_up(&wake_up(due, ran), component, holder)
            .expect("memory takes it");
    }
    assert_eq!(
        writer.finish().expect("memory takes it"),
        LeftOut::default()
    );
    let packets = packets(&file);
    assert_eq!(
        packets
            .iter()
            .filter(|packet| packet.message(60).is_some())
            .count(),
        2,
        "two tracks"
    );
    let found: Vec<_> = slices(&packets)["my_loop 7: from due to running"]
        .iter()
        .map(|slice| (slice.0, slice.1, slice.2))
        .collect();
    assert_eq!(found, [(10, 30, 1), (20, 40, 1), (30, 50, 1)]);
}

#[test]
fn what_perfetto_would_refuse_is_left_out_and_counted() {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, false);
    for cpu in [1023, 1024, u32::MAX] {
        writer
            .item(&Item::Event(idle(5, cpu)))
            .expect("memory takes it");
    }
    for ran in 1..=18 {
        writer
            .wake_up(&wake_up(0, ran), component, holder)
            .expect("memory takes it");
    }
    assert_eq!(
        writer.finish().expect("memory takes it"),
        LeftOut {
            events: 2,
            wake_ups: 2
        }
    );
    assert_eq!(
        kernel_events(&packets(&file))
            .iter()
            .map(|(cpu, _)| *cpu)
            .collect::<Vec<_>>(),
        [1023]
    );
}

#[test]
fn a_place_where_events_were_lost_is_marked_between_those_before_and_after() {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, false);
    for item in [
        Item::Event(idle(1, 0)),
        Item::Lost {
            cpu: 0,
            time: 2,
            count: None,
        },
        Item::Event(idle(3, 0)),
        Item::Lost {
            cpu: 4096,
            time: 4,
            count: None,
        },
    ] {
        writer.item(&item).expect("memory takes it");
    }
    writer.finish().expect("memory takes it");
    let packets = packets(&file);
    let bundles: Vec<_> = packets
        .iter()
        .filter_map(|packet| packet.message(1))
        .map(|bundle| (bundle.number(3), bundle.all(2).count()))
        .collect();
    assert_eq!(bundles, [(None, 1), (Some(1), 1)]);
    // In a damaged trace, thread IDs may be negative. All 64 bits of negative IDs are written.
    assert!(
        kernel_events(&packets)
            .iter()
            .all(|(_, event)| event.signed(2) == -1)
    );
}

/// Discards the written bytes, and stores the length of the longest single write.
#[derive(Default)]
struct Meter {
    most: usize,
}

impl Write for &mut Meter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.most = self.most.max(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_long_trace_is_written_in_pieces() {
    let mut meter = Meter::default();
    let mut writer = Writer::new(&mut meter, true);
    for time in 0..200_000 {
        writer
            .item(&Item::Event(idle(time, (time % 3) as u32)))
            .expect("the meter takes it");
    }
    writer.finish().expect("the meter takes it");
    assert!(
        meter.most > 100_000 && meter.most < 2 << 20,
        "{}",
        meter.most
    );
}
