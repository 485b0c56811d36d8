//! Tests `tardy import`: output of other tools through the real binary, and what `tardy show` then
//! prints.

use crate::support;

use std::path::{Path, PathBuf};

use serde_json::Value;

use support::made_run::MadeRun;
use support::workplace::{Outcome, Workplace};

pub(crate) fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/import")
        .join(name)
}

/// Imports the test file `name` as `run`.
pub(crate) fn import(place: &Workplace, name: &str, flags: &str) -> Outcome {
    std::fs::copy(sample(name), place.path(name)).unwrap();
    place.tardy(&format!("import {name} --out run {flags}"))
}

#[test]
fn every_sample_is_recognised_and_its_numbers_are_those_of_its_tool() {
    for (name, flags, format, samples, min_us, max_us) in [
        (
            "cyclictest-h.txt",
            "",
            "cyclictest-histogram",
            2_000,
            16.0,
            5_717.0,
        ),
        (
            "cyclictest-H.txt",
            "",
            "cyclictest-histogram",
            1_000,
            18.0,
            98.0,
        ),
        (
            "cyclictest-h-overflow.txt",
            "",
            "cyclictest-histogram",
            600,
            19.0,
            5_323.0,
        ),
        (
            "cyclictest-h.v2.10-layout-synth.txt",
            "--period 1ms",
            "cyclictest-histogram",
            2_000,
            16.0,
            5_717.0,
        ),
        (
            "cyclictest-q.txt",
            "",
            "cyclictest-summary",
            841,
            19.0,
            5_573.0,
        ),
        (
            "cyclictest-v.txt",
            "",
            "cyclictest-verbose",
            502,
            19.0,
            5_480.0,
        ),
        ("cyclictest.json", "", "cyclictest-json", 841, 19.0, 5_573.0),
        ("cyclictest-h.json", "", "cyclictest-json", 400, 19.0, 101.0),
        (
            "jitterdebugger-results.json",
            "",
            "jitterdebugger-json",
            4_000,
            12.0,
            298.0,
        ),
        (
            "jitterdebugger-samples.raw",
            "",
            "jitterdebugger-raw",
            2_000,
            16.0,
            298.0,
        ),
        (
            "jitterdebugger-samples.csv",
            "",
            "jitterdebugger-csv",
            2_000,
            16.0,
            298.0,
        ),
        ("oslat.txt", "", "oslat", 79_485_314, 1.0, 5_604.0),
        ("oslat.json", "", "oslat-json", 79_485_314, 1.0, 5_604.0),
        (
            "rtla-timerlat-hist.docsample.txt",
            "",
            "rtla-timerlat",
            3_000_010,
            0.0,
            24.0,
        ),
        (
            "cyclictest-v-N.txt",
            "",
            "cyclictest-verbose",
            670,
            17.693,
            318.424,
        ),
        (
            "cyclictest-q-N.txt",
            "",
            "cyclictest-summary",
            676,
            16.429,
            89.376,
        ),
        (
            "nuttx-cyclictest.synth.txt",
            "",
            "cyclictest-histogram",
            3_333,
            -3.0,
            151.0,
        ),
        ("pmqtest.json", "", "rt-tests-pairs-json", 1_680, 2.0, 56.0),
        ("pmqtest.txt", "", "rt-tests-pairs", 1_680, 2.0, 56.0),
        (
            "ptsematest.json",
            "",
            "rt-tests-pairs-json",
            1_709,
            2.0,
            71.0,
        ),
        ("sigwaittest.txt", "", "rt-tests-pairs", 1_710, 4.0, 53.0),
        (
            "signaltest.json",
            "",
            "signaltest-json",
            1_000,
            33.0,
            2_482.0,
        ),
        ("signaltest.txt", "", "signaltest", 1_000, 33.0, 2_482.0),
        ("signaltest-v.txt", "", "signaltest", 399, 33.0, 181.0),
        (
            "xenomai-latency.synth.txt",
            "",
            "xenomai-latency",
            30_000,
            0.59,
            203.417,
        ),
        (
            "xenomai-latency-h.synth.txt",
            "",
            "xenomai-latency",
            30_000,
            0.59,
            203.417,
        ),
        ("zyclictest.synth.txt", "", "zyclictest", 5_000, 0.0, 12.0),
        ("values.txt", "--unit us", "values", 2_000, 17.5, 303.9),
        (
            "values.csv",
            "--unit us --column latency_us",
            "values",
            2_000,
            17.5,
            303.9,
        ),
        (
            "values.csv",
            "--unit us --column 2 --period 1ms",
            "values",
            2_000,
            17.5,
            303.9,
        ),
        ("values-f8.npy", "--unit us", "npy", 2_000, 17.5, 303.9),
        ("values-i4.npy", "--unit us", "npy", 2_000, 175.0, 3_039.0),
        (
            "values-records.npy",
            "--unit ns --column latency_ns",
            "npy",
            2_000,
            17.5,
            303.9,
        ),
        (
            "values-records.npy",
            "--unit ns --column 2",
            "npy",
            2_000,
            17.5,
            303.9,
        ),
        ("hdr.hlog", "--unit ns", "hlog", 6_000, 20.015, 59.295),
        ("hdr.hgrm", "--unit us", "hgrm", 3_000, 20.015, 53.535),
    ] {
        let place = Workplace::new();
        let said = import(&place, name, flags).ends_with(0);
        assert!(
            said.stdout.contains(&format!("({format})")),
            "{name}: {}",
            said.stdout
        );
        let record = place.record("run");
        assert_eq!(
            (&record["kind"], &record["imported"]["format"]),
            (&Value::from("imported"), &Value::from(format)),
            "{name}"
        );
        let numbers = place.summary("run")["probes"][0]["numbers"].clone();
        let micros = |key: &str| numbers[key].as_f64().unwrap() / 1e3;
        assert_eq!(
            (
                numbers["samples"].as_u64(),
                micros("min_ns"),
                micros("max_ns")
            ),
            (Some(samples), min_us, max_us),
            "{name}: {numbers}"
        );
        // Every note of the import appears in the run's warnings.
        let shown = place.summary("run")["warnings"].to_string();
        for note in said
            .stdout
            .lines()
            .filter_map(|line| line.strip_prefix("note: "))
        {
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
    assert_eq!(
        record["imported"]["command_line"],
        "cyclictest -i100 -qmu -h 3500 -p95 -t2 -a0-1"
    );
    assert_eq!(place.summary("run")["series"][0]["numbers"]["samples"], 100);
}

#[test]
fn samples_beyond_the_last_bucket_count_as_the_maximum_and_are_named() {
    let place = Workplace::new();
    let said = import(&place, "cyclictest-h.txt", "").ends_with(0);
    let expected = "3 samples of CPU 1 have no bucket in the file: they lie between 200 us and \
                    5.72 ms; charts show them at 5.72 ms";
    assert!(said.stdout.contains(expected), "{}", said.stdout);
    let histogram = counts(&place, "run");
    assert_eq!(
        histogram[1]["counts"].as_array().unwrap().last().unwrap(),
        &serde_json::json!([5_717_000, 3])
    );
}

#[test]
fn what_lies_beyond_the_last_bucket_is_in_no_percentile_and_in_no_count_of_misses() {
    let place = Workplace::new();
    import(&place, "cyclictest-h-overflow.txt", "--period 1ms").ends_with(0);
    let late = place.tardy("show run --deadline 1ms").ends_with(1).stdout;
    assert!(
        late.contains("FAILED: 1 to 300 of 600 due times missed the deadline of 1ms"),
        "{late}"
    );
    let document = place.tardy("show run --deadline 1ms --json").json();
    assert!(
        document["verdict"]["evidence"]["misses_undecided"].as_u64() > Some(0),
        "{document}"
    );
    for series in document["series"].as_array().unwrap() {
        // All samples of CPU 0 are in time.
        assert_eq!(
            series["numbers"]["misses"],
            if series["cpu"] == 0 {
                Value::from(0)
            } else {
                Value::Null
            }
        );
        let percentiles = series["numbers"]["percentiles"].as_array().unwrap();
        assert!(
            percentiles
                .iter()
                .all(|percentile| percentile["value_ns"].as_i64()
                    < series["numbers"]["max_ns"].as_i64()),
            "{series}"
        );
    }
    // Every deadline that is at least the maximum is met.
    place.tardy("show run --deadline 6ms").ends_with(0);
    assert!(
        !place
            .tardy("show run --statistics")
            .ends_with(0)
            .stdout
            .contains("5323.0 [")
    );
    assert!(!place.tardy("compare run run").stdout.contains("5323.0 us "));
    // This run has only extremes.
    std::fs::copy(sample("cyclictest-q.txt"), place.path("q.txt")).unwrap();
    place.tardy("import q.txt --out totals").ends_with(0);
    assert!(
        place
            .tardy("show totals --deadline 1ms")
            .ends_with(1)
            .stdout
            .contains("FAILED: 1 to ")
    );
}

/// For each series, the number of samples with each value, from `tardy export`.
pub(crate) fn counts(place: &Workplace, run: &str) -> Value {
    place
        .tardy(&format!("export {run} --format json"))
        .ends_with(0)
        .json()["histograms"]
        .clone()
}

#[test]
fn both_layouts_of_the_histogram_are_the_same_run() {
    let of = |name: &str| {
        let place = Workplace::new();
        import(&place, name, "").ends_with(0);
        counts(&place, "run")
    };
    assert_eq!(
        of("cyclictest-h.txt"),
        of("cyclictest-h.v2.10-layout-synth.txt")
    );
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
        let rows = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix(&format!("{thread}:")));
        rows.map(|row| {
            row.rsplit(':')
                .next()
                .unwrap()
                .trim()
                .parse::<i64>()
                .unwrap()
                * 1000
        })
        .collect()
    };
    for (series, (thread, interval)) in support::series::all(&place.path("run"))
        .iter()
        .zip([("0", 1_500_000), ("1", 2_000_000)])
    {
        let latencies: Vec<i64> = series
            .samples
            .iter()
            .map(|sample| sample.latency.get())
            .collect();
        assert_eq!(latencies, of_thread(thread));
        let skipped: i64 = latencies.iter().map(|latency| latency / interval).sum();
        assert_eq!(
            (series.counts.skipped as i64, series.counts.expected as i64),
            (skipped, latencies.len() as i64 + skipped)
        );
        assert!(series.counts.is_exact());
    }
}

