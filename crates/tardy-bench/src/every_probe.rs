//! Every probe of `tardy list probes` on this machine, with its accounting checked from outside of
//! the tool; what the machine lacks, by the tool's own words.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::figure::{Bench, Figure, FigureResult, row};
use crate::failure::{Failure, Result, While};
use crate::{program, workspace};

pub(crate) const FIGURE: Figure = Figure {
    name: "probes-60s",
    promise: "Every due time of every probe is counted as recorded, skipped or lost",
    measure,
};

/// Probes that run at once, on one clock; all others have a run of their own. Those that occupy a
/// CPU would starve what runs beside them.
const TOGETHER: &[&[&str]] = &[
    &[
        "cyclic",
        "nanosleep",
        "usleep",
        "timerfd",
        "posix-timer",
        "epoll",
        "io-uring",
        "itimer",
        "rtc",
    ],
    &["futex", "eventfd", "pipe", "signal", "mqueue"],
    &["parallel", "work", "app", "media"],
];
/// The exit code for what the machine lacks, and those of a run with numbers.
const ABSENT: i32 = 3;
const MEASURED: [i32; 2] = [0, 4];

/// What became of the probes.
#[derive(Default)]
struct ProbeTable {
    rows: Vec<Vec<String>>,
    series: usize,
    inexact: Vec<String>,
    lacking: Vec<String>,
    failed: Vec<String>,
    commands: Vec<String>,
}

fn measure(bench: &Bench) -> Result<FigureResult> {
    let place = tempfile::tempdir().while_doing(|| "making a temporary folder".to_owned())?;
    let example = example(place.path())?;
    let listed: Value = parsed(&program::capture(
        Command::new(&bench.tardy).args(["list", "probes", "--json"]),
    )?)?;
    let names: Vec<&str> = listed["probes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|probe| probe["name"].as_str())
        .collect();
    let mut requests: Vec<String> = names.iter().map(|name| request(name, &example)).collect();
    // The two players of one probe.
    requests.push("media:player=mpv".to_owned());
    let mut found = ProbeTable::default();
    let mut can_run = Vec::new();
    for request in requests {
        match refusal(bench, place.path(), &request)? {
            None => can_run.push(request),
            Some(text) => found.lack(&request, &text),
        }
    }
    let length = if bench.is_quick { "2s" } else { "60s" };
    for (number, group) in groups(&can_run).into_iter().enumerate() {
        eprintln!("{}", group.join(", "));
        run(bench, place.path(), number, &group, length, &mut found)?;
    }
    let text = |list: &[String]| {
        if list.is_empty() {
            "none".to_owned()
        } else {
            list.join("; ")
        }
    };
    let head = row([
        "series",
        "run",
        "expected",
        "recorded",
        "skipped",
        "lost",
        "unexplained",
    ]);
    Ok(FigureResult {
        reached: format!(
            "exact in {} of {} series of {length}; absent here: {}; failed: {}",
            found.series - found.inexact.len(),
            found.series,
            text(&found.lacking),
            text(&found.failed)
        ),
        commands: found
            .commands
            .iter()
            .map(|line| line.replace(&*example.to_string_lossy(), "loop"))
            .collect(),
        tables: vec![std::iter::once(head).chain(found.rows).collect()],
        notes: vec![
            "Each row has the series of a probe over all its CPUs. Probes with the same number ran \
             at the same time, on one clock."
                .to_owned(),
            "The expected number comes from the clock and the grid, or from the cycles that began. \
             Skipped due times passed while the thread was late: they show the system's latency, \
             and are not lost."
                .to_owned(),
        ],
    })
}

/// As a user would ask for it.
fn request(name: &str, example: &Path) -> String {
    match name {
        "app" => format!("app:command={} 2000 20", example.display()),
        "response" => "response:link=loopback".to_owned(),
        _ => name.to_owned(),
    }
}

/// The groups of those that can run, those that are in none by themselves.
fn groups(requests: &[String]) -> Vec<Vec<String>> {
    let name = |request: &String| request.split(':').next().unwrap_or_default().to_owned();
    // A probe can be asked for once in a run: the second player is by itself.
    let is_second = |request: &String| request.starts_with("media:");
    let in_group = |group: &[&str]| -> Vec<String> {
        requests
            .iter()
            .filter(|request| group.contains(&name(request).as_str()) && !is_second(request))
            .cloned()
            .collect()
    };
    let mut groups: Vec<Vec<String>> = TOGETHER
        .iter()
        .map(|group| in_group(group))
        .filter(|group| !group.is_empty())
        .collect();
    let is_grouped = |request: &String| {
        !is_second(request)
            && TOGETHER
                .iter()
                .any(|group| group.contains(&name(request).as_str()))
    };
    groups.extend(
        requests
            .iter()
            .filter(|request| !is_grouped(request))
            .map(|request| vec![request.clone()]),
    );
    groups
}

/// What the machine lacks for a probe, if it does.
fn refusal(bench: &Bench, folder: &Path, request: &str) -> Result<Option<String>> {
    let mut command = Command::new(&bench.tardy);
    command
        .args([
            "run",
            "--dry-run",
            "--load",
            "none",
            "--for",
            "1s",
            "--probe",
            request,
        ])
        .current_dir(folder);
    let output = program::output(&mut command)?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    match output.status.code() {
        Some(0) => Ok(None),
        Some(ABSENT) => Ok(Some(said)),
        _ => Err(Failure::new(format!(
            "`{}` failed ({}): {said}",
            program::line(&command),
            output.status
        ))),
    }
}

fn run(
    bench: &Bench,
    folder: &Path,
    number: usize,
    group: &[String],
    length: &str,
    found: &mut ProbeTable,
) -> Result<()> {
    let mut command = Command::new(&bench.tardy);
    command
        .args([
            "run",
            "--load",
            "none",
            "--for",
            length,
            "--quiet",
            "--json",
            "--out",
            &format!("run{number}"),
        ])
        .current_dir(folder);
    for request in group {
        command.args(["--probe", request]);
    }
    let output = program::output(&mut command)?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    match output.status.code() {
        Some(code) if MEASURED.contains(&code) => {
            found.commands.push(program::line(&command));
            found.take(
                number + 1,
                &parsed(&String::from_utf8_lossy(&output.stdout))?,
            );
        }
        Some(ABSENT) => group.iter().for_each(|request| found.lack(request, &said)),
        _ => found
            .failed
            .push(format!("{} ({}: {said})", group.join(", "), output.status)),
    }
    Ok(())
}

impl ProbeTable {
    fn lack(&mut self, request: &str, text: &str) {
        let text = text
            .lines()
            .last()
            .unwrap_or_default()
            .trim_start_matches("tardy: ");
        let dash = || "-".to_owned();
        self.rows.push(vec![
            request.to_owned(),
            format!("exit code 3: {text}"),
            dash(),
            dash(),
            dash(),
            dash(),
            dash(),
        ]);
        self.lacking.push(request.to_owned());
    }

    /// The series of a run; those of one name together.
    fn take(&mut self, number: usize, summary: &Value) {
        let series: Vec<&Value> = summary["series"].as_array().into_iter().flatten().collect();
        let mut names: Vec<&str> = series
            .iter()
            .filter_map(|series| series["probe"].as_str())
            .collect();
        names.dedup();
        for name in names {
            let mut sums = [0_u64; 4];
            for one in series.iter().filter(|one| one["probe"] == name) {
                let counts = ["expected", "recorded", "skipped", "lost"]
                    .map(|key| one["counts"][key].as_u64().unwrap_or(u64::MAX / 8));
                sums = std::array::from_fn(|place| sums[place].saturating_add(counts[place]));
                self.series += 1;
                let [expected, recorded, skipped, lost] = counts;
                if expected != recorded + skipped + lost {
                    self.inexact.push(name.to_owned());
                }
            }
            let [expected, recorded, skipped, lost] = sums;
            let unexplained = i128::from(expected)
                - i128::from(recorded)
                - i128::from(skipped)
                - i128::from(lost);
            let counts = sums.map(|sum| sum.to_string());
            self.rows.push(
                [name.to_owned(), number.to_string()]
                    .into_iter()
                    .chain(counts)
                    .chain([unexplained.to_string()])
                    .collect(),
            );
        }
    }
}

fn parsed(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| Failure::new(format!("no JSON ({error}): {text}")))
}

