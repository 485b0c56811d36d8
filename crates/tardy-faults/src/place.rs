//! The place of an attempt: a folder in a separate memory file system, in which the real binary
//! runs as a user would start it.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tardy_sys::{process, signal};
use tempfile::TempDir;
use xtask::failure::{Result, While};

/// Environment variable that all child processes inherit, and by which leftover processes are
/// recognised.
const MARK: &str = "TARDY_FAULTS_MARK";
/// Maximum time to wait, on a busy machine, for something such as the end of a command.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum duration of a command under strace, which stops the command at each system call. At a
/// load average of 45, one command under strace took more than a minute.
const PATIENCE_UNDER_STRACE: Duration = Duration::from_secs(300);

/// The folder of an attempt. On drop, the folder is removed, and every process that the attempt
/// left is killed.
#[derive(Debug)]
pub(crate) struct Place {
    tardy: PathBuf,
    folder: TempDir,
    /// A process that only sleeps. Its OOM score adjustment is used as a harmless substitute for a
    /// kernel setting.
    sleeper: Child,
}

/// A running command.
#[derive(Debug)]
pub(crate) struct CommandProcess {
    child: Child,
    printed: PathBuf,
    said: PathBuf,
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The command's process number.
    pub(crate) pid: i32,
    /// The exit code; `None` if a signal ended the command.
    pub(crate) code: Option<i32>,
    /// The signal that ended the command.
    pub(crate) signal: Option<i32>,
    /// Whether the command was killed because it did not end in time.
    pub(crate) hung: bool,
    pub(crate) printed: String,
    pub(crate) said: String,
}

impl Place {
    /// Makes a folder in `ground` for this binary.
    pub(crate) fn new(tardy: &Path, ground: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("try-")
            .tempdir_in(ground)
            .while_doing(|| format!("making a folder in {}", ground.display()))?;
        for name in ["state", "tmp", "spool"] {
            std::fs::create_dir(folder.path().join(name))
                .while_doing(|| format!("making {name}"))?;
        }
        let sleeper = Command::new("sleep")
            .arg("600")
            .spawn()
            .while_doing(|| "starting sleep".to_owned())?;
        Ok(Self {
            tardy: tardy.to_owned(),
            folder,
            sleeper,
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Returns a file that commands can change as if it were a kernel setting, and that only this
    /// place uses.
    pub(crate) fn setting(&self) -> PathBuf {
        format!("/proc/{}/oom_score_adj", self.sleeper.id()).into()
    }

    /// Returns the tested binary.
    pub(crate) fn binary(&self) -> &Path {
        &self.tardy
    }

    /// Returns the command `tardy` with the words of `line`, without starting it.
    pub(crate) fn tardy_command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.tardy);
        command.args(line.split_whitespace());
        command
    }

    /// Returns a command that runs `tardy` with the words of `line` under another program, such as
    /// a tracer.
    pub(crate) fn tardy_behind(&self, program: &str, words: &[&str], line: &str) -> Command {
        let mut command = Command::new(program);
        command
            .args(words)
            .arg(&self.tardy)
            .args(line.split_whitespace());
        command
    }

    /// Starts a command in this folder. The command's journals, scratch files and output are also
    /// written here.
    pub(crate) fn start(&self, mut command: Command) -> Result<CommandProcess> {
        let (printed, said) = (self.path("tmp/.stdout"), self.path("tmp/.stderr"));
        let file = |path: &Path| {
            std::fs::File::create(path).while_doing(|| format!("making {}", path.display()))
        };
        command
            .current_dir(self.folder())
            .env("TARDY_STATE_DIR", self.path("state"))
            .env("TMPDIR", self.path("tmp"))
            .env("TARDY_CONFIG", "")
            .env("PATH", self.programs())
            .env("LC_ALL", "C")
            .env(MARK, self.folder())
            .stdin(Stdio::null())
            .stdout(file(&printed)?)
            .stderr(file(&said)?);
        if self.path("cache").exists() {
            command.env("XDG_CACHE_HOME", self.path("cache"));
        }
        let child = command
            .spawn()
            .while_doing(|| format!("starting {}", command.get_program().display()))?;
        Ok(CommandProcess {
            child,
            printed,
            said,
        })
    }

    /// Returns the value of PATH, in which `bin` comes first.
    fn programs(&self) -> OsString {
        let mut path = self.path("bin").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        path
    }

    /// Runs `tardy` with the words of `line` until it ends.
    pub(crate) fn tardy(&self, line: &str) -> Result<Outcome> {
        self.start(self.tardy_command(line))?.end(self, PATIENCE)
    }

    /// Returns every living process that was started here.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let entry = format!("{MARK}={}", self.folder().display());
        let pids = std::fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let is_ours = |pid: &i32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment
                .split(|&byte| byte == 0)
                .any(|word| word == entry.as_bytes())
        };
        pids.filter(is_ours).collect()
    }

    /// Waits until `is_so` returns true, but not longer than a limit. Returns whether `is_so`
    /// returned true in time.
    pub(crate) fn wait_until(&self, mut is_so: impl FnMut() -> bool) -> bool {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if is_so() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        false
    }

    /// Returns what commands left: processes that do not end, and journals and scratch files that
    /// `tardy restore` does not remove.
    pub(crate) fn leftovers(&self) -> Result<Vec<String>> {
        let mut left = Vec::new();
        if !self.wait_until(|| self.processes().is_empty()) {
            left.push(format!(
                "processes left: {}",
                self.processes()
                    .iter()
                    .map(|pid| name(*pid))
                    .collect::<Vec<_>>()
                    .join(", ")
            ));
            self.end_all();
        }
        let restored = self.tardy("restore")?;
        if restored.code != Some(0) {
            left.push(format!(
                "tardy restore ends with {}: {}",
                restored.ending(),
                restored.said.trim()
            ));
        }
        left.extend(self.files_left());
        left.extend(
            names(Path::new("/dev/shm"))
                .into_iter()
                .map(|name| format!("/dev/shm/{name} is left")),
        );
        Ok(left)
    }

    /// Returns a sentence for each file that a command must not leave: a journal, a scratch file,
    /// or an incomplete output.
    pub(crate) fn files_left(&self) -> Vec<String> {
        let folders = [
            "state",
            "tmp",
            "spool",
            ".",
            "cache/tardy",
            "cache/tardy/shell",
        ];
        let names = folders.into_iter().flat_map(|folder| {
            let names = names(&self.path(folder)).into_iter();
            names.map(move |name| (folder, name))
        });
        let is_left = |(folder, name): &(&str, String)| {
            let has_only_leftovers = ["state", "tmp", "spool"].contains(folder);
            has_only_leftovers && !name.starts_with(".std")
                || [".part", ".reserved"].iter().any(|end| name.ends_with(end))
                || name.starts_with("tardy-scratch-")
        };
        names
            .filter(is_left)
            .map(|(folder, name)| format!("{folder}/{name} is left"))
            .collect()
    }

    /// Sends SIGINT to all processes except strace, like Ctrl-C in a terminal.
    fn interrupt_all(&self) {
        let processes = self.processes().into_iter();
        for pid in processes.filter(|pid| !name(*pid).starts_with("strace ")) {
            let _ = process::kill(pid, signal::INTERRUPT);
        }
    }

    /// Kills every process that was started here.
    pub(crate) fn end_all(&self) {
        for pid in self.processes() {
            let _ = process::kill(pid, process::CONTINUE);
            let _ = process::kill(pid, process::KILL);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.sleeper.kill();
        let _ = self.sleeper.wait();
        self.end_all();
    }
}

