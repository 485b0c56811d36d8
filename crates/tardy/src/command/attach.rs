//! `tardy attach`: measures the wake-up latency of a running program, or of all real-time threads.

mod recorder;
mod writer;

use std::fmt::Display;

use tardy_core::units::Nanos;
use tardy_core::verdict::Verdict;
use tardy_core::warning::Warning;
use tardy_machine::facts::MachineFacts;
use tardy_machine::root::Root;
use tardy_measure::measure::metrics;
use tardy_measure::measure::threshold::Threshold;
use tardy_report::report::attach_text;
use tardy_results::attach::{
    self, AttachEnd, AttachFacts, AttachResult, AttachTrace, AttachedProcess, Tally,
};
use tardy_results::document::Format;
use tardy_results::exit::Exit;
use tardy_results::summary::read::read;
use tardy_run::attached::{AttachedFolder, AttachedPlan};
use tardy_run::record::{StartTime, State};
use tardy_sys::clock;
use tardy_sys::signal::{self, SignalFd};
use tardy_trace::timers::TimerKind;
use tardy_tracer::attach::function::{Function, NoFunction};
use tardy_tracer::attach::process::Process;
use tardy_tracer::attach::target::{RealTimeThreads, Target};
use tardy_tracer::attach::{Attachment, End, Recording};

use self::recorder::Recorder;
use self::writer::FolderWriter;
use super::output;
use crate::cli::attach::AttachArgs;

/// The exit code and the message of a command that ends without a result.
struct Refusal(Exit, String);

impl Refusal {
    fn new(exit: Exit) -> impl Fn(&dyn Display) -> Self {
        move |why| Self(exit, why.to_string())
    }
}

/// Runs the command.
#[must_use]
pub fn run(args: &AttachArgs) -> Exit {
    // A recording may last for weeks, and its threads pass large blocks to one another.
    tardy_sys::memlock::share_heap();
    measure(args).unwrap_or_else(|Refusal(exit, why)| refused(exit, &why))
}

fn measure(args: &AttachArgs) -> Result<Exit, Refusal> {
    let (usage, machine) = (Refusal::new(Exit::Usage), Refusal::new(Exit::Machine));
    let signals = SignalFd::block(&[signal::INTERRUPT, signal::TERMINATE, signal::HANG_UP])
        .map_err(|error| machine(&error))?;
    let root = Root::system();
    let process = args
        .process
        .map(|process| Process::find(&root, process))
        .transpose()
        .map_err(|error| usage(&error))?;
    let thread = match (&process, args.thread) {
        (Some(process), Some(thread)) => {
            Some(process.thread(thread).map_err(|error| usage(&error))?)
        }
        _ => None,
    };
    let metrics = args.metrics.as_deref().map(metrics::listen).transpose();
    let metrics = metrics.map_err(|error| machine(&error))?;
    let process_told = process.as_ref().map(|process| AttachedProcess {
        id: process.id,
        name: process.name.clone(),
        thread,
    });
    let target = match process {
        Some(process) => {
            let only = thread.and_then(|thread| i32::try_from(thread).ok());
            Target::Process { process, only }
        }
        None => Target::RealTime(RealTimeThreads::new(&root)),
    };
    let between = functions(args, &target).map_err(|error| usage(&error))?;
    let attachment =
        Attachment::start(target, between.as_ref(), &root).map_err(|error| machine(&error))?;
    let started = StartTime {
        realtime_ns: Nanos(clock::realtime()),
        monotonic_ns: attachment.begin(),
    };
    let writer = folder(args, process_told.as_ref(), started, &root)
        .map_err(|error| usage(&error))?
        .map(|folder| FolderWriter::start(folder, metrics))
        .transpose()
        .map_err(|error| machine(&error))?;
    let keeps_traces = args.until_stopped || !args.on_threshold.is_empty();
    let attachment = match &writer {
        Some(writer) if keeps_traces => attachment.keeping_worst(writer.trace_bytes()),
        _ => attachment,
    };
    let tally = Tally::new(args.deadline, args.misses);
    let tally = if args.until_stopped {
        tally.bounded()
    } else {
        tally
    };
    let threshold = args.deadline.and_then(|deadline| {
        let run = args.out.clone().unwrap_or_default();
        Threshold::new(args.on_threshold.clone(), deadline, run)
    });
    let mut recorder = Recorder::new(&signals, tally, threshold, writer);
    let until = if args.until_stopped {
        Nanos::MAX
    } else {
        started.monotonic_ns.saturating_add(args.length)
    };
    let recorded = attachment.follow(until, &mut recorder);
    let is_at_threshold = recorder.is_at_threshold();
    let (tally, writer, problems) = recorder.finish();
    let (end, state) = match recorded.why {
        End::Process => (AttachEnd::ProcessEnded, State::Finished),
        End::Trace => (AttachEnd::TraceEnded, State::Finished),
        End::Stopped if is_at_threshold => (AttachEnd::Threshold, State::Stopped),
        // If the recording was started without a length, a stop is its normal end.
        End::Stopped if args.until_stopped => (AttachEnd::Finished, State::Finished),
        End::Stopped => (AttachEnd::Interrupted, State::Interrupted),
        End::Time => (AttachEnd::Finished, State::Finished),
    };
    let (ended, lost) = (recorded.end, lost(&recorded));
    let has_exited = recorded.why == End::Process;
    // The folder gets all cycles; the result lists only the longest.
    let cycles = writer.as_ref().map(|_| recorded.cycles.clone());
    let mut result = result(args, process_told, end, recorded, tally);
    result.notes.extend(problems);
    let unkept = writer.zip(cycles).and_then(|(writer, cycles)| {
        let warnings = warnings(&result, has_exited);
        writer.finish(cycles, state, ended, warnings, &lost).err()
    });
    if let Some(judged) = judged(args, &result) {
        result.verdict = Some(judged);
    }
    show(args, &result)?;
    match unkept {
        Some(error) => Err(machine(&format!(
            "cannot write {}: {error}",
            result.folder.as_deref().unwrap_or_default()
        ))),
        None => Ok(result.exit()),
    }
}

