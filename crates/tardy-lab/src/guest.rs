//! The guest's side of the lab: the binary as the first process of a virtual machine.
//!
//! The first process mounts the kernel's file systems, and sleeps until the kernel's work after the
//! boot is over. Then it starts a child that does the job; the child is usually the same binary.
//! The first process also reaps every orphan, exports the result, and switches the machine off. If
//! the host uses snapshots, the first process stops the machine before it starts the child. The
//! first process has one thread and sleeps while the measurement runs.
//!
//! In virtual time, no explanation names the host as the cause, because other tasks of the host
//! take no time that the guest can see.

mod app;
mod clocks;
mod hand_out;
mod inject;
mod page_list;
mod pause;
mod pci;
mod system;

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tardy_core::units::Nanos;
use tardy_run::request::Request;
use tardy_sys::child::kill_with_parent;
use tardy_sys::sched::{self, Policy};
use tardy_sys::{clock, init, watched};

use super::boot::{STDERR_NAME, STDOUT_NAME};
use super::diagnosis::{BOOTED, GUEST_FAILED};
use super::exchange;
use super::guest_job::{
    Ending, GuestJob, GuestReport, JOB_PATH, OUTPUT_FOLDER, Program, SCENARIO_PATH, SYMBOLS_NAME,
    Task, VERSION,
};

/// Path of the program that provides the shell.
pub const SHELL: &str = "/bin/busybox";

/// Real-time priority of the first process: below every probe's.
const PRIORITY: u32 = 50;

/// The only argument of the child process that measures.
const MEASURE: &str = "measure-for-guest";

pub use app::{launch, launcher};

/// Environment variable that marks the process that triggers the injected delays.
const INJECTOR_VARIABLE: &str = "TARDY_GUEST_INJECTOR";

/// Returns whether this process is the first one of a guest of the lab, or a helper process that
/// the first one started.
#[must_use]
pub fn is_guest_init() -> bool {
    // The first process of a PID namespace also has ID 1, for example the supervisor of the loads.
    // But only the first process of a machine starts before /proc is mounted.
    let is_first = std::process::id() == 1 && !Path::new("/proc/self").exists();
    (is_first || std::env::var_os(INJECTOR_VARIABLE).is_some()) && Path::new(JOB_PATH).exists()
}

/// Returns the request to measure, if the first process of a guest started this process for a
/// measurement.
///
/// # Errors
/// Returns an error if the job cannot be read, or if its task is not a measurement.
pub fn measurement(mut arguments: impl Iterator<Item = OsString>) -> Option<io::Result<Request>> {
    (arguments.nth(1)? == MEASURE).then(|| match read_job()?.task {
        Task::Measure(request) => Ok(*request),
        _ => Err(io::Error::other("the guest's job is not a measurement")),
    })
}

/// Returns a listener that reports the run's progress to the host; `None` if the machine shares no
/// memory with the host.
#[must_use]
pub fn progress_listener() -> Option<impl FnMut(&str, Nanos, Nanos)> {
    let mut memory = pci::shared_header().ok()?;
    Some(move |phase: &str, elapsed, planned| {
        // This cannot fail, because the mapping always has room for the header.
        let _ = exchange::tell_progress(&mut memory, phase, elapsed, planned);
    })
}

/// Returns the program that measures: this binary, which reads from the job what to measure.
fn measurement_program() -> Program {
    Program {
        path: None,
        arguments: vec![MEASURE.to_owned()],
    }
}

fn read_job() -> io::Result<GuestJob> {
    Ok(serde_json::from_slice(&std::fs::read(JOB_PATH)?)?)
}

/// Does the job and switches the machine off. Returns only if the machine cannot be switched off.
/// The kernel then panics because its first process ends, and the host notices the panic.
pub fn run() -> io::Error {
    if std::process::id() != 1 {
        inject::run();
    }
    if let Err(error) = try_run() {
        // The message goes to the console, because there is no other output. The host shows the
        // last lines of the console.
        tardy_sys::say!("{GUEST_FAILED}{error}");
    }
    init::power_off()
}

