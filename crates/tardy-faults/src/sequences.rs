//! Measures, kills, truncates, rotates, resumes and reads one run folder, in random sequences.
//!
//! A test of the run folder's code compares such sequences with a model that knows every sample;
//! here the real binary measures. No read may return lower counts than an earlier read. If the test
//! truncates a chunk, it decodes the chunk first, and only the samples of this chunk may be
//! missing.

use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;
use tardy_core::chunk::{self, CHUNK_HEAD_BYTES, Chunk, ChunkHead};
use tardy_samples::hours::Hours;
use tardy_sys::signal;
use xtask::failure::{Result, While};

use crate::fault::{Fault, Ground, Tally};
use crate::folders::{self, Folder};
use crate::place::{PATIENCE, Place, last_line, names};

pub(crate) const FAULT: Fault = Fault {
    name: "sequences",
    done: "a run with --until-stopped, --disk and --resume is started four to eight times in one \
           folder; each time, after up to 3 s, the tool is stopped (SIGTERM), killed, or killed \
           with its last write cut short, chosen at random; sometimes the folder is read while the \
           tool measures",
    demanded: "the run opens after each step, and its counts add up; no count shrinks, except by \
               exactly the samples of the cut write; the measured time is at least the time that \
               the due times cover, and at most the time that the tool ran; each resumption is \
               reported; a stopped run is finished",
    attempt,
};

const PERIOD_NS: i64 = 25_000;
/// A deadline so short that samples miss it in every run.
const DEADLINE_NS: i64 = 60_000;
/// A run with the smallest disk budget that is allowed for one series. The run's first samples are
/// folded within two seconds.
const LINE: &str = "run --until-stopped --disk 2432KiB --resume --deadline 60us --period 25us \
                    --force --quiet --out run --cpus";

/// How a part of the run is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Stopped,
    Killed,
    /// The tool is killed, and its last write is then truncated to this share, in 256ths.
    Cut {
        share: u64,
    },
}

/// One part of a sequence: the tool starts, measures and ends.
#[derive(Debug, Clone, Copy)]
struct Step {
    length: Duration,
    is_read: bool,
    ending: Ending,
}

/// A generator of pseudo-random numbers (Knuth's MMIX), which are the same each time the test runs.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn step(&mut self) -> Step {
        // One part in four is so short that it ends while the tool still starts or resumes the run.
        let millis = match self.below(4) {
            0 => self.below(250),
            _ => 250 + self.below(2_750),
        };
        Step {
            length: Duration::from_millis(millis),
            is_read: self.below(2) == 0,
            ending: match self.below(4) {
                0 => Ending::Stopped,
                1 => Ending::Killed,
                _ => Ending::Cut {
                    share: self.below(256),
                },
            },
        }
    }
}

/// What a run has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Totals {
    expected: u64,
    recorded: u64,
    misses: u64,
}

impl Totals {
    /// Reads the counts from the output of `tardy show --json`.
    fn found(summary: &Value) -> Self {
        let series = &summary["series"][0];
        let count = |value: &Value| value.as_u64().unwrap_or(0);
        Self {
            expected: count(&series["counts"]["expected"]),
            recorded: count(&series["counts"]["recorded"]),
            misses: count(&series["numbers"]["misses"]),
        }
    }

    fn of(chunk: &Chunk) -> Self {
        let mut totals = Self::default();
        let mut skipped = chunk.skipped.iter().copied().peekable();
        for (index, &latency) in chunk.latency.iter().enumerate() {
            let skipped = skipped
                .next_if(|(sample, _)| *sample == index)
                .map_or(0, |(_, skipped)| i64::from(skipped));
            let is_late = |step: &i64| latency - step * PERIOD_NS > DEADLINE_NS;
            totals.recorded += 1;
            totals.expected += 1 + skipped as u64;
            totals.misses += (0..=skipped).filter(is_late).count() as u64;
        }
        let gaps = chunk.gaps.iter().map(|(_, gap)| gap.lost + gap.skipped);
        totals.expected += gaps.sum::<u64>();
        totals
    }

