//! `tardy import`: other tools' output through the real binary, and what `tardy show` then says.

use crate::support;

use std::path::{Path, PathBuf};

use rand::{RngExt, SeedableRng};
use serde_json::Value;
use tardy_core::histogram::Histogram;
use tardy_core::sample::Record;
use tardy_core::series::Descriptor;
use tardy_core::units::Nanos;
use tardy_results::import::sink::Sink;
use tardy_results::import::{FORMATS, Settings, Source, Unit};
use tardy_run::imported::Stated;

use support::made_run::MadeRun;
use support::workplace::{Outcome, Workplace};

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/import").join(name)
}

/// Imports a sample as `run`.
fn import(place: &Workplace, name: &str, flags: &str) -> Outcome {
    std::fs::copy(sample(name), place.path(name)).unwrap();
    place.tardy(&format!("import {name} --out run {flags}"))
}

#[test]
fn every_sample_is_recognised_and_its_numbers_are_those_of_its_tool() {
    for (name, flags, format, samples, min_us, max_us) in [
        ("cyclictest-h.txt", "", "cyclictest-histogram", 2_000, 16.0, 5_717.0),
        ("cyclictest-H.txt", "", "cyclictest-histogram", 1_000, 18.0, 98.0),
        ("cyclictest-h-overflow.txt", "", "cyclictest-histogram", 600, 19.0, 5_323.0),
        ("cyclictest-h.v2.10-layout-synth.txt", "--period 1ms", "cyclictest-histogram", 2_000, 16.0, 5_717.0),
        ("cyclictest-q.txt", "", "cyclictest-summary", 841, 19.0, 5_573.0),
        ("cyclictest-v.txt", "", "cyclictest-verbose", 502, 19.0, 5_480.0),
        ("cyclictest.json", "", "cyclictest-json", 841, 19.0, 5_573.0),
        ("cyclictest-h.json", "", "cyclictest-json", 400, 19.0, 101.0),
        ("jitterdebugger-results.json", "", "jitterdebugger-json", 4_000, 12.0, 298.0),
        ("jitterdebugger-samples.raw", "", "jitterdebugger-raw", 2_000, 16.0, 298.0),
        ("jitterdebugger-samples.csv", "", "jitterdebugger-csv", 2_000, 16.0, 298.0),
        ("oslat.txt", "", "oslat", 79_485_314, 1.0, 5_604.0),
        ("oslat.json", "", "oslat-json", 79_485_314, 1.0, 5_604.0),
        ("rtla-timerlat-hist.docsample.txt", "", "rtla-timerlat", 3_000_010, 0.0, 24.0),
        ("hdr.hlog", "--unit ns", "hlog", 6_000, 20.015, 59.295),
        ("hdr.hgrm", "--unit us", "hgrm", 3_000, 20.015, 53.535),
    ] {
        let place = Workplace::new();
        let said = import(&place, name, flags).ends_with(0);
        assert!(said.stdout.contains(&format!("({format})")), "{name}: {}", said.stdout);
        let record = place.record("run");
        assert_eq!((&record["kind"], &record["imported"]["format"]), (&Value::from("imported"), &Value::from(format)), "{name}");
        let numbers = place.summary("run")["probes"][0]["numbers"].clone();
        let micros = |key: &str| numbers[key].as_f64().unwrap() / 1e3;
        assert_eq!((numbers["samples"].as_u64(), micros("min_ns"), micros("max_ns")), (Some(samples), min_us, max_us), "{name}: {numbers}");
        // Every warning of the import is one of the run.
        let shown = place.summary("run")["warnings"].to_string();
        for note in said.stdout.lines().filter_map(|line| line.strip_prefix("! ")) {
            assert!(shown.contains(&note.replace('"', "\\\"")), "{name}: {note}");
        }
        place.tardy("show run").ends_with(0);
    }
}

#[test]
fn rteval_gives_a_series_a_core_and_the_machine() {
    let place = Workplace::new();
    import(&place, "rteval-summary.synth.xml", "").ends_with(0);
    let record = place.record("run");
    assert_eq!(record["machine"]["kernel"]["release"], "6.18.44");
    assert_eq!(record["machine"]["kernel"]["clocksource"], "tsc");
    assert_eq!(record["imported"]["command_line"], "cyclictest -i100 -qmu -h 3500 -p95 -t2 -a0-1");
    assert_eq!(place.summary("run")["series"][0]["numbers"]["samples"], 100);
}

