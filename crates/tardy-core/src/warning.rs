//! Warnings that a reader must know before reading a run's numbers. A warning is an enum value with
//! data; it is stored in the run and shown in every report.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::budget;
use crate::cause::plainly;
use crate::cpu::{CpuId, CpuList};
use crate::units::Nanos;

/// How much a warning affects the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Samples are missing, or the run was cut off. It is unknown which values are missing.
    Incomplete,
    /// The set-up does not meet a condition for verdicts, so the run shows less about the system.
    Degraded,
    /// The warning is only information and affects no conclusion.
    Notice,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "warning", rename_all = "kebab-case")]
pub enum Warning {
    /// Samples were taken, but lost before they were recorded.
    SamplesLost {
        probe: String,
        cpu: Option<CpuId>,
        lost: u64,
    },
    /// Samples were recorded, but could not be stored.
    SamplesNotStored {
        probe: String,
        cpu: Option<CpuId>,
        samples: u64,
        since_start: Nanos,
        error: String,
    },
    /// The counts of a series do not add up.
    AccountingInexact {
        probe: String,
        cpu: Option<CpuId>,
        unexplained: i64,
    },
    /// The tool was killed before it could close the run.
    CutOff { stored_until: Option<Nanos> },
    /// Larger latencies than the known maximum may have occurred.
    MaximumUnsure { reason: String },
    /// The run is still in progress, and the numbers cover its samples up to now.
    UnderWay { stored_until: Option<Nanos> },
    /// The run was resumed after its tool had been killed.
    Resumed {
        since_start: Nanos,
        away: Nanos,
        is_reboot: bool,
    },
    /// Bytes of a series file could not be read.
    DamagedFile { file: String, bytes: u64 },
    /// Samples that the run had stored are missing from their file.
    SamplesGone { file: String, samples: u64 },
    /// The run was interrupted before its planned end.
    Interrupted { after: Nanos, planned: Nanos },
    /// A probe did not sleep and was stopped by the watchdog.
    WatchdogEnded { cpu: Option<CpuId> },
    /// A thread of the tool got no CPU time for seconds after the run's end, until the watchdog
    /// raised its priority.
    Starved { cpu: Option<CpuId> },
    /// Most periods were skipped.
    MostPeriodsSkipped {
        probe: String,
        cpu: Option<CpuId>,
        share: f64,
        period: Nanos,
    },
    /// A probe woke up before its due times.
    EarlyWakeUps {
        probe: String,
        cpu: Option<CpuId>,
        count: u64,
        earliest: Nanos,
    },
    /// The requested policy was refused.
    NoRealTimePolicy { policy: String, error: String },
    /// Memory could not be locked.
    MemoryNotLocked { error: String },
    /// A probe could not be bound to its CPU.
    NotBound { cpu: CpuId, error: String },
    /// The power management's latency limit could not be set.
    CpuLatencyNotSet { error: String },
    /// The run kept the measured CPUs out of deep idle states that they could otherwise enter.
    IdleStatesHeld { states: String },
    /// The kernel lacks high-resolution timers, so timers expire at the tick.
    NoHighResolutionTimers { resolution: Nanos },
    /// The measuring thread had page faults in its loop.
    FaultsInLoop { cpu: Option<CpuId>, faults: u64 },
    /// A probe took samples on the wrong CPU.
    Displaced {
        probe: String,
        cpu: Option<CpuId>,
        samples: u64,
        recorded: u64,
        elsewhere: CpuList,
        since_start: Nanos,
        phases: Vec<String>,
    },
    /// Another process changed the scheduling of a measuring thread during the measurement.
    SchedulingChanged {
        thread: String,
        before: String,
        after: String,
        since_start: Nanos,
    },
    /// The clock that defines timers or due times was set during the run.
    ClockStepped {
        clock: String,
        by: Nanos,
        since_start: Nanos,
        has_timers: bool,
    },
    /// There were stalls that look like real-time throttling.
    LooksLikeThrottling {
        windows: u64,
        length: Nanos,
        /// The kernel's rule that caused the throttling; empty in older files.
        #[serde(default)]
        rule: String,
    },
    /// The hypervisor ran other tasks.
    TimeStolen { cpu: CpuId, stolen: Nanos },
    /// The control group's CPU limit throttled the run.
    CgroupThrottled { periods: u64 },
    /// System-management interrupts occurred.
    ManagementInterrupts { cpu: CpuId, count: u64 },
    /// Interrupts could not be moved away from the measured CPUs.
    InterruptsNotMoved { interrupts: String, error: String },
    /// A load cannot run on this machine.
    LoadAbsent {
        load: String,
        missing: String,
        remedy: String,
    },
    /// A load could not do its work.
    LoadProblem { load: String, problem: String },
    /// Loads died or failed, so not all planned loads ran during a part of the run.
    NotUnderLoad {
        unloaded: Nanos,
        planned: Nanos,
        causes: Vec<String>,
    },
    /// All CPUs are measured, so the tool's own threads share them.
    #[serde(alias = "no-processor-left")]
    NoCpuLeft { cpus: CpuList },
    /// Some CPUs are isolated; the tool's own threads run on `others`.
    IsolatedCpus {
        isolated: CpuList,
        measured: CpuList,
        others: CpuList,
    },
    /// Two probes run on the same CPU at the same priority.
    #[serde(alias = "probes-share-processors")]
    ProbesShareCpus { probes: Vec<String> },
    /// Another run measures the same CPUs.
    AnotherRun { process: u32, cpus: CpuList },
    /// A latency above the limit stopped the run.
    StoppedAbove {
        cpu: Option<CpuId>,
        latency: Nanos,
        limit: Nanos,
    },
    /// The run recorded the kernel's trace, which costs time.
    Traced {
        level: u32,
        events: u64,
        absent: Vec<String>,
        is_leaving_idle_seen: bool,
    },
    /// The run could not record the kernel's trace.
    NotExplained { reason: String, remedy: String },
    /// Delays of some samples are unexplained or only partly explained.
    ExplanationsLost { samples: u64, lost_events: u64 },
    /// The times are those of an emulated machine.
    VirtualTime,
    /// A loop of the user's program had a due time that is not on the grid that the loop declared.
    LoopLeftItsGrid {
        name: String,
        period: Nanos,
        before: Nanos,
        due: Nanos,
    },
    /// The peer of a measured link stopped answering.
    ResponderGone { link: String, unanswered: u64 },
    /// Another problem. The text contains the remedy.
    Problem { text: String },
    /// Information that is not a problem, such as a calibration, a count, or an importer's remark.
    Note { text: String },
}