    fn minus(self, other: Self) -> Self {
        Self {
            expected: self.expected.saturating_sub(other.expected),
            recorded: self.recorded.saturating_sub(other.recorded),
            misses: self.misses.saturating_sub(other.misses),
        }
    }

    fn is_below(self, least: Self) -> bool {
        self.expected < least.expected
            || self.recorded < least.recorded
            || self.misses < least.misses
    }
}

/// A run folder, and the lowest counts that its next read may return.
struct Model {
    place: Place,
    least: Totals,
    /// How long the tool has run in total.
    worked: Duration,
    /// How many starts of the tool, including the first, got as far as writing `run.json`.
    parts: usize,
    /// How many resumptions the run reports.
    resumptions: usize,
    wrong: Vec<String>,
}

fn attempt(ground: &Ground) -> Result<Tally> {
    let mut tally = Tally::default();
    if folders::last_cpu() == 0 {
        tally
            .left_out
            .push("periods so short need a second CPU".to_owned());
        return Ok(tally);
    }
    for number in 0..ground.tries(4, 50) {
        let mut model = Model {
            place: ground.place()?,
            least: Totals::default(),
            worked: Duration::ZERO,
            parts: 0,
            resumptions: 0,
            wrong: Vec::new(),
        };
        let mut draw = Draw(number as u64);
        let starts = 4 + draw.below(5);
        for start in 1..=starts {
            let mut step = draw.step();
            if start == starts {
                step.ending = Ending::Stopped;
            }
            let before = model.wrong.len();
            for seen in model.take(step)? {
                *tally.seen.entry(seen.to_owned()).or_default() += 1;
            }
            for wrong in &mut model.wrong[before..] {
                *wrong = format!("start {start}, {step:?}: {wrong}");
            }
        }
        let mut wrong = std::mem::take(&mut model.wrong);
        wrong.extend(model.place.leftovers()?);
        if model.place.path(".run.resuming").exists() {
            wrong.push(".run.resuming is left".to_owned());
        }
        tally.count(&format!("sequence {number}"), "sequences", wrong);
    }
    Ok(tally)
}

