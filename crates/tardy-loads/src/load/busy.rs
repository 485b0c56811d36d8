//! `busy`: occupies a CPU for intervals of known length, and records when. Later checks compare
//! explanations with this record.

use std::fs::File;
use std::io::{BufWriter, Write};

use tardy_core::units::Nanos;
use tardy_run::parameter::{Kind, Parameter};
use tardy_sys::capability;
use tardy_sys::clock;
use tardy_sys::sched::{self, Policy};

use super::Unsupported;
use super::info::{ErrorContext, Job, LoadInfo, Placement, Rights, Run, WorkError};
use super::resolution::Resolution;
use super::worker::Worker;

pub const INFO: LoadInfo = LoadInfo {
    name: "busy",
    does: "occupies its CPU for LENGTH in every PERIOD, at real-time PRIORITY if given, and \
           records when it did so",
    effect: "blocks tasks of lower priority on its CPU; the recorded intervals can be checked \
             against a measurement",
    source: "today",
    parameters: &[
        Parameter::duration(
            "length",
            "how long the load occupies the CPU in each period",
            "1ms",
            Nanos::from_micros(1),
            Nanos::from_secs(60),
        ),
        Parameter::duration(
            "period",
            "time from the start of one interval to the start of the next",
            "10ms",
            Nanos::from_micros(10),
            Nanos::from_secs(3600),
        ),
        Parameter {
            name: "priority",
            means: "SCHED_FIFO priority; if unset, the load is an ordinary process",
            kind: Kind::Count { min: 1, max: 97 },
            default: None,
            needed: false,
        },
        Parameter::path(
            "record",
            "file for the intervals, with .cpuN appended to its name; each line holds start, end \
             and CPU time of one interval in ns",
        ),
    ],
    can_do_harm: false,
    placement: Placement::EachCpu,
    uses_disk: true,
    rights: Rights::Nobody {
        keeps: &[capability::SYS_NICE],
        opens: "the file of `record`, if given",
    },
    resolve,
    run: Run::Prepared(prepare),
};

/// Window in which the load occupies the CPU for at most 90 ms at a real-time priority. The machine
/// then stays usable even without the kernel's throttling.
const WINDOW: Nanos = Nanos::from_millis(100);
const WINDOW_OCCUPIED_MAX: Nanos = Nanos::from_millis(90);
/// Maximum number of recorded intervals: 100 s at the shortest period, 28 h at the default one. A
/// line has at most 60 bytes.
const INTERVALS_MAX: u64 = 10_000_000;
const LINE_BYTES_MAX: u64 = 60;

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    let plan = &resolution.plan;
    let (length, period) = (
        plan.parameters.duration("length"),
        plan.parameters.duration("period"),
    );
    if length > period {
        return Err(Unsupported::new(
            format!("a period at least as long as the work ({length}; the period is {period})"),
            "give a longer busy:period=...",
        ));
    }
    let priority = plan.parameters.number("priority") as u32;
    if priority > 0 && !may_use_priority(priority) {
        let missing = format!("the right to real-time priority {priority}");
        return Err(Unsupported::new(
            missing,
            "run as root, or raise the limit rtprio (ulimit -r, /etc/security/limits.conf)",
        ));
    }
    if let Some(record) = plan.parameters.path("record") {
        if !record.is_absolute() || !record.parent().is_some_and(std::path::Path::is_dir) {
            let missing = format!("the folder of {}", record.display());
            return Err(Unsupported::new(
                missing,
                "with busy:record=..., give the absolute path of a file in an existing folder",
            ));
        }
        resolution.plan.budget.disk = (INTERVALS_MAX * LINE_BYTES_MAX).min(resolution.share.disk);
    }
    resolution.plan.budget.processes = resolution.workers();
    Ok(())
}

fn may_use_priority(priority: u32) -> bool {
    let limit = tardy_sys::rlimit::get(tardy_sys::rlimit::Resource::RealTimePriority)
        .map_or(0, |(soft, _)| soft);
    limit >= u64::from(priority) || tardy_sys::user::is_root()
}

fn prepare(worker: &mut Worker) -> Result<Job, WorkError> {
    let record = Record::open(worker)?;
    Ok(Box::new(|worker| run(worker, record)))
}