#[test]
fn samples_beyond_the_last_bucket_count_as_the_maximum_and_are_named() {
    let place = Workplace::new();
    let said = import(&place, "cyclictest-h.txt", "").ends_with(0);
    let expected = "3 samples of cpu 1 have no bucket in the file: they lie between 200.000 us and 5717.000 us, and count as 5717.000 us";
    assert!(said.stdout.contains(expected), "{}", said.stdout);
    let histogram = counts(&place, "run");
    assert_eq!(histogram[1]["counts"].as_array().unwrap().last().unwrap(), &serde_json::json!([5_717_000, 3]));
}

/// Counts by value of each series, as `tardy export` gives them.
fn counts(place: &Workplace, run: &str) -> Value {
    place.tardy(&format!("export {run} --format json")).ends_with(0).json()["histograms"].clone()
}

#[test]
fn both_layouts_of_the_histogram_are_the_same_run() {
    let of = |name: &str| {
        let place = Workplace::new();
        import(&place, name, "").ends_with(0);
        counts(&place, "run")
    };
    assert_eq!(of("cyclictest-h.txt"), of("cyclictest-h.v2.10-layout-synth.txt"));
}

#[test]
fn raw_and_csv_samples_of_jitterdebugger_are_the_same_run() {
    let of = |name: &str| {
        let place = Workplace::new();
        import(&place, name, "").ends_with(0);
        place.tardy("export run --format csv").ends_with(0).stdout
    };
    let raw = of("jitterdebugger-samples.raw");
    assert_eq!(raw, of("jitterdebugger-samples.csv"));
    assert_eq!(raw.lines().count(), 2001);
}

#[test]
fn verbose_samples_come_through_one_by_one_with_the_periods_they_skipped() {
    let place = Workplace::new();
    import(&place, "cyclictest-v.txt", "").ends_with(0);
    let text = std::fs::read_to_string(sample("cyclictest-v.txt")).unwrap();
    let of_thread = |thread: &str| -> Vec<i64> {
        let rows = text.lines().filter_map(|line| line.trim().strip_prefix(&format!("{thread}:")));
        rows.map(|row| row.rsplit(':').next().unwrap().trim().parse::<i64>().unwrap() * 1000).collect()
    };
    for (series, (thread, interval)) in support::series::all(&place.path("run")).iter().zip([("0", 1_500_000), ("1", 2_000_000)]) {
        let latencies: Vec<i64> = series.samples.iter().map(|sample| sample.latency.get()).collect();
        assert_eq!(latencies, of_thread(thread));
        let missed: i64 = latencies.iter().map(|latency| latency / interval).sum();
        assert_eq!((series.counts.missed as i64, series.counts.expected as i64), (missed, latencies.len() as i64 + missed));
        assert!(series.counts.is_exact());
    }
}

#[test]
fn an_overrun_of_cyclictests_buffer_is_noticed() {
    let place = Workplace::new();
    let value = |cycle: u64| 20 + cycle % 16_384 * 7919 % 31;
    let lines = |aliased: bool| -> String {
        let of = |cycle: u64| if aliased { value(cycle) } else { value(cycle) + cycle / 16_384 * 5 };
        let samples = (0..40_000).map(|cycle| format!("{:8}:{cycle:8}:{:8}\n", 0, of(cycle)));
        std::iter::once("Thread 0 Interval: 1000\n".to_owned()).chain(samples).collect()
    };
    std::fs::write(place.path("overrun.txt"), lines(true)).unwrap();
    std::fs::write(place.path("whole.txt"), lines(false)).unwrap();
    let overrun = place.tardy("import overrun.txt").ends_with(0);
    assert!(overrun.stdout.contains("values come again 16384 cycles later"), "{}", overrun.stdout);
    assert!(!place.tardy("import whole.txt").ends_with(0).stdout.contains("come again"));
}

#[test]
fn lost_cycles_are_lost_and_named() {
    let place = Workplace::new();
    std::fs::write(place.path("cut.txt"), "Thread 0 Interval: 1000\n0:0:5\n0:1:6\n0:5:7\n").unwrap();
    place.tardy("import cut.txt --out run").ends_with(0);
    let summary = place.summary("run");
    assert_eq!(summary["series"][0]["counts"]["lost"], 3);
    assert_eq!(summary["series"][0]["counts"]["expected"], 6);
}

