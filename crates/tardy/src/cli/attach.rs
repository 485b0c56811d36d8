//! Arguments of `tardy attach`.

use std::path::PathBuf;

use clap::Args;
use tardy_core::bytes::{format_bytes, parse_bytes};
use tardy_core::units::Nanos;
use tardy_run::attached::DISK_LEAST;
use tardy_run::threshold::ThresholdAction;

use super::{positive_duration, share};

/// `tardy attach`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct AttachArgs {
    /// Process ID of the running program
    #[arg(value_name = "PID", value_parser = process_number, required_unless_present = "realtime", conflicts_with = "realtime")]
    pub process: Option<u32>,
    /// Measure all real-time threads of the machine (SCHED_FIFO, SCHED_RR and SCHED_DEADLINE)
    /// instead of one program; threads of the kernel and of tardy are left out
    #[arg(long)]
    pub realtime: bool,
    /// Measure only the thread with this ID
    #[arg(long, value_name = "TID", value_parser = process_number, conflicts_with = "realtime")]
    pub thread: Option<u32>,
    /// Measure the time between two functions of the program, instead of wake-ups: from a call of
    /// FUNCTION until the same thread calls the function of --to
    ///
    /// FUNCTION%return is the return from the function. The kernel puts a breakpoint at the start
    /// of each function (uprobes), which delays each call by some microseconds. The program's own
    /// file or one of its libraries must have the symbol of the function. Name a Rust function by
    /// its path in the source, and a C++ function by its mangled name.
    #[arg(long, value_name = "FUNCTION", requires_all = ["to", "process"])]
    pub from: Option<String>,
    /// Second function for --from: the measured time ends when the same thread calls FUNCTION
    #[arg(long, value_name = "FUNCTION", requires_all = ["from", "process"])]
    pub to: Option<String>,
    /// How long to measure; Ctrl-C or the end of the program stops the measurement earlier
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = positive_duration, allow_hyphen_values = true)]
    pub length: Nanos,
    /// Measure until Ctrl-C, SIGTERM, or the end of the program
    #[arg(long, conflicts_with = "length")]
    pub until_stopped: bool,
    /// Deadline: the largest allowed latency of any wake-up or, with --from, the longest allowed
    /// time between the two functions, as in 200us
    #[arg(long, alias = "limit", value_name = "TIME", value_parser = positive_duration, allow_hyphen_values = true)]
    pub deadline: Option<Nanos>,
    /// Share of wake-ups that may miss the deadline, as in 1e-6 [default: 0]
    #[arg(long, value_name = "SHARE", value_parser = share, allow_hyphen_values = true, requires = "deadline")]
    pub misses: Option<f64>,
    /// Action at the first latency above --deadline: trace, shell=COMMAND, signal=PID,
    /// signal,num=N,pid=PID, or continue
    ///
    /// `tardy run --help` describes the actions. The first latency above the deadline also ends the
    /// measurement; with continue, the measurement does not end, and the actions are repeated at
    /// each new maximum. Repeat the option for several actions. With --out, the folder also holds
    /// the kernel's trace around the worst wake-ups, and the environment variable TARDY_RUN gives
    /// COMMAND the path of the folder.
    #[arg(long, value_name = "ACTION", requires = "deadline")]
    pub on_threshold: Vec<ThresholdAction>,
    /// New folder for a run with every wake-up; `show`, `explain`, `plot`, `compare`, `report` and
    /// `export` read it
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Disk budget of the folder, as in 200MiB; beyond it, the oldest samples are folded into
    /// hourly histograms
    #[arg(long, value_name = "SIZE", value_parser = disk_size, requires_all = ["until_stopped", "out"])]
    pub disk: Option<u64>,
    /// Continue the measurement in --out if that folder exists, also after a kill or a reboot
    #[arg(long, requires_all = ["until_stopped", "disk", "out"])]
    pub resume: bool,
    /// Serve metrics at this port while the measurement lasts, for readers such as Prometheus
    #[arg(long, value_name = "[ADDRESS:]PORT", requires = "out")]
    pub metrics: Option<String>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

fn process_number(text: &str) -> Result<u32, String> {
    let number = text.parse::<u32>().ok().filter(|&number| number > 0);
    number.ok_or_else(|| {
        "expected a number, as printed by `pidof NAME` (for threads by `ps -T PID`)".to_owned()
    })
}

fn disk_size(text: &str) -> Result<u64, String> {
    match parse_bytes(text) {
        Some(bytes) if bytes >= DISK_LEAST => Ok(bytes),
        Some(_) => Err(format!("must be at least {}", format_bytes(DISK_LEAST))),
        None => Err("not a size: write a number and a unit, as in 200MiB".to_owned()),
    }
}

const AFTER_HELP: &str = "As root, while the program runs unmodified:
  tardy attach $(pidof my_loop)
  tardy attach 1234 --for 1m --deadline 200us --out mine; tardy explain mine --above 2ms
  tardy attach 1234 --from rx_frame --to tx_frame --deadline 100us
  tardy attach 1234 --deadline 1ms --out mine --on-threshold 'shell=./late.sh'
  tardy attach --realtime --until-stopped --disk 200MiB --out machine
Every wake-up of a thread is measured. Its latency lasts from a reference time until the kernel \
                          switches to the thread. The reference time depends on what woke the \
                          thread. For a timer of the program (a sleep, a wait with a time limit, \
                          timer_create, timerfd, setitimer), it is the due time; for an interrupt \
                          or softirq, its entry; for another thread, the moment at which that \
                          thread issued the wake-up. The result has a row for each kind of \
                          wake-up, such as futex-thread. A deadline applies to all rows.
A cycle lasts from the wake-up of a thread until the thread waits for its next cycle. For each \
                          thread, tardy also prints the length of the cycles, the calls that \
                          blocked the thread, and the threads that kept it from the CPU.
The numbers come from the kernel's trace (events hrtimer_* and sched_*); the program is neither \
                          modified nor stopped. docs/attach.md explains the numbers.
Exit codes: 0 done, and any deadline was met; 1 the deadline was missed; 2 wrong use, no such \
                          process or thread, or a kernel thread; 3 this machine cannot do it \
                          (missing privilege, or a kernel without these events); 4 no wake-up, or \
                          events were lost; 130 interrupted: the wake-ups so far are reported.";
