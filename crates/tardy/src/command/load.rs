//! `tardy load NAME --for 30s`: runs loads alone and prints what they do a second.

use std::io::Write;
use std::os::fd::AsFd;
use std::process::ExitCode;

use tardy_core::bytes::format_bytes;
use tardy_core::units::Nanos;
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

/// The only phase of a run without probes.
const PHASE: u32 = 0;

/// Why loads could not be run.
#[derive(Debug, thiserror::Error)]
enum LoadCommandError {
    #[error(transparent)]
    Request(#[from] tardy_loads::load::request::RequestError),
    #[error("--for {0} is no length: give a time above 0, as in 30s")]
    Length(Nanos),
    #[error(transparent)]
    Guardian(#[from] GuardianError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("waiting for events: {0}; try again")]
    System(#[from] std::io::Error),
}

/// Runs the loads; the exit code is the command's: 3 where one that was named is absent, or all of a list, 1 where one died, 130 when interrupted.
#[must_use]
pub fn run(arguments: &LoadArguments) -> ExitCode {
    match try_run(arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("tardy load: {error}");
            let usage = matches!(error, LoadCommandError::Request(_) | LoadCommandError::Length(_));
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
                eprintln!("tardy load: {} is absent: missing {}; {}", request.text, absent.missing, absent.remedy);
                // A list without one of its loads is most of what was asked for; a load by its own name is missed.
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
        eprintln!("tardy load: the list runs without what is absent");
    }
    if !sharing::share_equally(&mut plans, &host) {
        eprintln!("tardy load: the loads share the CPUs by task, not by load: run as root, or set kernel.sched_autogroup_enabled to 1");
    }
    let changes: Vec<_> = plans.iter().flat_map(|plan| plan.undo.clone()).collect();
    let journal = (!changes.is_empty()).then(|| Journal::write(&journal::folder(), &Root::system(), Vec::new(), changes)).transpose()?;
    let mut guardian = Guardian::start(GuardianOptions::default())?;
    let outcome =
        Session { guardian: &mut guardian, json: arguments.json, code, cpus: Vec::new(), started: Vec::new(), previous: Vec::new() }
            .run(&plans, arguments.duration);
    guardian.shutdown()?;
    // The guardian has undone it already; what it could not, it is told here once more, and stays in the journal.
    for undone in journal.map_or_else(Vec::new, Journal::undo) {
        if let Err(error) = undone.result {
            eprintln!("tardy load: {}: not undone: {error}; try `tardy restore`", undone.setting);
        }
    }
    outcome
}

struct Session<'a> {
    guardian: &'a mut Guardian,
    json: bool,
    code: u8,
    /// How many CPUs each load has.
    cpus: Vec<(String, usize)>,
    /// When each load started.
    started: Vec<(String, Nanos)>,
    /// The last work of each worker, to make rates of totals.
    previous: Vec<Previous>,
}

const RATE_INTERVAL_MIN: Nanos = Nanos::from_millis(200);

struct Previous {
    load: String,
    cpu: Option<tardy_core::cpu::CpuId>,
    operations: u64,
    bytes: u64,
    cpu_time: Nanos,
    at: Nanos,
}

impl Session<'_> {
    fn run(&mut self, plans: &[LoadPlan], duration: Nanos) -> Result<u8, LoadCommandError> {
        let signals = SignalFd::block(&[signal::INTERRUPT, signal::TERMINATE, signal::HANG_UP])?;
        for plan in plans.iter().filter(|_| !self.json) {
            eprintln!("{} on CPUs {}: {}", plan.label, plan.cpus, describe_parameters(&plan.parameters));
        }
        for plan in plans {
            if let Some(note) = &plan.note {
                eprintln!("{}: {note}", plan.label);
            }
        }
        for line in device_writes::lines(plans.iter().filter_map(|plan| plan.writes_for(duration))) {
            eprintln!("writes {line}");
        }
        self.cpus = plans.iter().map(|plan| (plan.label.clone(), plan.cpus.len())).collect();
        self.guardian.begin(PHASE, plans)?;
        let end = Nanos(clock::monotonic()).saturating_add(duration);
        let (mut left, mut finishing) = (plans.len(), false);
        while left > 0 && !self.guardian.is_gone() {
            let wait = if finishing { i64::MAX } else { (end.get() - clock::monotonic()).max(0) };
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
            LoadEvent::Absent { .. } | LoadEvent::Ended { how: LoadEnd::Absent, .. } if self.code == 0 => self.code = 3,
            LoadEvent::Ended { how: LoadEnd::Died { .. } | LoadEnd::Killed, .. } if self.code == 0 => self.code = 1,
            _ => {}
        }
        let text = if self.json { Format::LOAD.line(event) } else { self.text(event) };
        if text.is_empty() {
            return Ok(());
        }
        match writeln!(std::io::stdout().lock(), "{text}") {
            // Whoever reads has seen enough; the loads still end in order.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    }

    fn text(&mut self, event: &LoadEvent) -> String {
        match event {
            LoadEvent::Started { load, at, .. } => {
                self.started.push((load.clone(), *at));
                String::new()
            }
            LoadEvent::Working { .. } | LoadEvent::Stopped { .. } => String::new(),
            LoadEvent::Work { load, cpu, operations, bytes, errors, cpu_time, at, .. } => {
                let on = cpu.map_or_else(|| "all".to_owned(), |cpu| format!("cpu{cpu}"));
                let index = self.previous.iter().position(|previous| previous.load == *load && previous.cpu == *cpu);
                let now = Previous { load: load.clone(), cpu: *cpu, operations: *operations, bytes: *bytes, cpu_time: *cpu_time, at: *at };
                let index = index.unwrap_or_else(|| {
                    let at = self.started.iter().find(|(started, _)| started == load).map_or(*at, |(_, at)| *at);
                    self.previous.push(Previous { load: load.clone(), cpu: *cpu, operations: 0, bytes: 0, cpu_time: Nanos::ZERO, at });
                    self.previous.len() - 1
                });
                // The last report may come right after one of the whole seconds; a rate of so short a time says nothing.
                if now.at - self.previous[index].at < RATE_INTERVAL_MIN {
                    return String::new();
                }
                // Of what is summed over CPUs more than 100 % is no mistake.
                let summed = self.cpus.iter().find(|(label, _)| cpu.is_none() && label == load).map(|(_, cpus)| *cpus);
                let text = rate_line(&self.previous[index], &now, (&on, summed), *errors);
                self.previous[index] = now;
                text
            }
            LoadEvent::Ended { load, how, .. } => match how {
                LoadEnd::Finished => format!("{load}: ended"),
                LoadEnd::Killed => format!("{load}: did not end in time and was killed"),
                LoadEnd::Died { status } => format!("{load}: died ({status})"),
                LoadEnd::Absent => format!("{load}: absent"),
            },
            LoadEvent::Absent { load, missing, remedy, .. } => format!("{load}: absent: missing {missing}; {remedy}"),
            LoadEvent::Problem { load, text } => format!("{}: {text}", load.as_deref().unwrap_or("guardian")),
        }
    }
}

fn rate_line(before: &Previous, now: &Previous, (on, summed): (&str, Option<usize>), errors: u64) -> String {
    let of = summed.map_or_else(String::new, |cpus| format!(" of {cpus} CPU{}", if cpus == 1 { "" } else { "s" }));
    let seconds = (now.at - before.at).as_secs_f64().max(1e-9);
    let operations = (now.operations - before.operations) as f64 / seconds;
    let bytes = format_bytes(((now.bytes - before.bytes) as f64 / seconds) as u64);
    let busy = 100.0 * (now.cpu_time - before.cpu_time).as_secs_f64() / seconds;
    format!("{:<24} {on:<6} {operations:>12.0} op/s {bytes:>14}/s {busy:>6.1} % CPU{of} {errors:>6} errors", now.load)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_summed_over_cpus_says_over_how_many() {
        let at = |seconds| Previous {
            load: "hackbench".to_owned(),
            cpu: None,
            operations: 0,
            bytes: 0,
            cpu_time: Nanos::from_millis(2_908 * seconds),
            at: Nanos::from_secs(seconds),
        };
        let line = rate_line(&at(1), &at(2), ("all", Some(2)), 0);
        assert!(line.contains(" 290.8 % CPU of 2 CPUs "), "{line}");
        assert!(!rate_line(&at(1), &at(2), ("cpu1", None), 0).contains(" of "), "{line}");
    }
}