#[test]
fn a_run_survives_the_way_through_rt_tests_json() {
    let latencies = vec![(0..5_000).map(|index| 20_000 + index * 7919 % 30_011).collect(), vec![15_500, 2_500_999, 16_000, 16_999]];
    let place = Workplace::new();
    MadeRun::new(latencies.clone()).write(&place.path("run"));
    place.tardy("export run --format rt-tests-json --output run.json").ends_with(0);
    place.tardy("import run.json --out again").ends_with(0);
    let again = counts(&place, "again");
    for (series, latencies) in again.as_array().unwrap().iter().zip(&latencies) {
        let mut expected = std::collections::BTreeMap::new();
        latencies.iter().for_each(|latency| *expected.entry(latency / 1000 * 1000).or_insert(0) += 1);
        let expected: Vec<(i64, u64)> = expected.into_iter().collect();
        assert_eq!(serde_json::from_value::<Vec<(i64, u64)>>(series["counts"].clone()).unwrap(), expected);
    }
    // And what was imported is exported as it was, but for who wrote it and when it ended.
    let document = |run: &str| place.tardy(&format!("export {run} --format rt-tests-json")).json();
    let (first, second) = (document("run"), document("again"));
    for thread in ["0", "1"] {
        for key in ["histogram", "cycles", "min", "max", "cpu", "interval_ns"] {
            assert_eq!(first["thread"][thread][key], second["thread"][thread][key], "{thread} {key}");
        }
    }
    assert_eq!(first["start_time"], second["start_time"]);
}

#[test]
fn what_is_not_in_a_file_is_asked_for() {
    let place = Workplace::new();
    for (name, text, expected) in [
        ("a.hgrm", "Value Percentile TotalCount 1/(1-Percentile)\n1.0 1.0 5\n", "does not say the unit of its values: give --unit"),
        ("v.txt", "0:0:5\n", "does not say the interval of its threads: give --period"),
        ("r.txt", "Index IRQ-000\n0 5\n", "does not say the unit of its values: give --unit us"),
        ("j.json", "{\"version\": 3, \"cpu\": {}}", "give --unit us"),
    ] {
        std::fs::write(place.path(name), text).unwrap();
        let refused = place.tardy(&format!("import {name} --out run")).ends_with(2);
        assert!(refused.stderr.contains(expected), "{name}: {}", refused.stderr);
        assert!(!place.path("run").exists());
    }
}

#[test]
fn unreadable_input_names_the_line_and_leaves_nothing() {
    let place = Workplace::new();
    for (name, text, expected) in [
        ("h.txt", "# Histogram\n000001 000002\n000002 x\n", "h.txt: line 3: expected a bucket and its count"),
        ("h2.txt", "# Histogram\n000001 000002\n000002 1 2\n", "h2.txt: line 3: expected 1 counts"),
        ("h3.txt", "# Histogram\n000001 000002\n", "h3.txt: line 2: expected a line `# Min Latencies: ...`"),
        ("v.txt", "Thread 0 Interval: 1000\n0:0:5\nhello\n", "v.txt: line 3: expected `thread: cycle: value`"),
        ("v2.txt", "Thread 0 Interval: 1000\n0:5:5\n0:4:5\n", "v2.txt: line 3: expected cycle 6 of thread 0"),
        ("c.json", "{\"file_version\": 1,\n\"cmdline\": \"cyclictest\"\n\"x\": 1}", "c.json: line 3: expected JSON"),
        ("c2.json", "{\"file_version\": 1, \"cmdline\": \"cyclictest\"}", "expected an object `thread`"),
        ("r.xml", "<rteval>\n<a>\n</rteval>", "r.xml: line 3: expected XML"),
        ("t.txt", "# Time unit is microseconds (us)\nIndex IRQ-000 Thr-000\n0 1\n", "t.txt: line 3: expected 2 counts"),
        ("o.txt", "oslat V 2.40\n        Core:\t 1 2\n    001 (us):\t 5\n", "o.txt: line 3: expected 2 values"),
        ("l.hlog", "#[Histogram log format version 1.3]\n1,1,1,HISTF!\n", "l.hlog: line 2: expected a histogram in base64"),
        ("j.csv", "0;1.000000000;5\n0;1;5\n", "j.csv: line 2: expected `cpu;seconds.nanoseconds;value`"),
        ("n.txt", "nothing known\n", "n.txt: not recognised: name its format with --as"),
    ] {
        std::fs::write(place.path(name), text).unwrap();
        let refused = place.tardy(&format!("import {name} --out run --unit us")).ends_with(2);
        assert!(refused.stderr.contains(expected) && refused.stdout.is_empty(), "{name}: {}", refused.stderr);
        std::fs::remove_file(place.path(name)).unwrap();
        assert_eq!(place.names(), Vec::<String>::new(), "{name}");
    }
    let absent = place.tardy("import nowhere.txt").ends_with(2);
    assert!(absent.stderr.contains("cannot read nowhere.txt"), "{}", absent.stderr);
}

