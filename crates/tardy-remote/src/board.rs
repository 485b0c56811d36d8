//! Runs a command on one board, step by step: make a folder, copy the binary and files, start the
//! command, wait for it, fetch its output, remove the folder.

use std::cell::Cell;
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tardy_sys::regular_file;

use super::binary::{self, BinaryError};
use super::host::Address;
use super::on_board::{self, BoardOutput, COMMAND};
use super::ssh::{Ssh, UNREACHED};
use super::step::{Limits, PATIENCE, Step, WaitKind};

/// Prefix of the names of folders on a board.
const FOLDER: &str = "tardy-on.";
const FINDING: &str = "looking for a folder";
/// This script makes the folder `$name` on a disk from which programs may run. Tries `$TMPDIR`,
/// then `/var/tmp`, then `/tmp`, which is often in memory, and the home folder last.
const FIND_FOLDER: &str = r#"echo tardy-machine "$(uname -m)"
umask 077
for place in "$TMPDIR" /var/tmp /tmp "$HOME"; do
    [ -n "$place" ] || continue
    folder=$place/$name
    mkdir "$folder" 2>/dev/null || continue
    trap 'rm -rf "$folder"' EXIT
    printf '#!/bin/sh\n' > "$folder/try" && chmod 700 "$folder/try" && "$folder/try" 2>/dev/null &&
        rm "$folder/try" && trap - EXIT && echo tardy-folder "$folder" && echo tardy-left $left &&
        exit 0
    rm -rf "$folder" || left="$left $folder"
    trap - EXIT
done
echo "cannot find a folder in which programs may run: set TMPDIR${left:+. Delete by hand:$left}" >&2
exit 1"#;
/// This script removes the folder `$name`, wherever [`FIND_FOLDER`] made it.
const REMOVE_FOLDER: &str =
    r#"rm -rf -- "$TMPDIR/$name" "/var/tmp/$name" "/tmp/$name" "$HOME/$name""#;
/// Time limit for removing a folder. The limit is short because the board may hang and the user may
/// already have stopped the command.
const CLEANING: Duration = Duration::from_secs(10);
/// Seconds to wait before each further try to reach a board whose connection broke.
const PAUSES: [u64; 6] = [1, 2, 5, 10, 20, 30];
/// How long the tool tries to reach the board after the connection first broke. The last attempt
/// may start a little later. If the board hangs, each attempt takes as long as ssh's
/// ConnectTimeout.
const TRIES: Duration = Duration::from_secs(60);
/// If a connection lasted at least this long before it broke, attempts to reach the board are
/// counted from zero again.
const WORKING: Duration = Duration::from_secs(300);

/// Why a command on a board has no result.
#[derive(Debug, thiserror::Error)]
pub enum BoardError {
    #[error("ssh cannot be started: {0}: apt-get install openssh-client")]
    NoSsh(io::Error),
    #[error("the command was not started: {0}")]
    NoThread(io::Error),
    #[error("the machine could not be reached: {0}")]
    Unreached(String),
    #[error("{step}: {said}")]
    Step { step: &'static str, said: String },
    /// The board did not answer in time.
    #[error("{step}: {error}")]
    Silent {
        step: &'static str,
        error: io::Error,
    },
    #[error("tardy was stopped before the command was started")]
    Ended,
    #[error(transparent)]
    Binary(#[from] BinaryError),
    #[error("{0}: {1}")]
    File(PathBuf, io::Error),
    #[error("the copy of tardy differs from {0}: the connection or the board's disk corrupts data")]
    Copied(PathBuf),
    /// The connection was lost. The command may still be running, and its results can be fetched
    /// later.
    #[error(
        "lost contact with the machine ({said}); the command may continue there. To get its \
         results: tardy fetch {address}{folder}"
    )]
    Lost {
        said: String,
        address: Address,
        folder: String,
    },
    /// The connection broke during the start, so it is unknown whether the command runs.
    #[error(
        "the connection broke while the command was started ({said}); the command may be running \
         there. To get its results: tardy fetch {address}{folder}"
    )]
    PerhapsStarted {
        said: String,
        address: Address,
        folder: String,
    },
    #[error(
        "the results cannot be copied: {error}. They stay on that machine; to get them: tardy \
         fetch {address}{folder}"
    )]
    Taken {
        error: io::Error,
        address: Address,
        folder: String,
    },
}

/// A command to run on a board.
#[derive(Debug, Clone)]
pub struct Order {
    /// The command line, without the program.
    pub words: Vec<Word>,
    /// The binary for boards of another architecture, if the user named one.
    pub binary: Option<PathBuf>,
}

/// A word of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    Text(String),
    /// A word that ends with the name of a file that the command reads. The first field is the text
    /// before this name; the second is the path of the file on this machine.
    File(String, PathBuf),
    /// The path where the command writes its output.
    Out,
}

