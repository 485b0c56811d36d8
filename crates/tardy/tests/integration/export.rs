//! Tests every format of `tardy export`, for a run with known samples, as the format's readers
//! receive it.

use crate::support;

use serde_json::json;
use support::made_run::MadeRun;
use support::workplace::{Outcome, Workplace};

/// Two CPUs. One latency of the second CPU skips two due times, and another is early.
fn made() -> MadeRun {
    let machine = json!({
        "host_name": "board\"7\"",
        "kernel": {"release": "6.12.0", "version": "#1 SMP PREEMPT_RT", "architecture": "x86_64", "preemption": {"compiled": "real-time"}},
    });
    let latencies = vec![
        vec![10_000, 12_345, 12_999, 250_000],
        vec![15_500, 2_500_000, -300, 16_000, 16_000],
    ];
    MadeRun {
        machine,
        phases: vec![("idle", 0, 1_000_000), ("io,\"x\"", 1_000_000, 2_000_000)],
        ..MadeRun::new(latencies)
    }
}

fn export(run: &MadeRun, arguments: &str) -> Outcome {
    let place = Workplace::new();
    run.write(&place.path("run"));
    place.tardy(&format!("export run {arguments}"))
}

fn exported(format: &str) -> String {
    let outcome = export(&made(), &format!("--format {format}")).ends_with(0);
    assert_eq!(outcome.stderr, "");
    outcome.stdout
}

#[test]
fn csv_has_every_sample() {
    insta::assert_snapshot!(exported("csv"));
}

#[test]
fn a_dash_is_standard_output_and_no_file() {
    let place = Workplace::new();
    made().write(&place.path("run"));
    let outcome = place
        .tardy("export run --format csv --output -")
        .ends_with(0);
    assert_eq!(
        (outcome.stdout, place.names()),
        (exported("csv"), vec!["run".to_owned()])
    );
}

#[test]
fn csv_of_the_histogram_has_every_value() {
    insta::assert_snapshot!(exported("csv --histogram"));
}

#[test]
fn json_has_the_summary_and_the_counts() {
    insta::assert_snapshot!(exported("json"));
}

#[test]
fn hgrm_is_what_plotters_read() {
    insta::assert_snapshot!(exported("hgrm"));
}

#[test]
fn openmetrics_has_fixed_edges_and_ends_in_eof() {
    insta::assert_snapshot!(exported("openmetrics --deadline 1ms"));
}

#[test]
fn rt_tests_json_has_the_keys_of_cyclictest_in_its_order() {
    let text = export(&made(), "--format rt-tests-json --deadline 1ms")
        .ends_with(0)
        .stdout;
    insta::assert_snapshot!(text);
    // The values that parsers of test systems read.
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let threads = document["num_threads"].as_u64().unwrap();
    for thread in 0..threads {
        let thread = &document["thread"][thread.to_string()];
        assert!(
            ["min", "avg", "max"]
                .iter()
                .all(|key| thread[key].is_number()),
            "{thread}"
        );
    }
    assert_eq!(document["return_code"], 1, "the deadline was missed");
}

#[test]
fn lava_gets_a_signal_a_number_and_a_real_result() {
    insta::assert_snapshot!(exported("lava --deadline 1ms"));
}

#[test]
fn kcidb_gets_an_object_a_number() {
    insta::assert_snapshot!(exported("kcidb --build-id maestro:42 --deadline 1ms"));
    let refused = export(&made(), "--format kcidb").ends_with(2);
    assert!(
        refused.stderr.contains("needs --build-id"),
        "{}",
        refused.stderr
    );
}

#[test]
fn junit_fails_where_the_deadline_was_missed() {
    insta::assert_snapshot!(exported("junit --deadline 1ms"));
}

#[test]
fn markdown_is_verdict_warnings_and_tables() {
    insta::assert_snapshot!(exported("markdown --deadline 1ms"));
}

#[test]
fn npy_holds_a_record_a_sample() {
    let place = Workplace::new();
    made().write(&place.path("run"));
    place
        .tardy("export run --format npy --output run.npy")
        .ends_with(0);
    let bytes = std::fs::read(place.path("run.npy")).unwrap();
    let data = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    assert_eq!((data % 64, bytes.len() - data), (0, 9 * 28));
    let record = |index: usize| &bytes[data + index * 28..data + (index + 1) * 28];
    let latency = |index: usize| i64::from_le_bytes(record(index)[16..24].try_into().unwrap());
    assert_eq!(
        (0..9).map(latency).collect::<Vec<_>>(),
        [
            10_000, 12_345, 12_999, 250_000, 15_500, 2_500_000, -300, 16_000, 16_000
        ]
    );
    let due = |index: usize| i64::from_le_bytes(record(index)[8..16].try_into().unwrap());
    assert_eq!(
        (4..9).map(due).collect::<Vec<_>>(),
        [0, 1_000_000, 4_000_000, 5_000_000, 6_000_000]
    );
    assert_eq!((record(4)[0], record(4)[4], record(5)[24]), (1, 255, 2));
    // The export leaves no temporary file, and a second export replaces the first file.
    place
        .tardy("export run --format npy --output run.npy")
        .ends_with(0);
    assert_eq!(place.names(), ["run", "run.npy"]);
}

