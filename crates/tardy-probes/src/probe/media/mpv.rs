//! The running mpv: starts it with a clip, controls it over its JSON interface, and reads its
//! reports until it ends.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tardy_core::units::Nanos;
use tardy_sys::child::{kill_with_parent, run_under};
use tardy_sys::sched::{self, Policy};
use tardy_sys::shared_words::set_close_on_exec;
use tardy_sys::signal::{self, wait_readable};
use tardy_sys::{clock, process};

use super::timeline::{Fate, statistic};

pub(super) const PROGRAM: &str = "mpv";
/// How long mpv may take to answer. This is long, because a player on a loaded machine needs much
/// time to load its many libraries.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often mpv's clock is queried to determine its offset. The query with the fastest answer is
/// used.
const CLOCK_TRIES: u64 = 9;
/// How long a thread of the player may run at a real-time priority without blocking, in us. After
/// this time the kernel ends the player.
const RUNAWAY_MICROS: u64 = 2_000_000;
/// IDs of requests, which mpv repeats in its answers and events. SKEW and POSITION are the IDs of
/// the observed properties. The first query of the clock has the ID CLOCK, and each further query
/// of the clock has an ID that is larger by ASKED. All other requests have the ID ASKED.
const SKEW: u64 = 1;
const POSITION: u64 = 2;
const CLOCK: u64 = 3;
const ASKED: u64 = 4;

/// The clip to play, and the settings of the player.
#[derive(Debug)]
pub(super) struct Orders<'a> {
    pub(super) period: Nanos,
    pub(super) audio_rate: u64,
    pub(super) video_out: &'a str,
    pub(super) audio_out: &'a str,
    pub(super) policy: Policy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlayerLine {
    /// What happened to the next frame.
    Fate(Fate),
    /// The skew of the frame at `position` in the clip.
    Skew { position: Nanos, skew: Nanos },
}

/// The player. Dropping the value kills the player.
#[derive(Debug)]
pub(super) struct Mpv {
    child: Child,
    socket: UnixStream,
    statistics: io::PipeReader,
    from_socket: Lines,
    from_statistics: Lines,
    /// The run's clock minus the player's clock.
    offset: Nanos,
    /// Uncertainty of the offset.
    pub(super) clock_error: Nanos,
    /// Length of the unit of the player's time stamps, in ns: 1000 in versions that use us.
    pub(super) stamp_unit: Nanos,
    is_unit_known: bool,
    /// The last reported skew; absent before the first frame, and without sound.
    skew: Option<Nanos>,
    is_over: bool,
}

impl Mpv {
    /// Starts the player, which at once plays an endless clip.
    ///
    /// # Errors
    /// Returns an error if the player cannot be started, ends, or does not answer.
    pub(super) fn start(program: &Path, orders: &Orders<'_>) -> io::Result<Self> {
        let (socket, its_socket) = UnixStream::pair()?;
        let (statistics, its_statistics) = io::pipe()?;
        let mut command = Command::new(program);
        command
            .args([
                "--no-config",
                "--input-terminal=no",
                "--msg-level=all=error",
                "--load-scripts=no",
                "--osc=no",
                "--osd-level=0",
            ])
            .args(["--video-sync=audio", "--framedrop=vo", "--keep-open=no"])
            .arg(format!("--vo={}", orders.video_out))
            .arg(format!("--ao={}", orders.audio_out))
            .arg(format!(
                "--input-ipc-client=fd://{}",
                its_socket.as_raw_fd()
            ))
            .arg(format!(
                "--dump-stats=/proc/self/fd/{}",
                its_statistics.as_raw_fd()
            ))
            .arg(clip(orders))
            .stdin(Stdio::null())
            // The player must not write to standard output, because the tool prints its result
            // there.
            .stdout(Stdio::from(io::stderr().as_fd().try_clone_to_owned()?))
            // Ctrl-C must interrupt only the tool, which then ends the player.
            .process_group(0);
        set_close_on_exec(&its_socket, false)?;
        set_close_on_exec(&its_statistics, false)?;
        let child = run_under(
            kill_with_parent(&mut command),
            orders.policy,
            RUNAWAY_MICROS,
        )
        .spawn()?;
        drop((its_socket, its_statistics));
        socket.set_nonblocking(true)?;
        let mut player = Self {
            child,
            socket,
            statistics,
            from_socket: Lines::default(),
            from_statistics: Lines::default(),
            offset: Nanos::ZERO,
            clock_error: Nanos::MAX,
            stamp_unit: Nanos(1000),
            is_unit_known: false,
            skew: None,
            is_over: false,
        };
        player.find_clock()?;
        // The skew is requested first. Skew and position change together, and the player reports
        // them in the order of these requests, so the skew is known when its position arrives.
        player.tell(SKEW, json!(["observe_property", SKEW, "avsync"]))?;
        player.tell(POSITION, json!(["observe_property", POSITION, "time-pos"]))?;
        Ok(player)
    }

