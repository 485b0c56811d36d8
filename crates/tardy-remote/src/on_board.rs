//! The board's side: the copied binary, which keeps the command running even if the connection
//! breaks.
//!
//! ```text
//! FOLDER/tardy            the binary
//! FOLDER/files/           files that the command names
//! FOLDER/out/             output of the command
//! FOLDER/job/             stdout, stderr and pid of the command; status after its end;
//!                         lock, which is held until its end
//! ```
//!
//! The board needs only a shell, `uname`, `mkdir`, `cat`, `chmod` and `rm`. The copied binary does
//! everything else, so a board with busybox is sufficient. A binary that was damaged while it was
//! copied is not started.
//!
//! A started command does not depend on the connection: it has its own session and writes its
//! output to files. A waiting client sleeps on a file lock, which the kernel releases when the
//! command ends, so waiting causes no wake-ups on the board. The message about a lost connection
//! contains the folder's address, so the user's machine need not store anything for `tardy fetch`.
//!
//! If a start request gets no answer, the client repeats it, because it cannot know whether the
//! request arrived. The board starts a command only once, no matter how often it is asked.
//!
//! The output arrives as one archive whose last entry marks it as complete. The files are unpacked
//! into a temporary folder and then renamed. Only files and folders are unpacked, so a board cannot
//! write anywhere else.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tardy_machine::journal::Scratch;
use tardy_sys::disk;
use tardy_sys::process;
use tardy_sys::signal::INTERRUPT;

/// The hidden subcommand of `tardy` that runs on the board.
pub const COMMAND: &str = "on-board";
/// Maximum time until the command's process starts.
const START: Duration = Duration::from_secs(20);

/// The folder of a command on its board.
#[derive(Debug, Clone)]
pub struct Job(PathBuf);

impl Job {
    /// Returns the job in `folder`.
    #[must_use]
    pub fn at(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join("job").join(name)
    }

    /// Starts this binary with the arguments `words`, and returns once the new process runs. After
    /// that, the command needs neither this process nor the connection. A command that was already
    /// started is not started again, because a client that lost the connection may repeat the
    /// request.
    ///
    /// # Errors
    /// Returns an error if the command cannot be started, or `TimedOut` if it does not start in
    /// time.
    pub fn start(&self, words: &[String]) -> io::Result<()> {
        match fs::create_dir(self.0.join("job")) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return self.begun(|| Ok(None));
            }
            Err(error) => return Err(error),
        }
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args([COMMAND, "supervise"])
            .arg(&self.0)
            .arg("--")
            .args(words);
        // The reason for a failed start goes through a pipe, so it arrives even if the board's disk
        // is full.
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut supervisor = command.spawn()?;
        self.begun(|| {
            if supervisor.try_wait()?.is_none() {
                return Ok(None);
            }
            let mut said = String::new();
            if let Some(stderr) = &mut supervisor.stderr {
                stderr.take(WORDS_BYTES_MAX).read_to_string(&mut said)?;
            }
            Ok(Some(said))
        })
    }

    /// Returns when the command runs, or when it has already ended. `failure` returns the output of
    /// the supervising process after that process has ended.
    fn begun(&self, mut failure: impl FnMut() -> io::Result<Option<String>>) -> io::Result<()> {
        let begin = Instant::now();
        while !self.file("pid").exists() {
            if let Some(said) = failure()?
                && !self.file("pid").exists()
            {
                return Err(io::Error::other(said.trim().to_owned()));
            }
            if begin.elapsed() > START {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!(
                        "the command did not start within {} s; to remove its folder: rm -r {}",
                        START.as_secs(),
                        self.0.display()
                    ),
                ));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Runs `words` until they end, in a separate session, and records how they ended.
    ///
    /// # Errors
    /// Returns an error if the command cannot be started, or if a file cannot be written.
    pub fn supervise(&self, words: &[String]) -> io::Result<()> {
        process::new_session()?;
        let lock = File::create(self.file("lock"))?;
        lock.lock()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(words).stdin(Stdio::null());
        command
            .stdout(File::create(self.file("stdout"))?)
            .stderr(File::create(self.file("stderr"))?);
        let mut child = command.spawn()?;
        if let Err(error) = self.note("pid", &child.id().to_string()) {
            // If the process ID cannot be recorded, the command could not be stopped later, so it
            // is stopped now. After this error, the user's machine removes the folder.
            if let Ok(pid) = i32::try_from(child.id()) {
                let _ = process::kill(pid, INTERRUPT);
            }
            let _ = child.wait();
            return Err(error);
        }
        let status = child.wait()?;
        self.note(
            "status",
            &status
                .code()
                .unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
                .to_string(),
        )
    }

    /// Writes a file such that readers see either the complete file or none.
    fn note(&self, name: &str, text: &str) -> io::Result<()> {
        let part = self.file(&format!("{name}.part"));
        let mut file = File::create(&part)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(part, self.file(name))
    }

    /// Waits, without periodic wake-ups, until the command has ended. Returns its exit status;
    /// `None` if something else ended the command and its supervising process, for example a
    /// reboot.
    ///
    /// # Errors
    /// Returns `NotFound` if no command was started, `TimedOut` if the command does not start, or
    /// an error if a file cannot be read.
    pub fn wait(&self) -> io::Result<Option<i32>> {
        if !self.0.join("job").is_dir() {
            let text = format!(
                "{0} holds no command, or was already fetched; to remove the folder if it still \
                 exists: rm -r {0}",
                self.0.display()
            );
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        // The supervising process takes the lock before it writes the process ID.
        self.begun(|| Ok(None))?;
        File::open(self.file("lock"))?.lock_shared()?;
        Ok(self.status())
    }

    fn status(&self) -> Option<i32> {
        fs::read_to_string(self.file("status"))
            .ok()?
            .trim()
            .parse()
            .ok()
    }

    /// Asks the command to stop early, as Ctrl-C does. Does nothing if the command has ended.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read, or the errors of kill(2).
    pub fn stop(&self) -> io::Result<()> {
        // While the supervising process holds the lock, the process ID belongs to the command and
        // to no other process.
        if File::open(self.file("lock"))?.try_lock_shared().is_ok() {
            return Ok(());
        }
        let pid = fs::read_to_string(self.file("pid"))?;
        process::kill(
            pid.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?,
            INTERRUPT,
        )
    }

    /// Writes the output of the command as a tar archive: standard output, standard error, the exit
    /// status, and the output folder or file. The last entry marks the archive as complete.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or the archive cannot be written.
    pub fn send(&self, to: impl Write) -> io::Result<()> {
        let mut archive = tar::Builder::new(to);
        archive.follow_symlinks(false);
        for name in ["stdout", "stderr", "status"] {
            if self.file(name).exists() {
                archive.append_path_with_name(self.file(name), Path::new("job").join(name))?;
            }
        }
        let out = self.0.join("out");
        if out.is_dir() {
            archive.append_dir_all("out", out)?;
        } else if out.is_file() {
            archive.append_path_with_name(out, "out")?;
        }
        let mut header = tar::Header::new_gnu();
        header.set_size(0);
        header.set_mode(0o600);
        archive.append_data(&mut header, COMPLETE, io::empty())?;
        archive.into_inner()?.flush()
    }
}

/// Limit for the header and the long name of one file in the archive, in bytes.
const HEADER_BYTES_MAX: u64 = 64 << 10;
/// Limit for the standard output and the standard error of a command, in bytes.
const WORDS_BYTES_MAX: u64 = 64 << 20;
/// The final entry of the archive.
const COMPLETE: &str = "complete";

/// The output of a command on a board.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoardOutput {
    /// The exit code; `None` if something else ended the command, for example a reboot of the
    /// board.
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// Whether the command made its output folder or file.
    pub has_out: bool,
}

