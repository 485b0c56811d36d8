//! Decodes scheduling events into values with named fields. If an event is of any other kind, only
//! the fields that all events share are decoded.

mod place;

use self::place::{Number, NumberKind, Place};
use crate::cpu_mask::CpuMask;
use crate::format::EventFormat;
use crate::text::Text;

/// An event of one CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event {
    /// Time of the event, in the unit of the trace's clock.
    pub time: u64,
    /// The CPU that wrote the event into the trace.
    pub cpu: u32,
    /// Fields that all events share.
    pub head: Head,
    /// The kind of the event.
    pub kind: Kind,
}

/// Fields that all events share. They describe the context in which the event was written. The
/// first event of an interrupt is an exception: it describes the interrupted context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Head {
    /// TRACE_FLAG_* of include/linux/trace_events.h.
    pub flags: u8,
    /// The low four bits contain the nesting depth of sections with preemption off.
    pub preempt_count: u8,
    /// ID of the thread on the CPU, in the initial PID namespace; 0 is the idle thread.
    pub pid: i32,
}

impl Head {
    /// Returns whether interrupts were off.
    #[must_use]
    pub fn is_irqs_off(self) -> bool {
        self.flags & 0x01 != 0
    }

    /// Returns whether the thread was asked to give up the CPU.
    #[must_use]
    pub fn is_reschedule_wanted(self) -> bool {
        self.flags & 0x04 != 0
    }

    /// Returns whether a hard interrupt was being served.
    #[must_use]
    pub fn is_in_interrupt(self) -> bool {
        self.flags & 0x08 != 0
    }

    /// Returns whether a softirq was being served.
    #[must_use]
    pub fn is_in_softirq(self) -> bool {
        self.flags & 0x10 != 0
    }

    /// Returns whether a non-maskable interrupt was being served.
    #[must_use]
    pub fn is_in_nmi(self) -> bool {
        self.flags & 0x40 != 0
    }

    /// Returns how many nested sections had preemption off. On newer kernels, the bits above the
    /// fourth count sections with migration off.
    #[must_use]
    pub fn preempt_depth(self) -> u8 {
        self.preempt_count & 0x0f
    }
}

/// What the scheduler knows of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Thread {
    /// The thread's ID in the initial PID namespace.
    pub pid: i32,
    /// The kernel's priority, the smaller the more urgent: -1 deadline, 0 to 98 real-time (99 -
    /// priority), 100 to 139 all others.
    pub priority: i32,
    /// The thread's name, as the kernel stores it.
    pub name: Text,
}