#[test]
fn an_overrun_of_cyclictests_buffer_is_noticed() {
    let place = Workplace::new();
    let value = |cycle: u64| 20 + cycle % 16_384 * 7919 % 31;
    let lines = |aliased: bool| -> String {
        let of = |cycle: u64| {
            if aliased {
                value(cycle)
            } else {
                value(cycle) + cycle / 16_384 * 5
            }
        };
        let samples = (0..40_000).map(|cycle| format!("{:8}:{cycle:8}:{:8}\n", 0, of(cycle)));
        std::iter::once("Thread 0 Interval: 1000\n".to_owned())
            .chain(samples)
            .collect()
    };
    std::fs::write(place.path("overrun.txt"), lines(true)).unwrap();
    std::fs::write(place.path("whole.txt"), lines(false)).unwrap();
    let overrun = place.tardy("import overrun.txt").ends_with(0);
    assert!(
        overrun.stdout.contains("values repeat 16384 cycles later"),
        "{}",
        overrun.stdout
    );
    assert!(
        !place
            .tardy("import whole.txt")
            .ends_with(0)
            .stdout
            .contains("come again")
    );
}

#[test]
fn lost_cycles_are_lost_and_named() {
    let place = Workplace::new();
    std::fs::write(
        place.path("cut.txt"),
        "Thread 0 Interval: 1000\n0:0:5\n0:1:6\n0:5:7\n",
    )
    .unwrap();
    place.tardy("import cut.txt --out run").ends_with(0);
    let summary = place.summary("run");
    assert_eq!(summary["series"][0]["counts"]["lost"], 3);
    assert_eq!(summary["series"][0]["counts"]["expected"], 6);
}