impl Warning {
    /// Returns whether another process changed the measuring threads or their clock. In this case
    /// the run measured a different system.
    #[must_use]
    pub fn is_of_changed_probes(&self) -> bool {
        matches!(
            self,
            Self::Displaced { .. }
                | Self::SchedulingChanged { .. }
                | Self::ClockStepped {
                    has_timers: true,
                    ..
                }
        )
    }

    /// Returns the severity.
    #[must_use]
    pub fn severity(&self) -> Severity {
        match self {
            Self::SamplesLost { .. }
            | Self::SamplesNotStored { .. }
            | Self::AccountingInexact { .. }
            | Self::CutOff { .. }
            | Self::MaximumUnsure { .. }
            | Self::UnderWay { .. }
            | Self::DamagedFile { .. }
            | Self::SamplesGone { .. }
            | Self::NotUnderLoad { .. }
            | Self::WatchdogEnded { .. }
            | Self::Starved { .. }
            | Self::LoopLeftItsGrid { .. }
            | Self::ResponderGone { .. } => Severity::Incomplete,
            Self::MostPeriodsSkipped { .. }
            | Self::NoRealTimePolicy { .. }
            | Self::MemoryNotLocked { .. }
            | Self::NotBound { .. }
            | Self::Displaced { .. }
            | Self::SchedulingChanged { .. }
            | Self::ClockStepped {
                has_timers: true, ..
            }
            | Self::CpuLatencyNotSet { .. } => Severity::Degraded,
            _ => Severity::Notice,
        }
    }

