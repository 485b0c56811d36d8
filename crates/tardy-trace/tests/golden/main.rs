//! Tests that the golden traces are decoded and explained in the same way as when they were
//! recorded. For each kernel series, one trace is from `run --explain` and one from `attach`. See
//! ../data/kernels/README.md.

mod formats;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};

use formats::{Formats, SHARED, Shape};
use tardy_trace::event::{Decoder, Event, Kind};
use tardy_trace::explain::{Certainty, Explainer, Facts, Target};
use tardy_trace::file::TraceFile;
use tardy_trace::merge::{Item, Merge};
use tardy_trace::page::Page;
use tardy_trace::symbols::Symbols;
use tardy_trace::timers::{ClockOffsets, TimerKind};
use tardy_trace::wake_ups::{Parts, WakeUpWatch};

const KERNELS: [&str; 10] = [
    "5.10", "5.10-rt", "6.1", "6.1-rt", "6.12", "6.12-rt", "7.2", "7.2-rt", "7.3", "7.3-rt",
];
/// The commands that recorded the traces of each kernel.
const COMMANDS: [&str; 2] = ["run", "attach"];
/// The thread whose wake-ups are explained.
const THREAD: &str = "cyclic/0";
/// Bits of `common_flags` (include/linux/trace_events.h). Bit 1 is a lazy request to reschedule on
/// 6.12-rt and since Linux 6.13; elsewhere, it means that the architecture does not know whether
/// IRQs were off.
const FLAGS: [&str; 8] = [
    "IRQs off",
    "lazy reschedule",
    "reschedule",
    "interrupt",
    "softirq",
    "preempt reschedule",
    "NMI",
    "bottom halves off",
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/kernels")
}

fn golden(kernel: &str, command: &str) -> Vec<u8> {
    let path = folder().join(format!("{kernel}-{command}.dat.gz"));
    let file =
        std::fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(file)
        .read_to_end(&mut bytes)
        .expect("it is whole");
    bytes
}

/// Returns the items of all buffers, in order of time.
fn items(file: &TraceFile<'_>) -> Vec<Item> {
    let decoder = Decoder::new(&file.formats);
    let mut items = Vec::new();
    for buffer in &file.buffers {
        let mut merge = Merge::new(buffer, &decoder, file.counter);
        items.extend(&mut merge);
        assert!(merge.damage().is_empty(), "{:?}", merge.damage());
    }
    items.sort_by_key(Item::time);
    items
}

/// Counts rows by their text, and sums the values.
#[derive(Default)]
struct Table(BTreeMap<String, (u64, u64)>);

impl Table {
    fn add(&mut self, row: String, value: u64) {
        let (count, sum) = self.0.entry(row).or_default();
        *count += 1;
        *sum += value;
    }

