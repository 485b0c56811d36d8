//! One ssh(1) process that does one step on a board. The memory for the step's output is limited,
//! and the step fails if the board does not answer in time.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Maximum time for which a board may send nothing. sshd waits equally long for a password
/// (LoginGraceTime, sshd_config(5)). ssh(1) itself notices a dead connection after a minute.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Limit for the output of a step, in bytes.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;
/// Number of bytes at the end of standard error that are kept, because ssh reports there why it
/// failed.
const WORDS_BYTES: usize = 16 << 10;
/// Size of one read in bytes. At most [`PIECES`] such pieces wait for the reader.
const PIECE_BYTES: usize = 64 << 10;
const PIECES: usize = 4;
/// Interval between checks of the time and the end of the process.
const TICK: Duration = Duration::from_millis(50);
/// Maximum time for which the pipes are read after the process has ended. Without this limit, a
/// background process of ssh (ControlPersist) could hold the pipes open for longer.
const BEHIND_END: Duration = Duration::from_secs(1);

/// What a step does, which decides how long it may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitKind {
    /// Work before the command starts. The step ends at once when the user stops the command.
    Preparation,
    /// A short answer from the board.
    Answer,
    /// Waiting for the end of the command; there is no time limit until the user stops the command.
    Command,
    /// The transfer of data. The time limit starts again with each piece of data.
    Data,
}

/// Time limits of a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits<'a> {
    pub awaited: WaitKind,
    pub patience: Duration,
    /// Whether the user stopped the command.
    pub is_ending: &'a AtomicBool,
}

/// The output of a step, and how it ended.
#[derive(Debug)]
pub(crate) struct StepOutput {
    pub output: Vec<u8>,
    pub words: Vec<u8>,
    pub status: ExitStatus,
}

enum Piece {
    Output(Vec<u8>),
    Words(Vec<u8>),
    OutputEnd,
}

/// A running step. Reading this value returns the standard output of the step's process; dropping
/// it kills the process.
pub(crate) struct Step<'a> {
    child: Child,
    limits: Limits<'a>,
    pieces: Receiver<Piece>,
    open: Vec<u8>,
    has_ended: bool,
    words: Vec<u8>,
    since: Instant,
    /// The standard input of the process, and its position at the last check.
    input: Option<(File, u64)>,
}

impl<'a> Step<'a> {
    /// Starts `command`, which reads `input`.
    ///
    /// # Errors
    /// Returns an error if the process cannot be started.
    pub(crate) fn start(
        mut command: Command,
        input: Option<File>,
        limits: Limits<'a>,
    ) -> io::Result<Self> {
        if let Some(input) = &input {
            command.stdin(input.try_clone()?);
        }
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (sender, pieces) = sync_channel(PIECES);
        let (output, words) = (child.stdout.take(), child.stderr.take());
        let step = Self {
            child,
            limits,
            pieces,
            open: Vec::new(),
            has_ended: false,
            words: Vec::new(),
            since: Instant::now(),
            input: input.map(|input| (input, 0)),
        };
        // The reading threads are not joined, because a background process of ssh may hold the
        // pipes open.
        let to_words = sender.clone();
        pump(words, move |bytes| {
            to_words.send(Piece::Words(bytes)).is_ok()
        })?;
        pump(output, move |bytes| send_output(&sender, bytes))?;
        Ok(step)
    }

    /// Reads the whole output of the process and waits for its end.
    ///
    /// # Errors
    /// Returns `TimedOut` if the board does not answer in time, `ConnectionAborted` if the user
    /// stopped the command, `FileTooLarge` if the output is too long, or an error if reading fails.
    pub(crate) fn printed(mut self) -> io::Result<StepOutput> {
        let mut output = Vec::new();
        (&mut self)
            .take(OUTPUT_BYTES_MAX + 1)
            .read_to_end(&mut output)?;
        if output.len() as u64 > OUTPUT_BYTES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!(
                    "the command on that machine printed more than {} MiB",
                    OUTPUT_BYTES_MAX >> 20
                ),
            ));
        }
        let (status, words) = self.finish()?;
        Ok(StepOutput {
            output,
            words,
            status,
        })
    }

    /// Waits for the end of the process. Returns its status, and the end of its standard error.
    ///
    /// # Errors
    /// Fails as [`Self::printed`] does.
    pub(crate) fn finish(mut self) -> io::Result<(ExitStatus, Vec<u8>)> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                while self.take_piece(BEHIND_END)? {}
                return Ok((status, std::mem::take(&mut self.words)));
            }
            if !self.take_piece(TICK)? {
                std::thread::sleep(TICK);
            }
        }
    }

    /// Waits for one piece, but no longer than `wait`. Returns whether a piece came.
    fn take_piece(&mut self, wait: Duration) -> io::Result<bool> {
        let piece = self.pieces.recv_timeout(wait);
        let has_piece = piece.is_ok();
        match piece {
            Ok(Piece::Output(bytes)) => {
                self.open = bytes;
                if self.limits.awaited == WaitKind::Data {
                    self.since = Instant::now();
                }
            }
            Ok(Piece::Words(bytes)) => {
                self.words.extend(bytes);
                let excess = self.words.len().saturating_sub(WORDS_BYTES);
                self.words.drain(..excess);
            }
            Ok(Piece::OutputEnd) | Err(RecvTimeoutError::Disconnected) => self.has_ended = true,
            Err(RecvTimeoutError::Timeout) => {}
        }
        self.check()?;
        Ok(has_piece)
    }

    fn check(&mut self) -> io::Result<()> {
        let is_ending = self.limits.is_ending.load(Ordering::SeqCst);
        if let Some((input, before)) = &mut self.input {
            // The process reads through the same file position, so the position shows its progress.
            let now = input.stream_position()?;
            if now != std::mem::replace(before, now) {
                self.since = Instant::now();
            }
        }
        match self.limits.awaited {
            WaitKind::Preparation if is_ending => Err(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "stopped early",
            )),
            WaitKind::Command if !is_ending => {
                self.since = Instant::now();
                Ok(())
            }
            _ if self.since.elapsed() > self.limits.patience => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!(
                    "the command on that machine did not answer within {} s",
                    self.limits.patience.as_secs()
                ),
            )),
            _ => Ok(()),
        }
    }
}