#[test]
fn a_run_survives_the_way_through_rt_tests_json() {
    let latencies = vec![
        (0..5_000)
            .map(|index| 20_000 + index * 7919 % 30_011)
            .collect(),
        vec![15_500, 2_500_999, 16_000, 16_999],
    ];
    let place = Workplace::new();
    MadeRun::new(latencies.clone()).write(&place.path("run"));
    place
        .tardy("export run --format rt-tests-json --output run.json")
        .ends_with(0);
    place.tardy("import run.json --out again").ends_with(0);
    let again = counts(&place, "again");
    for (series, latencies) in again.as_array().unwrap().iter().zip(&latencies) {
        let mut expected = std::collections::BTreeMap::new();
        latencies
            .iter()
            .for_each(|latency| *expected.entry(latency / 1000 * 1000).or_insert(0) += 1);
        let expected: Vec<(i64, u64)> = expected.into_iter().collect();
        assert_eq!(
            serde_json::from_value::<Vec<(i64, u64)>>(series["counts"].clone()).unwrap(),
            expected
        );
    }
    // The export of the imported run equals the first export, except for the writer and the end
    // time.
    let document = |run: &str| {
        place
            .tardy(&format!("export {run} --format rt-tests-json"))
            .json()
    };
    let (first, second) = (document("run"), document("again"));
    for thread in ["0", "1"] {
        for key in [
            "histogram",
            "cycles",
            "min",
            "max",
            "cpu",
            "interval_ns",
            "missed",
        ] {
            assert_eq!(
                first["thread"][thread][key], second["thread"][thread][key],
                "{thread} {key}"
            );
        }
    }
    assert_eq!(first["start_time"], second["start_time"]);
    // The imported run has the skipped periods of the original run, not an unknown number of them.
    let skipped = |run: &str| place.summary(run)["probes"][0]["counts"]["skipped"].clone();
    assert_eq!(
        (skipped("again"), skipped("run")),
        (Value::from(2), Value::from(2))
    );
    assert!(
        !place
            .tardy("show again")
            .ends_with(0)
            .stdout
            .contains("does not count them")
    );
}

