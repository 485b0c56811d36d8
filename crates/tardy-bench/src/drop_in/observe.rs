//! Runs a command line of cyclictest with one program, and extracts the facts that can be compared.
//! Measured numbers are replaced, so they count as equal.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tardy_sys::process;

use crate::failure::{Failure, Result, While};
use crate::threads;
use crate::workspace;

use super::options::{Allowed, Look, Trial};

/// Time after which a run is killed.
const LENGTH_MAX: Duration = Duration::from_secs(30);
/// Time for which threads measure before they are checked, or a signal is sent.
const SETTLED: Duration = Duration::from_millis(300);
/// Real-time priorities of measuring threads, in trials that check threads.
const PRIORITIES: std::ops::RangeInclusive<u32> = 70..=80;

/// A line of `-v` without its numbers.
const VALUE: &str = "0:0:0";

/// Prefixes of the lines of -v about the machine and the version. These lines differ between
/// versions.
const MACHINE: [&str; 5] = [
    "parse_cpumask",
    "Using ",
    "Max CPUs",
    "Online CPUs",
    "cyclictest V",
];

/// The comparable facts of a run.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// The exit code; absent if the run was killed.
    pub(super) exit: Option<i32>,
    /// Groups of consecutive lines of the same kind, each with the number of its lines. The groups
    /// of standard output come first, then those of each file. Empty if only the exit code counts.
    lines: Vec<String>,
    /// Keys of the JSON document, with the values that are not measured.
    keys: BTreeSet<String>,
    /// Priority and CPUs of each measuring thread.
    threads: Vec<String>,
    /// Whether a signal made the program print its status.
    has_status: bool,
    /// The last line of standard error.
    pub(super) complaint: String,
}

impl Observed {
    /// Returns the first difference between our facts and the peer's.
    pub(super) fn differs_from(&self, peer: &Self) -> Option<String> {
        let is_failure = |exit: Option<i32>| exit.is_some_and(|code| code != 0);
        // If this version refuses the command line, there is nothing to compare.
        if is_failure(peer.exit) {
            return None;
        }
        if self.exit != peer.exit {
            return Some(format!(
                "exit code {:?}, not {:?} ({})",
                self.exit, peer.exit, self.complaint
            ));
        }
        if self.lines != peer.lines {
            let place = self.lines.iter().zip(&peer.lines).position(|(a, b)| a != b);
            let place = place.unwrap_or(self.lines.len().min(peer.lines.len()));
            return Some(format!(
                "output `{}`, not `{}`",
                self.lines.get(place).map_or("", String::as_str),
                peer.lines.get(place).map_or("", String::as_str)
            ));
        }
        if let Some(key) = peer.keys.difference(&self.keys).next() {
            return Some(format!("no `{key}` in the JSON: {:?}", self.keys));
        }
        if self.threads != peer.threads {
            return Some(format!(
                "threads {:?}, not {:?}",
                self.threads, peer.threads
            ));
        }
        (self.has_status != peer.has_status).then(|| "another answer to the signal".to_owned())
    }
}

/// Runs the trial with all programs at the same time.
pub(super) fn side_by_side(programs: &[Vec<String>], trial: &Trial) -> Result<Vec<Observed>> {
    std::thread::scope(|scope| {
        let runs: Vec<_> = programs
            .iter()
            .map(|program| scope.spawn(|| run(program, trial)))
            .collect();
        runs.into_iter()
            .map(|run| run.join().expect("a trial does not panic"))
            .collect()
    })
}

