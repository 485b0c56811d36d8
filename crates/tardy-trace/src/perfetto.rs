//! Writes a trace for Perfetto (protos/perfetto/trace/trace.proto): the schedule as kernel events,
//! and a track for each explained thread. The track has a slice for each wake-up. This slice
//! contains a slice for each component of the latency, and each of those contains a slice for each
//! holder of the CPU.
//!
//! Packets are written while the trace is read. Their order need not be exact, because Perfetto
//! sorts packets by time when it opens the file. So the memory for events that wait to be written
//! is bounded.

mod ftrace;
mod message;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use serde::Serialize;

use self::message::Message;
use crate::event::{Event, Thread};
use crate::explain::{Component, Piece, WakeUp};
use crate::merge::Item;

/// Perfetto refuses files with more CPUs than this.
const CPUS_MAX: u32 = 1024;
/// Events are collected until those of all CPUs together exceed this size in bytes. Then all
/// collected events are written, in one packet for each CPU.
const WAITING_BYTES_MAX: usize = 1 << 20;
/// Maximum number of tracks of one thread; wake-ups that overlap need different tracks.
const LANES_MAX: usize = 16;
/// Numbers of the two sequences of packets: one has the kernel's events, the other has tracks.
const KERNEL: u64 = 1;
const TRACKS: u64 = 2;
/// BUILTIN_CLOCK_* of the schema.
const MONOTONIC: u64 = 3;
const BOOT: u64 = 6;
/// `TrackEvent.Type`.
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;

/// Writes a trace.
pub struct Writer<W> {
    out: W,
    is_monotonic: bool,
    has_begun: bool,
    bundles: BTreeMap<u32, Bundle>,
    waiting_bytes: usize,
    /// For each thread: when the last wake-up on each of its tracks ended.
    lanes: HashMap<i32, Vec<u64>>,
    left_out: LeftOut,
}

/// The events of one CPU that are not yet written.
#[derive(Default)]
struct Bundle {
    events: Message,
    is_lost: bool,
}

/// What the file leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct LeftOut {
    /// Events of CPUs whose number Perfetto refuses.
    pub events: u64,
    /// Wake-ups that overlap with too many other wake-ups of the same thread: there are at most 16
    /// tracks.
    pub wake_ups: u64,
}

impl<W: Write> Writer<W> {
    /// Creates the writer for a file. `is_monotonic` states whether the trace uses the monotonic
    /// clock.
    pub fn new(out: W, is_monotonic: bool) -> Self {
        Self {
            out,
            is_monotonic,
            has_begun: false,
            bundles: BTreeMap::new(),
            waiting_bytes: 0,
            lanes: HashMap::new(),
            left_out: LeftOut::default(),
        }
    }

