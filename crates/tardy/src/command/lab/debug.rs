//! `tardy lab debug`: opens the guest of a finished run in gdb, stopped at the due time of a late
//! sample.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Instant;

use tardy_lab::binary;
use tardy_lab::boot::Guest;
use tardy_lab::cache::Cache;
use tardy_lab::provenance::Provenance;
use tardy_lab::qemu::Qemu;
use tardy_lab::snapshot::Snapshots;
use tardy_lab::stop::{self, StopError, virtual_time_until};
use tardy_lab::watch::WatchSetup;
use tardy_outside::symbol_file;
use tardy_report::report::explain_run_text;
use tardy_results::chosen_sample::{ChosenSample, SampleChoice, chosen_sample};
use tardy_results::exit::Exit;
use tardy_results::explain::Late;
use tardy_results::explain::run::RunQuestion;
use tardy_results::explain::source::explain_run;
use tardy_run::folder;
use tardy_sys::child::{self, kill_with_parent};
use tardy_sys::signal_handler;

use super::setting::LabError;
use crate::cli::lab::DebugArguments;
use crate::command::output;

/// gdb's commands if there is no terminal and no --batch.
const BATCH: [&str; 2] = ["info registers", "x/6i $pc"];

/// The chosen sample is searched among this many explained samples of the run, the worst first.
const EXPLAINED: usize = 1 << 16;

pub(super) fn debug(arguments: &DebugArguments) -> Result<Exit, LabError> {
    let run = run_in(&arguments.run)?;
    let usage = |error: &dyn std::fmt::Display| LabError::Usage(error.to_string());
    let provenance = Provenance::read(&run).map_err(|error| usage(&error))?;
    let Some(provenance) = provenance else {
        return Err(LabError::Usage(format!(
            "{} is not a run of the lab: only a guest can be booted again",
            run.display()
        )));
    };
    let choice = match &arguments.sample {
        Some(place) => SampleChoice::At(place.clone()),
        None => SampleChoice::Worst(arguments.worst),
    };
    let sample = chosen_sample(&run, &choice).map_err(|error| usage(&error))?;
    let name = match choice {
        SampleChoice::At(_) => format!("{}:{}", sample.series, sample.number),
        SampleChoice::Worst(rank) => format!("Worst {rank}"),
    };
    let moment = if arguments.end {
        sample.due.saturating_add(sample.latency)
    } else {
        sample.due
    };
    let moment = moment.saturating_add(-arguments.before);
    let time = virtual_time_until(moment, &provenance.guest)?;
    stop::check(&provenance.inputs.machine)?;
    check_gdb()?;
    output::print(&known(&run, &sample, &name))
        .map_err(|error| LabError::Unable(error.to_string()))?;

    let input = provenance.guest_input.as_ref().ok_or(StopError::Old)?;
    let machine = &provenance.inputs.machine;
    let binary = match &arguments.guest_binary {
        Some(path) => path.clone(),
        None => binary::running()?,
    };
    let qemu = Qemu::find(machine.architecture)?;
    let cache = Cache::of_user()?;
    let snapshots = match provenance.inputs.snapshot {
        Some(_) => Some(Snapshots::at(cache.folder("snapshots")?)),
        None => None,
    };
    let guest = Guest {
        variant: &provenance.inputs.variant,
        machine,
        pad: provenance.inputs.pad,
        job: &input.job,
        binary: &binary,
        added: &input.added,
        wall_limit: stop::WALL_LIMIT,
        snapshots: snapshots.as_ref(),
        watching: None,
    };
    let plugin = WatchSetup::new(machine, &qemu, arguments.plugin.as_deref(), &cache)?;
    let scratch = cache.scratch("debug")?;
    let symbols = match symbols(arguments, &provenance.guest.kernel_release) {
        Some(file) => file,
        None => {
            let file = scratch.path().join("kernel.symbols");
            let symbols = guest.symbols(&plugin, &qemu)?;
            std::fs::write(&file, symbol_file::elf(&symbols))
                .map_err(|error| LabError::Unable(format!("{}: {error}", file.display())))?;
            file
        }
    };
    let started = Instant::now();
    say!("tardy: boots the guest again and runs it up to the due time");
    let stopped = guest.stop_after(time, &provenance.inputs, (&qemu, &plugin), scratch.path())?;
    say!(
        "tardy: the guest stands still, after {:.1} s",
        started.elapsed().as_secs_f64()
    );
    let status = gdb(arguments, &symbols, &stopped.socket)
        .map_err(|error| LabError::Unable(format!("gdb: {error}")))?;
    Ok(if status.success() {
        Exit::Done
    } else {
        Exit::Machine
    })
}