#[test]
fn the_unit_of_cyclictest_is_found_or_asked_for() {
    let place = Workplace::new();
    let verbose = |value: &dyn Fn(u64) -> u64, interval: u64| -> String {
        let samples = (0..6_000).map(|cycle| format!("0:{cycle}:{}\n", value(cycle)));
        std::iter::once(format!("Thread 0 Interval: {interval}\n"))
            .chain(samples)
            .collect()
    };
    let nanos = |cycle: u64| 22_000 + cycle * 7_919 % 3_001;
    std::fs::write(place.path("ns.txt"), verbose(&nanos, 1_000)).unwrap();
    let said = place.tardy("import ns.txt --out ns").ends_with(0);
    assert!(
        said.stdout
            .contains("tardy assumes nanoseconds (ns, cyclictest -N)"),
        "{}",
        said.stdout
    );
    assert_eq!(
        place.summary("ns")["probes"][0]["numbers"]["min_ns"],
        22_000
    );
    assert_eq!(place.summary("ns")["probes"][0]["counts"]["skipped"], 0);
    std::fs::write(
        place.path("us.txt"),
        verbose(&|cycle| nanos(cycle) / 1_000, 1_000),
    )
    .unwrap();
    place.tardy("import us.txt --out us").ends_with(0);
    assert_eq!(
        place.summary("us")["probes"][0]["numbers"]["min_ns"],
        22_000
    );
    // The typical value of this file could be 22 us, as the period of 100 ms allows, or 22 ms.
    for (name, text) in [
        ("v.txt", verbose(&nanos, 100_000)),
        (
            "q.txt",
            "T: 0 ( 1234) P:95 I:100000 C: 500 Min: 19000 Act: 20000 Avg: 23000 Max: 44000\n"
                .to_owned(),
        ),
        (
            "h.txt",
            "# Histogram\n023000 000010\n# Min Latencies: 23000\n# Max Latencies: 23000\n"
                .to_owned(),
        ),
    ] {
        std::fs::write(place.path(name), text).unwrap();
        let asked = place
            .tardy(&format!("import {name} --out unclear"))
            .ends_with(2);
        assert!(
            asked.stderr.contains("could be us or ns")
                && asked.stderr.contains("give --unit us or --unit ns"),
            "{}",
            asked.stderr
        );
        assert!(!place.path("unclear").exists());
        place
            .tardy(&format!("import {name} --unit ns --out {name}-ns"))
            .ends_with(0);
    }
}