/// The kind of an event, with those of its fields that are used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Another thread got the CPU.
    Switch {
        /// The thread that had the CPU until then.
        previous: Thread,
        /// Why this thread lost the CPU: 0 if it was still runnable, otherwise TASK_* of
        /// include/linux/sched.h.
        previous_state: i64,
        /// The thread that has the CPU now.
        next: Thread,
    },
    /// A thread is being woken.
    Waking {
        /// The woken thread.
        thread: Thread,
        /// The CPU on which the thread last ran, or will run next.
        target_cpu: u32,
    },
    /// A thread moves to another CPU.
    Migrate {
        /// The moved thread.
        pid: i32,
        /// The CPU to which the thread moves.
        to_cpu: u32,
    },
    /// A handler starts to serve an interrupt of a device.
    IrqEntry {
        /// Number of the interrupt.
        irq: i64,
        /// Name of the handler.
        name: Text,
    },
    /// A handler of a device's interrupt has returned.
    IrqExit {
        /// Number of the interrupt.
        irq: i64,
        /// Return value of the handler: IRQ_* of include/linux/irqreturn.h. Bit 0 means that the
        /// interrupt came from this handler's device.
        returned: i64,
    },
    /// The CPU starts to serve a CPU-local interrupt, such as `local_timer` or `reschedule`.
    VectorEntry {
        /// Name of the event.
        name: Text,
    },
    /// The CPU has served a CPU-local interrupt.
    VectorExit {
        /// Name of the event.
        name: Text,
    },
    /// A CPU sends an interrupt to another CPU.
    IpiSend {
        /// The target CPU.
        cpu: u32,
    },
    /// A CPU sends an interrupt to several CPUs.
    IpiSendMany {
        /// The target CPUs.
        cpus: CpuMask,
    },
    /// A function is queued for another CPU, which runs it when the next interrupt from another CPU
    /// arrives.
    FunctionQueue {
        /// The other CPU.
        cpu: u32,
        /// The function's address.
        function: u64,
    },
    /// A softirq was raised.
    SoftirqRaise {
        /// Number of the softirq.
        vector: i64,
    },
    /// The CPU starts to serve a softirq.
    SoftirqEntry {
        /// Number of the softirq.
        vector: i64,
    },
    /// The CPU has served a softirq.
    SoftirqExit {
        /// Number of the softirq.
        vector: i64,
    },
    /// A timer is set.
    TimerStart {
        /// Address of the timer.
        timer: u64,
        /// The function that the timer calls.
        function: u64,
        /// Latest time at which the timer may expire, in ns on the timer's clock.
        expires: i64,
        /// Earliest expiry: the time the program asked for, without slack.
        soft_expires: i64,
        /// HRTIMER_MODE_* of include/linux/hrtimer.h; bit 0 means a time relative to now.
        mode: Option<i64>,
    },
    /// A CPU calls a timer's function.
    TimerExpireEntry {
        /// Address of the timer.
        timer: u64,
        /// The function that is called.
        function: u64,
        /// The time that the interrupt read from the timer's own clock, in ns.
        now: i64,
    },
    /// A timer's function has returned.
    TimerExpireExit {
        /// Address of the timer.
        timer: u64,
    },
    /// A timer is cancelled.
    TimerCancel {
        /// Address of the timer.
        timer: u64,
    },
    /// The handler of a non-maskable interrupt has ended.
    Nmi {
        /// Duration in ns.
        took: i64,
    },
    /// A thread touched a page that was not mapped.
    PageFault {
        /// Whether the program itself touched the page, or the kernel on the program's behalf.
        is_user: bool,
        /// The touched address.
        address: u64,
    },
    /// A thread starts to wait for a kernel lock.
    ContentionBegin {
        /// LCB_F_* of include/trace/events/lock.h.
        flags: i64,
    },
    /// The thread has got the lock.
    ContentionEnd,
    /// A kernel worker starts to run a work item.
    WorkStart {
        /// The function that the work item calls.
        function: u64,
    },
    /// The worker has finished the work item.
    WorkEnd,
    /// The CPU enters or leaves an idle state.
    CpuIdle {
        /// The idle state that the CPU enters; `None` if it leaves idle.
        state: Option<u32>,
    },
    /// A thread calls futex(2).
    Futex {
        /// FUTEX_* with flags.
        operation: i64,
    },
    /// A thread starts another thread.
    TaskStart {
        /// CLONE_* of include/uapi/linux/sched.h.
        flags: i64,
    },
    /// The call stack at the previous event of this CPU, which a trigger of that event recorded.
    Stack {
        /// Index of the stack in the trace, if stacks are stored.
        place: Option<u32>,
    },
    /// A latency that the timerlat tracer reports.
    Timerlat {
        /// Where the tracer measured the latency: 0 in the function of its timer, 1 in its thread.
        context: i64,
        /// Time since the due time, in ns.
        latency: u64,
    },
    /// A program wrote a text to `trace_marker`.
    Marker {
        /// The first bytes of the text.
        text: Text,
    },
    /// A thread reached one of the two functions between which `tardy attach` measures time.
    Mark {
        /// Whether the measured time ends here, instead of starting.
        is_end: bool,
    },
    /// A monitor of runtime verification (tracefs, `rv`) reports that its model was violated.
    Violation {
        /// Name of the monitor.
        monitor: Text,
        /// The thread that violated the model; `None` if the monitor watches a CPU.
        pid: Option<i32>,
    },
    /// Any other event.
    Other,
}