    fn write(&self, title: &str, text: &mut String) {
        let _ = writeln!(text, "\n{title}");
        for (row, (count, sum)) in &self.0 {
            let sum = if *sum == 0 {
                String::new()
            } else {
                sum.to_string()
            };
            let line = format!("{count:>6} {sum:>12}  {row}");
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
}

/// Returns the kind of an event, with those of its values that decide how the event is handled.
fn row(kind: &Kind, symbols: &Symbols) -> String {
    let function = |address: &u64| symbols.name(*address).unwrap_or("?").to_owned();
    match kind {
        Kind::Switch { previous_state, .. } => format!("Switch from state {previous_state}"),
        Kind::Waking { target_cpu, .. } => format!("Waking on CPU {target_cpu}"),
        Kind::TimerStart {
            function: called,
            mode,
            ..
        } => {
            format!("TimerStart of {}, mode {mode:?}", function(called))
        }
        Kind::TimerExpireEntry {
            function: called, ..
        } => {
            format!("TimerExpireEntry of {}", function(called))
        }
        Kind::WorkStart { function: called } => format!("WorkStart of {}", function(called)),
        Kind::TimerCancel { .. } => "TimerCancel".to_owned(),
        Kind::TimerExpireExit { .. } => "TimerExpireExit".to_owned(),
        Kind::PageFault { is_user, .. } => format!("PageFault of a user: {is_user}"),
        Kind::Migrate { to_cpu, .. } => format!("Migrate to CPU {to_cpu}"),
        Kind::Nmi { .. } => "Nmi".to_owned(),
        Kind::Stack { .. } => "Stack".to_owned(),
        few => format!("{few:?}"),
    }
}

fn count_events(items: &[Item], symbols: &Symbols, text: &mut String) {
    let (mut kinds, mut heads) = (Table::default(), Table::default());
    for item in items {
        let Item::Event(Event { head, kind, .. }) = item else {
            kinds.add("lost".to_owned(), 0);
            continue;
        };
        kinds.add(row(kind, symbols), 0);
        let bits = (0..8).filter(|bit| head.flags >> bit & 1 != 0);
        let mut words: Vec<_> = bits.map(|bit| FLAGS[bit].to_owned()).collect();
        words.push(format!("preemption off {} times", head.preempt_depth()));
        heads.add(words.join(", "), 0);
    }
    kinds.write("events", text);
    heads.write("contexts of events", text);
}

/// Explains the wake-ups of [`THREAD`] as `tardy explain` does.
fn explain_wake_ups(items: &[Item], text: &mut String) {
    let mut explainer = Explainer::new(
        Target::Names(vec![THREAD.into()]),
        Facts::default(),
        &HashMap::new(),
    );
    let (mut wake_ups, mut pieces) = (Table::default(), Table::default());
    for item in items {
        explainer.take(item);
        for wake_up in explainer.finished() {
            wake_ups.add(
                format!("due from {:?}", wake_up.due_from),
                wake_up.lateness(),
            );
            for piece in wake_up.pieces {
                let known = match piece.known {
                    Certainty::CannotTell(other) => format!("or {other:?}"),
                    known => format!("{known:?}"),
                };
                let holder = piece.holder;
                let row = format!(
                    "{:?} {:?} {known} {} {}",
                    piece.component,
                    holder.cause,
                    holder.name,
                    holder
                        .priority
                        .map_or_else(String::new, |priority| priority.to_string()),
                );
                pieces.add(row, piece.end - piece.start);
            }
        }
    }
    wake_ups.write(
        &format!("wake-ups of {THREAD}, with their latency in ns"),
        text,
    );
    pieces.write("causes and holders, with their length in ns", text);
    let _ = writeln!(text, "{:?}", explainer.rules());
}

/// Measures the wake-ups of all threads named in the trace, as `tardy attach` does.
fn measure_wake_ups(file: &TraceFile<'_>, items: &[Item], text: &mut String) {
    let timers: BTreeSet<u64> = items
        .iter()
        .filter_map(|item| match item {
            Item::Event(Event {
                kind: Kind::TimerStart { function, .. },
                ..
            }) => Some(*function),
            _ => None,
        })
        .collect();
    let kinds = timers.into_iter().filter_map(|function| {
        let name = file.symbols.name(function)?;
        let kind = TimerKind::ALL
            .into_iter()
            .find(|kind| kind.function() == name)?;
        Some((function, kind))
    });
    let mut watch = WakeUpWatch::new(kinds);
    watch.set_offsets(ClockOffsets::default());
    file.commands
        .keys()
        .for_each(|&thread| watch.follow(thread));
    let (mut wake_ups, mut parts) = (Table::default(), Table::default());
    for item in items {
        watch.take(item);
        for wake_up in watch.finished() {
            let row = format!("{:?} by {:?}", wake_up.start, wake_up.cause.waker());
            wake_ups.add(row, wake_up.lateness().unsigned_abs());
            for (name, part) in Parts::NAMES.iter().zip(wake_up.parts.values()) {
                parts.add((*name).to_owned(), part.unsigned_abs());
            }
        }
    }
    watch.finish();
    wake_ups.write("measured wake-ups, with their latency in ns", text);
    parts.write("parts of their latency in ns", text);
    for kind in TimerKind::ALL {
        let _ = writeln!(text, "{}: {:?}", kind.word(), watch.counts(kind));
    }
    let _ = writeln!(text, "{:?}", watch.wakings());
}

#[test]
fn each_trace_is_explained_as_when_it_was_recorded() {
    for kernel in KERNELS {
        for command in COMMANDS {
            let bytes = golden(kernel, command);
            let file = TraceFile::parse(&bytes).expect("it is a trace.dat");
            let items = items(&file);
            let mut text = format!("{}\n", file.kernel.as_deref().unwrap_or_default());
            count_events(&items, &file.symbols, &mut text);
            explain_wake_ups(&items, &mut text);
            if command == "attach" {
                measure_wake_ups(&file, &items, &mut text);
            }
            insta::assert_snapshot!(format!("{kernel}-{command}"), text);
        }
    }
}

#[test]
fn every_golden_trace_is_tested() {
    let entries = std::fs::read_dir(folder()).expect("it is kept beside the tests");
    let names = entries.map(|entry| entry.expect("it can be listed").file_name());
    let mut there: Vec<_> = names
        .filter_map(|name| name.into_string().ok())
        .filter(|name| name.ends_with(".gz"))
        .collect();
    there.sort();
    let names = |kernel| COMMANDS.map(|command| format!("{kernel}-{command}.dat.gz"));
    let mut tested: Vec<_> = KERNELS.into_iter().flat_map(names).collect();
    tested.sort();
    assert_eq!(there, tested);
}

/// The facts about one field of an event, collected from the traces of all kernels.
#[derive(Default)]
struct SeenField {
    shapes: BTreeMap<Shape, Vec<&'static str>>,
    is_recorded: bool,
    is_read: bool,
}

impl SeenField {
    fn state(&self) -> &'static str {
        match (self.is_recorded, self.is_read) {
            (false, _) => "not recorded",
            (true, false) => "not read",
            (true, true) => "read",
        }
    }
}

/// Returns the data of all events.
fn records(file: &TraceFile<'_>) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    for buffer in &file.buffers {
        for chunk in buffer.cpus.iter().flat_map(|cpu| cpu.chunks()) {
            for page in chunk.expect("it is whole").chunks(buffer.layout.page_bytes) {
                let page = Page::new(page, buffer.layout).expect("it is a page");
                records.extend(page.map(|record| record.expect("an event").data.to_vec()));
            }
        }
    }
    records
}

