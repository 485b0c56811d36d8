//! Tests run folders with a removed, truncated, emptied or exchanged file: every command that reads
//! the folder counts all samples of the run, refuses the folder, or warns about missing samples.

use crate::support;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde_json::Value;
use support::machine;
use support::series;
use support::workplace::{Outcome, Workplace, names};
use tardy_samples::hours::{self, Hours};
use tardy_samples::segments::segments_behind;
use tardy_sys::signal;

const DAMAGES: [Damage; 4] = [
    Damage::Removed,
    Damage::Cut,
    Damage::Emptied,
    Damage::Exchanged,
];
const READERS: [&str; 6] = [
    "report hurt --html hurt.html",
    "plot hurt --kind hist -o hurt.csv",
    "compare whole hurt",
    "export hurt --format hgrm --output hurt.hgrm",
    "export hurt --format csv --output hurt.csv",
    "explain hurt",
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Damage {
    Removed,
    Cut,
    Emptied,
    Exchanged,
}

impl Damage {
    /// Damages `file`; `other` is a file of the same kind, with which `file` can be exchanged.
    fn make(self, file: &Path, other: &Path) {
        let open = || File::options().write(true).open(file).unwrap();
        match self {
            Self::Removed => fs::remove_file(file).unwrap(),
            Self::Cut => open()
                .set_len(open().metadata().unwrap().len() / 2)
                .unwrap(),
            Self::Emptied => open().set_len(0).unwrap(),
            Self::Exchanged => {
                let between = file.with_extension("exchanged");
                fs::rename(file, &between).unwrap();
                fs::rename(other, file).unwrap();
                fs::rename(between, other).unwrap();
            }
        }
    }
}

/// A file of the folder, and another file of the same kind.
struct Pair {
    file: PathBuf,
    other: PathBuf,
}

fn line(folder: &str) -> String {
    let last = machine::last_cpu();
    let cpus = format!("{},{last}", last.saturating_sub(1));
    format!(
        "run --until-stopped --period 100us --cpus {cpus} --deadline 10s --disk 3MiB --json --out \
         {folder}"
    )
}

/// Runs the tool to create the folder `whole`, with some samples of each series folded into
/// histograms.
fn make(place: &Workplace) {
    let mut running = place.start(&line("whole"));
    let run = place.path("whole");
    let gave_way = |file: &PathBuf| {
        Hours::read(&hours::path(file)).is_ok_and(|hours| hours.is_some_and(|h| h.through > 0))
    };
    running.until("segments gave way", || {
        let files = series::files(&run);
        (!files.is_empty() && files.iter().all(gave_way)).then_some(())
    });
    running.signal(signal::TERMINATE);
    // Code 1 is possible: a busy machine may fail to store a chunk, and the skipped periods of this
    // chunk count as misses.
    assert!([0, 1, 4].contains(&running.wait().code()));
}

/// Changes the run in `folder` so that it looks like one whose tool was killed.
fn cut_off(folder: &Path) {
    let path = folder.join("run.json");
    let mut record: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    record["state"] = "running".into();
    record["ended_ns"] = Value::Null;
    // Above PID_MAX_LIMIT (2^22), so no process has this ID.
    record["tool"]["process"] = (1 << 30).into();
    for series in record["series"].as_array_mut().unwrap() {
        series["counts"] = Value::Null;
    }
    fs::write(path, record.to_string()).unwrap();
}

fn copy(from: &Path, to: &Path) {
    if to.exists() {
        fs::remove_dir_all(to).unwrap();
    }
    fs::create_dir_all(to.join("samples")).unwrap();
    for name in names(from).iter().filter(|name| *name != "samples") {
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
    for name in names(&from.join("samples")) {
        fs::copy(
            from.join("samples").join(&name),
            to.join("samples").join(&name),
        )
        .unwrap();
    }
}

/// The files to damage, relative to the folder. Of the series' files, only those of the first CPU
/// are listed.
fn pairs(run: &Path) -> Vec<Pair> {
    let files = series::files(run);
    let segments = |file: &Path| -> Vec<PathBuf> {
        let numbers = segments_behind(file, 0).unwrap();
        let path = |number| tardy_samples::segments::segment_path(file, number);
        numbers.into_iter().map(path).collect()
    };
    let (first, last) = (&files[0], files.last().unwrap());
    let (own, others) = (segments(first), segments(last));
    let below = |path: &Path| path.strip_prefix(run).unwrap().to_owned();
    let pair = |file: &Path, other: &Path| Pair {
        file: below(file),
        other: below(other),
    };
    vec![
        pair(&run.join("run.json"), &run.join("state.jsonl")),
        pair(&run.join("state.jsonl"), &run.join("run.json")),
        pair(first, last),
        pair(&hours::path(first), &hours::path(last)),
        pair(&own[0], &others[0]),
        pair(&own[0], own.last().unwrap()),
        pair(own.last().unwrap(), others.last().unwrap()),
    ]
}

/// Number of samples of each series in a summary.
fn samples(summary: &Value) -> Vec<u64> {
    let of = |series: &Value| series["numbers"]["samples"].as_u64().unwrap_or(0);
    summary["series"]
        .as_array()
        .unwrap()
        .iter()
        .map(of)
        .collect()
}

fn warns_of_loss(summary: &Value) -> bool {
    let losses = ["samples-gone", "damaged-file"];
    let is_loss = |warning: &Value| losses.contains(&warning["warning"].as_str().unwrap());
    summary["warnings"].as_array().unwrap().iter().any(is_loss)
}

/// Returns whether the output `shown` contains every sample, warns about missing samples, or
/// refuses the folder.
fn is_honest(shown: &Outcome, whole: &[u64]) -> bool {
    if shown.code() == 2 {
        return !shown.stderr.is_empty();
    }
    let summary = shown.json();
    let now = samples(&summary);
    let has_all = now.len() == whole.len() && now.iter().zip(whole).all(|(now, then)| now >= then);
    has_all || (shown.code() == 4 && warns_of_loss(&summary))
}

/// Resumes `hurt` and then stops the run, if it was not refused.
fn resume(place: &Workplace) -> Outcome {
    let mut running = place.start(&format!("{} --resume", line("hurt")));
    let (run, id) = (place.path("hurt/run.json"), running.pid());
    running.until("it measured, or was refused", || {
        let is_its_own = fs::read_to_string(&run).is_ok_and(|text| {
            text.contains(&format!("\"process\": {id},"))
                || text.contains(&format!("\"process\": {id}\n"))
        });
        (is_its_own || !Path::new(&format!("/proc/{id}/exe")).exists()).then_some(())
    });
    // A refused run has already ended.
    let _ = tardy_sys::process::kill(id, signal::TERMINATE);
    running.wait()
}

#[test]
fn a_damaged_folder_never_counts_fewer_samples_without_a_warning() {
    damage_every_file(false);
}

#[test]
fn a_damaged_folder_of_a_killed_run_never_counts_fewer_samples_without_a_warning() {
    damage_every_file(true);
}

/// Damages each file in each way, and then shows and resumes the run.
fn damage_every_file(is_cut_off: bool) {
    let place = Workplace::new();
    make(&place);
    let (whole, hurt) = (place.path("whole"), place.path("hurt"));
    let had = samples(&place.summary("whole"));
    let pairs = pairs(&whole);
    for Pair { file, other } in &pairs {
        for damage in DAMAGES {
            if damage == Damage::Exchanged && file == other {
                continue;
            }
            let case = format!("{} {damage:?}, cut off: {is_cut_off}", file.display());
            copy(&whole, &hurt);
            if is_cut_off {
                cut_off(&hurt);
            }
            damage.make(&hurt.join(file), &hurt.join(other));
            let shown = place.tardy("show hurt --json");
            let is_last = is_cut_off && is_newest(&whole, file);
            assert!(is_honest(&shown, &had) || is_last, "{case}: {shown:?}");
            for reader in READERS.iter().filter(|_| !is_cut_off) {
                let read = place.tardy(reader);
                assert!(
                    [0, 1, 2, 4].contains(&read.code()),
                    "{case}: {reader}: {read:?}"
                );
            }
            let resumed = resume(&place);
            let after = place.tardy("show hurt --json");
            assert!(
                is_honest(&after, &had) || is_last,
                "{case}: {resumed:?}\nthen {after:?}"
            );
        }
    }
}

/// Returns whether the file is the newest segment. Only the record of the run's end counts the
/// samples of this segment.
fn is_newest(whole: &Path, file: &Path) -> bool {
    let name = whole.join(file);
    series::files(whole).iter().any(|head| {
        let last = segments_behind(head, 0).unwrap().last().copied();
        last.is_some_and(|number| tardy_samples::segments::segment_path(head, number) == name)
    })
}

#[test]
fn as_many_samples_are_missing_as_were_in_the_lost_file() {
    let place = Workplace::new();
    make(&place);
    let file = series::files(&place.path("whole")).remove(0);
    let hours = hours::path(&file);
    let gone = Hours::read(&hours).unwrap().unwrap().samples;
    fs::remove_file(&hours).unwrap();
    let shown = place.tardy("show whole").ends_with(4).stdout;
    assert!(
        shown.contains(&format!(
            "{gone} samples that the run stored are missing from "
        )),
        "{gone}: {shown}"
    );
    let before = names(&place.path("whole/samples"));
    let refused = place
        .tardy(&format!("{} --resume", line("whole")))
        .ends_with(2)
        .stderr;
    assert!(
        refused.contains(&format!(
            "{gone} stored samples are missing: copy the folder"
        )),
        "{gone}: {refused}"
    );
    assert_eq!(names(&place.path("whole/samples")), before);
}