fn name(pid: i32) -> String {
    let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("{} ({pid})", comm.trim())
}

/// Returns the names in a folder; no names if the folder cannot be read.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

impl CommandProcess {
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or(0)
    }

    pub(crate) fn signal(&self, signal: i32) -> Result<()> {
        process::kill(self.pid(), signal).while_doing(|| format!("sending signal {signal}"))
    }

    /// Returns whether the command has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Waits until the command ends. If a time is given, interrupts the command and its children
    /// after this time.
    pub(crate) fn end_after(
        mut self,
        place: &Place,
        interrupted_after: Option<Duration>,
    ) -> Result<Outcome> {
        if let Some(length) = interrupted_after {
            let start = Instant::now();
            while start.elapsed() < length && !self.has_ended() {
                std::thread::sleep(Duration::from_millis(2));
            }
            place.interrupt_all();
        }
        self.end(place, PATIENCE_UNDER_STRACE)
    }

    /// Waits until the command ends. If it has not ended after `patience`, kills the command and
    /// all its children.
    pub(crate) fn end(mut self, place: &Place, patience: Duration) -> Result<Outcome> {
        let start = Instant::now();
        let (status, hung): (Option<ExitStatus>, bool) = loop {
            match self
                .child
                .try_wait()
                .while_doing(|| "waiting for a command".to_owned())?
            {
                Some(status) => break (Some(status), false),
                None if start.elapsed() > patience => {
                    place.end_all();
                    let _ = self.child.kill();
                    break (self.child.wait().ok(), true);
                }
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        let text = |path: &Path| {
            String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
        };
        Ok(Outcome {
            pid: self.pid(),
            code: status.and_then(|status| status.code()),
            signal: status.and_then(|status| status.signal()),
            hung,
            printed: text(&self.printed),
            said: text(&self.said),
        })
    }
}

impl Outcome {
    /// Describes how the command ended.
    pub(crate) fn ending(&self) -> String {
        match self.code {
            _ if self.hung => "no end".to_owned(),
            Some(code) => format!("exit code {code}"),
            None => match self.signal {
                Some(signal) => format!("signal {signal}"),
                None => "a signal".to_owned(),
            },
        }
    }

    /// Describes how the command ended, and quotes its last line of standard error.
    pub(crate) fn ending_and_reason(&self) -> String {
        format!("{}: {}", self.ending(), last_line(&self.said))
    }

    pub(crate) fn has_panicked(&self) -> bool {
        self.said.contains("panicked at")
    }

    /// Returns a description if the command hung, was ended by a signal, panicked, or failed
    /// without a message. No fault may cause any of these.
    pub(crate) fn disgrace(&self) -> Option<String> {
        let has_panicked = self.has_panicked();
        if self.hung || self.code.is_none() || has_panicked {
            return Some(format!(
                "{}{}: {}",
                self.ending(),
                if has_panicked { ", a panic" } else { "" },
                panic_line(&self.said).unwrap_or(last_line(&self.said))
            ));
        }
        let is_failure = matches!(self.code, Some(2 | 3))
            || self
                .code
                .is_some_and(|code| ![0, 1, 4, 130].contains(&code));
        (is_failure && self.said.trim().is_empty())
            .then(|| format!("{} without a message", self.ending()))
    }
}

/// Returns the message of a panic. Rust prints the message in the line below the panic's location.
fn panic_line(text: &str) -> Option<&str> {
    let mut lines = text.lines();
    lines.find(|line| line.contains(" panicked at "))?;
    lines.next()
}

/// Returns the last line of a text.
pub(crate) fn last_line(text: &str) -> &str {
    text.trim().lines().last().unwrap_or_default()
}