    /// Measures the offset between the player's clock and the run's.
    fn find_clock(&mut self) -> io::Result<()> {
        for number in 0..CLOCK_TRIES {
            let before = clock::monotonic();
            let micros = self
                .ask(CLOCK + number * ASKED, json!(["get_time_us"]))?
                .as_i64();
            let after = clock::monotonic();
            let micros = micros.ok_or_else(|| {
                io::Error::other("mpv did not report its clock: this mpv is older than 0.33")
            })?;
            let error = Nanos((after - before) / 2);
            if error < self.clock_error {
                self.clock_error = error;
                self.offset = Nanos(before) + error - Nanos(micros.saturating_mul(1000));
            }
        }
        Ok(())
    }

    /// Returns the value of a property of the player.
    pub(super) fn property(&mut self, name: &str) -> io::Result<Value> {
        self.ask(ASKED, json!(["get_property", name]))
    }

    /// Checks that the player uses the requested outputs. Without a sound output, a player keeps
    /// playing without sound and reports no skew.
    ///
    /// # Errors
    /// Returns `Unsupported` with the missing output.
    pub(super) fn check_outputs(&mut self, orders: &Orders<'_>) -> io::Result<()> {
        for (property, option, ordered) in [
            ("current-vo", "video-out", orders.video_out),
            ("current-ao", "audio-out", orders.audio_out),
        ] {
            if self.property(property)?.as_str() != Some(ordered) {
                let text = format!(
                    "mpv cannot use {option}={ordered} here: see its messages; without {option}, \
                     the output is null"
                );
                return Err(io::Error::new(io::ErrorKind::Unsupported, text));
            }
        }
        Ok(())
    }

    fn tell(&mut self, id: u64, command: Value) -> io::Result<()> {
        let line = format!("{}\n", json!({ "command": command, "request_id": id }));
        // The line is shorter than the socket's buffer, so the write does not block.
        self.socket.write_all(line.as_bytes())
    }

    fn ask(&mut self, id: u64, command: Value) -> io::Result<Value> {
        self.tell(id, command)?;
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            wait_readable(&[self.socket.as_fd()], 100)?;
            let is_open = self.from_socket.read(&mut self.socket)?;
            // Reports about frames are ignored here, because these frames are shown before or after
            // the run. The skew is remembered, because the player reports it only when it changes.
            while let Some(line) = self.from_socket.next() {
                let answer: Value = serde_json::from_str(&line).unwrap_or(Value::Null);
                if answer["request_id"].as_u64() == Some(id) && answer.get("event").is_none() {
                    return Ok(answer["data"].clone());
                }
                let _ = self.said(&line);
            }
            if !is_open {
                let status = self.child.wait()?;
                return Err(io::Error::other(format!(
                    "mpv ended ({status}): run it by itself to see why"
                )));
            }
        }
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "mpv does not answer: run it by itself to see why",
        ))
    }

    /// Waits for reports of the player for at most `millis` ms, and passes them on. Returns false
    /// once the player has ended and everything was read.
    ///
    /// # Errors
    /// Returns an error if the reports cannot be read.
    pub(super) fn listen(
        &mut self,
        millis: i32,
        mut hear: impl FnMut(PlayerLine),
    ) -> io::Result<bool> {
        let mut fds = vec![self.statistics.as_fd()];
        if !self.is_over {
            fds.push(self.socket.as_fd());
        }
        let readable = wait_readable(&fds, millis)?;
        if readable.get(1) == Some(&true) {
            self.is_over = !self.from_socket.read(&mut self.socket)?;
            while let Some(line) = self.from_socket.next() {
                if let Some(said) = self.said(&line) {
                    hear(said);
                }
            }
        }
        if readable.first() != Some(&true) {
            return Ok(true);
        }
        let is_open = self.from_statistics.read(&mut self.statistics)?;
        while let Some(line) = self.from_statistics.next() {
            if let Some((stamp, is_shown)) = statistic(&line) {
                hear(PlayerLine::Fate(if is_shown {
                    Fate::Shown(self.on_the_runs_clock(stamp))
                } else {
                    Fate::Dropped
                }));
            }
        }
        Ok(is_open)
    }

    /// Handles the report of a changed property. A skew is stored until the report of its position
    /// in the clip arrives.
    fn said(&mut self, line: &str) -> Option<PlayerLine> {
        let message: Value = serde_json::from_str(line).ok()?;
        if message["event"] != "property-change" {
            return None;
        }
        let time = message["data"]
            .as_f64()
            .map(|seconds| Nanos((seconds * 1e9).round() as i64));
        match message["id"].as_u64()? {
            SKEW => {
                self.skew = time;
                None
            }
            POSITION => Some(PlayerLine::Skew {
                position: time?,
                skew: self.skew?,
            }),
            _ => None,
        }
    }

    /// Converts a time stamp in the statistics to the run's clock. Time stamps are in us up to mpv
    /// 0.36, in ns since then. The player's clock starts at 10 s in all versions.
    fn on_the_runs_clock(&mut self, stamp: i64) -> Nanos {
        if !self.is_unit_known {
            let its_micros = (Nanos(clock::monotonic()) - self.offset).get() / 1000;
            self.stamp_unit = if stamp / 30 > its_micros {
                Nanos(1)
            } else {
                Nanos(1000)
            };
            self.is_unit_known = true;
        }
        Nanos(stamp.saturating_mul(self.stamp_unit.get())) + self.offset
    }

    /// Returns the number of the player's threads, and how many of them do not run under `policy`.
    pub(super) fn threads_beside(&self, policy: Policy) -> (usize, usize) {
        let wanted = match policy {
            // The numbers of the policies are from include/uapi/linux/sched.h.
            Policy::Fifo { priority } => (1, priority),
            Policy::RoundRobin { priority } => (2, priority),
            Policy::Other { .. } | Policy::Deadline { .. } => (0, 0),
        };
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id()))
            .into_iter()
            .flatten()
            .flatten();
        let policies: Vec<_> = tasks
            .filter_map(|task| sched::policy(task.file_name().to_str()?.parse().ok()?).ok())
            .collect();
        (
            policies.len(),
            policies.iter().filter(|&&policy| policy != wanted).count(),
        )
    }

    /// Asks the player to end.
    pub(super) fn quit(&mut self) {
        if self.tell(ASKED, json!(["quit"])).is_err() {
            let _ = process::kill(self.child.id() as i32, signal::TERMINATE);
        }
    }

    /// Waits up to 5 s until the player ends. If the player is still running then, kills it. Must
    /// be called only after the player was asked to end or was seen to end.
    ///
    /// # Errors
    /// Returns an error if the program cannot be waited for or killed.
    pub(super) fn end(mut self) -> io::Result<ExitStatus> {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(5) {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            wait_readable(&[], 10)?;
        }
        self.child.kill()?;
        self.child.wait()
    }
}