#[test]
fn a_mean_that_a_tool_cut_off_is_that_of_its_buckets() {
    let text = "# RTLA timerlat histogram\n# Time unit is microseconds (us)\n# Duration:   0 \
         00:00:10\nIndex   Usr-000   Usr-001\n2             0        40\n3          1000       \
         960\nover:         0         1\ncount:     1000      1001\nmin:          3         \
         2\navg:          2         2\nmax:          3       256\n";
    let place = Workplace::new();
    std::fs::write(place.path("r.txt"), text).unwrap();
    place.tardy("import r.txt --out run").ends_with(0);
    let summary = place.summary("run");
    let mean = |of: &Value| of["numbers"]["mean_ns"].as_f64().unwrap();
    let of_cpu = |cpu: u64| {
        summary["series"]
            .as_array()
            .unwrap()
            .iter()
            .find(|series| series["cpu"] == cpu)
            .map(mean)
            .unwrap()
    };
    let second = (40.0 * 2.0 + 960.0 * 3.0 + 256.0) / 1001.0;
    assert!(
        (of_cpu(0) - 3_000.0).abs() < 1e-6 && (of_cpu(1) - second * 1e3).abs() < 1e-6,
        "{} {}",
        of_cpu(0),
        of_cpu(1)
    );
    let together = (3.0 * 1000.0 + second * 1001.0) / 2001.0 * 1e3;
    assert!((mean(&summary["probes"][0]) - together).abs() < 1e-6);
}

#[test]
fn buckets_of_xenomais_histogram_are_whole_microseconds() {
    let place = Workplace::new();
    import(&place, "xenomai-latency-h.synth.txt", "").ends_with(0);
    let percentiles = place.summary("run")["probes"][0]["numbers"]["percentiles"].clone();
    let values: Vec<i64> = percentiles
        .as_array()
        .unwrap()
        .iter()
        .map(|percentile| percentile["value_ns"].as_i64().unwrap())
        .collect();
    // Counts of the 30000 averages: 254 at 0 us, 28092 at 1 us, 1611 at 2 us, and 43 at 3 us and
    // above.
    assert_eq!(values[..3], [1_000, 2_000, 3_000], "{percentiles}");
}

#[test]
fn a_pipe_is_recognised_like_a_file() {
    let place = Workplace::new();
    let script = format!(
        "cat {} | {} import /dev/stdin --out run",
        sample("cyclictest-h.txt").display(),
        env!("CARGO_BIN_EXE_tardy")
    );
    let done = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(place.path(""))
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    assert_eq!(
        place.summary("run")["probes"][0]["numbers"]["samples"],
        2_000
    );
}

