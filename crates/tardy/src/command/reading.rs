//! Shows the progress of commands that read many bytes, in a line on standard error that appears
//! after a second and only on a terminal.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::status_line::{StatusLine, time_left};
use crate::cli::Command;

static SHOWN: Mutex<Option<StatusLine>> = Mutex::new(None);

/// Starts to show the progress of `command`, if it reads runs or files.
pub fn begin(command: &Command) {
    let expected = expected(command);
    // The progress is hidden if the kernel does not count the bytes that a process reads.
    let Some(before) = read_so_far().filter(|_| expected > 0) else {
        return;
    };
    let started = Instant::now();
    let shown = StatusLine::show(move || {
        let read = read_so_far().unwrap_or(before) - before;
        line(read, expected, started.elapsed())
    });
    *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = shown;
}

/// Removes the line, before anything is printed.
pub fn end() {
    drop(SHOWN.lock().unwrap_or_else(PoisonError::into_inner).take());
}

/// Returns a line such as `43 % read, 12 s left`.
fn line(read: u64, expected: u64, elapsed: Duration) -> String {
    let share = read as f64 / expected as f64;
    if share >= 1.0 {
        return "all read, nearly done".to_owned();
    }
    format!("{:.0} % read{}", share * 100.0, time_left(share, elapsed))
}

/// Returns the number of bytes that the command will read: the size of its files, times the number
/// of passes.
fn expected(command: &Command) -> u64 {
    let (paths, times): (Vec<&PathBuf>, u64) = match command {
        Command::Show(args) => (vec![&args.run], if args.statistics { 2 } else { 1 }),
        Command::Report(args) => (args.runs.iter().collect(), 2),
        Command::Plot(args) => (args.runs.iter().collect(), 2),
        Command::Export(args) => (vec![&args.run], 2),
        Command::Compare(args) => {
            let sides = std::iter::once(&args.base).chain(&args.candidates);
            (sides.collect(), 2)
        }
        Command::History(args) => (args.runs.iter().collect(), 2),
        Command::Import(args) => (args.files.iter().collect(), 1),
        Command::Explain(args) => (vec![&args.path], 2),
        _ => return 0,
    };
    let bytes: u64 = paths.into_iter().map(|path| size(path)).sum();
    bytes * times
}

/// Returns the size of a file, or of all files in and below a folder, in bytes.
fn size(path: &Path) -> u64 {
    let Ok(metadata) = fs::metadata(path) else {
        return 0;
    };
    if !metadata.is_dir() {
        return metadata.len();
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let inside = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => size(&entry.path()),
        Ok(kind) if kind.is_file() => entry.metadata().map_or(0, |metadata| metadata.len()),
        _ => 0,
    };
    entries.map(inside).sum()
}

/// Returns the number of bytes that this process has read (proc_pid_io(5)).
fn read_so_far() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix("rchar: ")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_share_and_the_time_that_is_left() {
        let after = |read, seconds| line(read, 200, Duration::from_secs(seconds));
        assert_eq!(after(1, 1), "0 % read");
        assert_eq!(after(50, 10), "25 % read, 30 s left");
        assert_eq!(after(50, 100), "25 % read, 5 min left");
        assert_eq!(after(230, 100), "all read, nearly done");
    }

    #[test]
    fn what_this_process_reads_is_counted() {
        let file = tempfile();
        fs::write(&file, vec![0; 100_000]).unwrap();
        let before = read_so_far().unwrap();
        fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        assert!(read_so_far().unwrap() >= before + 100_000);
    }

    fn tempfile() -> PathBuf {
        std::env::temp_dir().join(format!("tardy-reading-{}", std::process::id()))
    }

    #[test]
    fn a_folder_is_as_large_as_the_files_below_it() {
        let folder = tempfile().with_extension("folder");
        fs::create_dir_all(folder.join("samples")).unwrap();
        fs::write(folder.join("run.json"), "12345").unwrap();
        fs::write(folder.join("samples/one"), "123").unwrap();
        assert_eq!(size(&folder), 8);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(size(&folder), 0);
    }
}