fn run(worker: &mut Worker, mut record: Record) -> Result<(), WorkError> {
    let (length, period) = (
        worker.plan.load.parameters.duration("length").get(),
        worker.plan.load.parameters.duration("period").get(),
    );
    let mut yielding = YieldBudget::new(clock::monotonic());
    let priority = worker.number("priority") as u32;
    if priority > 0 {
        sched::set_policy(0, Policy::Fifo { priority }).doing("take the real-time priority")?;
    }
    let mut due = clock::monotonic() + period;
    loop {
        let woke = worker.sleep_until(due);
        // The time from the wake-up to the next sleep is part of the interval.
        let mut occupied = BusyInterval::from(woke);
        if !worker.go_on() {
            return record.write(worker);
        }
        let end = woke + length;
        loop {
            record.write(worker)?;
            occupied.until(end.min(occupied.start + yielding.left(priority > 0)));
            worker.did(1, 0);
            let length = occupied.end - occupied.start;
            record.note(occupied);
            yielding.used(length, priority > 0);
            let now = clock::monotonic();
            if now >= end {
                break;
            }
            occupied = BusyInterval::from(now);
        }
        // Due times that passed meanwhile are skipped. Catching up would occupy the CPU for longer
        // than requested.
        due += period * ((clock::monotonic() - due).max(0) / period + 1);
    }
}

#[derive(Debug, Clone, Copy)]
struct BusyInterval {
    start: i64,
    end: i64,
    /// CPU time that the thread got during the interval. It is less than the interval's length if a
    /// task of higher priority, or the host, took the CPU.
    cpu_time: i64,
}

impl BusyInterval {
    fn from(start: i64) -> Self {
        // Until the end is known, `cpu_time` holds the CPU time at the start.
        Self {
            start,
            end: start,
            cpu_time: clock::thread_cpu_time(),
        }
    }

    /// Busy-waits until the clock shows `until`, and ends the interval. Reads the time of the end
    /// last, so that the interval includes the work before.
    fn until(&mut self, until: i64) {
        while clock::monotonic() < until {}
        self.cpu_time = clock::thread_cpu_time() - self.cpu_time;
        self.end = clock::monotonic();
    }
}

/// The part of the current window ([`WINDOW`]) that may still be occupied.
#[derive(Debug)]
struct YieldBudget {
    window_start: i64,
    used: i64,
}

impl YieldBudget {
    fn new(now: i64) -> Self {
        Self {
            window_start: now,
            used: 0,
        }
    }

    fn left(&self, real_time: bool) -> i64 {
        if real_time {
            (WINDOW_OCCUPIED_MAX.get() - self.used).max(0)
        } else {
            i64::MAX / 4
        }
    }

    /// Counts occupied time. At a real-time priority, sleeps until the end of the window once the
    /// window's share is used up.
    fn used(&mut self, occupied: i64, real_time: bool) {
        let now = clock::monotonic();
        if now >= self.window_start + WINDOW.get() {
            *self = Self::new(now);
            return;
        }
        self.used += occupied;
        if real_time && self.used >= WINDOW_OCCUPIED_MAX.get() {
            let _ = clock::sleep_until(&clock::Instant::from_nanos(
                self.window_start + WINDOW.get(),
            ));
            *self = Self::new(clock::monotonic());
        }
    }
}

/// The file with the recorded intervals. If there is no file, nothing is written.
struct Record {
    file: Option<BufWriter<File>>,
    left: u64,
    /// The last interval. This interval is written during the next one, because the time for
    /// writing must be part of an interval.
    noted: Option<BusyInterval>,
}

impl Record {
    fn open(worker: &Worker) -> Result<Self, WorkError> {
        let Some(path) = worker.plan.load.parameters.path("record") else {
            return Ok(Self {
                file: None,
                left: 0,
                noted: None,
            });
        };
        let cpu = worker.cpu().map_or(0, |cpu| cpu.0);
        let mut path = path.as_os_str().to_owned();
        path.push(format!(".cpu{cpu}"));
        // A restarted worker continues where the previous one ended.
        let file = File::options()
            .append(true)
            .create(true)
            .open(path)
            .doing("open the record of intervals")?;
        Ok(Self {
            file: Some(BufWriter::new(file)),
            left: INTERVALS_MAX,
            noted: None,
        })
    }

    fn note(&mut self, occupied: BusyInterval) {
        self.noted = Some(occupied);
    }

    /// Writes the noted interval, if there is one. Closes the file after [`INTERVALS_MAX`]
    /// intervals.
    fn write(&mut self, worker: &mut Worker) -> Result<(), WorkError> {
        let (Some(file), Some(occupied)) = (&mut self.file, self.noted.take()) else {
            return Ok(());
        };
        writeln!(
            file,
            "{} {} {}",
            occupied.start, occupied.end, occupied.cpu_time
        )
        .doing("write the record of intervals")?;
        self.left -= 1;
        if self.left == 0 {
            worker.tell(format!(
                "{INTERVALS_MAX} intervals have been recorded; later ones are not recorded"
            ));
            file.flush().doing("write the record of intervals")?;
            self.file = None;
        }
        Ok(())
    }
}
