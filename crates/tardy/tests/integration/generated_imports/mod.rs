//! Tests the import with generated files of the six formats that people import most. The code that
//! writes and reads these files here was written from the source code of the tools, never from that
//! of the importers. `tardy import` and `show` must find the same numbers as these readers.
//! `TARDY_TEST_IMPORTS` sets the number of files per format.

mod cyclictest_histogram;
mod cyclictest_json;
mod cyclictest_text;
mod drawn;
mod oslat;
mod pasted;
mod reading;
mod rteval;
mod rtla;

use std::fs;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use serde_json::Value;

use crate::headline_rules::contradictions;
use crate::support::random_cases::{found_in, wanted};
use crate::support::workplace::{Outcome, Workplace};

use drawn::{File, one_in};
use reading::Reading;

const SEED: u64 = 41;
/// Number of files of each format that every change checks.
const FILES: usize = 20;

type Draw = fn(&mut Pcg64Mcg) -> File;
type Read = fn(&File) -> Vec<Reading>;

struct Format {
    draw: Draw,
    read: Read,
    states_unit: bool,
    is_by_line: bool,
}

/// Describes a format that consists of lines. Logs may put text before each line.
const fn lines(draw: Draw, read: Read, states_unit: bool) -> Format {
    Format {
        draw,
        read,
        states_unit,
        is_by_line: true,
    }
}

/// Describes a JSON or XML format, which states its unit.
const fn document(draw: Draw, read: Read) -> Format {
    Format {
        draw,
        read,
        states_unit: true,
        is_by_line: false,
    }
}

/// An imported file, in a folder that is removed on drop.
struct Imported {
    place: Workplace,
    outcome: Outcome,
}

impl Imported {
    fn new(bytes: &[u8], unit: Option<&str>) -> Self {
        let place = Workplace::new();
        fs::write(place.path("results"), bytes).unwrap();
        let mut arguments = vec!["import", "results", "--out", "run"];
        if let Some(unit) = unit {
            arguments.extend(["--unit", unit]);
        }
        let outcome = place.tardy_with(&arguments);
        Self { place, outcome }
    }

    fn shown(&self, deadline: i64) -> Value {
        let outcome = self
            .place
            .tardy(&format!("show run --json --deadline {deadline}ns"));
        serde_json::from_str(&outcome.stdout).unwrap_or_else(|_| panic!("{outcome:?}"))
    }
}

/// Finds the run's series that corresponds to a reading. Finds nothing if the file and the run
/// disagree about the CPU.
fn series<'a>(shown: &'a Value, reading: &Reading) -> Option<&'a Value> {
    let mut series = shown["series"].as_array().unwrap().iter();
    series.find(|one| one["probe"] == reading.probe && one["cpu"] == serde_json::json!(reading.cpu))
}

/// Returns all differences between the figures of a whole file and those of the run.
fn differences(readings: &[Reading], shown: &Value, deadline: i64) -> Vec<String> {
    let mut found = Vec::new();
    let series_count = shown["series"].as_array().unwrap().len();
    if series_count != readings.len() {
        found.push(format!("{series_count} series, not {}", readings.len()));
    }
    for reading in readings {
        match series(shown, reading) {
            Some(series) => found.extend(reading.differences(series, deadline)),
            None => found.push(format!("{} is missing", reading.name())),
        }
    }
    for probe in shown["probes"].as_array().unwrap() {
        let readings = readings
            .iter()
            .filter(|reading| probe["probe"] == reading.probe);
        let readings: Vec<&Reading> = readings.collect();
        if !readings.is_empty() {
            let merged = Reading::merged(&readings);
            found.extend(merged.differences(probe, deadline));
            if merged.has_histogram {
                found.extend(merged.against_verdict(&probe["verdict"], deadline));
            }
        }
    }
    found
}

/// After the import of a truncated file, returns the series whose maximum is too small. Returns
/// nothing if a warning states that the maximum is a lower bound.
fn shrunk(readings: &[Reading], shown: &Value) -> Vec<String> {
    let warnings = shown["warnings"].to_string();
    if warnings.contains("lower bound") {
        return Vec::new();
    }
    let mut found = Vec::new();
    for reading in readings {
        // Nothing in a file of summary lines shows that a thread's line is missing.
        if !reading.has_histogram && series(shown, reading).is_none() {
            continue;
        }
        let maximum = series(shown, reading).map(|series| &series["numbers"]["max_ns"]);
        let maximum = maximum.and_then(Value::as_i64).unwrap_or(0);
        if maximum < reading.maximum.0 {
            found.push(format!(
                "cut off, {} has the maximum {maximum}, not {}",
                reading.name(),
                reading.maximum.0
            ));
        }
    }
    found
}