#[test]
fn unreadable_input_names_the_line_and_leaves_nothing() {
    let place = Workplace::new();
    for (name, text, expected) in [
        (
            "h.txt",
            "# Histogram\n000001 000002\n000002 x\n",
            "h.txt: line 3: expected a bucket and its count",
        ),
        (
            "h2.txt",
            "# Histogram\n000001 000002\n000002 1 2\n",
            "h2.txt: line 3: expected 1 counts",
        ),
        (
            "h3.txt",
            "# Histogram\n000001 000002\n",
            "h3.txt: line 2: expected a line `# Min Latencies: ...`",
        ),
        (
            "v.txt",
            "Thread 0 Interval: 1000\n0:0:5\nhello\n",
            "v.txt: line 3: expected `thread: cycle: value`",
        ),
        (
            "v2.txt",
            "Thread 0 Interval: 1000\n0:5:5\n0:4:5\n",
            "v2.txt: line 3: expected cycle 6 or a later cycle of thread 0",
        ),
        (
            "c.json",
            "{\"file_version\": 1,\n\"cmdline\": \"cyclictest\"\n\"x\": 1}",
            "c.json: line 3: expected JSON",
        ),
        (
            "c2.json",
            "{\"file_version\": 1, \"cmdline\": \"cyclictest\"}",
            "expected an object `thread`",
        ),
        (
            "r.xml",
            "<rteval>\n<a>\n</rteval>",
            "r.xml: line 3: expected XML",
        ),
        (
            "t.txt",
            "# Time unit is microseconds (us)\nIndex IRQ-000 Thr-000\n0 1\n",
            "t.txt: line 3: expected 2 counts",
        ),
        (
            "o.txt",
            "oslat V 2.40\n        Core:\t 1 2\n    001 (us):\t 5\n",
            "o.txt: line 3: expected 2 values",
        ),
        (
            "l.hlog",
            "#[Histogram log format version 1.3]\n1,1,1,HISTF!\n",
            "l.hlog: line 2: expected a histogram in base64",
        ),
        (
            "j.csv",
            "0;1.000000000;5\n0;1;5\n",
            "j.csv: line 2: expected `cpu;seconds.nanoseconds;value`",
        ),
        (
            "n.txt",
            "nothing known\n",
            "n.txt: the format is not recognised: ",
        ),
    ] {
        std::fs::write(place.path(name), text).unwrap();
        let refused = place
            .tardy(&format!("import {name} --out run --unit us"))
            .ends_with(2);
        assert!(
            refused.stderr.contains(expected) && refused.stdout.is_empty(),
            "{name}: {}",
            refused.stderr
        );
        std::fs::remove_file(place.path(name)).unwrap();
        assert_eq!(place.names(), Vec::<String>::new(), "{name}");
    }
    let absent = place.tardy("import nowhere.txt").ends_with(2);
    assert!(
        absent.stderr.contains("cannot read nowhere.txt"),
        "{}",
        absent.stderr
    );
}

#[test]
fn several_files_become_a_folder_of_runs_and_no_run_is_overwritten() {
    let place = Workplace::new();
    for name in ["cyclictest-h.txt", "cyclictest-H.txt"] {
        std::fs::copy(sample(name), place.path(name)).unwrap();
    }
    place
        .tardy("import cyclictest-h.txt cyclictest-H.txt --out runs")
        .ends_with(0);
    assert_eq!(
        support::workplace::names(&place.path("runs")),
        ["cyclictest-H", "cyclictest-h"]
    );
    let again = place
        .tardy("import cyclictest-h.txt --out runs/cyclictest-h")
        .ends_with(2);
    assert!(
        again.stderr.contains("never overwritten"),
        "{}",
        again.stderr
    );
    // If the runs have no single samples, the comparison uses order statistics.
    let compared =
        place.tardy("compare runs/cyclictest-h runs/cyclictest-H --quantiles 0.5 --full");
    assert!(
        compared.stdout.contains("bounds by order statistics"),
        "{compared:?}"
    );
}

#[test]
fn extremes_alone_decide_about_a_deadline_and_never_about_a_share() {
    let place = Workplace::new();
    import(&place, "cyclictest-q.txt", "").ends_with(0);
    place.tardy("show run --deadline 6ms").ends_with(0);
    place.tardy("show run --deadline 100us").ends_with(1);
    let share = place
        .tardy("show run --deadline 100us --misses 0.5")
        .ends_with(4);
    assert!(
        share
            .stdout
            .contains("only the extremes of a series are known"),
        "{}",
        share.stdout
    );
}
