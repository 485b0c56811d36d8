//! `tardy cyclictest`: makes a run with cyclictest's options, and prints cyclictest's output.

use std::fs::{self, OpenOptions};
use std::io::{IsTerminal, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use tardy_core::verdict::requirement::Requirement;
use tardy_core::warning::{Severity, Warning};
use tardy_formats::export::ExportError;
use tardy_formats::export::cyclictest::{CyclictestRun, Thread};
use tardy_formats::export::rt_tests_json::{self, DocumentHead};
use tardy_formats::export::run::{ExportedRun, ExportedSeries};
use tardy_live::view;
use tardy_machine::journal::Scratch;
use tardy_machine::processors::Processors;
use tardy_machine::root::Root;
use tardy_measure::measure::live::ProgressDisplay;
use tardy_measure::measure::session;
use tardy_measure::plan::resolve::resolve;
use tardy_measure::request;
use tardy_results::exit::Exit;

use super::output;
use crate::cli::cyclictest::{CyclictestArgs, Setup};

/// Runs the command. Must be called before the process starts threads.
#[must_use]
pub fn run(args: &CyclictestArgs) -> Exit {
    let root = Root::system();
    match measured(args, &root) {
        Ok(exit) => exit,
        Err((exit, error)) => {
            output::complain(&error);
            exit
        }
    }
}

/// Value of `--json` and `--histfile` that stands for standard output.
const STANDARD_OUTPUT: &str = "-";

type Refusal = (Exit, String);

fn measured(args: &CyclictestArgs, root: &Root) -> Result<Exit, Refusal> {
    let machine = |error: &dyn std::fmt::Display| (Exit::Machine, error.to_string());
    let processors = Processors::read(root).map_err(|error| machine(&error))?;
    let mut setup = args.setup(&processors).map_err(|why| (Exit::Usage, why))?;
    refuse_unwritable(args)?;
    let scratch = match &args.tardy_out {
        Some(_) => None,
        None => Some(
            Scratch::make(&std::env::temp_dir(), "cyclictest").map_err(|error| machine(&error))?,
        ),
    };
    let out = args
        .tardy_out
        .clone()
        .or_else(|| scratch.as_ref().map(|scratch| scratch.path().join("run")))
        .unwrap_or_default();
    let scenario =
        request::scenario(&setup.request).map_err(|error| (Exit::Usage, error.to_string()))?;
    let plan = resolve(&setup.request, &scenario, &out, root).map_err(|error| {
        (
            if error.is_unsupported_here() {
                Exit::Machine
            } else {
                Exit::Usage
            },
            error.to_string(),
        )
    })?;
    let exit = if Thread::take_priorities(&mut setup.threads, &plan.warnings) {
        Exit::Inconclusive
    } else {
        Exit::Done
    };
    announce(args, &setup, &plan.warnings, &processors)?;
    let is_watched =
        !args.quiet && !args.verbose && std::io::stdout().is_terminal() && view::is_possible();
    let shown = if is_watched {
        ProgressDisplay::Screen(output::look())
    } else {
        ProgressDisplay::Nothing
    };
    session::run(plan, &out, shown, None, root).map_err(|error| machine(&error))?;
    show(args, &setup, &out, exit).map_err(|error| machine(&error))?;
    Ok(exit)
}

/// Prints cyclictest's messages before the measurement, and on standard error the differences from
/// cyclictest.
fn announce(
    args: &CyclictestArgs,
    setup: &Setup,
    warnings: &[Warning],
    processors: &Processors,
) -> Result<(), Refusal> {
    setup.notes.iter().for_each(|note| say!("tardy: {note}"));
    for warning in warnings
        .iter()
        .filter(|warning| warning.severity() == Severity::Degraded)
    {
        say!("tardy: {warning}");
    }
    let mut text = String::new();
    let listed = args
        .listed(&processors.usable)
        .ok()
        .flatten()
        .filter(|_| args.verbose);
    let using = listed
        .as_ref()
        .map_or_else(String::new, |list| format!("Using {} cpus.\n", list.len()));
    if args.verbose {
        let online = processors.usable.len();
        text += &format!("{using}Max CPUs = {online}\nOnline CPUs = {online}\n{using}");
    }
    match () {
        () if args.laptop => say!("WARN: not setting cpu_dma_latency to save battery power"),
        () if args.default_system => say!("WARN: not setting cpu_dma_latency from cyclictest"),
        // The reason was already printed on standard error.
        () if warnings
            .iter()
            .any(|warning| matches!(warning, Warning::CpuLatencyNotSet { .. })) => {}
        () => text += &format!("# /dev/cpu_dma_latency set to {}us\n", args.latency()),
    }
    if args.verbose {
        for (number, thread) in setup.threads.iter().enumerate() {
            if listed.is_some() {
                text += &format!("Thread {number} using cpu {}.\n", thread.cpu);
            }
            text += &format!(
                "Thread {number} Interval: {}\n",
                (thread.interval + args.distance()).get() / 1000
            );
        }
    }
    output::print(&text).map_err(|error| (Exit::Machine, error.to_string()))
}

fn show(args: &CyclictestArgs, setup: &Setup, out: &Path, exit: Exit) -> Result<(), ExportError> {
    let run = ExportedRun::open(out, &Requirement::default(), None)?;
    let taken = CyclictestRun::read(&run, &setup.threads, args.unit())?;
    let mut text = String::new();
    if args.verbose {
        text += &taken.values(args.oscope as usize);
    } else if !args.quiet {
        text += &format!(
            "policy: {}: loadavg: {}\n\n",
            policy(args, setup),
            fs::read_to_string("/proc/loadavg")?.trim()
        );
    }
    let histogram = args
        .shape(setup.threads.len())
        .map(|shape| taken.histogram(shape));
    // As in cyclictest, -v suppresses the summary, unless -q is given too. With -q, a histogram
    // replaces the summary.
    let has_summary = match (args.verbose, args.quiet) {
        (true, quiet) => quiet,
        (false, quiet) => histogram.is_none() || !quiet,
    };
    if has_summary {
        text += &taken.summary();
    }
    match (histogram, &args.histfile) {
        (Some(histogram), Some(file)) => {
            write_out(file, |out| Ok(out.write_all(histogram.as_bytes())?))?;
        }
        (Some(histogram), None) => text += &histogram,
        (None, _) => {}
    }
    if let Some(limit) = args.spike() {
        text += &taken.spikes(limit, args.spike_nodes);
    }
    text.extend(args.break_above().map(|limit| taken.broken(limit)));
    output::print(&text)?;
    if let Some(file) = &args.json {
        let whole = DocumentHead {
            command_line: std::env::args().collect::<Vec<_>>().join(" "),
            return_code: exit as u8,
            buckets: args
                .shape(setup.threads.len())
                .map_or(0, |shape| shape.buckets),
            unit: args.unit(),
        };
        let of_thread = |thread: &Thread| {
            run.series.iter().find(|series| {
                series.descriptor.probe == thread.probe && series.descriptor.cpu == Some(thread.cpu)
            })
        };
        let series: Vec<&ExportedSeries> = setup.threads.iter().filter_map(of_thread).collect();
        write_out(file, |out| rt_tests_json::write(&run, &series, whole, out))?;
    }
    Ok(())
}

/// Writes the results to the destination that scripts expect: a file or a stream (/dev/stdout or
/// `-`, a FIFO, a terminal).
fn write_out(
    file: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), ExportError>,
) -> Result<(), ExportError> {
    if is_stream(file) {
        let mut bytes = Vec::new();
        write(&mut bytes)?;
        if [STANDARD_OUTPUT, "/dev/stdout"]
            .map(Path::new)
            .contains(&file)
        {
            return Ok(output::print(&String::from_utf8_lossy(&bytes))?);
        }
        return Ok(OpenOptions::new()
            .write(true)
            .open(file)?
            .write_all(&bytes)?);
    }
    output::replace(file, |mut out| write(&mut out))
}

