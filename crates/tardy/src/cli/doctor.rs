//! Arguments of `tardy doctor`.

use std::path::PathBuf;

use clap::Args;
use tardy_core::units::Nanos;
use tardy_machine::checks::{Importance, Profile};
use tardy_run::request::MeasuredCpus;

use super::choice;
use super::on::OnArgs;

/// `tardy doctor`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct DoctorArgs {
    /// Purpose of the machine: a setting that is good for one purpose can be bad for another
    #[arg(long, value_name = "PROFILE", default_value = "periodic", value_parser = choice::parser::<Profile>())]
    pub profile: Profile,
    /// CPUs whose tasks must not be late: a list such as 2-3, or isolated, housekeeping, all
    /// [default: the CPUs of --pid's real-time threads, else the isolated CPUs, else all]
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<MeasuredCpus>,
    /// Also check a running program that must not be late: its memory, its threads, its page faults
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Option<u32>,
    /// How long to watch counters that should not move: interrupts, steal time, faults, SMIs; with
    /// 0s, tardy does not watch them
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = span)]
    pub watch: Nanos,
    /// Also run the kernel's hardware latency detector (hwlat) on the CPUs of --cpus in turn; one
    /// minute is enough to find most hardware latencies. The detector delays interrupts: do not run
    /// it beside work that matters
    #[arg(long, value_name = "TIME", value_parser = super::positive_duration, conflicts_with = "root")]
    pub hardware_latency: Option<Nanos>,
    /// Check another machine, from a folder with copies of its /proc, /sys, /etc and /boot
    #[arg(long, value_name = "FOLDER", conflicts_with = "pid")]
    pub root: Option<PathBuf>,
    /// Print every row in full, including rows that are good, unknown or not applicable
    #[arg(long)]
    pub all: bool,
    /// Exit with 1 if a setting of this severity or above can be improved, or with 4 if such a
    /// setting cannot be read
    #[arg(long, value_name = "SEVERITY", value_parser = choice::parser::<Importance>())]
    pub fail_on: Option<Importance>,
    /// Check settings against a file, for example one written by `tardy tune --search`; exit with 1
    /// if a setting differs
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pid", "root", "all", "fail_on", "json", "html", "as_html"])]
    pub against: Option<PathBuf>,
    /// Print every row as JSON
    #[arg(long, conflicts_with_all = ["html", "as_html"])]
    pub json: bool,
    /// Write every row as an HTML page; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Former name of `--html -`
    #[arg(long, hide = true, conflicts_with = "html")]
    pub as_html: bool,
    #[command(flatten)]
    pub on: OnArgs,
}

const AFTER_HELP: &str =
    "The machine is not changed. Severities and most reasons are those of the kernel's \
                          documentation on real time.
A setting that the kernel lacks is not a fault. A setting that cannot be read is shown as unknown, \
                          never as good; as root, tardy can read every setting.
Exit codes: 0 checked, and --fail-on found nothing; 1 --fail-on found something; 2 wrong use, or \
                          no such CPU or process; 4 a setting that --fail-on covers cannot be \
                          read.";

/// Parses a duration from zero to an hour.
fn span(text: &str) -> Result<Nanos, String> {
    match text.parse::<Nanos>() {
        Ok(span) if (Nanos::ZERO..=Nanos::from_secs(3600)).contains(&span) => Ok(span),
        Ok(_) => Err(format!(
            "`{text}` is not a time from 0s to 1h: write one, such as 10s"
        )),
        Err(error) => Err(error.to_string()),
    }
}