impl From<StopError> for LabError {
    fn from(error: StopError) -> Self {
        match error {
            StopError::Watch(error) => error.into(),
            StopError::Kvm
            | StopError::Differs(_)
            | StopError::Old
            | StopError::BeforeStart
            | StopError::NoSnapshot => Self::Usage(error.to_string()),
            error => Self::Unable(error.to_string()),
        }
    }
}

/// Returns the run folder at or below `folder`.
fn run_in(folder: &Path) -> Result<PathBuf, LabError> {
    match folder::folders(folder).as_slice() {
        [only] => Ok(only.clone()),
        several => Err(LabError::Usage(format!(
            "{} has {} runs: give the folder of one, such as {}",
            folder.display(),
            several.len(),
            several[0].display()
        ))),
    }
}

fn check_gdb() -> Result<(), LabError> {
    let output = child::output(Command::new("gdb").arg("--version"));
    match output {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(LabError::Unable(
            "gdb is not installed: install the package gdb".to_owned(),
        )),
        Err(error) => Err(LabError::Unable(format!("gdb: {error}"))),
    }
}

/// Describes the sample. If the run contains an explanation of the sample, the description also
/// names the holder of the CPU and the sections.
fn known(run: &Path, sample: &ChosenSample, name: &str) -> String {
    let question = RunQuestion {
        worst: EXPLAINED,
        late: Late::Worst,
        from_outside: false,
    };
    let explanation = explain_run(run, question);
    let story = explanation
        .as_ref()
        .ok()
        .and_then(|found| found.worst.iter().find(|story| story.due_ns == sample.due));
    if let Some(story) = story {
        return explain_run_text::late_sample(name, story);
    }
    let why = match &explanation {
        Err(error) => error.to_string(),
        Ok(_) => "the run kept no explanation of this sample".to_owned(),
    };
    let phase = sample.phase.as_deref().unwrap_or("no phase");
    format!(
        "{}:{}: {} late, due {:.6} s after the start, in {phase}\nThe holder of the CPU is unknown: {why}\n",
        sample.series,
        sample.number,
        sample.latency,
        sample.since_start.as_secs_f64(),
    )
}

/// Returns the kernel's file with symbols: the given one, or that of the package with debug
/// information.
fn symbols(arguments: &DebugArguments, release: &str) -> Option<PathBuf> {
    let packaged = [
        format!("/usr/lib/debug/boot/vmlinux-{release}"),
        format!("/usr/lib/debug/lib/modules/{release}/vmlinux"),
    ];
    arguments.symbols.clone().or_else(|| {
        packaged
            .map(PathBuf::from)
            .into_iter()
            .find(|file| file.exists())
    })
}

fn gdb(arguments: &DebugArguments, symbols: &Path, socket: &Path) -> std::io::Result<ExitStatus> {
    let is_interactive = arguments.batch.is_empty() && std::io::stdin().is_terminal();
    let mut command = Command::new("gdb");
    command.args(["-quiet", "-iex", "set confirm off"]);
    if !is_interactive {
        command.args(["-batch", "-nx"]);
    }
    let attach = format!("target remote {}", socket.display());
    // Bit 0 enables single-stepping. Without the other bits, interrupts and timers keep working
    // while gdb steps through the guest, as in the run (docs/system/gdb.rst of QEMU).
    let steps = "maintenance packet Qqemu.sstep=0x1";
    command.arg(symbols).args(["-ex", &attach, "-ex", steps]);
    let default = BATCH.map(str::to_owned);
    let batch = match (is_interactive, arguments.batch.as_slice()) {
        (true, _) => &[],
        (false, []) => &default[..],
        (false, given) => given,
    };
    for line in batch {
        command.args(["-ex", line]);
    }
    // Ctrl-C stops the guest in gdb, and must not end this program.
    signal_handler::survive_interrupts()?;
    kill_with_parent(&mut command).status()
}
