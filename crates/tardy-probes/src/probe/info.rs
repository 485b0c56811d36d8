//! The description of a probe.

use tardy_core::series::Schedule;
use tardy_core::units::Nanos;
use tardy_machine::host::Host;
use tardy_machine::unsupported::Unsupported;
use tardy_run::parameter::{Parameter, Values};
use tardy_run::plan::{PolicyName, ProbePlan, WaitsFor};
use tardy_run::system_clock::ProbeClocks;

use super::PROBES;
use super::member::{OpenContext, ProbeInstance};
use super::series_info::{SeriesInfo, SeriesKind};

/// A probe's description of itself.
#[derive(Debug)]
pub struct ProbeInfo {
    /// Its name on the command line and in file names: lower case, digits, dashes.
    pub name: &'static str,
    /// The timed operation, for a line of a list.
    pub about: &'static str,
    /// The timed operation, in one sentence.
    pub times: &'static str,
    /// The context in which its timer expires: hard interrupt, softirq, thread; on stock kernels
    /// (`stock kernel: ...`) and on PREEMPT_RT (`PREEMPT_RT: ...`).
    pub context: &'static str,
    /// Its origin: a paper or a program, or `today`.
    pub source: &'static str,
    /// Parameters in addition to `period`, `policy`, `priority` and `dither`, which every probe
    /// has; values without names are in this order, and before those.
    pub parameters: &'static [Parameter],
    /// Its series: each place has all of them, and the first has the probe's name.
    pub series: &'static [SeriesInfo],
    /// The CPUs on which it runs.
    pub placement: Placement,
    /// Default scheduling policy.
    pub policy: PolicyName,
    /// Default period.
    pub period: Nanos,
    /// Whether a process or a machine has only one such resource, so that two probes of this kind
    /// would conflict. A POSIX timer and a queue are each thread's own, a signal that one thread
    /// sends another is every pair's.
    pub is_single: bool,
    /// The event that it waits for. Interval errors do not show a constant latency, such as a
    /// tick's; pairs of threads and externally started cycles have no timer.
    pub waits_for: WaitsFor,
    /// The system calls of its measuring loops, named as in strace: first the one it sleeps in,
    /// then the wake-up or the work that it times. A clock read through the vDSO is not a system
    /// call.
    pub system_calls: &'static [&'static str],
    /// Additional system calls if the kernel's tracepoints are readable.
    pub traced_system_calls: &'static [&'static str],
    /// Whether its timer can be set on another clock than the run's.
    pub sets_any_clock: bool,
    /// Whether it reads CLOCK_REALTIME, which can be set during the run.
    pub reads_time_of_day: bool,
    /// The source of the cycles that it times.
    pub cycles: Cycles,
    /// Whether the kernel throttles its threads when they use up their runtime, and then sends
    /// SIGXCPU.
    pub is_throttled: bool,
    /// The period that its own parameters imply, independent of the run's other probes: for a
    /// device with a rate.
    pub period_of: fn(&Values) -> Option<Nanos>,
    /// Checks the request and the machine's requirements; changes nothing.
    pub resolve: fn(&ProbePlan, &Host) -> Result<(), Refusal>,
    /// Acquires the resources of one place, before any thread of the run exists; called on the main
    /// thread, once per place.
    pub open: fn(OpenContext<'_>) -> std::io::Result<ProbeInstance>,
}

/// The source of a probe's cycles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cycles {
    /// The probe's own: their due times can be aligned, and `--cycles` counts them.
    Own,
    /// A player's, whose clock defines their due times.
    OfAPlayer,
    /// A user program's, which starts them when it likes.
    OfAProgram,
}

/// The CPUs on which a probe runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// A place on each measured CPU.
    EachCpu,
    /// One place, on the first measured CPU: there is one such device, or one such timer in a
    /// process.
    FirstCpu,
    /// One place, on any CPU.
    Unbound,
    /// One place per `copies` of the probe's parameter; their threads move among the measured CPUs.
    Copies,
    /// One place per measured CPU; their threads move among all CPUs, because the kernel does not
    /// bind them.
    CopyACpu,
}

