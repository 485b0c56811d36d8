//! One complete wake-up: its marks and the holders of the CPU, in ns from its due time.

use serde::Serialize;
use tardy_trace::explain::{Component, DueFrom, WakeUp, Waker};
use tardy_trace::symbols::Symbols;

use super::HolderFacts;
use super::words::named;

/// A wake-up.
#[derive(Debug, Serialize)]
pub struct Story {
    /// The thread's number.
    pub pid: i32,
    /// The CPU that it ran on.
    pub cpu: u32,
    /// When it was due, in ns of the trace's clock.
    pub due_ns: u64,
    /// The source of the due time: the timer, or the wake-up as a substitute.
    pub due_from: DueFrom,
    /// The context that woke it.
    pub waker: String,
    /// Time from due to running.
    pub lateness_ns: u64,
    /// The first event of the thread if the trace lacks the switch, in ns from due: an upper bound
    /// of the latency.
    pub first_sign_ns: Option<u64>,
    /// In the order of time.
    pub marks: Vec<Mark>,
    /// In the order of time, without a gap.
    pub pieces: Vec<StoryPiece>,
}

/// A mark of the way.
#[derive(Debug, Serialize)]
pub struct Mark {
    /// In ns from due.
    pub at_ns: u64,
    /// What happened.
    pub what: &'static str,
}

/// An interval, and the holder of the CPU in it.
#[derive(Debug, Serialize)]
pub struct StoryPiece {
    /// In ns from due.
    pub start_ns: u64,
    pub length_ns: u64,
    /// The part of the way.
    pub component: Component,
    pub cpu: u32,
    /// Who.
    #[serde(flatten)]
    pub holder: HolderFacts,
    /// The functions that the timer interrupt found under way, the innermost first; empty if no
    /// stack was recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
    /// The functions that finally gave up the CPU.
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
        // A wake-up without a timer is due when it is woken.
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