/// Returns the verdict that is computed from the written folder, so that `tardy show` prints the
/// same verdict.
fn judged(args: &AttachArgs, result: &AttachResult) -> Option<Verdict> {
    let folder = args.out.as_ref().filter(|_| result.verdict.is_some())?;
    let run = read(folder, &attach::requirement(args.deadline, args.misses)).ok()?;
    run.summary().verdict
}

/// Finds the functions of `--from` and `--to`.
fn functions(args: &AttachArgs, target: &Target) -> Result<Option<[Function; 2]>, NoFunction> {
    let (Some(from), Some(to), Target::Process { process, .. }) = (&args.from, &args.to, target)
    else {
        return Ok(None);
    };
    Ok(Some([
        Function::find(process, from)?,
        Function::find(process, to)?,
    ]))
}

/// Creates or resumes the folder of `--out`.
fn folder(
    args: &AttachArgs,
    process: Option<&AttachedProcess>,
    started: StartTime,
    root: &Root,
) -> Result<Option<AttachedFolder>, Box<dyn Display>> {
    let Some(out) = &args.out else {
        return Ok(None);
    };
    let plan = AttachedPlan {
        target: process.map_or_else(
            || "real-time threads".to_owned(),
            |process| format!("process {} ({})", process.id, process.name),
        ),
        requirement: attach::requirement(args.deadline, args.misses),
        until_stopped: args.until_stopped,
        disk: args.disk,
        on_threshold: args.on_threshold.clone(),
        has_metrics: args.metrics.is_some(),
    };
    let machine = MachineFacts::read(root);
    let made = if args.resume {
        AttachedFolder::resume(out, &plan, machine, started, root)
            .map_err(|error| Box::new(error) as Box<dyn Display>)
    } else {
        AttachedFolder::create(out, &plan, machine, started)
            .map_err(|error| Box::new(error) as Box<dyn Display>)
    };
    made.map(Some)
}

/// Returns, for each kind of timer, the number of timers whose end is unknown, because the event at
/// their end may have been lost.
fn lost(recorded: &Recording) -> Vec<(TimerKind, u64)> {
    recorded
        .counts
        .iter()
        .map(|&(kind, counts)| (kind, counts.lost))
        .collect()
}

fn result(
    args: &AttachArgs,
    process: Option<AttachedProcess>,
    end: AttachEnd,
    recorded: Recording,
    tally: Tally,
) -> AttachResult {
    let length = recorded.end - recorded.begin;
    let (threads, mut names) = (recorded.threads.len(), recorded.wakers);
    names.extend(recorded.threads);
    tally.result(AttachFacts {
        process,
        functions: args
            .from
            .clone()
            .zip(args.to.clone())
            .map(<[String; 2]>::from),
        end,
        begin: recorded.begin,
        length,
        threads,
        names,
        counts: recorded.counts,
        wakings: recorded.wakings,
        other_wake_ups: recorded.other_wake_ups,
        cycles: recorded.cycles,
        no_stacks: recorded.no_stacks,
        trace: AttachTrace {
            events: recorded.events_read,
            losses: recorded.losses,
            lost_events: recorded.lost_events,
            explanation_losses: recorded.explanation_losses,
            lost_explanations: recorded.lost_explanations,
            incomplete: recorded.incomplete,
        },
        folder: args.out.as_ref().map(|out| out.display().to_string()),
    })
}

/// Returns the warnings for the folder.
fn warnings(result: &AttachResult, has_exited: bool) -> Vec<Warning> {
    let exited = has_exited.then(|| "the process ended by itself".to_owned());
    result
        .notes
        .iter()
        .cloned()
        .chain(exited)
        .map(|text| {
            if result.unsure.contains(&text) {
                Warning::MaximumUnsure { reason: text }
            } else {
                Warning::Note { text }
            }
        })
        .collect()
}

fn show(args: &AttachArgs, result: &AttachResult) -> Result<(), Refusal> {
    let text = if args.json {
        Format::ATTACH.document(result)
    } else {
        output::fitted(&attach_text::text(result, output::screen_or_page().columns))
    };
    output::print(&text)
        .map_err(|error| Refusal(Exit::Machine, format!("cannot write the result: {error}")))
}

fn refused(exit: Exit, why: &dyn Display) -> Exit {
    output::complain(why);
    exit
}
