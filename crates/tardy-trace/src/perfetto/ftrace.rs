//! Converts kernel events to the form that Perfetto's schema defines
//! (protos/perfetto/trace/ftrace).

use super::message::Message;
use crate::event::{Event, Kind};

/// Converts an event to `FtraceEvent`. Returns `None` if the tracks with the schedule do not need
/// the event, or if the schema does not have it.
pub(super) fn event(event: &Event) -> Option<Message> {
    let new = Message::default;
    let number = |vector: i64| new().signed(1, vector);
    // Perfetto reads events fastest if their first fields are the time and then the thread.
    let head = new().number(1, event.time).signed(2, event.head.pid.into());
    let (field, body) = match event.kind {
        Kind::Switch {
            previous,
            previous_state,
            next,
        } => {
            let from = new()
                .text(1, previous.name.as_str())
                .signed(2, previous.pid.into())
                .signed(3, previous.priority.into());
            let to = from.signed(4, previous_state).text(5, next.name.as_str());
            (
                4,
                to.signed(6, next.pid.into())
                    .signed(7, next.priority.into()),
            )
        }
        Kind::Waking { thread, target_cpu } => {
            let woken = new()
                .text(1, thread.name.as_str())
                .signed(2, thread.pid.into())
                .signed(3, thread.priority.into());
            (20, woken.signed(5, target_cpu.into()))
        }
        Kind::SoftirqEntry { vector } => (24, number(vector)),
        Kind::SoftirqExit { vector } => (25, number(vector)),
        Kind::SoftirqRaise { vector } => (26, number(vector)),
        Kind::IrqEntry { irq, name } => (36, number(irq).text(2, name.as_str())),
        Kind::IrqExit { irq, returned } => (37, number(irq).signed(2, returned)),
        // The schema has only this CPU-local interrupt.
        Kind::VectorEntry { name } if name.as_str() == "local_timer" => (559, new()),
        Kind::VectorExit { name } if name.as_str() == "local_timer" => (560, new()),
        Kind::CpuIdle { state } => (
            13,
            new()
                .number(1, state.unwrap_or(u32::MAX).into())
                .number(2, event.cpu.into()),
        ),
        _ => return None,
    };
    Some(head.message(field, &body))
}