impl Model {
    /// Performs a step, and returns what was observed.
    fn take(&mut self, step: Step) -> Result<Vec<&'static str>> {
        let mut seen = Vec::new();
        let folded_before = self
            .newest_segment()
            .map_or(self.folded(), |(number, _)| number);
        let begun = Instant::now();
        let line = format!("{LINE} {}", folders::last_cpu());
        let mut running = self.place.start(self.place.tardy_command(&line))?;
        while begun.elapsed() < step.length && !running.has_ended() {
            if step.is_read && self.is_taken_up_by(running.pid()) {
                self.read(begun)?;
                seen.push("read during the run");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let is_stopped = step.ending == Ending::Stopped;
        if is_stopped {
            let pid = running.pid();
            self.place
                .wait_until(|| running.has_ended() || self.is_taken_up_by(pid));
            if !running.has_ended() {
                running.signal(signal::TERMINATE)?;
            }
        } else {
            self.place.end_all();
        }
        let outcome = running.end(&self.place, PATIENCE)?;
        let is_taken_up = self.is_taken_up_by(outcome.pid);
        self.parts += usize::from(is_taken_up);
        let state = self.read(begun)?;
        self.worked += begun.elapsed();
        if is_stopped && !(state == "finished" && matches!(outcome.code, Some(0 | 1 | 4))) {
            let said = last_line(&outcome.said);
            self.wrong
                .push(format!("{}, {state}: {said}", outcome.ending()));
        }
        if !is_stopped && outcome.code.is_some() {
            self.wrong
                .push(format!("it ended by itself: {}", outcome.said));
        }
        if is_taken_up && self.resumptions + 1 != self.parts {
            self.wrong.push(format!(
                "{} resumptions are reported in {} parts",
                self.resumptions, self.parts
            ));
        }
        if self.folded() > folded_before {
            seen.push("samples folded");
        }
        seen.push(match step.ending {
            _ if !is_taken_up => "killed before it wrote run.json",
            Ending::Stopped => "stopped",
            Ending::Cut { share } if self.cut(share)? => "killed, last write cut",
            Ending::Killed | Ending::Cut { .. } => "killed",
        });
        Ok(seen)
    }

    /// Returns whether the process `pid` has written run.json.
    fn is_taken_up_by(&self, pid: i32) -> bool {
        let record = std::fs::read(self.place.path("run/run.json")).unwrap_or_default();
        serde_json::from_slice::<Value>(&record)
            .is_ok_and(|record| record["tool"]["process"] == pid)
    }

    /// Reads the run and stores its counts; returns the run's state. The last part of the run was
    /// started at `begun`.
    fn read(&mut self, begun: Instant) -> Result<String> {
        let folder = folders::look(&self.place, "run")?;
        self.wrong.extend(folder.wrong());
        let resumptions = folder.warnings_of("resumed").count();
        let Folder::Opens { state, summary } = folder else {
            if self.least != Totals::default() {
                self.wrong.push(format!("a run with samples is {folder:?}"));
            }
            return Ok(String::new());
        };
        let found = Totals::found(&summary);
        if found.is_below(self.least) {
            self.wrong.push(format!("{:?}, then {found:?}", self.least));
        }
        let passed = (self.worked + begun.elapsed()).as_nanos() as i64;
        let measured = summary["measured_ns"].as_i64().unwrap_or(i64::MIN);
        // The measured time of each part has one period less than the part has due times, because
        // no period follows the last due time. `parts` does not yet count a part that still runs.
        let due_times = found.expected as i64 - self.parts as i64 - 1;
        if measured > passed || measured < due_times.max(0) * PERIOD_NS {
            self.wrong.push(format!(
                "{found:?} in {measured} ns, {passed} ns have passed"
            ));
        }
        self.least = found;
        self.resumptions = resumptions;
        Ok(state)
    }

    /// Truncates the run's last write to a share of its length. Returns whether there was such a
    /// write.
    fn cut(&mut self, share: u64) -> Result<bool> {
        let Some((_, path)) = self.newest_segment() else {
            return Ok(false);
        };
        let bytes = std::fs::read(&path).while_doing(|| format!("reading {}", path.display()))?;
        let Some((place, chunk)) = last_chunk(&bytes) else {
            return Ok(false);
        };
        let left = place.start as u64 + (place.end - place.start) as u64 * share / 256;
        std::fs::File::options()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_len(left))
            .while_doing(|| format!("cutting {}", path.display()))?;
        let left = self.least.minus(Totals::of(&chunk));
        self.least = left;
        self.read(Instant::now())?;
        if self.least != left {
            self.wrong
                .push(format!("{:?}, not {left:?}, after the cut", self.least));
        }
        Ok(true)
    }

    /// Returns the number of the last segment that was folded into hourly histograms.
    fn folded(&self) -> u64 {
        let samples = self.place.path("run/samples");
        let hours = names(&samples)
            .into_iter()
            .find(|name| name.ends_with(".hours"));
        hours
            .and_then(|name| Hours::read(&samples.join(name)).ok()?)
            .map_or(0, |hours| hours.through)
    }

    fn newest_segment(&self) -> Option<(u64, PathBuf)> {
        let samples = self.place.path("run/samples");
        let number = |name: &str| name.rsplit_once(".series.")?.1.parse::<u64>().ok();
        names(&samples)
            .iter()
            .filter_map(|name| Some((number(name)?, samples.join(name))))
            .max()
    }
}

/// Returns the last complete chunk of a segment, and its range of bytes.
fn last_chunk(segment: &[u8]) -> Option<(Range<usize>, Chunk)> {
    let (_, mut begin) = chunk::decode_head(segment).ok()?;
    let mut last = None;
    while let Ok(head) = ChunkHead::decode(&segment[begin..]) {
        let body = begin + CHUNK_HEAD_BYTES;
        let end = body + head.body_bytes;
        let Some(bytes) = segment.get(body..end) else {
            break;
        };
        let mut chunk = Chunk::default();
        if chunk.decode(bytes).is_err() {
            break;
        }
        last = Some((begin..end, chunk));
        begin = end;
    }
    last
}