    /// Processes the next item of the stream.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn item(&mut self, item: &Item) -> io::Result<()> {
        if !std::mem::replace(&mut self.has_begun, true) && self.is_monotonic {
            self.clocks(item.time())?;
        }
        match item {
            Item::Event(event) => self.event(event),
            Item::Lost { cpu, .. } if *cpu < CPUS_MAX => {
                // Lost events can only be marked at the start of a bundle of events.
                self.flush()?;
                self.bundles.entry(*cpu).or_default().is_lost = true;
                Ok(())
            }
            Item::Lost { .. } => Ok(()),
        }
    }

    /// Writes a wake-up. `component` and `holder` return the names that slices get.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn wake_up(
        &mut self,
        wake_up: &WakeUp,
        component: impl Fn(Component) -> &'static str,
        holder: impl Fn(&Piece) -> String,
    ) -> io::Result<()> {
        let Some(track) = self.track(wake_up)? else {
            self.left_out.wake_ups += 1;
            return Ok(());
        };
        self.begin(
            track,
            wake_up.due,
            &format!("late by {} ns", wake_up.lateness()),
        )?;
        for part in wake_up
            .pieces
            .chunk_by(|one, next| one.component == next.component)
        {
            let (first, last) = (&part[0], &part[part.len() - 1]);
            self.begin(track, first.start, component(first.component))?;
            for piece in part {
                self.begin(track, piece.start, &holder(piece))?;
                self.end(track, piece.end)?;
            }
            self.end(track, last.end)?;
        }
        self.end(track, wake_up.ran)
    }

    /// Writes the events that were collected.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn finish(mut self) -> io::Result<LeftOut> {
        self.flush()?;
        self.out.flush()?;
        Ok(self.left_out)
    }

    /// Writes how the clocks are related. Perfetto assumes that the times of kernel events are on
    /// the boot-time clock. The trace does not contain the difference between the clocks, which is
    /// the time for which the machine was suspended. So both clocks are set equal, and all times
    /// shown are of the monotonic clock.
    fn clocks(&mut self, time: u64) -> io::Result<()> {
        let clock = |id| Message::default().number(1, id).number(2, time);
        let snapshot = Message::default()
            .message(1, &clock(BOOT))
            .message(1, &clock(MONOTONIC))
            .number(2, MONOTONIC);
        self.packet(&Message::default().message(6, &snapshot).number(10, TRACKS))
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        let Some(written) = ftrace::event(event) else {
            return Ok(());
        };
        if event.cpu >= CPUS_MAX {
            self.left_out.events += 1;
            return Ok(());
        }
        self.waiting_bytes += written.bytes().len();
        self.bundles
            .entry(event.cpu)
            .or_default()
            .events
            .put(2, written.bytes());
        if self.waiting_bytes > WAITING_BYTES_MAX {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.waiting_bytes = 0;
        for (cpu, bundle) in std::mem::take(&mut self.bundles) {
            let mut head = Message::default().number(1, cpu.into());
            if bundle.is_lost {
                head = head.number(3, 1);
            }
            head.append(&bundle.events);
            self.packet(&Message::default().message(1, &head).number(10, KERNEL))?;
        }
        Ok(())
    }

    /// Returns the track on which a wake-up is drawn. Slices of one track must not overlap. But a
    /// wake-up may be due before the thread has run for the previous wake-up, so a thread may need
    /// several tracks.
    fn track(&mut self, wake_up: &WakeUp) -> io::Result<Option<u64>> {
        let lanes = self.lanes.entry(wake_up.thread.pid).or_default();
        let lane = lanes
            .iter()
            .position(|&end| end <= wake_up.due)
            .unwrap_or(lanes.len());
        if lane == LANES_MAX {
            return Ok(None);
        }
        // Numbers start at 1, because 0 means that there is no track.
        let track = (u64::from(wake_up.thread.pid.cast_unsigned()) << 8) + lane as u64 + 1;
        if lane < lanes.len() {
            lanes[lane] = wake_up.ran;
            return Ok(Some(track));
        }
        lanes.push(wake_up.ran);
        self.describe(track, wake_up.thread)?;
        Ok(Some(track))
    }

    fn describe(&mut self, track: u64, thread: Thread) -> io::Result<()> {
        let name = format!("{} {}: from due to running", thread.name, thread.pid);
        let track = Message::default().number(1, track).text(2, &name);
        self.packet(&Message::default().message(60, &track).number(10, TRACKS))
    }

    fn begin(&mut self, track: u64, time: u64, name: &str) -> io::Result<()> {
        self.slice(
            time,
            &Message::default()
                .number(9, SLICE_BEGIN)
                .number(11, track)
                .text(23, name),
        )
    }

    fn end(&mut self, track: u64, time: u64) -> io::Result<()> {
        self.slice(
            time,
            &Message::default().number(9, SLICE_END).number(11, track),
        )
    }

    fn slice(&mut self, time: u64, event: &Message) -> io::Result<()> {
        // Slices use the same clock as the kernel's events, so that both are aligned, whatever the
        // clock is.
        self.packet(
            &Message::default()
                .number(8, time)
                .number(58, BOOT)
                .message(11, event)
                .number(10, TRACKS),
        )
    }

    fn packet(&mut self, packet: &Message) -> io::Result<()> {
        let mut framed = Message::default();
        framed.put(1, packet.bytes());
        self.out.write_all(framed.bytes())
    }
}
