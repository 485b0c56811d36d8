//! What a probe says about itself.

use tardy_core::series::{Meaning, Schedule};
use tardy_core::units::Nanos;
use tardy_run::parameter::Parameter;
use tardy_run::plan::{PolicyName, ProbePlan, WaitsFor};
use tardy_run::system_clock::{ProbeClocks, SystemClock};

use super::member::{Opened, Opening};
use crate::load::{Absent, Surroundings};

/// A probe's description of itself.
#[derive(Debug)]
pub struct ProbeInfo {
    /// As on the command line and in file names: lower case, digits, dashes.
    pub name: &'static str,
    /// What is timed, in one sentence.
    pub times: &'static str,
    /// In which context the timer behind it expires: hard interrupt, softirq, thread; on stock kernels (`stock: ...`) and on PREEMPT_RT (`RT: ...`).
    pub context: &'static str,
    /// Where it comes from: a paper or a program, or `today`.
    pub source: &'static str,
    /// What can be set beside `period`, `policy`, `priority` and `dither`, which every probe has; values without names are in this order, and
    /// before those.
    pub parameters: &'static [Parameter],
    /// Its series, of which each place has all; the first has the probe's name.
    pub series: &'static [SeriesInfo],
    /// Where it runs.
    pub placement: Placement,
    /// Scheduling policy where none is asked for.
    pub policy: PolicyName,
    /// Period where none is asked for.
    pub period: Nanos,
    /// Looks whether the request makes sense and the machine has what it needs; changes nothing.
    pub resolve: fn(&ProbePlan, &Surroundings) -> Result<(), Refusal>,
    /// Gets hold of what one place needs, before any thread of the run exists; called on the main thread, once for each place.
    pub open: fn(Opening<'_>) -> std::io::Result<Opened>,
}

/// One series of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeriesInfo {
    /// Behind the probe's name and a dot in the name of the series; empty for the first.
    pub part: &'static str,
    /// Name of the quantity in tables, such as `latency`.
    pub quantity: &'static str,
    /// When samples are due, and what their values say.
    pub kind: SeriesKind,
    /// Whether its values say nothing about a deadline.
    pub is_outside_verdict: bool,
    /// Whether values below the probe's parameter `least` are counted one by one without their time, because they come all the time.
    pub counts_small: bool,
}

/// When samples of a series are due, and what their values say. All are in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeriesKind {
    /// Lateness against due times on a grid; some can be missed.
    Grid,
    /// Lateness against a time asked for in each cycle, or a stamp that another thread made: nothing can be missed.
    Event,
    /// Lateness of the end of work against due times on a grid. Work that was due and skipped was never done: it misses any deadline.
    Work,
    /// Time of the sound less that of the picture, on a grid of frames; see [`Meaning::Skew`]. A frame that was skipped was never shown.
    Skew,
    /// Time between two events less the period, nothing being known of when they were due; see [`Meaning::IntervalError`].
    Interval {
        /// Whether the events come from a device with a clock of its own.
        has_own_clock: bool,
    },
    /// Lengths of gaps, of at least the probe's parameter `least`, each with its begin: see [`Meaning::Gap`].
    Gap,
}

/// Where a probe runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// A place on each measured processor.
    EachCpu,
    /// One place, on the first measured processor: there is one such device, or one such timer in a process.
    FirstCpu,
    /// One place, on whatever processor it is.
    Unbound,
    /// As many places as the probe's parameter `copies` says; their threads move among the measured processors.
    Copies,
    /// As many places as there are measured processors; their threads move among all processors, because the kernel will not bind them.
    CopyACpu,
}

/// Why a probe cannot run as asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The machine lacks something.
    Absent(Absent),
    /// The request makes no sense; what would, in a fragment that ends in the remedy.
    Request(String),
}

impl SeriesInfo {
    /// Latencies on a grid.
    pub const GRID_LATENCY: Self =
        Self { part: "", quantity: "latency", kind: SeriesKind::Grid, is_outside_verdict: false, counts_small: false };
    /// Latencies without a schedule.
    pub const EVENT_LATENCY: Self =
        Self { part: "", quantity: "latency", kind: SeriesKind::Event, is_outside_verdict: false, counts_small: false };
    /// Interval errors; they are no latenesses, and no verdict rests on them.
    pub const INTERVAL_ERROR: Self = Self {
        part: "",
        quantity: "interval error",
        kind: SeriesKind::Interval { has_own_clock: false },
        is_outside_verdict: true,
        counts_small: false,
    };

    /// Gaps, which say nothing about a deadline.
    pub const GAPS: Self = Self { part: "", quantity: "gap", kind: SeriesKind::Gap, is_outside_verdict: true, counts_small: false };

    /// The name of the series of `probe`.
    #[must_use]
    pub fn name(&self, probe: &str) -> String {
        if self.part.is_empty() { probe.to_owned() } else { format!("{probe}.{}", self.part) }
    }
}