/// Why a requested probe cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The machine lacks something.
    Absent(Unsupported),
    /// The request is contradictory; the fragment ends with the remedy.
    Request(String),
}

impl ProbeInfo {
    /// The description of most probes: a thread on each measured CPU that waits for its own timer
    /// at each due time of a grid. A probe states its differences.
    pub(super) const USUAL: Self = Self {
        name: "",
        about: "",
        times: "",
        context: "",
        source: "",
        parameters: &[],
        series: &[SeriesInfo::GRID_LATENCY],
        placement: Placement::EachCpu,
        policy: PolicyName::Fifo,
        period: Nanos::from_millis(1),
        is_single: false,
        waits_for: WaitsFor::Timer,
        system_calls: &["clock_nanosleep"],
        traced_system_calls: &[],
        sets_any_clock: false,
        reads_time_of_day: false,
        cycles: Cycles::Own,
        is_throttled: false,
        period_of: |_| None,
        resolve: always,
        open: |_| Err(std::io::Error::other("the probe has no function `open`")),
    };

    /// Returns whether due times form a grid, so that some can be skipped.
    #[must_use]
    pub fn has_schedule(&self) -> bool {
        self.series.iter().any(|series| {
            matches!(
                series.kind,
                SeriesKind::Grid | SeriesKind::Work | SeriesKind::Skew
            )
        })
    }

    /// Returns the schedule of its threads. A pair of threads records events, but one of the two
    /// walks a grid.
    #[must_use]
    pub fn schedule(&self, period: Nanos, start: Nanos, dither: Nanos) -> Schedule {
        let kind = if self.has_schedule() {
            SeriesKind::Grid
        } else {
            self.series[0].kind
        };
        kind.schedule(period, start, dither)
    }

    /// Returns whether it can have these clocks.
    ///
    /// # Errors
    /// Why not, in a fragment that ends in the remedy.
    pub fn check_clocks(&self, clocks: ProbeClocks) -> Result<(), String> {
        if !self.sets_any_clock && !clocks.timer.is_of_the_run() {
            let names: Vec<&str> = PROBES
                .iter()
                .filter(|probe| probe.sets_any_clock)
                .map(|probe| probe.name)
                .collect();
            let (last, others) = names
                .split_last()
                .map_or(("", String::new()), |(last, others)| {
                    (*last, others.join(", "))
                });
            let clock = clocks.timer.name();
            return Err(format!(
                "the probe's timer cannot use another clock: leave clock={clock} out, or use \
                 {others} or {last}"
            ));
        }
        // External loops, players and peers have their own due times.
        let has_own_grid = self.has_schedule() && self.cycles == Cycles::Own;
        match clocks.align {
            Some(clock) if !has_own_grid => Err(format!(
                "the probe has no grid of due times that could be aligned: leave align={} out, or \
                 use cyclic",
                clock.name()
            )),
            _ => Ok(()),
        }
    }

    /// Returns how long a cycle takes at this period: for probes that read a clock all the time,
    /// about a read.
    #[must_use]
    pub fn cycle(&self, period: Nanos) -> Nanos {
        const READ: Nanos = Nanos(25);
        if self.has_period() { period } else { READ }
    }

    /// Returns whether it waits for periods, rather than looking for gaps all the time.
    #[must_use]
    pub fn has_period(&self) -> bool {
        self.waits_for != WaitsFor::Nothing
    }
}

/// Accepts any plan, for probes that run everywhere.
///
/// # Errors
/// None.
pub fn always(_: &ProbePlan, _: &Host) -> Result<(), Refusal> {
    Ok(())
}

/// Refuses dither, for probes that set their timer only once.
///
/// # Errors
/// Returns [`Refusal::Request`] if dither is requested.
pub fn no_dither(probe: &ProbePlan) -> Result<(), Refusal> {
    if probe.dither > Nanos::ZERO {
        return Err(Refusal::Request(
            "a timer that is set once cannot move its due times: leave --dither out, or use cyclic"
                .into(),
        ));
    }
    Ok(())
}