    /// Returns whether this is only information and affects no number.
    #[must_use]
    pub fn is_note(&self) -> bool {
        matches!(
            self,
            Self::Note { .. }
                | Self::Resumed { .. }
                | Self::IsolatedCpus { .. }
                | Self::StoppedAbove { .. }
        )
    }

    /// Returns the line for people, which starts with `!` or `note:`.
    #[must_use]
    pub fn line(&self) -> String {
        if self.is_note() {
            format!("note: {self}")
        } else {
            format!("! {self}")
        }
    }

    /// Returns the key by which a list is sorted: the most important warning comes first.
    #[must_use]
    pub fn rank(&self) -> (u8, Severity) {
        match self {
            // These warnings come first, because they name causes of other problems, such as lost
            // samples.
            Self::Displaced { .. }
            | Self::SchedulingChanged { .. }
            | Self::MostPeriodsSkipped { .. } => (0, self.severity()),
            Self::SamplesLost { .. } => (1, self.severity()),
            Self::SamplesNotStored { .. } => (2, self.severity()),
            _ if self.severity() == Severity::Incomplete => (3, self.severity()),
            // This defect of the set-up is the most important one. Its remedy also removes others.
            Self::NoRealTimePolicy { .. } => (4, self.severity()),
            _ if self.is_note() => (6, self.severity()),
            _ => (5, self.severity()),
        }
    }
}

struct OnCpu(Option<CpuId>);

impl fmt::Display for OnCpu {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .map_or(Ok(()), |cpu| write!(formatter, " on CPU {cpu}"))
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plainly(f, |text| self.write(text))
    }
}