/// Number of bytes that are read between two checks of the disk space.
const BYTES_BETWEEN_CHECKS: u64 = 4 << 20;

/// A reader that fails if it has read more than `room` bytes, or if the disk of `folder` is nearly
/// full.
struct BoundedReader<'a, R> {
    from: R,
    room: &'a Cell<u64>,
    folder: &'a Path,
    since_check: u64,
}

impl<R: io::Read> io::Read for BoundedReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        let left = self.room.get().checked_sub(read as u64).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "a board sent an unterminated name",
            )
        })?;
        self.room.set(left);
        self.since_check += read as u64;
        if self.since_check >= BYTES_BETWEEN_CHECKS {
            self.since_check = 0;
            check_disk(self.folder)?;
        }
        Ok(read)
    }
}

/// Returns `error` with the text of its innermost source added, because the text of an unpacking
/// error lacks the reason.
fn with_reason(error: io::Error) -> io::Error {
    let mut reason = error.get_ref().and_then(std::error::Error::source);
    while let Some(deeper) = reason.and_then(std::error::Error::source) {
        reason = Some(deeper);
    }
    match reason {
        Some(reason) => io::Error::new(error.kind(), format!("{error}: {reason}")),
        None => error,
    }
}

/// Replaces the text of an error about an invalid header, because the text repeats data from the
/// board.
fn in_plain_words(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::Other => io::Error::new(
            io::ErrorKind::InvalidData,
            "a board sent data that is not an archive",
        ),
        _ => error,
    }
}

/// Fails with `StorageFull` if the disk has no more free space than the reserve that a run leaves
/// free.
fn check_disk(folder: &Path) -> io::Result<()> {
    let room = disk::room(folder)?;
    if room.free > room.reserve() {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::StorageFull,
        format!(
            "the disk would be full: {} MB are left in {}",
            room.free / 1_000_000,
            folder.display()
        ),
    ))
}