/// Chooses a random deadline at the end of a histogram's bucket or inside one.
fn deadline(random: &mut Pcg64Mcg, readings: &[Reading]) -> i64 {
    let rows: Vec<_> = readings.iter().flat_map(|reading| &reading.rows).collect();
    if rows.is_empty() {
        return 1;
    }
    let row = rows[random.random_range(0..rows.len())];
    let inside = random.random_range(row.low..=row.high.max(row.low));
    if one_in(random, 2) { inside } else { row.high }.max(1)
}

/// Generates two random files of a format and checks the result of `compare`.
fn check_comparison(random: &mut Pcg64Mcg, format: &Format) -> Vec<String> {
    let place = Workplace::new();
    let mut import = |name: &str| {
        let file = (format.draw)(random);
        fs::write(place.path("results"), &file.text).unwrap();
        let unit = if file.is_nanoseconds { "ns" } else { "us" };
        let unit = if format.states_unit {
            String::new()
        } else {
            format!(" --unit {unit}")
        };
        let outcome = place.tardy(&format!("import results --out {name}{unit}"));
        let readings = (format.read)(&file);
        (outcome.status.code() == Some(0)).then_some((file.text, readings))
    };
    // Files that `import` refuses are checked elsewhere.
    let (Some((base_text, base)), Some((new_text, new))) = (import("base"), import("new")) else {
        return Vec::new();
    };
    let deadline = deadline(random, &base);
    let line = format!("compare base new --deadline {deadline}ns");
    let outcome = place.tardy(&line);
    let mut found = contradictions(&outcome.stdout, outcome.code());
    let compared = place.tardy(&format!("{line} --format json"));
    let compared: Value = match serde_json::from_str(&compared.stdout) {
        Ok(compared) => compared,
        // Files with only extremes have no distribution to compare.
        Err(_)
            if compared.stderr.contains("only extremes") || compared.stderr.contains("share") =>
        {
            return found;
        }
        Err(_) => return vec![format!("{compared:?}")],
    };
    for table in compared["candidates"][0]["tables"].as_array().unwrap() {
        let of = |readings: &[Reading]| {
            let of_probe = |reading: &&Reading| table["key"]["probe"] == reading.probe;
            let mut chosen: Vec<&Reading> = readings.iter().filter(of_probe).collect();
            // If both runs have a single probe, the probes are compared even if their names differ.
            if chosen.is_empty() {
                chosen = readings.iter().collect();
            }
            Reading::merged(&chosen)
        };
        found.extend(of(&base).against_comparison(&of(&new), table));
    }
    if found.is_empty() {
        return found;
    }
    let lines = found.join("\n");
    vec![format!(
        "{line}: {lines}\n{}\nof\n{base_text}\nand\n{new_text}",
        outcome.stdout
    )]
}

/// Generates a random file, imports it whole and truncated, and returns what is wrong.
fn check(random: &mut Pcg64Mcg, format: &Format) -> Vec<String> {
    let file = (format.draw)(random);
    let readings = (format.read)(&file);
    let bytes = pasted::pasted(random, &file.text, format.is_by_line);
    let unit = match format.states_unit {
        true => None,
        false if file.is_nanoseconds => Some("ns"),
        false => Some("us"),
    };
    let asked = unit.filter(|_| one_in(random, 2));
    let mut imported = Imported::new(&bytes, asked);
    if asked != unit && imported.outcome.stderr.contains("--unit") {
        imported = Imported::new(&bytes, unit);
    }
    let deadline = deadline(random, &readings);
    let is_unknown = |reading: &Reading| reading.maximum.0 == i64::MAX;
    let must_fail = readings.is_empty() || readings.iter().any(is_unknown);
    let mut found = match imported.outcome.status.code() {
        Some(2) if must_fail => Vec::new(),
        Some(0) if !must_fail => differences(&readings, &imported.shown(deadline), deadline),
        Some(0) => shrunk(&readings, &imported.shown(deadline)),
        _ => vec![format!("{:?}", imported.outcome)],
    };
    // Output for a terminal contains one frame after another. If it is truncated, it looks like the
    // output of a shorter run, so the imported maxima must reach only those of the first frame.
    let first = file.text.split('\u{1b}').next().unwrap_or_default();
    let readings = if first.len() < file.text.len() && format.is_by_line {
        cyclictest_text::read(&File {
            text: first.to_owned(),
            ..file
        })
    } else {
        readings
    };
    let kept = random.random_range(1..bytes.len());
    let cut = Imported::new(&bytes[..kept], unit);
    match cut.outcome.status.code() {
        Some(2) => {}
        Some(0) => found.extend(shrunk(&readings, &cut.shown(deadline))),
        _ => found.push(format!("cut off: {:?}", cut.outcome)),
    }
    if !found.is_empty() {
        let lines = found.join("\n");
        let text = String::from_utf8_lossy(&bytes);
        return vec![format!(
            "{lines}\nkept {kept} of {} bytes of\n{text}",
            bytes.len()
        )];
    }
    found
}

