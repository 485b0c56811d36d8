//! Arguments of `tardy attach`.

use std::path::PathBuf;

use clap::Args;
use tardy_core::units::Nanos;

use super::{positive_duration, share};

/// `tardy attach`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct AttachArgs {
    /// Process ID of the running program
    #[arg(value_name = "PID", value_parser = process_number)]
    pub process: u32,
    /// Measure only the thread with this ID
    #[arg(long, value_name = "TID", value_parser = process_number)]
    pub thread: Option<u32>,
    /// How long to measure; Ctrl-C or the end of the program stops the measurement earlier
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = positive_duration, allow_hyphen_values = true)]
    pub length: Nanos,
    /// Deadline: the largest allowed latency, as in 200us
    #[arg(long, alias = "limit", value_name = "TIME", value_parser = positive_duration, allow_hyphen_values = true)]
    pub deadline: Option<Nanos>,
    /// Share of wake-ups that may miss the deadline, as in 1e-6 [default: 0]
    #[arg(long, value_name = "SHARE", value_parser = share, allow_hyphen_values = true, requires = "deadline")]
    pub misses: Option<f64>,
    /// New folder for a run with every wake-up; `show`, `explain`, `plot`, `compare`, `report` and
    /// `export` read it
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
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

const AFTER_HELP: &str = "As root, while the program runs unmodified:
  tardy attach $(pidof my_loop)
  tardy attach 1234 --for 1m --deadline 200us --out mine; tardy explain mine --above 2ms
A wake-up is due when the program's timer is due. The program's timers are sleeps, waits with a \
                          time limit (poll, futex, select), timer_create, timerfd and setitimer. \
                          The latency ends with the switch to the thread. Loops that wait for \
                          something else (a device, a socket, another thread) have no due time, \
                          so their wake-ups are only counted.
A cycle lasts from the wake-up of a thread until the thread waits for its next cycle. For each \
                          thread, the tool also prints how long its cycles took, which calls \
                          blocked it, and who kept the CPU from it.
The numbers come from the kernel's trace (events hrtimer_* and sched_*); the program is neither \
                          modified nor stopped. docs/attach.md explains the numbers.
Exit codes: 0 done, and any deadline was met; 1 the deadline was missed; 2 wrong use, no such \
                          process or thread, or a kernel thread; 3 this machine cannot do it \
                          (missing privilege, or a kernel without these events); 4 no wake-up by \
                          a timer, or events were lost; 130 interrupted: the wake-ups so far are \
                          reported.";