/// Names of the two events at the functions between which `tardy attach` measures time: first the
/// event at which the time starts, then the one at which it ends.
pub const MARKS: [&str; 2] = ["tardy_from", "tardy_to"];

/// Makes an event from the values of its fields.
type EventMaker = fn(&Values<'_>) -> Option<Kind>;

/// For each kind of event: its name, the fields that it needs, and the function that makes it from
/// their values.
const KINDS: &[(&str, &[&str], EventMaker)] = &[
    (
        "sched_switch",
        &[
            "prev_pid",
            "prev_prio",
            "prev_comm",
            "next_pid",
            "next_prio",
            "next_comm",
            "prev_state",
        ],
        |values| {
            Some(Kind::Switch {
                previous: values.thread(0)?,
                next: values.thread(3)?,
                previous_state: values.number(6)?,
            })
        },
    ),
    (
        "sched_waking",
        &["pid", "prio", "comm", "target_cpu"],
        |values| {
            Some(Kind::Waking {
                thread: values.thread(0)?,
                target_cpu: values.cpu(3)?,
            })
        },
    ),
    ("sched_migrate_task", &["pid", "dest_cpu"], |values| {
        Some(Kind::Migrate {
            pid: values.pid(0)?,
            to_cpu: values.cpu(1)?,
        })
    }),
    ("irq_handler_entry", &["irq", "name"], |values| {
        Some(Kind::IrqEntry {
            irq: values.number(0)?,
            name: values.text(1),
        })
    }),
    ("irq_handler_exit", &["irq", "ret"], |values| {
        Some(Kind::IrqExit {
            irq: values.number(0)?,
            returned: values.number(1).unwrap_or_default(),
        })
    }),
    ("ipi_send_cpu", &["cpu"], |values| {
        Some(Kind::IpiSend {
            cpu: values.cpu(0)?,
        })
    }),
    ("ipi_send_cpumask", &["cpumask"], |values| {
        Some(Kind::IpiSendMany {
            cpus: values.cpus(0)?,
        })
    }),
    ("csd_queue_cpu", &["cpu", "func"], |values| {
        Some(Kind::FunctionQueue {
            cpu: values.cpu(0)?,
            function: values.address(1)?,
        })
    }),
    ("softirq_raise", &["vec"], |values| {
        Some(Kind::SoftirqRaise {
            vector: values.number(0)?,
        })
    }),
    ("softirq_entry", &["vec"], |values| {
        Some(Kind::SoftirqEntry {
            vector: values.number(0)?,
        })
    }),
    ("softirq_exit", &["vec"], |values| {
        Some(Kind::SoftirqExit {
            vector: values.number(0)?,
        })
    }),
    (
        "hrtimer_start",
        &["hrtimer", "function", "expires", "softexpires", "mode"],
        |values| {
            let expires = values.number(2)?;
            let soft_expires = values.number(3).unwrap_or(expires);
            Some(Kind::TimerStart {
                timer: values.address(0)?,
                function: values.address(1)?,
                expires,
                soft_expires,
                mode: values.number(4),
            })
        },
    ),
    (
        "hrtimer_expire_entry",
        &["hrtimer", "function", "now"],
        |values| {
            Some(Kind::TimerExpireEntry {
                timer: values.address(0)?,
                function: values.address(1)?,
                now: values.number(2)?,
            })
        },
    ),
    ("hrtimer_expire_exit", &["hrtimer"], |values| {
        Some(Kind::TimerExpireExit {
            timer: values.address(0)?,
        })
    }),
    ("hrtimer_cancel", &["hrtimer"], |values| {
        Some(Kind::TimerCancel {
            timer: values.address(0)?,
        })
    }),
    ("nmi_handler", &["delta_ns"], |values| {
        Some(Kind::Nmi {
            took: values.number(0)?,
        })
    }),
    ("page_fault_user", &["address"], |values| {
        Some(Kind::PageFault {
            is_user: true,
            address: values.address(0)?,
        })
    }),
    ("page_fault_kernel", &["address"], |values| {
        Some(Kind::PageFault {
            is_user: false,
            address: values.address(0)?,
        })
    }),
    ("contention_begin", &["flags"], |values| {
        Some(Kind::ContentionBegin {
            flags: values.number(0)?,
        })
    }),
    ("contention_end", &[], |_| Some(Kind::ContentionEnd)),
    ("workqueue_execute_start", &["function"], |values| {
        Some(Kind::WorkStart {
            function: values.address(0)?,
        })
    }),
    ("workqueue_execute_end", &[], |_| Some(Kind::WorkEnd)),
    ("cpu_idle", &["state"], |values| {
        Some(Kind::CpuIdle {
            state: values.cpu(0).filter(|&state| state != u32::MAX),
        })
    }),
    ("sys_enter_futex", &["op"], |values| {
        Some(Kind::Futex {
            operation: values.number(0)?,
        })
    }),
    ("task_newtask", &["clone_flags"], |values| {
        Some(Kind::TaskStart {
            flags: values.number(0)?,
        })
    }),
    ("timerlat", &["context", "timer_latency"], |values| {
        Some(Kind::Timerlat {
            context: values.number(0)?,
            latency: values.address(1)?,
        })
    }),
    (MARKS[0], &[], |_| Some(Kind::Mark { is_end: false })),
    (MARKS[1], &[], |_| Some(Kind::Mark { is_end: true })),
    ("print", &["buf"], |values| {
        Some(Kind::Marker {
            text: values.text(0),
        })
    }),
];

/// The events that contain a stack; triggers write them.
const STACKS: [&str; 2] = ["kernel_stack", "user_stack"];
/// Maximum number of frames that are read from a stack.
const FRAMES_MAX: usize = 64;
/// The folder below `events` that has the events for interrupts between CPUs, on architectures
/// other than x86. There, one event stands for all these interrupts.
const IPI: &str = "ipi";

/// How the data of an event are read.
#[derive(Debug, Clone)]
enum Reading {
    Fields(EventMaker, Vec<Place>),
    Entry(Text),
    Exit(Text),
    Violation(Text, Option<Number>),
    Stack,
    Other,
}

/// Where the fields are that all events share.
#[derive(Debug, Clone)]
struct HeadFields {
    flags: Number,
    preempt_count: Number,
    pid: Number,
    /// Whether these fields are where all known kernels have them: after the number of the event,
    /// without gaps.
    are_usual: bool,
}

impl HeadFields {
    fn of(format: &EventFormat) -> Option<Self> {
        let field = |name| format.field(name).and_then(Number::of);
        let [flags, preempt_count, pid] = [
            field("common_flags")?,
            field("common_preempt_count")?,
            field("common_pid")?,
        ];
        let is_byte = |number: Number, offset| {
            number.offset == offset && matches!(number.kind, NumberKind::U8)
        };
        let are_usual = is_byte(flags, 2)
            && is_byte(preempt_count, 3)
            && pid.offset == 4
            && matches!(pid.kind, NumberKind::I32);
        Some(Self {
            flags,
            preempt_count,
            pid,
            are_usual,
        })
    }

    fn read(&self, data: &[u8]) -> Option<Head> {
        let byte = |field: Number| {
            field
                .read(data)
                .and_then(|value| u8::try_from(value & 0xff).ok())
        };
        let pid = i32::try_from(self.pid.read(data)?).ok()?;
        Some(Head {
            flags: byte(self.flags)?,
            preempt_count: byte(self.preempt_count)?,
            pid,
        })
    }
}

/// Decodes the events of one trace.
#[derive(Debug, Clone)]
pub struct Decoder {
    head: Option<HeadFields>,
    /// How each event is read; the index is the number of the event.
    readings: Vec<Option<Reading>>,
    known: Vec<&'static str>,
    kernel_stack: Option<StackFields>,
}

/// Where an event's data contain a kernel stack.
#[derive(Debug, Clone, Copy)]
struct StackFields {
    id: u16,
    count: Number,
    frames: usize,
}

impl Decoder {
    /// Makes a decoder from the event formats of a trace.
    #[must_use]
    pub fn new(formats: &[EventFormat]) -> Self {
        Self::of_wakings(formats, "sched_waking")
    }

    /// Makes a decoder for a trace that lacks `sched_waking`. It uses `sched_wakeup` instead, which
    /// the kernel writes a little later, when the thread is in the run queue.
    #[must_use]
    pub fn of_wakeups(formats: &[EventFormat]) -> Self {
        Self::of_wakings(formats, "sched_wakeup")
    }

    fn of_wakings(formats: &[EventFormat], waking: &str) -> Self {
        let head = formats.iter().find_map(HeadFields::of);
        let (mut readings, mut known) = (Vec::new(), Vec::new());
        for format in formats {
            let id = usize::from(format.id);
            if readings.len() <= id {
                readings.resize(id + 1, None);
            }
            let name = if format.name == waking {
                "sched_waking"
            } else {
                &format.name
            };
            let kind = KINDS.iter().find(|(known, ..)| *known == name);
            known.extend(kind.map(|(name, ..)| *name));
            readings[id] = Some(match kind {
                Some((_, fields, make)) => Reading::Fields(
                    *make,
                    fields
                        .iter()
                        .map(|name| Place::of(format.field(name)))
                        .collect(),
                ),
                None => vector(format),
            });
        }
        let kernel_stack = formats
            .iter()
            .find(|format| format.system == "ftrace" && format.name == STACKS[0])
            .and_then(|format| {
                let count = format.field("size").and_then(Number::of)?;
                Some(StackFields {
                    id: format.id,
                    count,
                    frames: format.field("caller")?.offset,
                })
            });
        Self {
            head,
            readings,
            known,
            kernel_stack,
        }
    }

    /// Returns whether the trace has the format of this event. trace-cmd stores the formats of the
    /// recorded events, and often of more events.
    #[must_use]
    pub fn knows(&self, name: &str) -> bool {
        self.known.contains(&name)
    }

    /// Returns the addresses of a kernel stack, innermost first, or `None` if the data are not a
    /// kernel stack.
    #[must_use]
    pub fn stack<'a>(&self, data: &'a [u8]) -> Option<impl Iterator<Item = u64> + use<'a>> {
        let fields = self
            .kernel_stack
            .filter(|fields| data.first_chunk() == Some(&fields.id.to_le_bytes()))?;
        let count = usize::try_from(fields.count.read(data)?)
            .ok()?
            .min(FRAMES_MAX);
        Some(
            data.get(fields.frames..)?
                .chunks_exact(8)
                .take(count)
                .filter_map(|frame| Some(u64::from_le_bytes(*frame.first_chunk()?))),
        )
    }

    /// Decodes the data of an event. Returns `None` if the data are too short, or if the event has
    /// no format.
    #[must_use]
    pub fn decode(&self, time: u64, cpu: u32, data: &[u8]) -> Option<Event> {
        let fields = self.head.as_ref()?;
        let head = if fields.are_usual {
            let [_, _, flags, preempt_count, pid @ ..] = *data.first_chunk::<8>()?;
            Head {
                flags,
                preempt_count,
                pid: i32::from_le_bytes(pid),
            }
        } else {
            fields.read(data)?
        };
        let id = usize::from(u16::from_le_bytes(*data.first_chunk()?));
        let kind = match self.readings.get(id)?.as_ref()? {
            Reading::Fields(make, fields) => make(&Values { fields, data }).unwrap_or(Kind::Other),
            Reading::Entry(name) => Kind::VectorEntry { name: *name },
            Reading::Exit(name) => Kind::VectorExit { name: *name },
            Reading::Violation(monitor, pid) => Kind::Violation {
                monitor: *monitor,
                pid: pid.and_then(|pid| i32::try_from(pid.read(data)?).ok()),
            },
            Reading::Stack => Kind::Stack { place: None },
            Reading::Other => Kind::Other,
        };
        Some(Event {
            time,
            cpu,
            head,
            kind,
        })
    }
}