fn try_run() -> io::Result<()> {
    let mut remarks = system::mount_all();
    remarks.extend(system::switch_loopback_on());
    let booted_at = Nanos(clock::monotonic());
    let job = read_job()?;
    if job.version != VERSION {
        return Err(io::Error::other(format!(
            "the job has version {}, this binary knows {VERSION}",
            job.version
        )));
    }
    init::hold_back_child_signal()?;
    // The priority must be above that of the loads, otherwise loads could delay the time limit.
    // Nevertheless it does not disturb the measurement: this process sleeps meanwhile, and its
    // children do not inherit the priority.
    if let Err(error) = sched::set_policy(0, Policy::Fifo { priority: PRIORITY }) {
        remarks.push(format!(
            "the first process has no real-time priority: {error}"
        ));
    }
    let mut missing = load_modules(&job.modules);
    if let Err(error) = page_list::empty() {
        remarks.push(format!(
            "the CPU's list of free pages could not be emptied: {error}"
        ));
    }
    tardy_sys::say!("{BOOTED}");
    std::thread::sleep(job.settle.to_std());
    let job = match job.task {
        Task::Pause => pause::pause_for_job()?,
        _ => job,
    };
    if !job.late_modules.is_empty() {
        missing = missing.or_else(|| load_modules(&job.late_modules));
        std::thread::sleep(job.settle.to_std());
    }
    if let Some(scenario) = &job.scenario {
        std::fs::write(SCENARIO_PATH, scenario)?;
    }
    // The plugin uses the last clock read before the mark `BEGIN` as the program's start. So
    // nothing may read the clock between the next two calls.
    let (count_at_start, started_at) = clocks::read();
    watched::say::<{ watched::BEGIN }>();
    let ending = match (&job.task, missing) {
        (Task::Shell, missing) => return run_shell(missing),
        (Task::Pause, _) => {
            return Err(io::Error::other(
                "after the pause, the host sent another pause instead of a job",
            ));
        }
        (Task::Measure(_) | Task::Run(_) | Task::App(_), Some(error)) => Ending::NotStarted(error),
        (Task::Measure(_), None) => run_program(&measurement_program(), &job)?,
        (Task::Run(program), None) => run_program(program, &job)?,
        (Task::App(app), None) => app::run(app, &job)?,
    };
    app::keep_output()?;
    watched::say::<{ watched::END }>();
    if job.hand_out_symbols {
        std::fs::create_dir_all(OUTPUT_FOLDER)?;
        std::fs::copy(
            "/proc/kallsyms",
            Path::new(OUTPUT_FOLDER).join(SYMBOLS_NAME),
        )?;
    }
    if job.injection.is_some() {
        remarks.extend(inject::keep_log().err());
    }
    let (count_at_end, ended_at) = clocks::read();
    let report = GuestReport {
        version: VERSION,
        ending,
        booted_at,
        started_at,
        ended_at,
        cycle_counts: Some((count_at_start, count_at_end)),
        idle: system::idle(),
        kernel_release: system::read_line("/proc/sys/kernel/osrelease"),
        kernel_version: system::read_line("/proc/sys/kernel/version"),
        command_line: system::read_line("/proc/cmdline"),
        preemption: system::preemption(),
        killed_for_memory: system::killed_for_memory(),
        remarks,
    };
    hand_out::hand_out(&report)
}

/// Loads modules, and returns the error of the first module that cannot be loaded.
fn load_modules(modules: &[String]) -> Option<String> {
    modules
        .iter()
        .find_map(|module| system::load_module(module).err())
}