impl Read for Step<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.open.is_empty() && !self.has_ended {
            let is_gone = self.child.try_wait()?.is_some();
            let has_piece = self.take_piece(if is_gone { BEHIND_END } else { TICK })?;
            self.has_ended |= is_gone && !has_piece;
        }
        let bytes = buffer.len().min(self.open.len());
        buffer[..bytes].copy_from_slice(&self.open[..bytes]);
        self.open.drain(..bytes);
        Ok(bytes)
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn send_output(to: &SyncSender<Piece>, bytes: Vec<u8>) -> bool {
    let piece = if bytes.is_empty() {
        Piece::OutputEnd
    } else {
        Piece::Output(bytes)
    };
    to.send(piece).is_ok()
}

/// Reads `from` on a thread until its end, or until `send` returns false. At the end, `send` gets
/// an empty piece.
fn pump(
    from: Option<impl Read + Send + 'static>,
    send: impl Fn(Vec<u8>) -> bool + Send + 'static,
) -> io::Result<()> {
    let mut from = from.expect("it is piped");
    let read = move || {
        let mut buffer = vec![0; PIECE_BYTES];
        loop {
            let bytes = from.read(&mut buffer).unwrap_or(0);
            if !send(buffer[..bytes].to_vec()) || bytes == 0 {
                return;
            }
        }
    };
    std::thread::Builder::new().spawn(read).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    static NOBODY_ENDS: AtomicBool = AtomicBool::new(false);
    static EVERYBODY_ENDS: AtomicBool = AtomicBool::new(true);

    fn shell(line: &str, awaited: WaitKind, is_ending: &'static AtomicBool) -> Step<'static> {
        let mut command = Command::new("sh");
        command.args(["-c", line]).stdin(Stdio::null());
        let limits = Limits {
            awaited,
            patience: Duration::from_millis(300),
            is_ending,
        };
        Step::start(command, None, limits).unwrap()
    }

    /// Returns a step whose time limit is long enough for a busy machine.
    fn patient(line: &str) -> Step<'static> {
        let mut step = shell(line, WaitKind::Data, &NOBODY_ENDS);
        step.limits.patience = Duration::from_secs(60);
        step
    }

    fn fails(line: &str, awaited: WaitKind, is_ending: &'static AtomicBool) -> io::ErrorKind {
        shell(line, awaited, is_ending)
            .printed()
            .unwrap_err()
            .kind()
    }

    #[test]
    fn what_is_printed_without_end_is_given_up() {
        let printed = fails("yes", WaitKind::Answer, &NOBODY_ENDS);
        assert_eq!(printed, io::ErrorKind::FileTooLarge);
        let words = fails("yes >&2", WaitKind::Answer, &NOBODY_ENDS);
        assert_eq!(words, io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_step_that_hangs_is_given_up_wherever_it_does() {
        // The second line of the script leaves a child that holds the pipes open. The third line
        // closes the pipes and continues to run.
        for line in [
            "sleep 60",
            "echo a; sleep 60 & wait",
            "exec >&- 2>&-; sleep 60",
        ] {
            for awaited in [WaitKind::Preparation, WaitKind::Answer, WaitKind::Data] {
                let given_up = fails(line, awaited, &NOBODY_ENDS);
                assert_eq!(given_up, io::ErrorKind::TimedOut, "{line} {awaited:?}");
            }
            let ended = fails(line, WaitKind::Preparation, &EVERYBODY_ENDS);
            assert_eq!(ended, io::ErrorKind::ConnectionAborted, "{line}");
            let ended = fails(line, WaitKind::Command, &EVERYBODY_ENDS);
            assert_eq!(ended, io::ErrorKind::TimedOut, "{line}");
        }
    }

    #[test]
    fn a_command_and_data_that_flows_may_take_longer_than_the_patience() {
        let printed = shell("sleep 0.6; echo done", WaitKind::Command, &NOBODY_ENDS)
            .printed()
            .unwrap();
        assert_eq!(printed.output, b"done\n");
        let mut flowing = patient("for i in 1 2 3 4 5; do echo $i; sleep 0.6; done");
        flowing.limits.patience = Duration::from_secs(2);
        assert_eq!(flowing.printed().unwrap().output, b"1\n2\n3\n4\n5\n");
    }

    #[test]
    fn more_on_standard_error_than_a_pipe_holds_blocks_nothing() {
        let line = "yes | head -c 300000 >&2; echo last >&2; echo output; exit 3";
        let printed = patient(line).printed().unwrap();
        assert_eq!(
            (printed.output.as_slice(), printed.status.code()),
            (&b"output\n"[..], Some(3))
        );
        assert!(printed.words.ends_with(b"last\n") && printed.words.len() <= WORDS_BYTES);
    }

    #[test]
    fn what_is_left_behind_with_the_pipes_open_is_not_waited_for() {
        let printed = patient("sleep 60 & echo done").printed().unwrap();
        assert_eq!(printed.output, b"done\n");
    }
}
