//! A folder to work in, and the real binary at work there, as a user would start it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tardy_sys::process;

/// How long anything may take that only waits for the kernel; never a measure of how long it does
/// take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Set in the environment of everything that a test starts, so that what is left of it can be
/// found.
const MARK: &str = "TARDY_TEST_MARK";

/// A folder of its own for one test; gone with it.
pub(crate) struct Workplace {
    folder: tempfile::TempDir,
}

/// What a command that has ended left to see.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A command under way; killed when dropped, because a test that fails must not leave it running.
pub(crate) struct RunningCommand {
    child: Option<Child>,
    mark: String,
}

impl Workplace {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Everything in the folder, by name; the folder of journals counts while it has any.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = names(self.folder.path());
        names.retain(|name| name != "state" || !self.journals().is_empty());
        names
    }

    /// Journals that are there.
    pub(crate) fn journals(&self) -> Vec<String> {
        let folder = self.path("state");
        if folder.is_dir() {
            names(&folder)
        } else {
            Vec::new()
        }
    }

    /// `tardy` with these arguments, its journals kept in this folder.
    pub(crate) fn command<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        self.prepared(Command::new(env!("CARGO_BIN_EXE_tardy")), arguments)
    }

    /// Any command, in this folder.
    pub(crate) fn prepared<S: AsRef<OsStr>>(
        &self,
        mut command: Command,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        command
            .args(arguments)
            .current_dir(self.folder())
            .env("TARDY_STATE_DIR", self.folder().join("state"))
            .env(MARK, self.mark())
            // Whose machine this is must not matter.
            .env("TARDY_CONFIG", "")
            .env_remove("NO_COLOR")
            // Histograms in the terminal are made of what the locale has.
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn mark(&self) -> String {
        self.folder().display().to_string()
    }

    /// Runs `tardy` to its end; the words of `line` are its arguments.
    pub(crate) fn tardy(&self, line: &str) -> Outcome {
        finish(self.command(line.split_whitespace()))
    }

    /// Runs `tardy` with arguments that may hold spaces, or nothing.
    pub(crate) fn tardy_with(&self, arguments: &[&str]) -> Outcome {
        finish(self.command(arguments))
    }

    /// Starts `tardy` and goes on.
    pub(crate) fn start(&self, line: &str) -> RunningCommand {
        let child = self.command(line.split_whitespace()).spawn().unwrap();
        RunningCommand {
            child: Some(child),
            mark: self.mark(),
        }
    }

    /// Starts any command, in this folder, and goes on.
    pub(crate) fn start_command<S: AsRef<OsStr>>(
        &self,
        command: Command,
        arguments: impl IntoIterator<Item = S>,
    ) -> RunningCommand {
        let child = self.prepared(command, arguments).spawn().unwrap();
        RunningCommand {
            child: Some(child),
            mark: self.mark(),
        }
    }

    /// The summary of a run in this folder, as JSON, whatever its exit code.
    pub(crate) fn summary(&self, run: &str) -> Value {
        self.tardy(&format!("show --json {run}")).json()
    }

    /// `run.json` of a run in this folder.
    pub(crate) fn record(&self, run: &str) -> Value {
        serde_json::from_slice(&std::fs::read(self.path(run).join("run.json")).unwrap()).unwrap()
    }
}

/// Everything in a folder, by name, in order.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Runs a command to its end.
pub(crate) fn finish(mut command: Command) -> Outcome {
    command.output().unwrap().into()
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the tool writes UTF-8");
        Self {
            status: output.status,
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

impl Outcome {
    pub(crate) fn code(&self) -> i32 {
        self.status
            .code()
            .unwrap_or_else(|| panic!("ended by a signal: {self:?}"))
    }

    /// Ends the test where the exit code is another one.
    #[track_caller]
    pub(crate) fn ends_with(self, code: i32) -> Self {
        assert_eq!(
            self.status.code(),
            Some(code),
            "stdout:\n{}\nstderr:\n{}",
            self.stdout,
            self.stderr
        );
        self
    }

    /// What was printed as JSON, held to its schema if it names one.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert!(!self.stdout.is_empty(), "the output is empty: {self:?}");
        super::document::read(&self.stdout)
    }

    /// The first line that warns, without its mark.
    pub(crate) fn first_warning(&self) -> &str {
        self.stdout
            .lines()
            .find_map(|line| line.strip_prefix("! "))
            .unwrap_or_default()
    }
}

impl RunningCommand {
    pub(crate) fn pid(&self) -> i32 {
        let child = self
            .child
            .as_ref()
            .expect("a command that is waited for is used up");
        i32::try_from(child.id()).unwrap()
    }

    pub(crate) fn signal(&self, signal: i32) {
        process::kill(self.pid(), signal).unwrap();
    }

    pub(crate) fn wait(mut self) -> Outcome {
        self.child
            .take()
            .expect("waited for only here")
            .wait_with_output()
            .unwrap()
            .into()
    }

    /// Waits until `done` answers with something.
    #[track_caller]
    pub(crate) fn until<T>(&mut self, what: &str, mut done: impl FnMut() -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(found) = done() {
                return found;
            }
            let ended = self
                .child
                .as_mut()
                .and_then(|child| child.try_wait().unwrap());
            if ended.is_some() {
                // It may have happened between the last look and the end.
                return done()
                    .unwrap_or_else(|| panic!("the command ended ({ended:?}) before {what}"));
            }
            assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Every living process that was started for this test.
    pub(crate) fn family(&self) -> Vec<i32> {
        family(&self.mark)
    }

    /// The guardian of its loads.
    pub(crate) fn guardian(&mut self) -> i32 {
        let mark = self.mark.clone();
        let is_guardian = |pid: &i32| {
            std::fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|comm| comm.trim() == "tardy-guardian")
        };
        self.until("it has a guardian", || {
            family(&mark).into_iter().find(is_guardian)
        })
    }
}

/// Every living process with this mark.
pub(crate) fn family(mark: &str) -> Vec<i32> {
    let entry = format!("{MARK}={mark}");
    let pids = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let has_mark = |pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|&byte| byte == 0)
            .any(|word| word == entry.as_bytes())
    };
    pids.filter(has_mark).collect()
}

impl Workplace {
    /// Every living process that was started here.
    pub(crate) fn processes(&self) -> Vec<i32> {
        family(&self.mark())
    }

    /// Waits until nothing that was started here is left.
    #[track_caller]
    pub(crate) fn assert_no_process_is_left(&self) {
        let start = Instant::now();
        while !family(&self.mark()).is_empty() {
            assert!(
                start.elapsed() < PATIENCE,
                "left: {:?}",
                family(&self.mark())
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