/// A progress report about a command on a board.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Copied {
        bytes: u64,
    },
    /// The command is about to be started in this folder. After this report, it may be running.
    Starting {
        folder: String,
    },
    /// The command runs in this folder.
    Started {
        folder: String,
    },
    /// The connection broke. Attempts to reach the board continue for about `left`.
    Interrupted {
        said: String,
        left: Duration,
    },
    Ended,
    /// A folder that probably remains on the board.
    Left {
        folder: String,
    },
}

/// A board, and how to reach it.
#[derive(Debug, Clone, Copy)]
pub struct Board<'a> {
    pub ssh: &'a Ssh,
    pub address: &'a Address,
    /// Whether the user stopped the command. If so, a command that has not yet started will not be
    /// started.
    pub is_ending: &'a AtomicBool,
}

impl Board<'_> {
    /// Runs `order` on the board and stores its output as `out`.
    ///
    /// # Errors
    /// Returns a [`BoardError`] if a step on the board fails. Everything is removed from the board,
    /// except the folder that the error or [`Event::Left`] names.
    pub fn carry_out(
        &self,
        order: &Order,
        out: &Path,
        tell: &dyn Fn(Event),
    ) -> Result<BoardOutput, BoardError> {
        let (machine, folder) = self.find_folder(tell)?;
        if let Err(error) = self.copy(order, &machine, &folder, tell) {
            self.remove(&folder, tell);
            return Err(error);
        }
        tell(Event::Starting {
            folder: folder.clone(),
        });
        // After this check, Ctrl-C does not prevent the start. If the user presses Ctrl-C later,
        // the tool ends the command on the board; it knows the command's folder from the event
        // above.
        if self.is_ending.load(Ordering::SeqCst) {
            self.remove(&folder, tell);
            return Err(BoardError::Ended);
        }
        self.start(order, &folder, tell)?;
        tell(Event::Started {
            folder: folder.clone(),
        });
        self.fetch(&folder, out, tell).map_err(|error| match error {
            // The command was started, so its results can be fetched later.
            BoardError::Step { said, .. } => BoardError::Lost {
                said,
                address: self.address.clone(),
                folder,
            },
            error => error,
        })
    }

    /// Returns the board's architecture, and a new folder on it.
    fn find_folder(&self, tell: &dyn Fn(Event)) -> Result<(String, String), BoardError> {
        let name = new_name();
        let line = |script: &str| {
            self.ssh
                .shell(self.address, &format!("name={name}\n{script}"))
        };
        let failed = |said: String| BoardError::Step {
            step: FINDING,
            said,
        };
        let answer = self
            .capture(FINDING, line(FIND_FOLDER), WaitKind::Preparation)
            .and_then(|found| {
                // A board's shell may print a greeting before the script's output.
                let value = |name: &str| {
                    found
                        .lines()
                        .find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
                };
                if let Some(folder) = value("tardy-left ").filter(|left| !left.is_empty()) {
                    tell(Event::Left { folder });
                }
                let machine = value("tardy-machine ").unwrap_or_default();
                value("tardy-folder ")
                    .filter(|folder| is_ours(folder))
                    .map(|folder| (machine, folder))
                    .ok_or_else(|| {
                        failed(format!(
                            "unexpected answer `{}`",
                            last_line(found.as_bytes())
                        ))
                    })
            });
        answer.map_err(|error| {
            if !matches!(error, BoardError::Step { .. } | BoardError::Ended) {
                return error;
            }
            // Although the step failed, it may have made the folder.
            let limits = Limits {
                patience: CLEANING,
                ..self.limits(WaitKind::Answer)
            };
            let removed = Step::start(line(REMOVE_FOLDER), None, limits).and_then(Step::printed);
            let is_removed = removed.is_ok_and(|printed| printed.status.success());
            if !is_removed {
                tell(Event::Left {
                    folder: name.clone(),
                });
            }
            error
        })
    }

    /// Waits for the command in `folder` of the board, fetches its output, and removes the folder.
    ///
    /// # Errors
    /// Returns a [`BoardError`] if ssh cannot be started, a step on the board fails, or the output
    /// cannot be copied to `out`.
    pub fn fetch(
        &self,
        folder: &str,
        out: &Path,
        tell: &dyn Fn(Event),
    ) -> Result<BoardOutput, BoardError> {
        let lost = |said: String| BoardError::Lost {
            said,
            address: self.address.clone(),
            folder: folder.to_owned(),
        };
        let or_lost = |error| match error {
            BoardError::Unreached(said) => lost(said),
            BoardError::Silent { .. } => lost(error.to_string()),
            error => error,
        };
        self.through_breaks(tell, || {
            self.capture("waiting", self.on_board(folder, "wait"), WaitKind::Command)
        })
        .map_err(or_lost)?;
        tell(Event::Ended);
        let returned = self
            .through_breaks(tell, || self.receive(folder, out))
            .map_err(or_lost)?;
        self.remove(folder, tell);
        Ok(returned)
    }

    /// Asks the command in `folder` to stop early.
    ///
    /// # Errors
    /// Returns a [`BoardError`] if a step on the board fails.
    pub fn stop(&self, folder: &str) -> Result<(), BoardError> {
        let stop = self.on_board(folder, "stop");
        self.capture("stopping the command early", stop, WaitKind::Answer)
            .map(drop)
    }

    fn on_board(&self, folder: &str, verb: &str) -> Command {
        self.ssh.program(
            self.address,
            &[&format!("{folder}/tardy"), COMMAND, verb, folder],
        )
    }

    fn copy(
        &self,
        order: &Order,
        machine: &str,
        folder: &str,
        tell: &dyn Fn(Event),
    ) -> Result<(), BoardError> {
        let binary = binary::for_machine(machine, order.binary.as_deref())?;
        let at = |path: &Path| {
            let path = path.to_owned();
            move |error| BoardError::File(path, error)
        };
        let bytes = binary.metadata().map_err(at(&binary))?.len();
        let line = format!(
            "cat > {folder}/tardy && chmod 700 {folder}/tardy && {folder}/tardy {COMMAND} digest"
        );
        let said = self.put("copying tardy", &line, &binary)?;
        let digest = binary::digest(&binary).map_err(at(&binary))?;
        if !said.lines().any(|line| {
            line.strip_prefix("tardy-digest ")
                .is_some_and(|there| there.trim() == digest)
        }) {
            return Err(BoardError::Copied(binary));
        }
        tell(Event::Copied { bytes });
        for (index, word) in order.words.iter().enumerate() {
            if let Word::File(_, path) = word {
                self.put(
                    "copying a file",
                    &format!(
                        "mkdir -p {folder}/files && cat > {}",
                        name_there(folder, index)
                    ),
                    path,
                )?;
            }
        }
        Ok(())
    }

    /// Runs `line` in the board's shell with the contents of `file` as its standard input.
    fn put(&self, step: &'static str, line: &str, file: &Path) -> Result<String, BoardError> {
        let command = self.ssh.shell(self.address, line);
        let file =
            regular_file::open(file).map_err(|error| BoardError::File(file.to_owned(), error))?;
        self.capture_of(step, command, Some(file), WaitKind::Preparation)
    }

    /// Starts the command. If the connection breaks, the board may have started the command
    /// nevertheless. The request is then repeated. This is safe, because a board starts a command
    /// only once and the folder is not removed.
    fn start(&self, order: &Order, folder: &str, tell: &dyn Fn(Event)) -> Result<(), BoardError> {
        let mut words: Vec<String> = [&format!("{folder}/tardy"), COMMAND, "start", folder, "--"]
            .map(ToString::to_string)
            .to_vec();
        words.extend(
            order
                .words
                .iter()
                .enumerate()
                .map(|(index, word)| match word {
                    Word::Text(text) => text.clone(),
                    Word::File(before, _) => format!("{before}{}", name_there(folder, index)),
                    Word::Out => format!("{folder}/out"),
                }),
        );
        let has_broken = Cell::new(false);
        let started = self.through_breaks(tell, || {
            let command = self.ssh.program(self.address, &words);
            let started = self.capture("starting the command", command, WaitKind::Answer);
            let is_unknown = matches!(
                started,
                Err(BoardError::Unreached(_) | BoardError::Silent { .. })
            );
            has_broken.set(has_broken.get() || is_unknown);
            started
        });
        match started {
            Ok(_) => Ok(()),
            Err(error) if has_broken.get() => {
                let said = if let BoardError::Unreached(said) = error {
                    said
                } else {
                    error.to_string()
                };
                Err(BoardError::PerhapsStarted {
                    said,
                    address: self.address.clone(),
                    folder: folder.to_owned(),
                })
            }
            Err(error) => {
                self.remove(folder, tell);
                Err(error)
            }
        }
    }

    fn receive(&self, folder: &str, out: &Path) -> Result<BoardOutput, BoardError> {
        let send = self.on_board(folder, "send");
        let mut step =
            Step::start(send, None, self.limits(WaitKind::Data)).map_err(BoardError::NoSsh)?;
        let received = on_board::receive(io::BufReader::new(&mut step), out);
        let taken = |error| BoardError::Taken {
            error,
            address: self.address.clone(),
            folder: folder.to_owned(),
        };
        let error = match received {
            Ok(returned) => return Ok(returned),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => error,
            // The board may send data without end, so the rest of its output is ignored.
            Err(error) => return Err(taken(error)),
        };
        match step.finish() {
            Ok((status, words)) if status.code() == Some(UNREACHED) => {
                Err(BoardError::Unreached(last_line(&words)))
            }
            _ => Err(taken(error)),
        }
    }

    /// Removes the folder, or reports [`Event::Left`] if it remains.
    fn remove(&self, folder: &str, tell: &dyn Fn(Event)) {
        if !is_ours(folder) {
            return;
        }
        let remove = || {
            let remove = self.ssh.program(self.address, &["rm", "-rf", "--", folder]);
            self.capture("cleaning up", remove, WaitKind::Answer)
        };
        let removed = match remove() {
            Err(BoardError::Step { .. }) => remove(),
            first => first,
        };
        if removed.is_err() {
            tell(Event::Left {
                folder: folder.to_owned(),
            });
        }
    }

    /// Calls `step`, and calls it again each time the connection breaks, until the board has been
    /// out of reach for [`TRIES`].
    fn through_breaks<T>(
        &self,
        tell: &dyn Fn(Event),
        step: impl Fn() -> Result<T, BoardError>,
    ) -> Result<T, BoardError> {
        let (mut pauses, mut broken) = (PAUSES.into_iter(), None);
        loop {
            let begin = Instant::now();
            let said = match step() {
                Err(BoardError::Unreached(said)) => said,
                result => return result,
            };
            if begin.elapsed() > WORKING {
                (pauses, broken) = (PAUSES.into_iter(), None);
            }
            let since = *broken.get_or_insert_with(Instant::now);
            let left = TRIES.saturating_sub(since.elapsed());
            let (Some(pause), false) = (pauses.next(), left.is_zero()) else {
                return Err(BoardError::Unreached(said));
            };
            tell(Event::Interrupted { said, left });
            std::thread::sleep(Duration::from_secs(pause));
        }
    }

    fn limits(&self, awaited: WaitKind) -> Limits<'_> {
        Limits {
            awaited,
            patience: PATIENCE,
            is_ending: self.is_ending,
        }
    }

    /// Returns the output of a command on the board.
    fn capture(
        &self,
        step: &'static str,
        command: Command,
        awaited: WaitKind,
    ) -> Result<String, BoardError> {
        self.capture_of(step, command, None, awaited)
    }

    /// Works like `capture`, for a command that reads `input`.
    fn capture_of(
        &self,
        step: &'static str,
        command: Command,
        input: Option<File>,
        awaited: WaitKind,
    ) -> Result<String, BoardError> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::TimedOut => BoardError::Silent { step, error },
            io::ErrorKind::ConnectionAborted => BoardError::Ended,
            _ => BoardError::Step {
                step,
                said: error.to_string(),
            },
        };
        let printed = Step::start(command, input, self.limits(awaited))
            .map_err(BoardError::NoSsh)?
            .printed()
            .map_err(failed)?;
        let said = last_line(&printed.words);
        match printed.status.code() {
            Some(0) => Ok(String::from_utf8_lossy(&printed.output).into_owned()),
            Some(UNREACHED) => Err(BoardError::Unreached(said)),
            code => {
                let said = if said.is_empty() {
                    format!(
                        "the command ended with {}",
                        code.map_or_else(|| "a signal".to_owned(), |code| code.to_string())
                    )
                } else {
                    said
                };
                Err(BoardError::Step { step, said })
            }
        }
    }
}