#[test]
fn several_files_become_a_folder_of_runs_and_no_run_is_overwritten() {
    let place = Workplace::new();
    for name in ["cyclictest-h.txt", "cyclictest-H.txt"] {
        std::fs::copy(sample(name), place.path(name)).unwrap();
    }
    place.tardy("import cyclictest-h.txt cyclictest-H.txt --out runs").ends_with(0);
    assert_eq!(support::workplace::names(&place.path("runs")), ["cyclictest-H", "cyclictest-h"]);
    let again = place.tardy("import cyclictest-h.txt --out runs/cyclictest-h").ends_with(2);
    assert!(again.stderr.contains("never overwritten"), "{}", again.stderr);
    // Without samples a comparison falls back on order statistics.
    let compared = place.tardy("compare runs/cyclictest-h runs/cyclictest-H --quantiles 0.5");
    assert!(compared.stdout.contains("bounds by order statistics"), "{compared:?}");
}

#[test]
fn extremes_alone_decide_about_a_deadline_and_never_about_a_share() {
    let place = Workplace::new();
    import(&place, "cyclictest-q.txt", "").ends_with(0);
    place.tardy("show run --deadline 6ms").ends_with(0);
    place.tardy("show run --deadline 100us").ends_with(1);
    let share = place.tardy("show run --deadline 100us --misses 0.5").ends_with(4);
    assert!(share.stdout.contains("only the extremes are known"), "{}", share.stdout);
}

/// Takes everything and keeps nothing.
struct Nowhere(usize);

impl Sink for Nowhere {
    fn open(&mut self, _: Descriptor) -> std::io::Result<usize> {
        self.0 += 1;
        Ok(self.0 - 1)
    }

    fn push(&mut self, series: usize, _: Record) -> std::io::Result<()> {
        assert!(series < self.0);
        Ok(())
    }

    fn state(&mut self, series: usize, _: Stated) {
        assert!(series < self.0);
    }

    fn whole(&mut self, _: Descriptor, histogram: &Histogram, _: Stated) -> std::io::Result<()> {
        let _ = (histogram.count(), histogram.max());
        self.0 += 1;
        Ok(())
    }
}

#[test]
fn no_damage_to_a_sample_makes_any_reader_panic() {
    let mut random = rand_pcg::Pcg64::seed_from_u64(1);
    for name in support::workplace::names(&sample("")) {
        let mut whole = std::fs::read(sample(&name)).unwrap();
        whole.truncate(20_000);
        for _ in 0..150 {
            let mut bytes = whole.clone();
            for _ in 0..random.random_range(1..6) {
                let at = random.random_range(0..bytes.len());
                match random.random_range(0..5) {
                    0 => bytes[at] = random.random(),
                    1 => bytes.truncate(at.max(1)),
                    2 => drop(bytes.splice(at..at, std::iter::repeat_n(b'9', 25))),
                    3 => drop(bytes.drain(at..(at + 40).min(bytes.len()))),
                    _ => bytes.extend_from_slice(&whole[..at.min(whole.len())]),
                }
                if bytes.is_empty() {
                    bytes.push(b'\n');
                }
            }
            for format in FORMATS {
                for settings in [Settings::default(), Settings { unit: Some(Unit::Us), period: Some(Nanos(1_000_000)) }] {
                    let _ = (format.read)(&mut Source::of_bytes(bytes.clone()), &settings, &mut Nowhere(0));
                }
            }
        }
    }
}