/// Unpacks the archive of [`Job::send`]. The command's output becomes `out`, completely or not at
/// all.
///
/// # Errors
/// Returns `InvalidData` if the archive is invalid, `UnexpectedEof` if it is incomplete,
/// `AlreadyExists` if `out` exists, or an error if reading or writing fails.
pub fn receive(from: impl io::Read, out: &Path) -> io::Result<BoardOutput> {
    let place = out
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    fs::create_dir_all(place)?;
    let folder = Scratch::make(place, "fetched")?;
    let mut is_complete = false;
    let room = Cell::new(HEADER_BYTES_MAX);
    let mut archive = tar::Archive::new(BoundedReader {
        from,
        room: &room,
        folder: folder.path(),
        since_check: 0,
    });
    archive.set_preserve_permissions(false);
    archive.set_preserve_mtime(false);
    let mut entries = archive.entries()?;
    // The tar reader holds names in memory, but not contents, so only headers need a limit.
    while let Some(entry) = {
        room.set(HEADER_BYTES_MAX);
        entries.next()
    } {
        let mut entry = entry.map_err(in_plain_words)?;
        room.set(u64::MAX);
        let kind = entry.header().entry_type();
        if !kind.is_file() && !kind.is_dir() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a board sent an entry that is not a file or folder",
            ));
        }
        is_complete = entry.path()?.as_os_str() == COMPLETE;
        if !entry.unpack_in(folder.path()).map_err(with_reason)? {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a board sent a file outside of its folder",
            ));
        }
    }
    if !is_complete {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let read = |name: &str| {
        let mut words = Vec::new();
        if let Ok(file) = File::open(folder.path().join("job").join(name)) {
            let _ = file.take(WORDS_BYTES_MAX).read_to_end(&mut words);
        }
        words
    };
    let made = folder.path().join("out");
    let has_out = made.exists();
    if has_out {
        if out.exists() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        fs::rename(made, out)?;
    }
    let code = String::from_utf8_lossy(&read("status")).trim().parse().ok();
    Ok(BoardOutput {
        code,
        stdout: read("stdout"),
        stderr: read("stderr"),
        has_out,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    fn sent(folder: &Path) -> Vec<u8> {
        let mut bytes = Vec::new();
        Job::at(folder).send(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn what_a_command_made_arrives_and_where_it_was_cut_nothing_does() {
        let board = job(&[
            ("job/stdout", "said"),
            ("job/stderr", "warned"),
            ("job/status", "4"),
            ("out/run.json", "{}"),
            ("out/samples/a", "xyz"),
        ]);
        let bytes = sent(board.path());
        let here = tempfile::tempdir().unwrap();
        let out = here.path().join("boards/one");
        let returned = receive(&bytes[..], &out).unwrap();
        assert_eq!(
            returned,
            BoardOutput {
                code: Some(4),
                stdout: b"said".to_vec(),
                stderr: b"warned".to_vec(),
                has_out: true
            }
        );
        assert_eq!(fs::read_to_string(out.join("samples/a")).unwrap(), "xyz");
        assert_eq!(
            receive(&bytes[..], &out).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        // The connection may end after any block.
        for end in (0..bytes.len() - 1024).step_by(512) {
            let cut = here.path().join("cut");
            assert!(
                receive(&bytes[..end], &cut).is_err() && !cut.exists(),
                "{end}"
            );
        }
        let left: Vec<_> = fs::read_dir(here.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["boards"]);
    }

    #[test]
    fn a_board_writes_nowhere_else() {
        let here = tempfile::tempdir().unwrap();
        let archive = |name: &str, kind: tar::EntryType| {
            let mut header = tar::Header::new_gnu();
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(kind);
            header.set_size(0);
            header.set_mode(0o644);
            if kind == tar::EntryType::Symlink {
                header.set_link_name("/etc").unwrap();
            }
            header.set_cksum();
            let mut builder = tar::Builder::new(Vec::new());
            builder.append(&header, io::empty()).unwrap();
            builder.into_inner().unwrap()
        };
        for (name, kind) in [
            ("../outside", tar::EntryType::Regular),
            ("out", tar::EntryType::Symlink),
            ("out", tar::EntryType::Fifo),
        ] {
            let out = here.path().join("folder/run");
            assert_eq!(
                receive(&archive(name, kind)[..], &out).unwrap_err().kind(),
                io::ErrorKind::InvalidData,
                "{name}"
            );
            assert!(!here.path().join("outside").exists() && !out.exists());
        }
    }

    #[test]
    fn a_name_without_end_is_refused() {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::GNULongName);
        header.set_size(1 << 40);
        header.set_cksum();
        let endless = header.as_bytes().chain(io::repeat(b'a').take(1 << 30));
        let here = tempfile::tempdir().unwrap();
        let refused = receive(endless, &here.path().join("run")).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData, "{refused}");
    }

    #[test]
    fn what_is_no_archive_is_named_without_repeating_it() {
        let here = tempfile::tempdir().unwrap();
        let sent = b"y\n".repeat(1000);
        let refused = receive(&sent[..], &here.path().join("run")).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "a board sent data that is not an archive"
        );
    }

    #[test]
    fn a_command_that_left_no_folder_has_its_words() {
        let board = job(&[("job/stdout", "12 checks"), ("job/status", "0")]);
        let out = tempfile::tempdir().unwrap().path().join("none");
        let returned = receive(&sent(board.path())[..], &out).unwrap();
        assert_eq!(
            (returned.code, returned.has_out, returned.stdout.as_slice()),
            (Some(0), false, &b"12 checks"[..])
        );
    }
}