impl Drop for Mpv {
    fn drop(&mut self) {
        // These calls do nothing if the player has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the description of an endless clip. libavfilter, which is part of every mpv, makes a
/// test picture and a tone, without a file. Each frame lasts exactly one period.
fn clip(orders: &Orders<'_>) -> String {
    let (period, rate) = (orders.period.get(), orders.audio_rate);
    format!(
        "av://lavfi:testsrc=size=320x240:rate=1000000000/{period}[out0];sine=frequency=440:\
         sample_rate={rate}[out1]"
    )
}

/// Splits a stream that arrives in pieces into whole lines.
#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    begin: usize,
}

impl Lines {
    /// Reads the available bytes. Returns false at the end of the stream.
    fn read(&mut self, from: &mut impl Read) -> io::Result<bool> {
        self.bytes.drain(..std::mem::take(&mut self.begin));
        let mut buffer = [0; 16 << 10];
        match from.read(&mut buffer) {
            Ok(count) => {
                self.bytes.extend_from_slice(&buffer[..count]);
                Ok(count > 0)
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn next(&mut self) -> Option<String> {
        let rest = &self.bytes[self.begin..];
        let length = rest.iter().position(|&byte| byte == b'\n')?;
        let line = String::from_utf8_lossy(&rest[..length]).into_owned();
        self.begin += length + 1;
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_wherever_the_stream_is_cut() {
        let text = b"one\ntwo\n\nthree";
        for cut in 0..text.len() {
            let mut lines = Lines::default();
            let mut found = Vec::new();
            for mut piece in [&text[..cut], &text[cut..]] {
                lines.read(&mut piece).unwrap();
                found.extend(std::iter::from_fn(|| lines.next()));
            }
            assert_eq!(found, ["one", "two", ""], "cut at {cut}");
        }
        assert!(!Lines::default().read(&mut &b""[..]).unwrap());
    }

    #[test]
    fn a_frame_of_the_clip_is_as_long_as_was_asked_for() {
        let policy = Policy::Other { nice: 0 };
        let orders = Orders {
            period: Nanos(33_333_333),
            audio_rate: 44_100,
            video_out: "null",
            audio_out: "null",
            policy,
        };
        assert!(
            clip(&orders).contains("rate=1000000000/33333333[")
                && clip(&orders).contains("sample_rate=44100[")
        );
    }
}
