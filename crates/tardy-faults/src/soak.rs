//! The tool in long use: all probes at once, and every harmless load in turn, twice. In the second
//! round, the tool must not use more resources than in the first.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::Value;
use tardy_core::histogram::{Budget, Histogram};
use tardy_samples::histogram_file;
use xtask::failure::{Failure, Result, While};
use xtask::workspace;

use crate::fault::{Fault, Ground, Tally};
use crate::folders::{self, Folder};
use crate::place::{PATIENCE, Place, last_line};

pub(crate) const SOAK: Fault = Fault {
    name: "soak",
    done: "a run of an hour (3 minutes in the short form; --soak-for sets another length) with all \
           probes at once, in which all harmless loads run in turn, in two rounds",
    demanded: "the run ends, its counts add up, and nothing is left behind; in the second round, \
               the tool has no more memory (apart from that of its histograms, which is bounded), \
               descriptors, threads and files than in the first",
    attempt: soak,
};

/// Probes that the soak does not use. `app` needs a user's program, and `response` another machine.
const WITH_OTHERS: &[&str] = &["app", "response", "media"];
/// Loads that consist of other loads, and a load that needs a program.
const OF_OTHERS: &[&str] = &["all", "exec", "stress-kernel", "paper-script"];
/// Memory in KiB that buffers may take after the first round.
const GROWTH_KB_MAX: u64 = 1024;
/// Interval between two writes of the tool's histograms, with some margin.
const COUNTS_EVERY: Duration = Duration::from_secs(12);
const SHORT: Duration = Duration::from_secs(180);
const FULL: Duration = Duration::from_secs(3600);

/// Resource usage of the tool at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ToolUse {
    pub(crate) memory_kb: u64,
    /// Memory of the recorder's histograms in KiB. The histograms grow with every new value until
    /// they have used up their budget.
    counts_kb: u64,
    descriptors: u64,
    threads: u64,
    files: u64,
}