/// Returns the monitor whose violations the event reports, if it is such an event. A monitor has
/// one event for unexpected transitions, and may have another one for violated conditions, such as
/// an exceeded time limit.
fn violated_monitor(format: &EventFormat) -> Option<&str> {
    let name = format.name.strip_prefix("error_")?;
    (format.system == "rv").then(|| name.strip_prefix("env_").unwrap_or(name))
}

/// Returns how to read an event that is not in [`KINDS`]: a stack, a violation, an entry or exit of
/// an interrupt (many events of one shape), or any other event.
fn vector(format: &EventFormat) -> Reading {
    if format.system == "ftrace" && STACKS.contains(&&*format.name) {
        return Reading::Stack;
    }
    if let Some(monitor) = violated_monitor(format) {
        // Monitors that watch threads have a field `pid` or `id` (kernel/trace/rv/rv_trace.h).
        let pid = format.field("pid").or_else(|| format.field("id"));
        return Reading::Violation(monitor.into(), pid.and_then(Number::of));
    }
    let is_interrupt = format.system == "irq_vectors"
        || (format.system == IPI && format.name.starts_with("ipi_e"));
    match (
        format.name.strip_suffix("_entry"),
        format.name.strip_suffix("_exit"),
    ) {
        (Some(name), _) if is_interrupt => Reading::Entry(name.into()),
        (_, Some(name)) if is_interrupt => Reading::Exit(name.into()),
        _ => Reading::Other,
    }
}