/// In formats with series, copies of a probe without a CPU are distinguished and keep their own
/// numbers.
#[test]
fn copies_of_an_unbound_probe_keep_their_own_numbers() {
    let run = MadeRun {
        is_unbound: true,
        ..MadeRun::new(vec![vec![10_000; 3], vec![20_000; 4], vec![30_000; 5]])
    };
    let text = |format: &str| {
        export(&run, &format!("--format {format}"))
            .ends_with(0)
            .stdout
    };
    let csv = text("csv");
    assert_eq!(
        (
            csv.matches("cyclic,,0,idle,").count(),
            csv.matches("cyclic,,2,idle,").count()
        ),
        (3, 5),
        "{csv}"
    );
    assert!(
        text("csv --histogram")
            .ends_with("cyclic,,0,10000,3\ncyclic,,1,20000,4\ncyclic,,2,30000,5\n")
    );
    let json = support::document::read_as(&text("json"), "export");
    assert_eq!(
        (
            &json["histograms"][2]["copy"],
            &json["histograms"][2]["counts"]
        ),
        (&json!(2), &json!([[30_000, 5]]))
    );
    let threads: serde_json::Value = serde_json::from_str(&text("rt-tests-json")).unwrap();
    assert_eq!(
        [0, 1, 2].map(|thread| threads["thread"][thread.to_string()]["max"].clone()),
        [10, 20, 30]
    );
    assert_eq!(threads["thread"]["1"]["copy"], 1);
    let metrics = text("openmetrics");
    for (copy, seconds) in [(0, "0.000010000"), (1, "0.000020000"), (2, "0.000030000")] {
        let line = format!(
            "tardy_latency_max_seconds{{probe=\"cyclic\",cpu=\"\",copy=\"{copy}\"}} {seconds}"
        );
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
    for format in ["lava", "kcidb --build-id a:1"] {
        let text = text(format);
        for (copy, value) in [(0, 10), (1, 20), (2, 30)] {
            let has = |line: &str| {
                line.contains(&format!("cyclic-copy{copy}-max"))
                    && line.contains(&format!("MEASUREMENT={value} "))
            };
            assert!(format != "lava" || text.lines().any(has), "{text}");
            assert!(
                text.contains(&format!("cyclic-copy{copy}-max")),
                "{format}: {text}"
            );
        }
    }
    let kcidb: serde_json::Value = serde_json::from_str(&text("kcidb --build-id a:1")).unwrap();
    let maximum = |copy: u32| {
        let wanted = json!(format!("tardy.made.cyclic-copy{copy}-max"));
        kcidb["tests"]
            .as_array()
            .unwrap()
            .iter()
            .find(|test| test["path"] == wanted)
            .unwrap()["number"]["value"]
            .clone()
    };
    assert_eq!([0, 1, 2].map(maximum), [1e-5, 2e-5, 3e-5]);
    let markdown = text("markdown");
    assert!(
        ["| copy 0 |", "| copy 1 |", "| copy 2 |", "| all |"]
            .iter()
            .all(|label| markdown.contains(label)),
        "{markdown}"
    );
    assert_eq!(
        text("hgrm")
            .lines()
            .filter(|line| line.contains("Total count    =           12"))
            .count(),
        1
    );
    // In the JUnit file, the result of the deadline's test case contains the summary.
    assert!(text("junit").contains("30.0"));
    // In the NumPy array, each record contains the number of the probe's copy.
    let place = Workplace::new();
    run.write(&place.path("run"));
    place
        .tardy("export run --format npy --output run.npy")
        .ends_with(0);
    let bytes = std::fs::read(place.path("run.npy")).unwrap();
    let data = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let copies: Vec<u8> = (0..12).map(|index| bytes[data + index * 28 + 4]).collect();
    assert_eq!(copies, [0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2]);
}

#[test]
fn what_cannot_be_exported_is_said_with_the_remedy() {
    let place = Workplace::new();
    made().write(&place.path("run"));
    for (arguments, expected) in [
        ("export run --format xml", "possible values: csv"),
        ("export nowhere --format csv", "is not a run folder"),
        (
            "export run --format csv --probe nanosleep",
            "no probe `nanosleep`: it has cyclic",
        ),
        ("export run --format kcidb --build-id 42", "ORIGIN:ID"),
    ] {
        let outcome = place.tardy(arguments).ends_with(2);
        assert!(
            outcome.stderr.contains(expected) && outcome.stdout.is_empty(),
            "{arguments}: {}",
            outcome.stderr
        );
    }
    let outcome = place
        .tardy("export run --format csv --output nowhere/run.csv")
        .ends_with(3);
    assert!(
        outcome.stderr.contains("cannot write the export"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_folder_of_runs_becomes_a_file_a_run() {
    let place = Workplace::new();
    for (variant, latency) in [("6.1-none", 11_000), ("6.1-full", 12_000)] {
        let folder = place.path(&format!("lab/{variant}/replica-000"));
        std::fs::create_dir_all(folder.parent().unwrap()).unwrap();
        MadeRun::new(vec![vec![latency; 3]]).write(&folder);
    }
    place.tardy("export lab -f csv -o files").ends_with(0);
    for (variant, latency) in [("6.1-none", "11000"), ("6.1-full", "12000")] {
        let text = std::fs::read_to_string(place.path(&format!("files/{variant}-replica-000.csv")))
            .unwrap();
        assert!(text.contains(latency), "{text}");
    }
    let refused = place.tardy("export lab -f csv").ends_with(2);
    assert!(
        refused.stdout.is_empty() && refused.stderr.contains("--output FOLDER"),
        "{refused:?}"
    );
}