fn soak(ground: &Ground) -> Result<Tally> {
    let mut tally = Tally::default();
    let place = ground.place()?;
    let probes = probes(&place, &mut tally)?;
    let loads: Vec<String> = names(&place, "loads", |load| {
        load["by_name_only"] != true && !OF_OTHERS.iter().any(|name| load["name"] == *name)
    })?;
    let length = ground
        .soak_for
        .unwrap_or(if ground.tries(0, 1) == 1 { FULL } else { SHORT });
    let phase = length / (2 * loads.len() as u32);
    let scenario = scenario(&probes, &loads, phase);
    workspace::write(&place.path("soak.toml"), scenario)?;
    let mut running = place.start(
        place.tardy_command("run --scenario soak.toml --keep histogram --quiet --out run"),
    )?;
    let is_measuring = place.wait_until(|| {
        std::fs::metadata(place.path("run/state.jsonl")).is_ok_and(|state| state.len() > 0)
    });
    let (begun, pid, mut counted) = (Instant::now(), running.pid(), Instant::now());
    // The test compares the maximum usage in the two rounds, because usage still grows in the first
    // phases, while buffers fill. The last phase is not checked, because the run may end during a
    // check.
    let mut rounds = [ToolUse::default(); 2];
    while is_measuring && !running.has_ended() && begun.elapsed() + phase < length {
        let round = usize::from(begun.elapsed() > length / 2);
        rounds[round] = rounds[round].of_both(ToolUse::of(pid, &place), u64::max);
        if counted.elapsed() > COUNTS_EVERY {
            rounds[round].counts_kb = counts_kb(&place);
            counted = Instant::now();
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    let outcome = running.end(&place, phase * 3 + PATIENCE)?;
    let (mut wrong, folder) = folders::after(&place, outcome.disgrace(), "run")?;
    if !is_measuring || !matches!(outcome.code, Some(0 | 4)) {
        wrong.push(outcome.ending_and_reason());
    }
    if !folder.is_open() {
        wrong.push(format!("the run does not open: {folder:?}"));
    }
    tally.left_out.extend(absent(&folder));
    wrong.extend(growth(rounds));
    let seen = format!(
        "{} s, {} probes, {} loads, {}: {} then {} KiB of memory (counts: {} then {} KiB), {} \
         descriptors, {} threads",
        length.as_secs(),
        probes.len(),
        loads.len(),
        outcome.ending(),
        rounds[0].memory_kb,
        rounds[1].memory_kb,
        rounds[0].counts_kb,
        rounds[1].counts_kb,
        rounds[1].descriptors,
        rounds[1].threads
    );
    tally.count("soak", seen, wrong);
    Ok(tally)
}

/// Returns the probes whose requirements this machine meets. Each probe is tried alone, in a short
/// run.
fn probes(place: &Place, tally: &mut Tally) -> Result<Vec<String>> {
    let mut usable = Vec::new();
    for probe in names(place, "probes", |_| true)? {
        if WITH_OTHERS.contains(&probe.as_str()) {
            continue;
        }
        let outcome = place.tardy(&format!(
            "run --for 100ms --load none --probe {probe} --quiet --out probe-{probe}"
        ))?;
        match outcome.code {
            Some(0 | 4) => usable.push(probe),
            _ => tally
                .left_out
                .push(format!("{probe}: {}", last_line(&outcome.said))),
        }
    }
    tally
        .left_out
        .push(format!("{}, which need others", WITH_OTHERS.join(", ")));
    Ok(usable)
}

/// Returns the names of those entries of `tardy list` for which `is_wanted` returns true.
fn names(place: &Place, list: &str, is_wanted: impl Fn(&Value) -> bool) -> Result<Vec<String>> {
    let listed = place.tardy(&format!("list {list} --json"))?;
    let document: Value = serde_json::from_str(&listed.printed)
        .while_doing(|| format!("reading the list of {list}"))?;
    let entries = document[list]
        .as_array()
        .ok_or_else(|| Failure::new(format!("tardy list {list} has no {list}")))?;
    let wanted = entries.iter().filter(|entry| is_wanted(entry));
    Ok(wanted
        .filter_map(|entry| Some(entry["name"].as_str()?.to_owned()))
        .collect())
}

/// Returns a scenario with all probes, and with each load alone in a phase, twice.
fn scenario(probes: &[String], loads: &[String], phase: Duration) -> String {
    let probes = probes
        .iter()
        .map(|probe| format!("[[probe]]\nname = \"{probe}\"\nperiod = \"20ms\"\n"));
    let length = phase.as_millis();
    let phases = loads
        .iter()
        .enumerate()
        .map(|(number, load)| (number, load.as_str()));
    let phases = [1, 2].into_iter().flat_map(|round| {
        phases
            .clone()
            .map(move |(number, load)| (round, number, load))
    });
    let phases = phases.map(|(round, number, load)| {
        format!(
            "[[phase]]\nname = \"{round}-{number}-{load}\"\nlength = \"{length}ms\"\nloads = \
             [\"{load}\"]\n"
        )
    });
    format!(
        "name = \"soak\"\nabout = \"Everything that does no harm\"\n{}{}",
        probes.collect::<String>(),
        phases.collect::<String>()
    )
}

/// Returns the loads that did not run on this machine.
fn absent(folder: &Folder) -> BTreeSet<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    folder
        .warnings_of("load-absent")
        .map(|warning| format!("{}: {}", text(&warning["load"]), text(&warning["missing"])))
        .collect()
}

pub(crate) fn growth([first, second]: [ToolUse; 2]) -> Option<String> {
    let more_counts = second.counts_kb.saturating_sub(first.counts_kb);
    let has_grown = second.memory_kb > first.memory_kb + more_counts + GROWTH_KB_MAX
        || second.descriptors > first.descriptors
        || second.threads > first.threads
        || second.files > first.files;
    let was_seen = first.memory_kb > 0 && second.memory_kb > 0;
    (has_grown || !was_seen).then(|| format!("{first:?} at first, {second:?} at last"))
}

/// Returns the size of the tool's histograms in memory, estimated from the histograms that the tool
/// wrote last.
fn counts_kb(place: &Place) -> u64 {
    let names = crate::place::names(&place.path("run/samples"));
    let files = names
        .iter()
        .filter(|name| name.ends_with(".histogram"))
        .map(|name| place.path("run/samples").join(name));
    files
        .filter_map(|file| histogram_file::read(&file))
        .map(|stored| memory_bytes(&stored.histogram))
        .sum::<u64>()
        / 1024
}

/// Returns the size in memory, in bytes, of a recorder's histogram of these values. The histogram
/// has a page for each range of 2048 ns with at least 64 different values, an index of pages, and
/// about 50 bytes for each other value.
fn memory_bytes(histogram: &Histogram) -> u64 {
    let mut values: BTreeMap<i64, u64> = BTreeMap::new();
    histogram.for_each(|value, _| *values.entry(value >> 11).or_default() += 1);
    let mut pages: Vec<(i64, u64)> = values
        .iter()
        .filter(|(_, values)| **values >= 64)
        .map(|(&page, &values)| (page, values))
        .collect();
    pages.truncate(Budget::RECORDER.pages);
    let index = pages.last().map_or(0, |(page, _)| page.unsigned_abs() * 8);
    let in_pages: u64 = pages.iter().map(|(_, values)| values).sum();
    let alone = values.values().sum::<u64>() - in_pages;
    pages.len() as u64 * (16 << 10) + index + alone.min(Budget::RECORDER.values as u64) * 50
}

impl ToolUse {
    pub(crate) fn of(pid: i32, place: &Place) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let memory = status.lines().find_map(|line| {
            line.strip_prefix("VmRSS:")?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        });
        let count = |path: std::path::PathBuf| {
            std::fs::read_dir(path).map_or(0, |entries| entries.count() as u64)
        };
        Self {
            memory_kb: memory.unwrap_or(0),
            counts_kb: 0,
            descriptors: count(format!("/proc/{pid}/fd").into()),
            threads: count(format!("/proc/{pid}/task").into()),
            files: count(place.path("run")) + count(place.path("run/samples")),
        }
    }

    /// Combines each number of this reading with the same number of `other`, by `choose`, for
    /// example `u64::max`.
    pub(crate) fn of_both(self, other: Self, choose: fn(u64, u64) -> u64) -> Self {
        Self {
            memory_kb: choose(self.memory_kb, other.memory_kb),
            counts_kb: choose(self.counts_kb, other.counts_kb),
            descriptors: choose(self.descriptors, other.descriptors),
            threads: choose(self.threads, other.threads),
            files: choose(self.files, other.files),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_in_the_second_round_is_found_and_shrinking_is_none() {
        let first = ToolUse {
            memory_kb: 50_000,
            counts_kb: 9_000,
            descriptors: 20,
            threads: 9,
            files: 30,
        };
        assert_eq!(
            growth([
                first,
                ToolUse {
                    memory_kb: 50_100,
                    threads: 8,
                    ..first
                }
            ]),
            None
        );
        assert_eq!(
            growth([
                first,
                ToolUse {
                    memory_kb: 52_000,
                    counts_kb: 11_000,
                    ..first
                }
            ]),
            None
        );
        for second in [
            ToolUse {
                memory_kb: 52_000,
                ..first
            },
            ToolUse {
                memory_kb: 52_000,
                counts_kb: 9_900,
                ..first
            },
            ToolUse {
                descriptors: 21,
                ..first
            },
            ToolUse {
                threads: 10,
                ..first
            },
            ToolUse { files: 31, ..first },
            ToolUse::default(),
        ] {
            assert!(growth([first, second]).is_some(), "{second:?}");
        }
    }

    #[test]
    fn counts_take_pages_where_values_are_dense_and_some_bytes_each_elsewhere() {
        let mut histogram = Histogram::new(Budget::RECORDER);
        (0..100).for_each(|value| histogram.record(2048 * 3 + value));
        (1..=10).for_each(|value| histogram.record(value * 1_000_000));
        assert_eq!(memory_bytes(&histogram), (16 << 10) + 3 * 8 + 10 * 50);
    }

    #[test]
    fn every_load_has_two_phases_of_its_own() {
        let text = scenario(
            &["cyclic".to_owned()],
            &["io".to_owned(), "fork".to_owned()],
            Duration::from_secs(2),
        );
        assert_eq!(text.matches("[[phase]]").count(), 4);
        assert!(
            text.contains("name = \"2-1-fork\"\nlength = \"2000ms\"\nloads = [\"fork\"]"),
            "{text}"
        );
    }
}
