//! `tardy attach`: how late a running program wakes up.

use std::fmt::Display;
use std::os::fd::AsFd;

use tardy_core::units::Nanos;
use tardy_core::warning::Warning;
use tardy_machine::facts::MachineFacts;
use tardy_machine::root::Root;
use tardy_report::report::attach_text;
use tardy_results::attach::{self, AttachEnd, AttachFacts, AttachTrace, AttachedProcess, Tally};
use tardy_results::document::Format;
use tardy_results::exit::Exit;
use tardy_run::attached::AttachedFolder;
use tardy_run::record::{StartTime, State};
use tardy_sys::clock;
use tardy_sys::signal::{self, SignalFd, wait_readable_within};
use tardy_tracer::attach::process::Process;
use tardy_tracer::attach::{Attachment, End};

use super::output;
use crate::cli::attach::AttachArgs;

/// Runs the command.
#[must_use]
pub fn run(args: &AttachArgs) -> Exit {
    let signals = match SignalFd::block(&[signal::INTERRUPT, signal::TERMINATE, signal::HANG_UP]) {
        Ok(signals) => signals,
        Err(error) => return refused(Exit::Machine, &error),
    };
    let root = Root::system();
    let process = match Process::find(&root, args.process) {
        Ok(process) => process,
        Err(error) => return refused(Exit::Usage, &error),
    };
    let thread = match args.thread.map(|thread| process.thread(thread)).transpose() {
        Ok(thread) => thread,
        Err(error) => return refused(Exit::Usage, &error),
    };
    let process_told = AttachedProcess {
        id: process.id,
        name: process.name.clone(),
        thread,
    };
    let attachment = match Attachment::start(process, thread, &root) {
        Ok(attachment) => attachment,
        Err(error) => return refused(Exit::Machine, &error),
    };
    let started = StartTime {
        realtime_ns: Nanos(clock::realtime()),
        monotonic_ns: attachment.begin(),
    };
    let named = (process_told.id, process_told.name.as_str());
    let required = attach::requirement(args.deadline, args.misses);
    let folder = args.out.as_ref().map(|out| {
        AttachedFolder::create(out, named, required, MachineFacts::read(&root), started)
    });
    let mut folder = match folder.transpose() {
        Ok(folder) => folder,
        Err(error) => return refused(Exit::Usage, &error),
    };
    let mut unwritten = None;
    let mut tally = Tally::new(args.deadline, args.misses);
    let wait = |pause| {
        let _ = wait_readable_within(&[signals.as_fd()], Some(pause));
        matches!(signals.take(), Ok(Some(_)))
    };
    let recorded = attachment.follow(
        started.monotonic_ns.saturating_add(args.length),
        wait,
        |wake_up, kind, name| {
            tally.add(wake_up, kind);
            let (due, lateness) = (Nanos(wake_up.due), Nanos(wake_up.lateness()));
            let written = folder
                .as_mut()
                .map(|folder| folder.push((wake_up.thread, name), kind, due, lateness));
            if let Some(Err(error)) = written {
                unwritten.get_or_insert(error);
            }
        },
    );
    let length = recorded.end - recorded.begin;
    let lost: Vec<_> = recorded
        .counts
        .iter()
        .map(|&(kind, counts)| (kind, counts.lost))
        .collect();
    let kept = folder
        .as_ref()
        .map(|folder| recorded.cycles.write(folder.path()));
    if let Some(Err(error)) = kept {
        unwritten.get_or_insert(error);
    }
    let mut names = recorded.wakers;
    names.extend(recorded.threads);
    let result = tally.result(AttachFacts {
        process: process_told,
        end: match recorded.why {
            End::Time => AttachEnd::Finished,
            End::Stopped => AttachEnd::Interrupted,
            End::Process => AttachEnd::ProcessEnded,
            End::Trace => AttachEnd::TraceEnded,
        },
        begin: recorded.begin,
        length,
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
            incomplete: recorded.incomplete,
        },
        folder: args.out.as_ref().map(|out| out.display().to_string()),
    });
    let mut unkept = None;
    if let Some(folder) = folder {
        let state = if recorded.why == End::Stopped {
            State::Interrupted
        } else {
            State::Finished
        };
        let ended =
            (recorded.why == End::Process).then(|| "the process ended by itself".to_owned());
        let warnings = result
            .notes
            .iter()
            .cloned()
            .chain(ended)
            .map(|text| {
                if result.unsure.contains(&text) {
                    Warning::MaximumUnsure { reason: text }
                } else {
                    Warning::Note { text }
                }
            })
            .collect();
        let finished = folder.finish(state, recorded.end, warnings, &lost);
        unkept = unwritten.or(finished.err());
    }
    let text = if args.json {
        Format::ATTACH.document(&result)
    } else {
        output::fitted(&attach_text::text(
            &result,
            output::screen_or_page().columns,
        ))
    };
    match output::print(&text) {
        Ok(()) => match unkept {
            Some(error) => refused(
                Exit::Machine,
                &format!(
                    "cannot write {}: {error}",
                    result.folder.as_deref().unwrap_or_default()
                ),
            ),
            None => result.exit(),
        },
        Err(error) => refused(Exit::Machine, &format!("cannot write the result: {error}")),
    }
}

fn refused(exit: Exit, why: &dyn Display) -> Exit {
    output::complain(why);
    exit
}