fn is_stream(file: &Path) -> bool {
    file == Path::new(STANDARD_OUTPUT)
        || fs::metadata(file).is_ok_and(|found| {
            let kind = found.file_type();
            kind.is_fifo() || kind.is_char_device() || file.starts_with("/dev")
        })
}

/// Refuses output files that cannot be written, before the measurement.
fn refuse_unwritable(args: &CyclictestArgs) -> Result<(), Refusal> {
    let files = [("--json", &args.json), ("--histfile", &args.histfile)];
    for (option, file) in files {
        let Some(file) = file.as_ref().filter(|file| !is_stream(file)) else {
            continue;
        };
        let folder = file
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        if let Err(error) = try_file_in(folder) {
            return Err((
                Exit::Machine,
                format!("{option}: cannot write {}: {error}", file.display()),
            ));
        }
    }
    Ok(())
}

/// Checks that a file can be created in `folder`, by creating and removing one.
fn try_file_in(folder: &Path) -> std::io::Result<()> {
    let file = folder.join(format!(".tardy-{}", std::process::id()));
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&file)?;
    fs::remove_file(file)
}

fn policy(args: &CyclictestArgs, setup: &Setup) -> &'static str {
    match args.policy.as_deref() {
        _ if setup.threads.iter().all(|thread| thread.priority == 0) => "other/other",
        Some("rr") => "rr",
        _ => "fifo",
    }
}