/// Returns the fields of the recorded events, by event and field. For each field, the value is true
/// if the decoder reads it. The decoder reads a field if a different value in the field gives a
/// different decoded event.
fn reads(file: &TraceFile<'_>) -> BTreeMap<(String, String), bool> {
    let decoder = Decoder::new(&file.formats);
    let decoded = |data: &[u8]| {
        let stack = decoder.stack(data).map(Iterator::collect::<Vec<u64>>);
        (decoder.decode(0, 0, data), stack)
    };
    let mut found: BTreeMap<(String, String), bool> = BTreeMap::new();
    for mut data in records(file) {
        let id = u16::from_le_bytes([data[0], data[1]]);
        let format = file.formats.iter().find(|format| format.id == id);
        let format = format.expect("each event has a format");
        let event = format!("{}:{}", format.system, format.name);
        let original = decoded(&data);
        for field in &format.fields {
            let is_shared = field.name.starts_with("common_");
            let event = if is_shared { SHARED } else { &event };
            let is_read = found
                .entry((event.to_owned(), field.name.clone()))
                .or_default();
            if !*is_read && field.offset < data.len() {
                data[field.offset] ^= 1;
                *is_read = decoded(&data) != original;
                data[field.offset] ^= 1;
            }
        }
    }
    found
}

#[test]
fn each_field_of_each_kernel_is_read_as_when_it_was_recorded() {
    let mut events: BTreeMap<(String, String), SeenField> = BTreeMap::new();
    for kernel in KERNELS {
        let mut shapes = BTreeMap::new();
        for command in COMMANDS {
            let bytes = golden(kernel, command);
            let file = TraceFile::parse(&bytes).expect("it is a trace.dat");
            for (event, fields) in Formats::of(&file).0 {
                for (field, shape) in fields {
                    shapes.insert((event.clone(), field), shape);
                }
            }
            for (key, is_read) in reads(&file) {
                let seen = events.entry(key).or_default();
                seen.is_recorded = true;
                seen.is_read |= is_read;
            }
        }
        for (key, shape) in shapes {
            let seen = events.entry(key).or_default();
            seen.shapes.entry(shape).or_default().push(kernel);
        }
    }
    let (mut text, mut last) = (String::new(), "");
    for ((event, field), seen) in &events {
        if event != last {
            let _ = writeln!(text, "\n{event}");
        }
        last = event;
        for (shape, kernels) in &seen.shapes {
            let of = if kernels.len() == KERNELS.len() {
                String::new()
            } else {
                kernels.join(" ")
            };
            let line = format!("  {field:<25} {shape:<30} {:<12} {of}", seen.state());
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
    insta::assert_snapshot!("formats", text);
}

#[test]
fn changes_of_formats_are_named_field_by_field() {
    let of = |text: &str| {
        let format = tardy_trace::format::EventFormat::parse("timer", text).expect("a format");
        let bytes = golden("7.3", "run");
        let mut file = TraceFile::parse(&bytes).expect("it is a trace.dat");
        file.formats = vec![format];
        Formats::of(&file)
    };
    let field = |name: &str, offset, size| {
        format!("\tfield:u64 {name};\toffset:{offset};\tsize:{size};\tsigned:0;\n")
    };
    let start = |fields: &[(&str, u32, u32)]| {
        let fields = fields
            .iter()
            .map(|&(name, offset, size)| field(name, offset, size));
        let fields: String = fields.collect();
        format!(
            "name: hrtimer_start\nID: 7\n{}{fields}",
            field("common_pid", 4, 4)
        )
    };
    let old = of(&start(&[
        ("hrtimer", 8, 8),
        ("mode", 16, 4),
        ("gone", 20, 4),
    ]));
    let new = of(&start(&[
        ("hrtimer", 8, 8),
        ("mode", 16, 8),
        ("was_armed", 24, 1),
    ]));
    assert_eq!(old.changes(&old), Vec::<String>::new());
    assert_eq!(
        old.changes(&new),
        [
            "timer:hrtimer_start, gone: gone; it was unsigned, 4 bytes at 12",
            "timer:hrtimer_start, mode: unsigned, 8 bytes at 8; it was unsigned, 4 bytes at 8",
            "timer:hrtimer_start, was_armed: new, unsigned, 1 byte at 16",
        ]
    );
    let renamed = of(&start(&[]).replace("hrtimer_start", "hrtimer_setup"));
    assert_eq!(
        old.changes(&renamed),
        ["timer:hrtimer_start: gone", "timer:hrtimer_setup: new"]
    );
}
