//! What `tardy attach` takes.

use std::path::PathBuf;

use clap::Args;
use tardy_core::units::Nanos;

use super::{positive_duration, share};

/// `tardy attach`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct AttachArgs {
    /// The running program, by its number
    #[arg(value_name = "PID", value_parser = process_number)]
    pub process: u32,
    /// Only this thread of it, by its number
    #[arg(long, value_name = "TID", value_parser = process_number)]
    pub thread: Option<u32>,
    /// How long to look; Ctrl-C and the end of the program end it before
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = positive_duration, allow_hyphen_values = true)]
    pub length: Nanos,
    /// Latest wake-up that is in time, as in 200us
    #[arg(long, alias = "limit", value_name = "TIME", value_parser = positive_duration, allow_hyphen_values = true)]
    pub deadline: Option<Nanos>,
    /// Share of wake-ups that may miss the deadline, as in 1e-6 [default: 0]
    #[arg(long, value_name = "SHARE", value_parser = share, allow_hyphen_values = true, requires = "deadline")]
    pub misses: Option<f64>,
    /// Folder for a run with every wake-up, which must not exist: `show`, `plot`, `compare`,
    /// `report` and `export` read it
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

fn process_number(text: &str) -> Result<u32, String> {
    let number = text.parse::<u32>().ok().filter(|&number| number > 0);
    number.ok_or_else(|| {
        "a number is wanted, as `pidof NAME` tells it (`ps -T PID` tells those of threads)"
            .to_owned()
    })
}

const AFTER_HELP: &str = "As root, while the program runs as it is:
  tardy attach $(pidof my_loop)
  tardy attach 1234 --for 1m --deadline 200us --out mine; tardy plot mine --kind ccdf -o mine.svg
A wake-up is due when the program's timer is: a sleep, poll, futex or select with a time limit, \
                          timer_create, timerfd, setitimer. Its lateness ends with
the switch to the thread. Loops that wait for something else (a device, a socket, another thread) \
                          have no due time: those wake-ups are counted only.
The kernel's trace tells of it (events hrtimer_* and sched_*; no probe is put into the program, \
                          and nothing of it is stopped). docs/attach.md
says what is in the figures.
Exit codes: 0 done, and the deadline passed; 1 the deadline was missed; 2 wrong use, no such \
                          process or thread, a thread of the kernel; 3 this machine
cannot do it (missing right, kernel without these events); 4 no wake-up by a timer, or events were \
                          lost; 130 interrupted, with what was seen told.";