/// Returns the name of a folder that no other command uses.
fn new_name() -> String {
    let number = RandomState::new().build_hasher().finish();
    format!("{FOLDER}{number:016x}")
}

fn name_there(folder: &str, index: usize) -> String {
    format!("{folder}/files/{index}")
}

/// Returns whether `folder` has a name that tardy gives to folders on boards, and a path without
/// shell syntax. Only such folders are removed.
#[must_use]
pub fn is_ours(folder: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-".contains(letter);
    let (parent, name) = folder.rsplit_once('/').unwrap_or_default();
    folder.starts_with('/')
        && folder.chars().all(is_plain)
        && !parent.split('/').any(|part| part == "..")
        && name.len() > FOLDER.len()
        && name.starts_with(FOLDER)
}

/// Returns the last line of `words` that is not blank.
fn last_line(words: &[u8]) -> String {
    let text = String::from_utf8_lossy(words);
    let line = text
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    line.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_folder_that_was_made_for_a_command_is_ours() {
        assert!(is_ours("/var/tmp/tardy-on.a8Xk2Z"));
        for folder in [
            "/",
            "/var/tmp",
            "/var/tmp/tardy-on.",
            "tardy-on.x",
            "/tmp/../tardy-on.x",
            "/tmp/tardy-on.x; reboot",
            "/tmp/tardy-on.$(x)",
            "/x/tardy-on.a/b",
        ] {
            assert!(!is_ours(folder), "{folder}");
        }
    }
}
