//! An opened probe. Its threads are not started yet; this module also defines how they wait for the
//! start of the run.

use std::io;

use tardy_core::cpu::{CpuId, CpuList};
use tardy_core::units::Nanos;
use tardy_run::plan::{ProbePlan, ThreadPlan};
use tardy_sys::sched::Policy;

use super::series_info::SeriesInfo;
use crate::recording::control::{Control, Departure};
use crate::recording::ring::Producer;

/// What a probe needs to open one of its instances.
#[derive(Debug)]
pub struct OpenContext<'a> {
    /// The planned probe, with its parameters.
    pub probe: &'a ProbePlan,
    pub thread: &'a ThreadPlan,
    /// All measured CPUs, for probes that need a second one.
    pub measured_cpus: &'a CpuList,
    /// One producer for each series of the probe, in the order of its description. The thread that
    /// takes a producer must close it.
    pub producers: Vec<Producer>,
}

/// One instance of a probe, ready to start.
#[derive(Debug, Default)]
pub struct ProbeInstance {
    /// The threads of the instance, in the order in which they are started.
    pub members: Vec<Member>,
    /// Error of the clock that the probe reads. A wake-up is judged as early only if it is early by
    /// more than this.
    pub clock_error: Nanos,
    /// The series of the instance, if they are known only after opening. These series replace the
    /// series of the description, and there may be fewer of them.
    pub series: Option<Vec<SeriesInfo>>,
    /// The grid of due times, if the plan could not know it and it was determined when the probe
    /// was opened.
    pub grid: Option<DetectedGrid>,
    /// Whether the measured answers come from outside this machine; absent for probes without
    /// answers.
    pub external: Option<bool>,
    /// ID of the thread that takes the samples, if this is a thread of another program and it is
    /// known.
    pub loop_thread: Option<i32>,
    /// Caveats for the probe's numbers, shown with every result. If several instances have the same
    /// text, it is shown once.
    pub notes: Vec<String>,
    /// Waits for a part of the preparation that runs in the background, so that the instances can
    /// do this part in parallel. When all instances are open, this is called for one instance after
    /// the other.
    pub finish: Option<Finish>,
}

/// The last part of an instance's preparation: a function that waits until the preparation is
/// complete, and returns further notes.
pub struct Finish(Box<dyn FnOnce() -> io::Result<Vec<String>>>);

impl Finish {
    /// Makes the last part of the preparation from a function that is called when all instances are
    /// open.
    #[must_use]
    pub fn new(finish: impl FnOnce() -> io::Result<Vec<String>> + 'static) -> Self {
        Self(Box::new(finish))
    }

    /// Runs the last part of the preparation.
    ///
    /// # Errors
    /// Returns an error if the instance cannot be measured after all.
    pub fn call(self) -> io::Result<Vec<String>> {
        (self.0)()
    }
}

impl std::fmt::Debug for Finish {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Finish")
    }
}

/// A grid of due times other than the run's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DetectedGrid {
    /// Time between two due times.
    pub period: Nanos,
    /// One due time of the grid; any of them defines it.
    pub phase: Nanos,
}

impl DetectedGrid {
    /// Returns the first due time of the grid at `start` or later.
    #[must_use]
    pub fn first_from(&self, start: Nanos) -> Nanos {
        start.saturating_add(Nanos(
            (i128::from(self.phase.get()) - i128::from(start.get()))
                .rem_euclid(i128::from(self.period.get().max(1))) as i64,
        ))
    }
}

/// One thread of a probe.
pub struct Member {
    /// Role of the thread beside the probe's main thread, such as `waker`; empty for the main
    /// thread.
    pub role: &'static str,
    /// CPUs that the thread is bound to; empty if it is not bound.
    pub cpus: CpuList,
    /// Scheduling policy of the thread.
    pub policy: Policy,
    /// Whether the watchdog demotes the thread and stops the run if the thread never sleeps. A
    /// thread that occupies its CPU by design is not watched; it must sleep for a part of the time.
    /// For such a thread, the limit on real-time CPU time is the only protection.
    pub is_watched: bool,
    /// The function of the thread, called once. The function prepares everything that must be
    /// prepared on this thread, waits for the start with [`StartGate::wait`], and measures until
    /// the control stops it. Then it closes its producers, and waits for the other threads with
    /// [`Control::leave`] before it releases resources. The measuring loop in this function makes
    /// no indirect calls.
    pub run: Run,
}

/// The function of a thread.
pub type Run = Box<dyn FnOnce(StartGate<'_>) -> io::Result<Departure> + Send>;

/// Lets a prepared thread wait for the start.
pub struct StartGate<'a> {
    control: &'a Control,
    wait: Box<dyn FnOnce() -> Nanos + 'a>,
}

/// What a thread needs to know when the run starts.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    /// Time of the start, on the run's clock.
    pub at: Nanos,
    /// Controls the end of the loop.
    pub control: &'a Control,
}

impl Start<'_> {
    /// Sleeps until the run starts. Probes without a grid must call this first, because otherwise
    /// their first cycle would start before the run.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses the sleep.
    pub fn sleep(&self) -> std::io::Result<()> {
        tardy_sys::clock::sleep_until(&tardy_sys::clock::Instant::from_nanos(self.at.get()))
    }
}

impl<'a> StartGate<'a> {
    /// Makes a gate. The function `wait` must report that the thread is ready, block until the
    /// start, and return the start time.
    pub fn new(control: &'a Control, wait: impl FnOnce() -> Nanos + 'a) -> Self {
        Self {
            control,
            wait: Box::new(wait),
        }
    }

    /// Reports that the thread is ready, and waits for the start. The measuring loop must follow
    /// immediately.
    #[must_use]
    pub fn wait(self) -> Start<'a> {
        self.control.enter();
        Start {
            at: (self.wait)(),
            control: self.control,
        }
    }
}

impl Member {
    /// Makes the main thread of an instance. The thread is bound to its CPU, scheduled as planned,
    /// and watched by the watchdog.
    #[must_use]
    pub fn new(probe: &ProbePlan, cpu: Option<CpuId>, run: Run) -> Self {
        Self {
            role: "",
            cpus: cpu.into_iter().collect(),
            policy: probe.policy.policy(probe.priority),
            is_watched: true,
            run,
        }
    }
}

impl std::fmt::Debug for Member {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Member");
        shown
            .field("role", &self.role)
            .field("cpus", &self.cpus)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

/// A measuring loop with one thread and one series. Without a grid, the loop must first sleep until
/// the start, with [`Start::sleep`].
pub type MeasuringLoop = fn(&ThreadPlan, Producer, Start<'_>) -> io::Result<Departure>;

/// Makes an instance with one thread that runs `measure` for the first series.
///
/// # Errors
/// Returns an error if the caller supplied no producer.
pub fn one_thread(
    mut opening: OpenContext<'_>,
    measure: MeasuringLoop,
) -> io::Result<ProbeInstance> {
    let producer = opening
        .producers
        .pop()
        .ok_or_else(|| io::Error::other("a probe was opened without a series"))?;
    let thread = opening.thread.clone();
    let run: Run = Box::new(move |ready| {
        let start = ready.wait();
        measure(&thread.at(start.at), producer, start)
    });
    Ok(ProbeInstance {
        members: vec![Member::new(opening.probe, opening.thread.cpu, run)],
        ..ProbeInstance::default()
    })
}
