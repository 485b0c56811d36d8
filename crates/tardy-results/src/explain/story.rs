//! One wake-up with its complete explanation: the events on its path, and the holders of the CPU.
//! Times are in ns from the due time.

use serde::Serialize;
use tardy_trace::explain::{Component, DueFrom, WakeUp, Waker};
use tardy_trace::symbols::Symbols;

use super::HolderFacts;
use super::words::named;

/// A wake-up with its complete explanation.
#[derive(Debug, Serialize)]
pub struct Story {
    /// ID of the thread.
    pub pid: i32,
    /// The CPU on which the thread ran.
    pub cpu: u32,
    /// Due time of the wake-up, in ns of the trace's clock.
    pub due_ns: u64,
    /// Where the due time comes from: the timer, a fitted period, or, if there is neither, the
    /// wake-up itself.
    pub due_from: DueFrom,
    /// What woke the thread.
    pub waker: String,
    /// Time from the due time until the thread ran.
    pub lateness_ns: u64,
    /// Time from the due time to the thread's first event, in ns; present only if the trace has no
    /// switch to the thread. This time is an upper bound of the latency.
    pub first_sign_ns: Option<u64>,
    /// Events on the path of the wake-up, in chronological order.
    pub marks: Vec<Mark>,
    /// The pieces of the latency, in chronological order and without gaps.
    pub pieces: Vec<StoryPiece>,
}

/// An event on the path of a wake-up.
#[derive(Debug, Serialize)]
pub struct Mark {
    /// Time of the event, in ns from the due time.
    pub at_ns: u64,
    /// A text that describes the event.
    pub what: &'static str,
}

/// A part of the latency, with the holder of the CPU.
#[derive(Debug, Serialize)]
pub struct StoryPiece {
    /// Start of the piece, in ns from the due time.
    pub start_ns: u64,
    pub length_ns: u64,
    /// The component of the latency.
    pub component: Component,
    pub cpu: u32,
    /// The holder of the CPU.
    #[serde(flatten)]
    pub holder: HolderFacts,
    /// The functions that the timer interrupt interrupted, innermost first; empty if no stack was
    /// recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
    /// The functions in which the holder finally gave up the CPU, innermost first; empty if no
    /// stack was recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<String>,
}

impl Story {
    pub(super) fn of(wake_up: &WakeUp, symbols: &Symbols) -> Self {
        let since = |time: u64| time.saturating_sub(wake_up.due);
        let ran = if wake_up.first_sign.is_some() {
            "last event before the thread runs"
        } else {
            "the thread runs"
        };
        let times = [
            (Some(wake_up.due), "due"),
            (wake_up.interrupt, "timer interrupt"),
            (wake_up.expiry, "the timer's function"),
            (Some(wake_up.waking), "waking"),
            (Some(wake_up.ran), ran),
        ];
        // Without a timer, a wake-up is due when the thread is woken.
        let times = if wake_up.due_from == DueFrom::Waking {
            &times[3..]
        } else {
            &times[..]
        };
        Self {
            pid: wake_up.thread.pid,
            cpu: wake_up.cpu,
            due_ns: wake_up.due,
            due_from: wake_up.due_from,
            waker: match wake_up.waker {
                Waker::Timer(address) => format!("timer ({})", symbols.name_or_address(address)),
                Waker::Interrupt => "interrupt".to_owned(),
                Waker::Softirq => "softirq".to_owned(),
                Waker::Thread(thread) => named(thread),
            },
            lateness_ns: wake_up.lateness(),
            first_sign_ns: wake_up.first_sign.map(since),
            marks: times
                .iter()
                .filter_map(|&(time, what)| {
                    Some(Mark {
                        at_ns: since(time?),
                        what,
                    })
                })
                .collect(),
            pieces: wake_up
                .pieces
                .iter()
                .map(|piece| StoryPiece {
                    start_ns: since(piece.start),
                    length_ns: piece.length(),
                    component: piece.component,
                    cpu: piece.cpu,
                    holder: HolderFacts::of(&piece.holder, piece.known, symbols),
                    stack: Vec::new(),
                    ended: Vec::new(),
                })
                .collect(),
        }
    }
}
