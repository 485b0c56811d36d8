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

/// The description of a kind of probe.
#[derive(Debug)]
pub struct ProbeInfo {
    /// Name on the command line and in file names: lower case, digits, dashes.
    pub name: &'static str,
    /// What is timed, short enough for one line of a list.
    pub about: &'static str,
    /// What is timed, in one sentence.
    pub times: &'static str,
    /// In which context the probe's timer expires (hard interrupt, softirq or thread), on stock
    /// kernels (`stock kernel: ...`) and on PREEMPT_RT (`PREEMPT_RT: ...`).
    pub context: &'static str,
    /// The paper or program that the probe comes from, or `today`.
    pub source: &'static str,
    /// Parameters of this probe, in addition to those that every probe has (`request::COMMON`). In
    /// a request, values without names are assigned to these parameters in this order, before those
    /// of `request::COMMON`.
    pub parameters: &'static [Parameter],
    /// The probe's series. Each instance of the probe has all of these series, and the first series
    /// has the probe's name.
    pub series: &'static [SeriesInfo],
    /// The CPUs on which the probe runs.
    pub placement: Placement,
    /// Default scheduling policy.
    pub policy: PolicyName,
    /// Default period.
    pub period: Nanos,
    /// Whether the probe's resource exists only once per process or machine, so that two probes of
    /// this kind would conflict. A POSIX timer exists once per thread, and a message queue once per
    /// pair of threads, so probes that use these are not single.
    pub is_single: bool,
    /// What the probe waits for. Three kinds of probes do not count as waiting for their own timer:
    /// pairs of threads, probes that do not start their cycles themselves, and probes that measure
    /// interval errors. The last kind does not count because a constant latency, such as that of a
    /// tick, does not show in interval errors.
    pub waits_for: WaitsFor,
    /// The system calls of the measuring loops, named as in strace: first the one in which the
    /// probe sleeps, then the timed wake-up or work. A clock read through the vDSO is not a system
    /// call.
    pub system_calls: &'static [&'static str],
    /// Additional system calls if the kernel's tracepoints are readable.
    pub traced_system_calls: &'static [&'static str],
    /// Whether the probe's timer can use a clock other than the run's.
    pub sets_any_clock: bool,
    /// Whether the probe reads CLOCK_REALTIME, which can be set during the run.
    pub reads_time_of_day: bool,
    /// What starts the cycles that the probe times.
    pub cycles: Cycles,
    /// Whether the kernel throttles the probe's threads when they use up their runtime, and then
    /// sends SIGXCPU.
    pub is_throttled: bool,
    /// Returns the period that the probe's own parameters determine, for example the rate of a
    /// device. It overrides the period of the request and of the scenario. Returns `None` if the
    /// parameters determine no period.
    pub period_of: fn(&Values) -> Option<Nanos>,
    /// Checks the request and the machine's requirements. Changes nothing.
    pub resolve: fn(&ProbePlan, &Host) -> Result<(), Refusal>,
    /// Acquires the resources of one instance, before any thread of the run exists. Called on the
    /// main thread, once per instance.
    pub open: fn(OpenContext<'_>) -> std::io::Result<ProbeInstance>,
}

/// What starts a probe's cycles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cycles {
    /// The probe starts its cycles. The due times of the cycles can be aligned, and `--cycles`
    /// counts the cycles.
    Own,
    /// A player starts the cycles, and the player's clock defines their due times.
    OfAPlayer,
    /// A user's program starts the cycles at any time.
    OfAProgram,
}

/// The CPUs on which a probe runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// One instance on each measured CPU.
    EachCpu,
    /// One instance, on the first measured CPU, because the machine has only one such device, or a
    /// process only one such timer.
    FirstCpu,
    /// One instance, on no particular CPU.
    Unbound,
    /// As many instances as the parameter `copies` states. The threads of these instances move
    /// among the measured CPUs.
    Copies,
    /// As many instances as measured CPUs. Their threads move among all CPUs, because the kernel
    /// does not let them be bound.
    CopyACpu,
}

/// Why a requested probe cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The machine lacks a requirement.
    Absent(Unsupported),
    /// The request is invalid. The text is a fragment that ends with the remedy.
    Request(String),
}

impl ProbeInfo {
    /// The description that most probes share: a thread on each measured CPU waits for its own
    /// timer at each due time of a grid. Other probes state only their differences.
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

    /// Returns the schedule of the probe's threads. A pair of threads records events, but one of
    /// its two threads waits for the due times of a grid.
    #[must_use]
    pub fn schedule(&self, period: Nanos, start: Nanos, dither: Nanos) -> Schedule {
        let kind = if self.has_schedule() {
            SeriesKind::Grid
        } else {
            self.series[0].kind
        };
        kind.schedule(period, start, dither)
    }

    /// Checks that the probe supports these clocks.
    ///
    /// # Errors
    /// Returns the reason as a sentence fragment that ends with the remedy.
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
        // External loops, players and responders determine their own due times.
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

    /// Returns the length of a cycle: the period or, for probes that read a clock continuously,
    /// about the time of one read.
    #[must_use]
    pub fn cycle(&self, period: Nanos) -> Nanos {
        const READ: Nanos = Nanos(25);
        if self.has_period() { period } else { READ }
    }

    /// Returns whether the probe waits for the next period, instead of looking for gaps
    /// continuously.
    #[must_use]
    pub fn has_period(&self) -> bool {
        self.waits_for != WaitsFor::Nothing
    }
}

/// Accepts any plan, for probes that run everywhere.
///
/// # Errors
/// Returns no error.
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