/// Runs the trial with one program. The words `program` start it; the words of the trial follow.
fn run(program: &[String], trial: &Trial) -> Result<Observed> {
    let folder = tempfile::tempdir().while_doing(|| "making a folder".to_owned())?;
    let place = |name: &str| folder.path().join(name);
    fs::create_dir(place("work")).while_doing(|| "making a folder".to_owned())?;
    let group = CpuGroup::of(trial.allowed)?;
    let mut words = group.words();
    words.extend_from_slice(program);
    words.extend(trial.line.split_whitespace().map(str::to_owned));
    let create = |name: &str| File::create(place(name)).while_doing(|| "making a file".to_owned());
    let reader = Reader::of(trial.line, &place("work"))?;
    let mut child = Command::new(&words[0])
        .args(&words[1..])
        .current_dir(place("work"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(create("err")?)
        .spawn()
        .while_doing(|| format!("starting {}", words[0]))?;
    // Standard output is a pipe, because a file would be overwritten when the program opens
    // /dev/stdout again.
    let mut pipe = child.stdout.take();
    let printed = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = pipe.as_mut().map(|pipe| pipe.read_to_end(&mut bytes));
        read.transpose().map(|_| bytes)
    });
    let mut observed = Observed::default();
    match trial.look {
        Look::Threads => observed.threads = measuring(&mut child),
        Look::Signal(number) => {
            measuring(&mut child);
            process::kill(child.id() as i32, number)
                .while_doing(|| "sending a signal".to_owned())?;
        }
        Look::Output | Look::Refusal | Look::Exit => {}
    }
    observed.exit = wait(&mut child)?;
    reader.finish()?;
    let read = |name: &str| {
        fs::read(place(name)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    let errors = read("err").while_doing(|| "reading errors".to_owned())?;
    observed.complaint = errors.lines().last().unwrap_or_default().to_owned();
    observed.has_status = errors.contains("status");
    if trial.look == Look::Exit {
        return Ok(observed);
    }
    let printed = printed
        .join()
        .expect("reading does not panic")
        .while_doing(|| "reading output".to_owned())?;
    observed.take("", &String::from_utf8_lossy(&printed));
    let mut files: Vec<PathBuf> = fs::read_dir(place("work"))
        .while_doing(|| "listing files".to_owned())?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    for file in files {
        let text = workspace::read(&file)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        observed.take(&format!("{name}: "), &text);
    }
    Ok(observed)
}

impl Observed {
    /// Parses an output: a JSON document, lines, or both.
    fn take(&mut self, name: &str, text: &str) {
        // A live display starts each screen with an escape sequence. Only the last screen counts.
        let screens = text.find("policy:").zip(text.rfind("\u{1b}["));
        let mut text = match screens {
            Some((first, last)) => {
                let screen = text[last..]
                    .split_once('A')
                    .map_or("", |(_, screen)| screen);
                format!("{}{screen}", &text[..first])
            }
            None => text.to_owned(),
        };
        if let Some(begin) = text.find("{\n") {
            let end = text[begin..]
                .find("\n}")
                .map_or(text.len(), |end| begin + end + 2);
            match serde_json::from_str(&text[begin..end]) {
                Ok(document) => keys(&document, name, &mut self.keys),
                Err(error) => self.lines.push(format!("{name}no JSON: {error}")),
            }
            text.replace_range(begin..(end + 1).min(text.len()), "");
        }
        let mut count = 0;
        let is_compared = |line: &&str| !MACHINE.iter().any(|head| line.starts_with(head));
        let mut lines = text.lines().filter(is_compared).map(kind).peekable();
        while let Some(line) = lines.next() {
            count += 1;
            if lines.peek() != Some(&line) {
                // A stall of the machine skips samples, so the number of lines is a measured value.
                let shown = if line == VALUE {
                    "n".to_owned()
                } else {
                    count.to_string()
                };
                self.lines.push(format!("{name}{shown} x {line}"));
                count = 0;
            }
        }
    }
}

/// Returns the line with each measured number as `0`, and without the blanks that fill its column.
fn kind(line: &str) -> String {
    /// Texts before numbers that come from the command line.
    const ASKED: [&str; 7] = [
        "P:",
        "I:",
        "set to ",
        "CPUs = ",
        "Using ",
        "Interval: ",
        "cpu ",
    ];
    let mut kind = String::new();
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        if !letter.is_ascii_digit() {
            kind.push(letter);
            continue;
        }
        let mut number = letter.to_string();
        while let Some(digit) = letters.next_if(char::is_ascii_digit) {
            number.push(digit);
        }
        if ASKED.iter().any(|before| kind.ends_with(before)) {
            kind += &number;
        } else {
            kind.truncate(kind.trim_end_matches(' ').len());
            kind.push('0');
        }
    }
    // The number of cycles beyond the histogram is a measured value.
    match kind.split_once(':') {
        Some((head, _)) if head.starts_with("# Thread") && !head.contains("Ids") => head.to_owned(),
        _ => kind.trim_end().to_owned(),
    }
}

/// Collects the paths of all keys, with their values unless these are measured.
fn keys(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    const ASKED: [&str; 4] = ["num_threads", "resolution_in_ns", "return_code", "cpu"];
    let Some(object) = value.as_object() else {
        return;
    };
    for (key, value) in object {
        let is_bucket = path.ends_with("histogram.");
        let path = format!("{path}{}", if is_bucket { "N" } else { key });
        let is_asked = ASKED.contains(&key.as_str());
        into.insert(if is_asked {
            format!("{path} = {value}")
        } else {
            path.clone()
        });
        keys(value, &format!("{path}."), into);
    }
}

/// Returns priority and CPUs of the measuring threads, some time after the first one exists.
fn measuring(child: &mut Child) -> Vec<String> {
    let begin = Instant::now();
    let mut since: Option<Instant> = None;
    while begin.elapsed() < LENGTH_MAX && matches!(child.try_wait(), Ok(None)) {
        let found = real_time_threads(child.id());
        if !found.is_empty() && since.get_or_insert_with(Instant::now).elapsed() > SETTLED {
            return found;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Vec::new()
}

fn real_time_threads(process: u32) -> Vec<String> {
    // Fields 40 and 41 of proc_pid_stat(5), as indices from the state after the name.
    const REAL_TIME_PRIORITY: usize = 37;
    const POLICY: usize = 38;
    let describe = |thread: threads::Thread| {
        let folder = Path::new("/proc")
            .join(thread.process.to_string())
            .join(format!("task/{}", thread.id));
        let stat = fs::read_to_string(folder.join("stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let priority: u32 = fields.get(REAL_TIME_PRIORITY)?.parse().ok()?;
        let status = fs::read_to_string(folder.join("status")).ok()?;
        let cpus = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?
            .trim();
        PRIORITIES
            .contains(&priority)
            .then(|| format!("policy {} priority {priority} on {cpus}", fields[POLICY]))
    };
    let mut found: Vec<String> = threads::of_tree(process)
        .into_iter()
        .filter_map(describe)
        .collect();
    found.sort();
    found
}

/// Returns the exit code; `None` if the command was killed.
fn wait(child: &mut Child) -> Result<Option<i32>> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().while_doing(|| "waiting".to_owned())? {
            return Ok(status.code());
        }
        if begin.elapsed() > LENGTH_MAX {
            let _ = child.kill();
            let _ = child.wait();
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Reads a FIFO to which a trial writes, into a file next to it.
struct Reader(Option<(Child, PathBuf)>);

impl Reader {
    fn of(line: &str, folder: &Path) -> Result<Self> {
        if !line.contains("=fifo.json") {
            return Ok(Self(None));
        }
        let child = Command::new("timeout")
            .args(["20", "sh", "-c", "mkfifo fifo.json && cat fifo.json > copy"])
            .current_dir(folder)
            .spawn()
            .while_doing(|| "making a FIFO".to_owned())?;
        let fifo = folder.join("fifo.json");
        let begin = Instant::now();
        while !fifo.exists() && begin.elapsed() < LENGTH_MAX {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Self(Some((child, fifo))))
    }

    /// Waits until the writer has closed the FIFO.
    fn finish(self) -> Result<()> {
        if let Some((mut child, fifo)) = self.0 {
            child.wait().while_doing(|| "reading a FIFO".to_owned())?;
            fs::remove_file(fifo).while_doing(|| "removing a FIFO".to_owned())?;
        }
        Ok(())
    }
}

/// The CPUs that a trial's program may use. A cpuset is removed on drop.
struct CpuGroup {
    allowed: Allowed,
    folder: PathBuf,
}

impl CpuGroup {
    fn of(allowed: Allowed) -> Result<Self> {
        static GROUPS: AtomicU32 = AtomicU32::new(0);
        let number = GROUPS.fetch_add(1, Ordering::Relaxed);
        let name = format!("tardy-drop-in-{}-{number}", std::process::id());
        let group = Self {
            allowed,
            folder: Self::parent().join(name),
        };
        if allowed == Allowed::Cpuset {
            let making = || format!("making a cpuset in {}", Self::parent().display());
            fs::create_dir(&group.folder).while_doing(making)?;
            let nodes = fs::read(Self::parent().join("cpuset.mems")).while_doing(making)?;
            fs::write(group.folder.join("cpuset.mems"), nodes).while_doing(making)?;
            fs::write(group.folder.join("cpuset.cpus"), "1").while_doing(making)?;
        }
        Ok(group)
    }

    fn parent() -> &'static Path {
        let first = Path::new("/sys/fs/cgroup/cpuset");
        if first.exists() {
            first
        } else {
            Path::new("/sys/fs/cgroup")
        }
    }

    fn words(&self) -> Vec<String> {
        match self.allowed {
            Allowed::All => Vec::new(),
            Allowed::Taskset => ["taskset", "-c", "1"].map(str::to_owned).to_vec(),
            Allowed::Cpuset => [
                "sh",
                "-c",
                "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"",
                &self.folder.display().to_string(),
            ]
            .map(str::to_owned)
            .to_vec(),
        }
    }
}

impl Drop for CpuGroup {
    fn drop(&mut self) {
        if self.allowed == Allowed::Cpuset {
            let begin = Instant::now();
            // Ended threads leave the cpuset a moment later.
            while fs::remove_dir(&self.folder).is_err() && begin.elapsed() < SETTLED {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// Checks that the requirements of all trials are met.
pub(super) fn check() -> Result<()> {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if cpus < 2 {
        return Err(Failure::new("the trials need CPUs 0 and 1"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Observed {
        let mut observed = Observed {
            exit: Some(0),
            ..Observed::default()
        };
        observed.take("", text);
        observed
    }

    #[test]
    fn figures_are_equal_and_everything_else_is_compared() {
        let line =
            "T: 0 ( 1234) P:80 I:1000 C:     20 Min:      4 Act:    6 Avg:    5 Max:       9\n";
        let peer = of(line);
        let same = of(&line.replace("C:     20", "C:      3"));
        assert_eq!(same.differs_from(&peer), None);
        for (from, to) in [("P:80", "P:79"), ("I:1000", "I:1500"), ("Avg", "Med")] {
            assert!(
                of(&line.replace(from, to)).differs_from(&peer).is_some(),
                "{to}"
            );
        }
        assert!(of(&line.repeat(2)).differs_from(&peer).is_some());
        let overflows = "# Thread 0: 00003 00004\n";
        assert_eq!(of(overflows).differs_from(&of("# Thread 0:\n")), None);
    }

    #[test]
    fn of_a_display_the_last_screen_counts() {
        let screens = "# set\npolicy: a\n\u{1b}[2Apolicy: b\nT: 0\n";
        assert_eq!(
            of(screens).differs_from(&of("# set\npolicy: b\nT: 0\n")),
            None
        );
    }

    #[test]
    fn json_needs_every_key_and_may_have_more() {
        let peer = of("{\n  \"num_threads\": 2,\n  \"thread\": {\"0\": {\"min\": 3}}\n}\n");
        let ours =
            "{\n  \"num_threads\": 2,\n  \"thread\": {\"0\": {\"min\": 5, \"missed\": 0}}\n}\n";
        assert_eq!(of(ours).differs_from(&peer), None);
        assert!(
            of(&ours.replace("s\": 2", "s\": 1"))
                .differs_from(&peer)
                .is_some()
        );
        assert!(
            of(&ours.replace("min", "low"))
                .differs_from(&peer)
                .is_some()
        );
    }
}