impl Warning {
    fn write(&self, f: &mut impl fmt::Write) -> fmt::Result {
        match self {
            Self::SamplesLost { probe, cpu, lost } => {
                write!(
                    f,
                    "{lost} samples of {probe}{} were lost before they were recorded, because the \
                     tool got too little CPU time: leave it a CPU with --cpus, or give a longer \
                     --period",
                    OnCpu(*cpu)
                )
            }
            Self::SamplesNotStored {
                probe,
                cpu,
                samples,
                since_start,
                error,
            } => write!(
                f,
                "{samples} samples of {probe}{}, from {since_start} into the run, could not be \
                 stored ({error}); only their histogram is kept",
                OnCpu(*cpu)
            ),
            Self::MaximumUnsure { reason } => write!(f, "{reason}: the maximum is a lower bound"),
            Self::AccountingInexact {
                probe,
                cpu,
                unexplained,
            } => {
                write!(
                    f,
                    "the accounting of {probe}{} does not add up: {unexplained} due times are \
                     unaccounted for (please report this)",
                    OnCpu(*cpu)
                )
            }
            Self::CutOff { stored_until } => {
                let stored = stored_until.map_or_else(
                    || "it stored no samples".to_owned(),
                    |until| {
                        format!(
                            "samples are stored up to {until} after the start; later ones are \
                             missing"
                        )
                    },
                );
                write!(
                    f,
                    "the run was cut off (the tool was killed or the power failed): {stored}"
                )
            }
            Self::UnderWay { stored_until } => {
                let stored = stored_until.map_or_else(
                    || "no samples".to_owned(),
                    |until| format!("samples up to {until} after the start"),
                );
                write!(f, "the run is still under way; so far: {stored}")
            }
            Self::Resumed {
                since_start,
                away,
                is_reboot,
            } => {
                let machine = if *is_reboot {
                    " (the machine rebooted)"
                } else {
                    ""
                };
                write!(
                    f,
                    "the run was interrupted {since_start} after the start{machine}: it resumed \
                     {away} later, and its numbers leave out the gap"
                )
            }
            Self::DamagedFile { file, bytes } => {
                write!(f, "{bytes} bytes of {file} are damaged and were left out")
            }
            Self::SamplesGone { file, samples } => {
                write!(
                    f,
                    "{samples} samples that the run stored are missing from {file}: copy the run \
                     folder again from its original location"
                )
            }
            Self::Interrupted { after, planned } => {
                write!(f, "interrupted after {after} of {planned}")
            }
            Self::WatchdogEnded { cpu } => {
                write!(
                    f,
                    "the watchdog stopped a probe{} that ran without sleeping: the probe's period \
                     is too short for this machine",
                    OnCpu(*cpu)
                )
            }
            Self::Starved { cpu } => {
                let thread = if cpu.is_some() {
                    "a probe"
                } else {
                    "a thread of the tool"
                };
                write!(
                    f,
                    "{thread}{} got no CPU time for seconds after the run's end, until the \
                     watchdog raised its priority; latencies that the end cut short are lower \
                     bounds. A higher-priority task never sleeps: find it with `ps -eLo \
                     rtprio,psr,pid,comm --sort=-rtprio`, and measure again",
                    OnCpu(*cpu)
                )
            }
            Self::MostPeriodsSkipped {
                probe,
                cpu,
                share,
                period,
            } => write!(
                f,
                "{probe}{} skipped {:.1} % of its periods, because its timer cannot wake a thread \
                 every {period} here: use a longer --period",
                OnCpu(*cpu),
                share * 100.0
            ),
            Self::EarlyWakeUps {
                probe,
                cpu,
                count,
                earliest,
            } => {
                write!(
                    f,
                    "{probe}{} woke up early {count} times, by up to {}: an error of the system's \
                     clock or timer",
                    OnCpu(*cpu),
                    -*earliest
                )
            }
            Self::NoRealTimePolicy { policy, error } => write!(
                f,
                "probes ran as ordinary tasks instead of {policy} ({error}), so latencies are \
                 those of an ordinary task: {}",
                budget::remedy(error)
            ),
            Self::MemoryNotLocked { error } => {
                write!(
                    f,
                    "memory was not locked ({error}), so latencies may include page faults: grant \
                     CAP_IPC_LOCK or a memlock limit"
                )
            }
            Self::NotBound { cpu, error } => {
                write!(
                    f,
                    "the probe of CPU {cpu} was not bound to this CPU ({error}), so its samples \
                     may come from other CPUs"
                )
            }
            Self::CpuLatencyNotSet { error } => write!(
                f,
                "deep C-states stayed enabled ({error}), so latencies may include the exit from a \
                 deep C-state: make /dev/cpu_dma_latency writable, or accept deep C-states with \
                 --cpu-dma-latency leave"
            ),
            Self::NoHighResolutionTimers { resolution } => {
                write!(
                    f,
                    "timers fire only at the tick, every {resolution}: high-resolution timers are \
                     off (highres=off, or no suitable clock)"
                )
            }
            Self::FaultsInLoop { cpu, faults } => {
                let (s, them) = if *faults == 1 {
                    ("", "it")
                } else {
                    ("s", "them")
                };
                write!(
                    f,
                    "{faults} page fault{s} in the measuring loop{}: latencies include {them}",
                    OnCpu(*cpu)
                )
            }
            Self::Displaced {
                probe,
                cpu,
                samples,
                recorded,
                elsewhere,
                since_start,
                phases,
            } => {
                let phases = if phases.is_empty() {
                    String::new()
                } else {
                    format!(" (in {})", phases.join(", "))
                };
                let cpu = cpu.map_or_else(|| "its CPUs".to_owned(), |cpu| format!("CPU {cpu}"));
                write!(
                    f,
                    "{probe} was moved away from {cpu}: from {since_start} into the run{phases}, \
                     CPU {elsewhere} took {samples} of its {recorded} samples; this run \
                     supports no verdict: keep taskset, cpusets and CPU hotplug away from \
                     the probe, and measure again"
                )
            }
            Self::SchedulingChanged {
                thread,
                before,
                after,
                since_start,
            } => write!(
                f,
                "the scheduling of the measuring thread {thread} was changed from {before} to \
                 {after} (noticed {since_start} after the start); this run supports no verdict: \
                 keep chrt, taskset, cpusets and tuning daemons away from the thread, and measure \
                 again"
            ),
            Self::ClockStepped {
                clock,
                by,
                since_start,
                has_timers,
            } => {
                let by = if *by < Nanos::ZERO {
                    format!("back by {}", -*by)
                } else {
                    format!("forward by {by}")
                };
                let effect = if *has_timers {
                    "the probes' timers use this clock, so samples at that time show the step, \
                     and this run supports no verdict"
                } else {
                    "latencies are unaffected, but from then on, the due times on this clock are \
                     not whole multiples of the period"
                };
                write!(
                    f,
                    "{clock} was set {by} (noticed {since_start} after the start): {effect}; let \
                     time synchronisation settle (chronyc waitsync, ptp4l) and measure again"
                )
            }
            Self::LooksLikeThrottling {
                windows,
                length,
                rule,
            } => {
                let rule = if rule.is_empty() {
                    "real-time throttling"
                } else {
                    rule
                };
                write!(
                    f,
                    "{windows} stalls of about {length} look like {rule}, not like kernel latency"
                )
            }
            Self::TimeStolen { cpu, stolen } => write!(
                f,
                "the hypervisor took {stolen} from CPU {cpu}; latencies include this steal time"
            ),
            Self::CgroupThrottled { periods } => write!(
                f,
                "the control group's CPU quota stopped this process in {periods} quota periods"
            ),
            Self::ManagementInterrupts { cpu, count } => {
                write!(f, "{count} system-management interrupts (SMI) on CPU {cpu}")
            }
            Self::InterruptsNotMoved { interrupts, error } => {
                write!(f, "interrupts {interrupts} could not be moved ({error})")
            }
            Self::LoadAbsent {
                load,
                missing,
                remedy,
            } => write!(
                f,
                "load {load} is left out because it needs {missing}: {remedy}"
            ),
            Self::LoadProblem { load, problem } => write!(f, "load {load}: {problem}"),
            Self::NotUnderLoad {
                unloaded,
                planned,
                causes,
            } => write!(
                f,
                "the loads did not run for {unloaded} of their planned {planned} ({}), so the run \
                 does not show the latency under these loads: repeat the run",
                causes.join(", ")
            ),
            Self::NoCpuLeft { cpus } if cpus.len() == 1 => {
                write!(f, "the tool's own threads share the only CPU, {cpus}")
            }
            Self::NoCpuLeft { cpus } => {
                write!(
                    f,
                    "the tool's own threads share the measured CPUs {cpus}: leave a CPU for these \
                     threads out of --cpus"
                )
            }
            Self::AnotherRun { process, cpus } => write!(
                f,
                "another run (process {process}) measures the same CPUs ({cpus}), so the two runs \
                 delay each other: stop the other run, or give each run separate CPUs with --cpus"
            ),
            Self::IsolatedCpus {
                isolated,
                measured,
                others,
            } if isolated.minus(measured).is_empty() => write!(
                f,
                "CPUs {isolated} are isolated (isolcpus or nohz_full) and measured; the tool's own \
                 threads run on {others}, where the loads run too unless --load-cpus names other \
                 CPUs"
            ),
            Self::IsolatedCpus {
                isolated, measured, ..
            } => {
                write!(
                    f,
                    "CPUs {isolated} are isolated (isolcpus or nohz_full), but CPUs {measured} \
                     are measured: use --cpus isolated to measure the isolated ones"
                )
            }
            Self::ProbesShareCpus { probes } => {
                write!(
                    f,
                    "the probes {} share CPUs and a priority, so they delay each other",
                    probes.join(", ")
                )
            }
            Self::StoppedAbove {
                cpu,
                latency,
                limit,
            } => {
                write!(
                    f,
                    "stopped by a latency of {latency}{}, above {limit}",
                    OnCpu(*cpu)
                )
            }
            Self::LoopLeftItsGrid {
                name,
                period,
                before,
                due,
            } => write!(
                f,
                "the loop {name} declared due times every {}, but one due time came {} after the \
                 previous one, so the loop's series ends there: declare the true period, \
                 or none",
                period.exact(),
                *due - *before
            ),
            Self::ResponderGone { link, unanswered } => {
                write!(
                    f,
                    "the responder over {link} stopped answering: the run ended there, and the \
                     last {unanswered} stimuli got no answer and are not samples"
                )
            }
            Self::Traced {
                level,
                events,
                absent,
                is_leaving_idle_seen,
            } => {
                write!(
                    f,
                    "the kernel's trace was recorded ({events} kinds of event), so each latency \
                     includes the cost of recording about six events"
                )?;
                if *level == 3 {
                    f.write_str(
                        "; the timerlat thread takes the CPU every millisecond: do not use these \
                         latencies for comparisons",
                    )?;
                } else if *level > 1 {
                    f.write_str(
                        "; recording kernel stacks adds tens of microseconds more: do not use \
                         these latencies for comparisons",
                    )?;
                }
                if !absent.is_empty() {
                    write!(f, "; events that this kernel lacks: {}", absent.join(", "))?;
                }
                if !is_leaving_idle_seen {
                    f.write_str("; this kernel does not trace switches from the idle task")?;
                }
                Ok(())
            }
            Self::NotExplained { reason, remedy } => {
                write!(f, "samples are not explained: {reason}; {remedy}")
            }
            Self::ExplanationsLost {
                samples,
                lost_events,
            } => write!(
                f,
                "{samples} samples are explained only in part or not at all, because \
                 {lost_events} trace events were lost; the samples themselves are \
                 complete: run fewer loads on the tool's CPUs, or leave a CPU out with \
                 --cpus"
            ),
            Self::IdleStatesHeld { states } => write!(
                f,
                "idle CPUs stayed awake only because this run requested it; without such a request \
                 they go {states}, and programs then wake up later: keep /dev/cpu_dma_latency open \
                 in your program, or measure with --cpu-dma-latency leave"
            ),
            Self::VirtualTime => write!(
                f,
                "virtual time counts the instructions of the kernel's code paths; it models no \
                 caches, buses, firmware or parallel CPUs, and does not show a machine's \
                 worst case"
            ),
            Self::Problem { text } | Self::Note { text } => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_periods_come_first_and_lost_samples_before_the_rest() {
        let mut warnings = [
            Warning::VirtualTime,
            Warning::MemoryNotLocked { error: "no".into() },
            Warning::MostPeriodsSkipped {
                probe: "cyclic".into(),
                cpu: None,
                share: 0.9,
                period: Nanos(1),
            },
            Warning::SamplesLost {
                probe: "cyclic".into(),
                cpu: Some(CpuId(1)),
                lost: 3,
            },
        ];
        warnings.sort_by_key(Warning::rank);
        let severities: Vec<Severity> = warnings.iter().map(Warning::severity).collect();
        assert_eq!(
            severities,
            [
                Severity::Degraded,
                Severity::Incomplete,
                Severity::Degraded,
                Severity::Notice
            ]
        );
        assert!(matches!(warnings[0], Warning::MostPeriodsSkipped { .. }));
    }

    #[test]
    fn notes_come_last_and_only_warnings_are_marked_as_such() {
        let text = || "calibrated".to_owned();
        let mut warnings = [
            Warning::Note { text: text() },
            Warning::Problem { text: text() },
            Warning::VirtualTime,
        ];
        warnings.sort_by_key(Warning::rank);
        assert_eq!(
            (warnings[2].line().as_str(), warnings[0].line().as_str()),
            ("note: calibrated", "! calibrated")
        );
        assert!(
            warnings
                .iter()
                .all(|warning| warning.severity() == Severity::Notice)
        );
    }

    #[test]
    fn a_warning_survives_a_round_trip_through_json() {
        let warning = Warning::SamplesLost {
            probe: "cyclic".into(),
            cpu: Some(CpuId(1)),
            lost: 3,
        };
        let json = serde_json::to_string(&warning).unwrap();
        let expected = r#"{"warning":"samples-lost","probe":"cyclic","cpu":1,"lost":3}"#;
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_str::<Warning>(&json).unwrap(), warning);
    }
}