/// Starts the program and its companion processes, and reaps children until the program has ended
/// or the time limit has passed.
fn run_program(program: &Program, job: &GuestJob) -> io::Result<Ending> {
    // A measurement makes its own run folder; for any other program, a folder for its output is
    // made here.
    if program.path.is_some() {
        std::fs::create_dir_all(OUTPUT_FOLDER)?;
    }
    let log = |name: &str| std::fs::File::create(Path::new("/run").join(name));
    let mut command = Command::new(program.path.as_deref().unwrap_or("/proc/self/exe"));
    let stderr = log(STDERR_NAME)?;
    in_guest(&mut command)
        .args(&program.arguments)
        .stdout(log(STDOUT_NAME)?)
        .stderr(stderr.try_clone()?);
    let mut loads = match job.loads.is_empty() {
        true => None,
        false => Some(start_loads(&job.loads, job.time_limit, &stderr)?),
    };
    #[allow(
        clippy::zombie_processes,
        reason = "collected with all other children below"
    )]
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Ok(Ending::NotStarted(error.to_string())),
    };
    let injector = match job.injection {
        Some(_) => Some(
            Command::new("/proc/self/exe")
                .env_clear()
                .env(INJECTOR_VARIABLE, "1")
                .stdin(Stdio::null())
                .spawn()?,
        ),
        None => None,
    };
    let deadline = Instant::now() + job.time_limit.to_std();
    let ending = collect_until_ended(child.id(), deadline)?;
    if let Some(mut injector) = injector {
        // The injector may have ended and been reaped above.
        injector.kill().ok();
    }
    if let Some(loads) = &mut loads {
        // If the loads were reaped above, `try_wait` returns an error.
        let have_ended = !matches!(loads.try_wait(), Ok(None));
        loads.kill().ok();
        if have_ended {
            return Ok(Ending::LoadsEnded);
        }
    }
    if let Some(ending) = ending {
        return Ok(ending);
    }
    child.kill()?;
    Ok(Ending::TimeLimit)
}

/// Sets the environment that every program of the guest gets. Also unblocks all signals: the first
/// process blocks SIGCHLD, and a shell that inherited this would wait for its children forever.
fn in_guest(command: &mut Command) -> &mut Command {
    kill_with_parent(command)
        .env_clear()
        .env("PATH", "/bin")
        .env("HOME", "/root")
        .env("TMPDIR", "/tmp")
        .env(watched::VARIABLE, "1")
        .current_dir("/run")
        .stdin(Stdio::null())
}

/// Starts the job's loads beside a program that does not start loads itself. The messages of the
/// load processes go to `log`.
fn start_loads(loads: &[String], length: Nanos, log: &std::fs::File) -> io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    in_guest(&mut command)
        .arg("load")
        .args(loads)
        .args(["--for", &length.to_string()])
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?);
    command.spawn()
}

/// Reaps every child until `process` has ended. Returns `None` if the deadline passes first.
fn collect_until_ended(process: u32, deadline: Instant) -> io::Result<Option<Ending>> {
    let mut found = None;
    collect_until(deadline, |ended, ending| {
        if ended == process {
            found = Some(ending);
        }
        ended == process
    })?;
    Ok(found)
}

/// Reaps every child that ends, and calls `is_last` with the child's ID and the way in which it
/// ended. Returns when `is_last` returns true or the deadline has passed.
fn collect_until(
    deadline: Instant,
    mut is_last: impl FnMut(u32, Ending) -> bool,
) -> io::Result<()> {
    loop {
        while let Some((ended, status)) = init::collect_child()? {
            if is_last(ended, ending_of(status)) {
                return Ok(());
            }
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left == Duration::ZERO {
            return Ok(());
        }
        match init::wait_for_child(left) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
}

fn ending_of(status: ExitStatus) -> Ending {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Exited(code),
        (None, signal) => Ending::Signalled(signal.unwrap_or_default()),
    }
}

/// Runs a shell on the console. Each program of the guest's busybox can be called by its name.
fn run_shell(remark: Option<String>) -> io::Result<()> {
    if let Some(remark) = remark {
        tardy_sys::say!("tardy: {remark}");
    }
    Command::new(SHELL)
        .args(["--install", "-s", "/bin"])
        .status()?;
    let mut command = Command::new(SHELL);
    // A new session with the console as its terminal lets Ctrl-C reach the programs in the shell.
    command
        .args(["setsid", "-c", SHELL, "sh", "-l"])
        .env_clear()
        .env("PATH", "/bin")
        .env("HOME", "/root")
        .env("TERM", "linux")
        .current_dir("/root");
    #[allow(
        clippy::zombie_processes,
        reason = "collected with all other children below"
    )]
    let child = kill_with_parent(&mut command).spawn()?;
    let forever = Instant::now() + Duration::from_secs(365 * 24 * 3600);
    collect_until_ended(child.id(), forever).map(|_| ())
}
