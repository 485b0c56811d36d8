//! `tardy load NAME --for 30s`: runs loads without a probe, and prints their work per second.

use std::io::Write;
use std::os::fd::AsFd;
use std::process::ExitCode;

use tardy_core::units::Nanos;
use tardy_loads::event_lines::EventLines;
use tardy_loads::guardian::{Guardian, GuardianError, GuardianOptions, LoadEnd, LoadEvent};
use tardy_loads::load::bounds::Bounds;
use tardy_loads::load::sharing;
use tardy_loads::load::worker::describe_parameters;
use tardy_loads::load::{LoadRequest, resolve_all};
use tardy_machine::host::Host;
use tardy_machine::journal::{self, Journal, JournalError};
use tardy_machine::processors::Processors;
use tardy_machine::root::Root;
use tardy_results::document::Format;
use tardy_run::device_writes;
use tardy_run::plan::LoadPlan;
use tardy_sys::clock;
use tardy_sys::signal::{self, SignalFd, wait_readable};

use crate::cli::load::LoadArguments;

/// Index of the phase: `tardy load` runs all loads in one phase, the first.
const PHASE: u32 = 0;

/// The reason why loads could not run.
#[derive(Debug, thiserror::Error)]
enum LoadCommandError {
    #[error(transparent)]
    Request(#[from] tardy_loads::load::request::RequestError),
    #[error("--for {0} is not a duration: give a time above 0, as in 30s")]
    Length(Nanos),
    #[error(transparent)]
    Guardian(#[from] GuardianError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("cannot wait for events: {0}; try again")]
    System(#[from] std::io::Error),
}

/// Runs the loads. Returns the exit code: 3 if a named load or all loads of a list cannot run, 1 if
/// a load died, 130 after an interrupt.
#[must_use]
pub fn run(arguments: &LoadArguments) -> ExitCode {
    match try_run(arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            say!("tardy load: {error}");
            let usage = matches!(
                error,
                LoadCommandError::Request(_) | LoadCommandError::Length(_)
            );
            ExitCode::from(if usage { 2 } else { 3 })
        }
    }
}

fn try_run(arguments: &LoadArguments) -> Result<u8, LoadCommandError> {
    if arguments.duration <= Nanos::ZERO {
        return Err(LoadCommandError::Length(arguments.duration));
    }
    let mut requests = Vec::new();
    for text in &arguments.loads {
        requests.extend(LoadRequest::parse(text)?);
    }
    let host = Host::of_this_machine();
    let cpus = match &arguments.cpus {
        Some(cpus) => cpus.clone(),
        None => Processors::read(&Root::system())?.housekeeping(),
    };
    let mut plans = Vec::new();
    let mut code = 0;
    let mut is_incomplete = false;
    for (request, resolved) in resolve_all(&requests, &cpus, &host, Bounds::of(&host)) {
        match resolved {
            Ok(plan) => plans.push(plan),
            Err(absent) => {
                say!(
                    "tardy load: {} cannot run here, because it needs {}: {}",
                    request.text,
                    absent.missing,
                    absent.remedy
                );
                // If one load of a list cannot run, the others still do most of what the user
                // requested. If a load that the user requested by its own name cannot run, that is
                // an error.
                match request.list {
                    Some(_) => is_incomplete = true,
                    None => code = 3,
                }
            }
        }
    }
    if plans.is_empty() {
        return Ok(3);
    }
    if is_incomplete {
        say!("tardy load: the other loads of the list will run");
    }
    if !sharing::share_equally(&mut plans, &host) {
        say!(
            "tardy load: a load with more tasks gets more CPU time: for equal shares, run as root, \
             or set kernel.sched_autogroup_enabled to 1"
        );
    }
    let changes: Vec<_> = plans.iter().flat_map(|plan| plan.undo.clone()).collect();
    let journal = (!changes.is_empty())
        .then(|| Journal::write(&journal::folder(), &Root::system(), Vec::new(), changes))
        .transpose()?;
    let mut guardian = Guardian::start(GuardianOptions::default())?;
    let outcome = Session {
        guardian: &mut guardian,
        json: arguments.json,
        code,
        lines: EventLines::default(),
    }
    .run(&plans, arguments.duration);
    guardian.shutdown()?;
    // The supervisor has already tried to undo all changes. This call tries again to undo those
    // that remain, and reports each failure. Changes that still remain stay in the journal.
    for undone in journal.map_or_else(Vec::new, Journal::undo) {
        if let Err(error) = undone.result {
            say!(
                "tardy load: {}: not undone: {error}; try `tardy restore`",
                undone.setting
            );
        }
    }
    outcome
}

struct Session<'a> {
    guardian: &'a mut Guardian,
    json: bool,
    code: u8,
    lines: EventLines,
}

impl Session<'_> {
    fn run(&mut self, plans: &[LoadPlan], duration: Nanos) -> Result<u8, LoadCommandError> {
        let signals = SignalFd::block(&[signal::INTERRUPT, signal::TERMINATE, signal::HANG_UP])?;
        for plan in plans.iter().filter(|_| !self.json) {
            say!(
                "{} on {}: {}",
                plan.label,
                plan.cpus.named(),
                describe_parameters(&plan.parameters)
            );
        }
        for plan in plans {
            if let Some(note) = &plan.note {
                say!("{}: {note}", plan.label);
            }
        }
        for line in device_writes::lines(plans.iter().filter_map(|plan| plan.writes_for(duration)))
        {
            say!("writes {line}");
        }
        self.lines = EventLines::of(
            plans
                .iter()
                .map(|plan| (plan.label.clone(), plan.cpus.len()))
                .collect(),
        );
        self.guardian.begin(PHASE, plans)?;
        let end = Nanos(clock::monotonic()).saturating_add(duration);
        let (mut left, mut finishing) = (plans.len(), false);
        while left > 0 && !self.guardian.is_gone() {
            let wait = if finishing {
                i64::MAX
            } else {
                (end.get() - clock::monotonic()).max(0)
            };
            let timeout = i32::try_from(wait / 1_000_000 + 1).unwrap_or(i32::MAX);
            wait_readable(&[self.guardian.as_fd(), signals.as_fd()], timeout)?;
            let interrupted = signals.take()?.is_some();
            if interrupted {
                self.code = 130;
            }
            if !finishing && (interrupted || clock::monotonic() >= end.get()) {
                self.guardian.finish(PHASE, None)?;
                finishing = true;
            }
            for event in self.guardian.drain() {
                left -= usize::from(matches!(event, LoadEvent::Ended { .. }));
                self.show(&event)?;
            }
        }
        Ok(self.code)
    }

    fn show(&mut self, event: &LoadEvent) -> std::io::Result<()> {
        match event {
            LoadEvent::Absent { .. }
            | LoadEvent::Ended {
                how: LoadEnd::Absent,
                ..
            } if self.code == 0 => self.code = 3,
            LoadEvent::Ended {
                how: LoadEnd::Died { .. } | LoadEnd::Killed,
                ..
            } if self.code == 0 => self.code = 1,
            _ => {}
        }
        let text = if self.json {
            Format::LOAD.line(event)
        } else {
            self.lines.line(event)
        };
        if text.is_empty() {
            return Ok(());
        }
        match writeln!(std::io::stdout().lock(), "{text}") {
            // If the reader has closed the pipe, the loads still stop normally.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    }
}