impl SeriesKind {
    /// The schedule of a series of a probe with this period; a grid is then moved by `start` and `dither`.
    #[must_use]
    pub fn schedule(self, period: Nanos, start: Nanos, dither: Nanos) -> Schedule {
        match self {
            Self::Grid | Self::Work | Self::Skew => Schedule::Grid { period, start, dither },
            Self::Event | Self::Interval { .. } => Schedule::Event { request: period },
            // A gap begins at any time: the format wants a time above zero, and stores what departs from it.
            Self::Gap => Schedule::Event { request: Nanos(1) },
        }
    }

    /// Whether work was due at its due times, rather than a look at the clock; see [`tardy_core::series::Descriptor::is_work`].
    #[must_use]
    pub fn is_work(self) -> bool {
        matches!(self, Self::Work | Self::Skew)
    }

    /// What the values say, where the probe reads a clock with this error, and shorter gaps than `least` are none.
    #[must_use]
    pub fn meaning(self, clock_error: Nanos, least: Nanos) -> Meaning {
        match self {
            Self::Grid | Self::Work | Self::Event => Meaning::Lateness { clock_error },
            Self::Skew => Meaning::Skew,
            Self::Interval { has_own_clock } => Meaning::IntervalError { has_own_clock },
            Self::Gap => Meaning::Gap { least },
        }
    }
}

impl ProbeInfo {
    /// Whether there is one such thing in a process or a machine, so that two probes of this kind would be in each other's way.
    #[must_use]
    pub fn is_single(&self) -> bool {
        // A POSIX timer and a queue are each thread's own, a signal that one thread sends another is every pair's.
        matches!(self.placement, Placement::FirstCpu | Placement::Unbound) || matches!(self.name, "signal")
    }

    /// Whether due times form a grid, so that some can be missed.
    #[must_use]
    pub fn has_schedule(&self) -> bool {
        self.series.iter().any(|series| matches!(series.kind, SeriesKind::Grid | SeriesKind::Work | SeriesKind::Skew))
    }

    /// The schedule of its threads. A pair of threads records events, but one of the two walks a grid.
    #[must_use]
    pub fn schedule(&self, period: Nanos, start: Nanos, dither: Nanos) -> Schedule {
        let kind = if self.has_schedule() { SeriesKind::Grid } else { self.series[0].kind };
        kind.schedule(period, start, dither)
    }

    /// What it waits for. Interval errors do not show a constant lateness, as that of a tick may be; pairs of threads and what others begin have no timer.
    #[must_use]
    pub fn waits_for(&self) -> WaitsFor {
        let is_pair = self.series.iter().any(|series| series.part == "timer");
        // What these time is begun by another program or another machine.
        let is_of_others = matches!(self.name, "app" | "response");
        match self.series[0].kind {
            SeriesKind::Gap => WaitsFor::Nothing,
            SeriesKind::Grid | SeriesKind::Event if !is_pair && !is_of_others => WaitsFor::Timer,
            _ => WaitsFor::Event,
        }
    }

    /// Whether it can have these clocks.
    ///
    /// # Errors
    /// Why not, in a fragment that ends in the remedy.
    pub fn check_clocks(&self, clocks: ProbeClocks) -> Result<(), String> {
        let has_choice = matches!(self.name, "cyclic" | "nanosleep" | "timerfd" | "posix-timer");
        if !has_choice && !clocks.timer.is_of_the_run() {
            let clock = clocks.timer.name();
            return Err(format!(
                "its timer cannot be set on another clock: leave clock={clock} out, or use cyclic, nanosleep, timerfd or posix-timer"
            ));
        }
        if self.name == "timerfd" && clocks.timer == SystemClock::Tai {
            return Err("timerfd_create(2) has no CLOCK_TAI: use cyclic or posix-timer, or clock=realtime with align=tai".to_owned());
        }
        // Loops of others, players and peers have due times of their own.
        let has_own_grid = self.has_schedule() && !matches!(self.name, "app" | "media" | "response");
        match clocks.align {
            Some(clock) if !has_own_grid => {
                Err(format!("it has no grid of due times that could be aligned: leave align={} out, or use cyclic", clock.name()))
            }
            _ => Ok(()),
        }
    }

    /// How long a cycle takes at this period: for probes that read a clock all the time, about a read.
    #[must_use]
    pub fn cycle(&self, period: Nanos) -> Nanos {
        const READ: Nanos = Nanos(25);
        if self.has_period() { period } else { READ }
    }

    /// Whether it waits for periods at all, rather than look for gaps all the time.
    #[must_use]
    pub fn has_period(&self) -> bool {
        self.waits_for() != WaitsFor::Nothing
    }
}

/// For probes that run everywhere, whatever is asked for.
///
/// # Errors
/// None.
pub fn always(_: &ProbePlan, _: &Surroundings) -> Result<(), Refusal> {
    Ok(())
}

/// For probes whose timer is set once: dither would need it to be set anew for each due time.
///
/// # Errors
/// [`Refusal::Request`] where dither is asked for.
pub fn no_dither(probe: &ProbePlan) -> Result<(), Refusal> {
    if probe.dither > Nanos::ZERO {
        return Err(Refusal::Request("a timer that is set once cannot move its due times: leave --dither out, or use cyclic".into()));
    }
    Ok(())
}