#[track_caller]
fn assert_read_right(one: fn(&mut Pcg64Mcg) -> Vec<String>) {
    assert_right(wanted("TARDY_TEST_IMPORTS", FILES), one);
}

#[track_caller]
fn assert_right(files: usize, one: fn(&mut Pcg64Mcg) -> Vec<String>) {
    let found = found_in(files, SEED << 40, one);
    assert!(
        found.is_empty(),
        "{} of {files} files are read wrongly; one:\n{}",
        found.len(),
        found[0]
    );
}

#[test]
fn cyclictest_text_is_read_as_written() {
    assert_read_right(|random| {
        check(
            random,
            &lines(cyclictest_text::draw, cyclictest_text::read, false),
        )
    });
}

#[test]
fn cyclictest_histograms_are_read_as_written() {
    assert_read_right(|random| {
        check(
            random,
            &lines(
                cyclictest_histogram::draw,
                cyclictest_histogram::read,
                false,
            ),
        )
    });
}

#[test]
fn rtla_histograms_are_read_as_written() {
    assert_read_right(|random| check(random, &lines(rtla::draw, rtla::read, true)));
}

#[test]
fn oslat_text_is_read_as_written() {
    assert_read_right(|random| check(random, &lines(oslat::draw, oslat::read, true)));
}

#[test]
fn cyclictest_json_is_read_as_written() {
    assert_read_right(|random| {
        check(
            random,
            &document(cyclictest_json::draw, cyclictest_json::read),
        )
    });
}

#[test]
fn rteval_summaries_are_read_as_written() {
    assert_read_right(|random| check(random, &document(rteval::draw, rteval::read)));
}

const FORMATS: [Format; 6] = [
    lines(cyclictest_text::draw, cyclictest_text::read, false),
    lines(
        cyclictest_histogram::draw,
        cyclictest_histogram::read,
        false,
    ),
    lines(rtla::draw, rtla::read, true),
    lines(oslat::draw, oslat::read, true),
    document(cyclictest_json::draw, cyclictest_json::read),
    document(rteval::draw, rteval::read),
];

#[test]
fn comparisons_of_imports_agree_with_the_files() {
    assert_right(2 * wanted("TARDY_TEST_IMPORTS", FILES), |random| {
        let format = &FORMATS[random.random_range(0..FORMATS.len())];
        check_comparison(random, format)
    });
}

/// Cyclictest prints whole microseconds, which leave a deadline inside a microsecond undecided.
#[test]
fn a_deadline_inside_a_microsecond_is_undecided_and_no_failure() {
    let place = Workplace::new();
    let text = "# Histogram\n000020 000990\n000037 000010\n# Total: 000001000\n# Min Latencies: 00020\n# Avg Latencies: 00020\n# Max Latencies: 00037\n# Histogram Overflows: 00000\n# Histogram Overflow at cycle number:\n# Thread 0:\n";
    fs::write(place.path("results"), text).unwrap();
    place
        .tardy("import results --unit us --period 1ms --out run")
        .ends_with(0);
    let inside = place.tardy("show run --deadline 37.378us").ends_with(4);
    assert!(
        inside
            .stdout
            .contains("0 known misses in 1000 due times; 10 of these due times cannot be judged"),
        "{}",
        inside.stdout
    );
    let shown = place.tardy("show run --deadline 37.378us --json").json();
    assert_eq!(
        shown["probes"][0]["numbers"]["misses_between"],
        serde_json::json!([0, 10])
    );
    let beyond = place.tardy("show run --deadline 36.999us").ends_with(1);
    assert!(
        beyond.stdout.contains("10 of 1000 due times missed"),
        "{}",
        beyond.stdout
    );
    let ladder = place.tardy("show run");
    assert!(
        !ladder.stdout.contains("deadline that held"),
        "a value of 37 us may have been 37.9 us:\n{}",
        ladder.stdout
    );
}
