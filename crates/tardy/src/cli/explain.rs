//! Arguments of `tardy explain`.

use std::path::PathBuf;

use clap::Args;
use tardy_core::units::Nanos;
use tardy_results::explain::run::RunQuestion;
use tardy_results::explain::{Late, Question};
use tardy_trace::explain::{Preemption, Target};

use super::on::OnArgs;
use super::positive_duration;

/// `tardy explain`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct ExplainArgs {
    /// Run made with --explain, lab run made with --watch, folder of `tardy attach --out`, or
    /// trace.dat of trace-cmd (version 6 or 7); a trace.dat needs --task
    #[arg(value_name = "RUN|TRACE")]
    pub path: PathBuf,
    /// Thread to explain in a trace.dat: its name, or its number
    #[arg(long, value_name = "NAME|PID")]
    pub task: Option<String>,
    /// Number of worst samples or wake-ups to show as a time line
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub worst: u16,
    /// Explain samples with a latency above TIME, or cycles with a response time above TIME, as in
    /// 100us [default: the run's deadline, else the worst 0.1 % of the samples (at least 20); for
    /// cycles, the longest]
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    pub above: Option<Nanos>,
    /// Preemption mode of the traced kernel (its /sys/kernel/debug/sched/preempt)
    ///
    /// If the mode is known, tardy distinguishes non-preemptible kernel code from sections with
    /// preemption off.
    #[arg(long, value_name = "MODE", value_enum)]
    pub preempt: Option<PreemptMode>,
    /// Period of the thread, as in 1ms, for traces that lack the thread's timers
    ///
    /// Due times then follow a grid that is fitted to the thread's wake-ups.
    #[arg(long, value_name = "TIME", value_parser = positive_duration, required_if_eq("due_from", "period"))]
    pub period: Option<Nanos>,
    /// Source of due times [default: period if --period is given, else hrtimer]
    #[arg(long, value_name = "SOURCE", value_enum)]
    pub due_from: Option<DueSource>,
    /// Trace instance whose buffer to read, if there are several
    #[arg(long, value_name = "NAME")]
    pub buffer: Option<String>,
    /// For a lab run made with --explain and --watch: use the trace of the QEMU plugin, not that of
    /// the kernel
    #[arg(long)]
    pub outside: bool,
    /// File to write for Perfetto (ui.perfetto.dev): the schedule, and the holder of the CPU (a
    /// task or an interrupt) at each wake-up
    ///
    /// For a run, the file holds the parts of the trace around the run's worst samples.
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<PathBuf>,
    /// trace.dat file to write, for trace-cmd and KernelShark: everything that `tardy run
    /// --keep-trace` kept
    #[arg(long, value_name = "FILE")]
    pub trace_dat: Option<PathBuf>,
    /// File for the folded stacks of late samples, which flame graph tools read; needs a run made
    /// with --explain=stacks
    #[arg(long, value_name = "FILE")]
    pub folded: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub on: OnArgs,
}

/// How a kernel preempts its own code.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum PreemptMode {
    /// Kernel code is never preempted
    None,
    /// Kernel code is preempted at chosen places
    Voluntary,
    /// Kernel code is preempted only at the next tick
    Lazy,
    /// Kernel code is preempted everywhere except in protected sections
    Full,
    /// Kernel code is preempted even in most protected sections (PREEMPT_RT)
    Rt,
}

/// Where due times come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum DueSource {
    /// The thread's timers (timer:hrtimer_start and hrtimer_expire_entry)
    Hrtimer,
    /// A grid of due times, one every --period, placed so that each wake-up is at or after its due
    /// time
    Period,
}

impl ExplainArgs {
    /// Returns which samples or wake-ups are ranked.
    #[must_use]
    fn late(&self) -> Late {
        self.above.map_or(Late::Worst, Late::Above)
    }

    /// Returns the question about a run.
    #[must_use]
    pub fn run_question(&self) -> RunQuestion {
        RunQuestion {
            worst: self.worst.into(),
            late: self.late(),
            from_outside: self.outside,
        }
    }

    /// Returns the first given flag that only applies to a trace.dat.
    #[must_use]
    pub fn only_for_traces(&self) -> Option<&'static str> {
        let flags = [
            ("--task", self.task.is_some()),
            ("--preempt", self.preempt.is_some()),
            ("--period", self.period.is_some()),
            ("--due-from", self.due_from.is_some()),
            ("--buffer", self.buffer.is_some()),
        ];
        flags
            .into_iter()
            .find(|&(_, is_given)| is_given)
            .map(|(flag, _)| flag)
    }

    /// Returns the first given flag that does not apply to a run of `tardy attach`.
    #[must_use]
    pub fn only_for_explained_runs(&self) -> Option<&'static str> {
        let flags = [
            ("--outside", self.outside),
            ("--perfetto", self.perfetto.is_some()),
            ("--trace-dat", self.trace_dat.is_some()),
            ("--folded", self.folded.is_some()),
        ];
        flags
            .into_iter()
            .find(|&(_, is_given)| is_given)
            .map(|(flag, _)| flag)
    }

    /// Returns the question about the wake-ups of the thread `task` in a trace.dat.
    #[must_use]
    pub fn question(&self, task: &str) -> Question {
        Question {
            target: task.parse().map_or_else(
                |_| Target::Names(vec![task.into()]),
                |pid| Target::Pids(vec![pid]),
            ),
            buffer: self.buffer.clone(),
            worst: self.worst.into(),
            late: self.late(),
            preemption: self.preempt.map(|mode| match mode {
                PreemptMode::None | PreemptMode::Voluntary => Preemption::No,
                // In lazy mode, real-time threads are switched to at once, as in full mode.
                PreemptMode::Lazy | PreemptMode::Full | PreemptMode::Rt => Preemption::Full,
            }),
            period: self.period,
        }
    }
}

const AFTER_HELP: &str = "A run can record its own trace (as root):
  tardy run --explain --for 10m --out board7
  tardy explain board7
  tardy explain board7 --above 100us --worst 5
  tardy explain board7 --perfetto board7.pftrace
  tardy explain board7 --trace-dat board7.dat              # after a run with --keep-trace
  tardy explain board7 --folded board7.folded              # after a run with --explain=stacks
For a program measured by tardy attach, tardy explains cycles, which last from wake-up to sleep:
  tardy attach $(pidof my_loop) --out mine; tardy explain mine --above 2ms
For your own application, record its trace while it runs:
  trace-cmd record -C mono -e sched:sched_switch -e sched:sched_waking -e sched:sched_migrate_task \
                          -e irq -e irq_vectors -e timer:hrtimer_start \\
    -e timer:hrtimer_cancel -e timer:hrtimer_expire_entry -e timer:hrtimer_expire_exit -e nmi -e \
                          exceptions -e lock:contention_begin -e lock:contention_end -e task:task_newtask \\
    -e workqueue:workqueue_execute_start -e workqueue:workqueue_execute_end sleep 10
Then:
  tardy explain trace.dat --task my_loop
  tardy explain trace.dat --task my_loop --above 100us --worst 5
  tardy explain trace.dat --task my_loop --perfetto my_loop.pftrace
  tardy explain trace.dat --task my_loop --period 1ms      # the trace has no hrtimer events
trace-cmd fails if the kernel lacks one of these events (irq_vectors exists only on x86): leave \
                          such events out. docs/explain.md explains the output.
Exit codes: 0 explained; 2 wrong use, no such thread, a run without a trace, or a file that cannot \
                          be read.";