/// The example of a user's loop.
fn example(folder: &Path) -> Result<PathBuf> {
    let (source, binary) = (
        workspace::root().join("include/examples/loop.c"),
        folder.join("loop"),
    );
    program::capture(
        Command::new("cc")
            .args(["-O2", "-o"])
            .args([&binary, &source]),
    )?;
    Ok(binary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_probe_is_in_one_run_and_what_is_not_known_has_one_of_its_own() {
        let requests: Vec<String> = [
            "cyclic",
            "gtod",
            "futex",
            "rtc",
            "media",
            "media:player=mpv",
            "new",
        ]
        .map(str::to_owned)
        .to_vec();
        let groups = groups(&requests);
        assert_eq!(
            groups,
            [
                vec!["cyclic", "rtc"],
                vec!["futex"],
                vec!["media"],
                vec!["gtod"],
                vec!["media:player=mpv"],
                vec!["new"]
            ]
        );
    }

    #[test]
    fn a_count_that_does_not_add_up_is_named() {
        let mut found = ProbeTable::default();
        let series = |recorded: u64| serde_json::json!({"probe": "cyclic", "counts": {"expected": 9, "recorded": recorded, "skipped": 2, "lost": 0}});
        found.take(1, &serde_json::json!({"series": [series(7), series(6)]}));
        assert_eq!((found.series, found.inexact.len()), (2, 1));
        assert_eq!(found.rows, [["cyclic", "1", "18", "13", "4", "0", "1"]]);
    }
}
