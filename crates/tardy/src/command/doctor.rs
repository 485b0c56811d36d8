//! `tardy doctor`: checks whether this machine is set up for real time.

use std::thread;
use std::time::Duration;

use tardy_core::cpu::CpuList;
use tardy_core::units::Nanos;
use tardy_machine::checks::{CheckInput, look};
use tardy_machine::facts::MachineFacts;
use tardy_machine::hardware_latency;
use tardy_machine::program::{Program, ProgramWatch};
use tardy_machine::root::Root;
use tardy_machine::watch::{Watch, WatchDelta};
use tardy_report::report::{doctor_html, doctor_text};
use tardy_results::decision::{Question, decision};
use tardy_results::doctor::Diagnosis;
use tardy_results::document::Format;
use tardy_results::exit::Exit;
use tardy_run::request::MeasuredCpus;

use super::output;
use crate::cli::doctor::DoctorArgs;

/// The reason why there is no diagnosis.
#[derive(Debug, thiserror::Error)]
enum DoctorError {
    #[error(
        "--root {0}: this folder has no proc or sys folder: name the folder that holds the copies \
         of /proc and /sys"
    )]
    NoMachine(String),
    #[error("--cpus: CPUs {0} are not online: name some of {1}")]
    NotOnline(CpuList, CpuList),
    #[error("--cpus: there is no such CPU on this machine: name CPUs by number")]
    NoCpu,
    #[error(
        "--pid: there is no process {0}, or it has just ended: name the process that must be on \
         time"
    )]
    NoProcess(u32),
}

/// Runs the command.
#[must_use]
pub fn run(args: &DoctorArgs) -> Exit {
    if let Some(file) = &args.against {
        return super::tune::against(file);
    }
    let diagnosis = match diagnose(args) {
        Ok(diagnosis) => diagnosis,
        Err(error) => {
            output::complain(&error);
            return Exit::Usage;
        }
    };
    let is_page_printed =
        args.as_html || args.html.as_deref().is_some_and(output::is_standard_output);
    if let Some(file) = args.html.as_deref().filter(|_| !is_page_printed)
        && let Err(error) = output::write(file, doctor_html::page(&diagnosis).as_bytes())
    {
        say!(
            "tardy: cannot write {}: {error}: give another file with --html",
            file.display()
        );
        return Exit::Machine;
    }
    let text = if args.json {
        Format::DOCTOR.document(&diagnosis)
    } else if is_page_printed {
        doctor_html::page(&diagnosis)
    } else {
        doctor_text::text(&diagnosis, output::screen(), args.all)
    };
    match output::print(&text) {
        Ok(()) => diagnosis.exit(args.fail_on),
        Err(error) => {
            say!("tardy: cannot write the result: {error}");
            Exit::Machine
        }
    }
}

fn diagnose(args: &DoctorArgs) -> Result<Diagnosis, DoctorError> {
    let root = args.root.as_ref().map_or_else(Root::system, Root::at);
    if let Some(folder) = &args.root
        && root.names("proc").is_empty()
        && root.names("sys").is_empty()
    {
        return Err(DoctorError::NoMachine(folder.display().to_string()));
    }
    let facts = MachineFacts::read(&root);
    let watch = args
        .pid
        .map(|process| ProgramWatch::begin(&root, process).ok_or(DoctorError::NoProcess(process)))
        .transpose()?;
    let online = facts.processors.online.clone().unwrap_or_default();
    let watched = watch_machine(args, &root, &online);
    let program = watch
        .map(|watch| {
            watch
                .end(&root)
                .ok_or(DoctorError::NoProcess(args.pid.unwrap_or_default()))
        })
        .transpose()?;
    let cpus = cpus(args.cpus.as_ref(), &facts, program.as_ref())?;
    let detected = args
        .hardware_latency
        .map(|span| hardware_latency::detect(&root, &cpus, span));
    let mut examined = CheckInput::new(&facts, Some(&root), &cpus);
    (examined.profile, examined.program, examined.watched) =
        (args.profile, program.as_ref(), watched.as_ref());
    examined.detected = detected.as_ref();
    let findings = look(&examined);
    Ok(Diagnosis {
        machine: facts.one_line(),
        profile: args.profile,
        program: program
            .as_ref()
            .map(|program| format!("{} ({})", program.name, program.process)),
        decision: decision(&Question {
            is_virtual_machine: facts.virtualization.is_virtual() == Some(true),
            ..Question::default()
        }),
        findings,
        cpus,
    })
}

/// Watches the counters of this machine for a while. Copied files do not change, so for `--root`
/// this returns at once.
fn watch_machine(args: &DoctorArgs, root: &Root, cpus: &CpuList) -> Option<WatchDelta> {
    if args.watch == Nanos::ZERO || args.root.is_some() {
        return None;
    }
    let watch = Watch::begin(root, cpus);
    thread::sleep(Duration::from_nanos(args.watch.get().unsigned_abs()));
    Some(watch.end(root, args.watch))
}

/// Returns the CPUs for the real-time work: the requested ones, otherwise those of the program's
/// real-time threads, otherwise the isolated ones, otherwise all.
fn cpus(
    asked: Option<&MeasuredCpus>,
    facts: &MachineFacts,
    program: Option<&Program>,
) -> Result<CpuList, DoctorError> {
    let processors = &facts.processors;
    let online = processors.online.clone().unwrap_or_default();
    let apart: CpuList = [&processors.isolated, &processors.nohz_full]
        .into_iter()
        .flatten()
        .flat_map(CpuList::iter)
        .collect();
    let found = match asked {
        Some(MeasuredCpus::List(list)) => {
            let missing = list.minus(&online);
            if !missing.is_empty() && !online.is_empty() {
                return Err(DoctorError::NotOnline(missing, online));
            }
            list.clone()
        }
        Some(MeasuredCpus::Isolated) => apart.and(&online),
        Some(MeasuredCpus::Housekeeping) => online.minus(&apart),
        Some(MeasuredCpus::All) => online,
        None => {
            let threads = program
                .into_iter()
                .flat_map(|program| &program.threads)
                .filter(|thread| thread.is_real_time());
            let of_program: CpuList = threads
                .filter_map(|thread| thread.allowed.as_ref())
                .flat_map(CpuList::iter)
                .collect();
            let candidates = [of_program.and(&online), apart.and(&online)];
            return Ok(candidates
                .into_iter()
                .find(|cpus| !cpus.is_empty())
                .unwrap_or(online));
        }
    };
    if found.is_empty() {
        Err(DoctorError::NoCpu)
    } else {
        Ok(found)
    }
}
