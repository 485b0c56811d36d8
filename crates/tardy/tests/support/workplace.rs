//! Makes a working folder, and starts the real binary in it as a user does.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tardy_sys::process;

/// Maximum time that a test waits for an event. The limit only stops a test that hangs; it is not a
/// requirement on the tool's speed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Set in the environment of all programs that a test starts, so that remaining processes can be
/// found.
const MARK: &str = "TARDY_TEST_MARK";

/// A folder for one test, removed on drop.
pub(crate) struct Workplace {
    folder: tempfile::TempDir,
}

/// Exit status and output of a command that has ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A running command, killed on drop, so that it does not outlive a failed test.
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

    /// Names in the folder, sorted. The folder of journals is listed only if it contains journals.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = names(self.folder.path());
        names.retain(|name| name != "state" || !self.journals().is_empty());
        names
    }

    /// Names of the journals in this folder.
    pub(crate) fn journals(&self) -> Vec<String> {
        let folder = self.path("state");
        if folder.is_dir() {
            names(&folder)
        } else {
            Vec::new()
        }
    }

    /// `tardy` with these arguments and with its journals in this folder.
    pub(crate) fn command<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        self.prepared(Command::new(env!("CARGO_BIN_EXE_tardy")), arguments)
    }

    /// A command that runs in this folder.
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
            // The user's own settings must not affect the tests.
            .env("TARDY_CONFIG", "")
            .env_remove("NO_COLOR")
            // The locale determines the characters of histograms in a terminal.
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn mark(&self) -> String {
        self.folder().display().to_string()
    }

    /// Runs `tardy` to its end with the words of `line` as arguments.
    pub(crate) fn tardy(&self, line: &str) -> Outcome {
        finish(self.command(line.split_whitespace()))
    }

    /// Runs `tardy` with arguments that may be empty or contain spaces.
    pub(crate) fn tardy_with(&self, arguments: &[&str]) -> Outcome {
        finish(self.command(arguments))
    }

    /// Starts `tardy` without waiting.
    pub(crate) fn start(&self, line: &str) -> RunningCommand {
        let child = self.command(line.split_whitespace()).spawn().unwrap();
        RunningCommand {
            child: Some(child),
            mark: self.mark(),
        }
    }

    /// Starts a command in this folder without waiting.
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

    /// The summary of a run in this folder as JSON, with any exit code.
    pub(crate) fn summary(&self, run: &str) -> Value {
        self.tardy(&format!("show --json {run}")).json()
    }

    /// `run.json` of a run in this folder.
    pub(crate) fn record(&self, run: &str) -> Value {
        serde_json::from_slice(&std::fs::read(self.path(run).join("run.json")).unwrap()).unwrap()
    }
}

/// Names in a folder, sorted.
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

    /// Checks the exit code, and returns the outcome.
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

    /// Parses the output as JSON. If the document names its format, checks it against the schema of
    /// this format.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert!(!self.stdout.is_empty(), "the output is empty: {self:?}");
        super::document::read(&self.stdout)
    }

    /// The first warning, without the mark before it.
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

    /// Waits until `done` returns a value.
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
                // The event may have occurred between the last check and the end of the command.
                return done()
                    .unwrap_or_else(|| panic!("the command ended ({ended:?}) before {what}"));
            }
            assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Living processes that were started for this test.
    pub(crate) fn family(&self) -> Vec<i32> {
        family(&self.mark)
    }

    /// Waits for the supervisor of the command's loads, and returns its process ID.
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

/// Living processes that have this mark in their environment.
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
    /// Living processes that were started in this folder.
    pub(crate) fn processes(&self) -> Vec<i32> {
        family(&self.mark())
    }

    /// Waits until no process that was started in this folder is left.
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
