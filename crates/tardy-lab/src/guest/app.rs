//! Runs and measures a user's program in the guest. The program's output and exit status are stored
//! separately from those of the process that measures the program.
//!
//! If `tardy attach` measures the program, the guest's first process starts it. If the program
//! makes the calls of include/tardy.h, `tardy run` measures it and starts it through a launcher. In
//! both cases, the program's output goes to the same files.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use tardy_results::exit::Exit;
use tardy_results::lab_app::{END_NAME, ProgramEnd, ProgramEnding};
use tardy_sys::child::end_with_parent;
use tardy_sys::{process, signal};

use super::{collect_until, collect_until_ended, ending_of, in_guest, start_loads};
use crate::boot::{STDERR_NAME, STDOUT_NAME};
use crate::guest_job::{APP_FOLDER, APP_NAME, App, AppCommand, Ending, GuestJob, OUTPUT_FOLDER};
use crate::packing::PATH;

/// The first argument of this binary when it runs as the launcher.
const LAUNCH: &str = "launch-for-guest";
/// Exit code of `tardy attach` if the process to be measured does not exist.
const NO_PROCESS: i32 = Exit::Usage as i32;
/// How long the program may take to end after it got SIGTERM, in the guest's time.
const END_MAX: Duration = Duration::from_secs(2);

/// Starts the program, measures it, and ends it. Returns how the measurement ended.
pub(super) fn run(app: &App, job: &GuestJob) -> io::Result<Ending> {
    let log = |name: &str| File::create(Path::new("/run").join(name));
    let (stdout, stderr) = (log(STDOUT_NAME)?, log(STDERR_NAME)?);
    let mut command = Command::new(&app.command.path);
    set_up(in_guest(&mut command), &app.command)?;
    let started = Instant::now();
    let child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Ok(Ending::NotStarted(error.to_string())),
    };
    let mut loads = match job.loads.is_empty() {
        true => None,
        false => Some(start_loads(&job.loads, job.time_limit, &stderr)?),
    };
    if let Some(ending) = collect_until_ended(child.id(), started + app.warm_up.to_std())? {
        write_end(&ending, started, false)?;
        stop(&mut loads)?;
        return Ok(Ending::Exited(0));
    }
    let mut measuring = Command::new("/proc/self/exe");
    in_guest(&mut measuring)
        .arg("attach")
        .arg(child.id().to_string())
        .args(&app.attach)
        .stdout(stdout)
        .stderr(stderr);
    let mut attach = measuring.spawn()?;
    let (mut of_program, mut of_attach) = (None, None);
    collect_until(started + job.time_limit.to_std(), |ended, ending| {
        if ended == child.id() {
            of_program = Some(ending);
        } else if ended == attach.id() {
            of_attach = Some(ending);
        }
        of_attach.is_some()
    })?;
    let loads_ended = stop(&mut loads)?;
    let has_ended = of_program.is_some();
    match of_program {
        Some(ending) => write_end(&ending, started, false)?,
        None => end(child, started)?,
    }
    Ok(match of_attach {
        Some(_) if loads_ended => Ending::LoadsEnded,
        // If the program ended before `tardy attach` was ready, there was nothing to measure.
        Some(Ending::Exited(NO_PROCESS)) if has_ended => Ending::Exited(0),
        Some(ending) => ending,
        None => {
            attach.kill()?;
            Ending::TimeLimit
        }
    })
}

/// Stops the loads. Returns whether the loads ended before the program did.
fn stop(loads: &mut Option<Child>) -> io::Result<bool> {
    let Some(loads) = loads else { return Ok(false) };
    // If the loads were already reaped, `try_wait` returns an error.
    let have_ended = !matches!(loads.try_wait(), Ok(None));
    loads.kill().ok();
    Ok(have_ended)
}

/// Sends SIGTERM to the program; kills it if it does not end in time.
fn end(mut child: Child, started: Instant) -> io::Result<()> {
    process::kill(child.id().cast_signed(), signal::TERMINATE)?;
    let ending = match collect_until_ended(child.id(), Instant::now() + END_MAX)? {
        Some(ending) => ending,
        None => {
            child.kill()?;
            ending_of(child.wait()?)
        }
    };
    write_end(&ending, started, true)
}

/// Sets the program's name, arguments, folder and output files.
fn set_up(command: &mut Command, app: &AppCommand) -> io::Result<()> {
    fs::create_dir_all(&app.folder)?;
    fs::create_dir_all(APP_FOLDER)?;
    let log = |name: &str| File::create(Path::new(APP_FOLDER).join(name));
    command
        .arg0(&app.name)
        .args(&app.arguments)
        .env("PATH", PATH)
        .env("TERM", "linux")
        // A shell sets this variable to the program's path, too, and some programs use it to find
        // their own file.
        .env("_", &app.path)
        .current_dir(&app.folder)
        .stdout(log(STDOUT_NAME)?)
        .stderr(log(STDERR_NAME)?);
    Ok(())
}

fn write_end(ending: &Ending, started: Instant, was_stopped: bool) -> io::Result<()> {
    let ending = match ending {
        Ending::Signalled(signal) => ProgramEnding::Signalled(*signal),
        Ending::Exited(code) => ProgramEnding::Exited(*code),
        other => {
            return Err(io::Error::other(format!(
                "the program ended with {other:?}"
            )));
        }
    };
    let lasted = i64::try_from(started.elapsed().as_nanos()).unwrap_or(i64::MAX);
    let end = ProgramEnd {
        ending,
        was_stopped,
        lasted_ns: tardy_core::units::Nanos(lasted),
    };
    fs::write(
        Path::new(APP_FOLDER).join(END_NAME),
        serde_json::to_vec(&end)?,
    )
}

/// Moves the output of the user's program to the files that the guest exports.
pub(super) fn keep_output() -> io::Result<()> {
    if !Path::new(APP_FOLDER).is_dir() {
        return Ok(());
    }
    fs::create_dir_all(OUTPUT_FOLDER)?;
    fs::rename(APP_FOLDER, Path::new(OUTPUT_FOLDER).join(APP_NAME))
}

/// Returns the command with which `tardy run` starts the user's program in a guest.
#[must_use]
pub fn launcher(app: &AppCommand) -> Vec<String> {
    let app = serde_json::to_string(app).expect("a command can always be written as JSON");
    vec!["/init".to_owned(), LAUNCH.to_owned(), app]
}

/// If this process is the launcher, starts the program that was passed to [`launcher`], and waits
/// for its end. If the launcher gets SIGTERM, it ends, and the program ends with it.
///
/// # Errors
/// Returns an error if the program cannot be started.
pub fn launch(mut arguments: impl Iterator<Item = OsString>) -> Option<io::Result<()>> {
    let is_launcher = arguments.nth(1)? == LAUNCH;
    let app = arguments.next().filter(|_| is_launcher)?;
    Some(launched(&app))
}

fn launched(app: &OsStr) -> io::Result<()> {
    let app: AppCommand = serde_json::from_slice(app.as_encoded_bytes())?;
    let started = Instant::now();
    let mut command = Command::new(&app.path);
    set_up(end_with_parent(&mut command), &app)?;
    let status = command.status()?;
    write_end(&ending_of(status), started, false)
}