/// The fields of the event that is being read; their order is the one in [`KINDS`].
struct Values<'a> {
    fields: &'a [Place],
    data: &'a [u8],
}

impl Values<'_> {
    fn number(&self, index: usize) -> Option<i64> {
        if let Place::Number(number) = &self.fields[index] {
            number.read(self.data)
        } else {
            None
        }
    }

    #[expect(clippy::cast_sign_loss, reason = "an address keeps its bits")]
    fn address(&self, index: usize) -> Option<u64> {
        self.number(index).map(|value| value as u64)
    }

    fn pid(&self, index: usize) -> Option<i32> {
        i32::try_from(self.number(index)?).ok()
    }

    /// Returns the low 32 bits of a number that stands for a CPU or an idle state.
    fn cpu(&self, index: usize) -> Option<u32> {
        u32::try_from(self.number(index)? & 0xffff_ffff).ok()
    }

    /// Returns a mask of any length.
    fn cpus(&self, index: usize) -> Option<CpuMask> {
        if let Place::Text(field) = &self.fields[index] {
            return field.place(self.data).map(CpuMask::of_bytes);
        }
        Some(CpuMask::of_bytes(&self.address(index)?.to_le_bytes()))
    }

    fn text(&self, index: usize) -> Text {
        if let Place::Text(field) = &self.fields[index] {
            field.place(self.data).map(Text::new).unwrap_or_default()
        } else {
            Text::default()
        }
    }

    /// Reads a thread from three fields: its ID, priority and name.
    fn thread(&self, first: usize) -> Option<Thread> {
        Some(Thread {
            pid: self.pid(first)?,
            priority: self.pid(first + 1)?,
            name: self.text(first + 2),
        })
    }
}
