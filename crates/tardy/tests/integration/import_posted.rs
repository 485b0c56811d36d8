//! Checks that `tardy import` finds the values in files that people posted. The files are
//! unchanged; `tests/data/import-origins.tsv` lists their origins. Also imports minimal texts of
//! the same kinds.

use std::fs;

use crate::import::sample;
use crate::import_families::{Row, assert_series, notes};
use crate::support::workplace::{Outcome, Workplace};

fn posted(name: &str) -> String {
    let path = sample("").with_file_name("import-posted").join(name);
    fs::read_to_string(path).unwrap()
}

/// Imports a text into `run`.
fn import(text: &str, flags: &str) -> (Workplace, Outcome) {
    let place = Workplace::new();
    fs::write(place.path("results"), text).unwrap();
    let outcome = place.tardy(&format!("import results --out run {flags}"));
    (place, outcome)
}

/// File, options, format and series.
type Posted = (&'static str, &'static str, &'static str, &'static [Row]);

const POSTED: &[Posted] = &[
    (
        "cyclictest-wrapped.txt",
        "",
        "cyclictest-summary",
        &[
            ("cyclictest", Some(0), 8_715, 1.0, Some(2.0), 14.0),
            ("cyclictest", Some(1), 5_808, 1.0, Some(2.0), 28.0),
            ("cyclictest", Some(2), 4_355, 1.0, Some(2.0), 15.0),
            ("cyclictest", Some(3), 3_483, 1.0, Some(3.0), 24.0),
        ],
    ),
    (
        "hwlatdetect-report.txt",
        "",
        "hwlatdetect",
        // This file states no value except the largest.
        &[("hwlatdetect", None, 60, 19.0, None, 19.0)],
    ),
    (
        "latmus-in-band.txt",
        "",
        "xenomai-latency",
        &[(
            "xenomai-latency",
            Some(1),
            6_000,
            38.075,
            Some(54.037),
            96.108,
        )],
    ),
    (
        "rtai-collection.txt",
        "--part 1 --period 100us",
        "rtai-latency",
        &[("rtai-latency", None, 40_000, -0.174, None, 23.057)],
    ),
    (
        "rtai-collection.txt",
        "--part 2",
        "rtai-latency",
        &[("rtai-latency", None, 2, -0.105, Some(0.252), 2.466)],
    ),
    (
        "rteval-text.txt",
        "",
        "rteval-text",
        &[
            // The statistics of the 39 other cores, calculated from those of the system.
            ("cyclictest", None, 1_404_452_108, 2.0, None, 56.0),
            ("cyclictest", Some(0), 36_011_847, 2.0, Some(5.4643), 40.0),
        ],
    ),
    (
        "rtla-hist-in-comment.txt",
        "",
        "rtla-timerlat",
        &[
            ("timerlat-irq", Some(1), 1_000, 0.0, Some(1.0), 7.0),
            ("timerlat-irq", Some(2), 999, 0.0, Some(0.0), 3.0),
            ("timerlat-thread", Some(1), 1_000, 3.0, Some(7.0), 21.0),
            ("timerlat-thread", Some(2), 999, 2.0, Some(2.0), 11.0),
            ("timerlat-user", Some(1), 1_000, 4.0, Some(10.0), 24.0),
            ("timerlat-user", Some(2), 999, 3.0, Some(3.0), 15.0),
        ],
    ),
    (
        "rtla-hist-two-rows.txt",
        "",
        "rtla-timerlat",
        &[
            ("timerlat-irq", Some(0), 1, 6.0, Some(6.0), 6.0),
            ("timerlat-thread", Some(0), 1, 21.0, Some(21.0), 21.0),
        ],
    ),
    (
        "rtla-top-none-of-irq.txt",
        "",
        "rtla-timerlat-top",
        &[
            ("timerlat-irq", Some(8), 1, 54.0, Some(54.0), 54.0),
            ("timerlat-thread", Some(2), 1, 161.0, Some(161.0), 161.0),
            ("timerlat-thread", Some(3), 1, 161.0, Some(161.0), 161.0),
        ],
    ),
    (
        "rtla-top-rows-left-out.txt",
        "",
        "rtla-timerlat-top",
        &[
            ("timerlat-irq", None, 1, 4.0, Some(4.0), 4.0),
            ("timerlat-irq", Some(1), 43_200_096, 0.0, Some(1.0), 2.0),
            ("timerlat-irq", Some(127), 43_200_096, 0.0, Some(1.0), 2.0),
            ("timerlat-thread", None, 1, 16.0, Some(16.0), 16.0),
            ("timerlat-thread", Some(1), 43_200_096, 2.0, Some(6.0), 12.0),
            (
                "timerlat-thread",
                Some(127),
                43_200_096,
                2.0,
                Some(5.0),
                11.0,
            ),
        ],
    ),
];

#[test]
fn posted_files_have_their_values() {
    for (name, flags, format, expected) in POSTED {
        let (place, made) = import(&posted(name), flags);
        let made = made.ends_with(0);
        assert!(made.stdout.contains(&format!("({format})")), "{made:?}");
        assert_series(&place, "run", name, expected);
        // A deadline below the largest value is missed.
        let max = expected.iter().map(|row| row.5).fold(0.0, f64::max);
        let deadline = (max * 0.9 * 1e3) as i64;
        let shown = place.tardy(&format!("show run --deadline {deadline}ns"));
        assert_eq!(shown.code(), 1, "{name}: {shown:?}");
    }
}

#[test]
fn an_rtla_histogram_without_a_cpu_has_no_sample() {
    let refused = import(&posted("rtla-osnoise-no-sample.txt"), "").1;
    let refused = refused.ends_with(2);
    assert!(
        refused.stderr.contains("no sample in the whole file"),
        "{refused:?}"
    );
}

#[test]
fn the_stated_maximum_limits_the_widest_bucket_of_rtla() {
    let (place, _) = import(&posted("rtla-hist-in-comment.txt"), "");
    let missed = |deadline: &str| {
        let shown = place.tardy(&format!("show run --json --deadline {deadline}"));
        let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
        let mut series = shown["series"].as_array().unwrap().iter();
        let irq = series.find(|one| one["probe"] == "timerlat-irq" && one["cpu"] == 2);
        let numbers = &irq.unwrap()["numbers"];
        let between = &numbers["misses_between"];
        (
            numbers["misses"].as_u64(),
            [0, 1].map(|end| between[end].as_u64()),
        )
    };
    // All 999 samples lie in the bucket from 0 to 9 us, and the largest is below 4 us.
    assert_eq!(missed("5us"), (Some(0), [None; 2]));
    assert_eq!(missed("2us"), (None, [Some(1), Some(999)]));
    // Percentiles are not shown more precisely than the buckets allow.
    let shown = place.tardy("show run").stdout;
    assert!(!shown.contains("within 0"), "{shown}");
    let width = notes(&place, "run");
    assert!(width.contains("buckets are up to 10.0 us wide"), "{width}");
    // A single row does not show the width of its bucket.
    let text = "Index   Thr-000\n0        100\nover:      0\ncount:   100\nmin:       1\navg:       3\n\
                max:       7\n";
    let (place, made) = import(text, "--unit us");
    made.ends_with(0);
    let counts = crate::import::counts(&place, "run")[0]["counts"].clone();
    assert_eq!(counts, serde_json::json!([[7_000, 100]]));
}

#[test]
fn rows_of_rtla_top_that_were_left_out_leave_its_maximum_unsure_without_the_line_all() {
    let text = posted("rtla-top-rows-left-out.txt");
    let without: String = text.split_inclusive('\n').take(7).collect();
    let (place, made) = import(&without, "");
    made.ends_with(0);
    assert!(notes(&place, "run").contains("rows of rtla's table are missing"));
}

#[test]
fn cores_that_a_report_of_rteval_lacks_count_with_the_system() {
    let report = |version: &str, cores: &str| {
        let system =
            "System:\n Statistics:\n  Samples: 30\n  Mean: 4.0us\n  Min: 2us\n  Max: 56us\n";
        format!("rteval (v{version}) report\nRun time:     0 days 0h 1m 4s\n{system}{cores}")
    };
    let core = "CPU core 1       Priority: 95\n Statistics:\n  Samples: 10\n  Mean: 6.0us\n  Min: 2us\n  \
                Max: 40us\n";
    let (place, made) = import(&report("3.9", core), "");
    made.ends_with(0);
    let expected: &[Row] = &[
        ("cyclictest", None, 20, 2.0, Some(3.0), 56.0),
        ("cyclictest", Some(1), 10, 2.0, Some(6.0), 40.0),
    ];
    assert_series(&place, "run", "rteval", expected);
    assert!(!notes(&place, "run").contains("lower bound"));
    assert!(place.tardy("show run").stdout.contains("64.0 s measured"));
    // The samples of the cores add up to those of the system.
    let all = core.replace("10", "30").replace("40us", "56us");
    let (place, made) = import(&report("3.7", &all), "");
    made.ends_with(0);
    let expected: &[Row] = &[("cyclictest", Some(1), 30, 2.0, None, 56.0)];
    assert_series(&place, "run", "rteval", expected);
    let warnings = notes(&place, "run");
    assert!(
        warnings.contains("omits latencies beyond its last bucket"),
        "{warnings}"
    );
    // In the first file, the statistics of the system are missing; the second file also ends inside
    // a maximum.
    let (place, made) = import(core, "");
    made.ends_with(0);
    assert!(notes(&place, "run").contains("statistics of the whole system are missing"));
    import(&core[..core.len() - 4], "").1.ends_with(2);
}

/// The start of klatency's output, which has more than one line per second.
const KLATENCY: &str = "== Sampling period: 100 us
== Test mode: in-kernel periodic task
RTT|  00:00:00  (in-kernel periodic task, 100 us period, priority 99)
RTH|-----lat min|-----lat avg|-----lat max|-overrun|----lat best|---lat worst
RTD|      -3.250|      -0.846|       3.791|       0|      -4.250|       5.167
RTD|      -0.917|      -0.800|       4.041|       0|      -4.250|       5.167
^CRTD|      -0.920|      -0.801|       9.622|       0|      -4.250|       9.622
";

#[test]
fn the_stated_duration_of_xenomai_overrides_its_lines() {
    let whole = "RTS|      -4.250|      -0.744|       5.167|       0|    00:00:02/00:00:02\n";
    let (place, made) = import(&format!("{KLATENCY}{whole}"), "");
    made.ends_with(0);
    // The line after `^C` has the largest value.
    let expected: &[Row] = &[("xenomai-latency", None, 20_000, -4.25, Some(-0.744), 9.622)];
    assert_series(&place, "run", "klatency", expected);
    assert!(place.tardy("show run").stdout.contains("2.00 s measured"));
    let said = notes(&place, "run");
    assert!(
        said.contains("the file states 2 s, and has 3 lines of data"),
        "{said}"
    );
    // If the line for the whole run is missing, further lines may be missing too.
    let (place, made) = import(KLATENCY, "");
    made.ends_with(0);
    let warnings = notes(&place, "run");
    assert!(
        warnings.contains("the line `RTS|` for the whole run is missing"),
        "{warnings}"
    );
}

#[test]
fn the_line_for_the_whole_run_of_xenomai_makes_up_for_a_damaged_one() {
    let damaged = KLATENCY.replace("       4.041|       0|      -4.250|", "    with");
    let whole = "RTS|      -4.250|      -0.744|       9.622|       0|    00:00:03/00:00:03\n\
                 HSS|    min|         3|     -4.000|      0.100\n\
                 HSS|    avg|     29943|     -0.744|      0.200\n";
    let (place, made) = import(&format!("{damaged}{whole}"), "");
    made.ends_with(0);
    let expected: &[Row] = &[("xenomai-latency", None, 29_943, -4.25, Some(-0.744), 9.622)];
    assert_series(&place, "run", "damaged", expected);
    let said = notes(&place, "run");
    assert!(said.contains("line 6 is damaged"), "{said}");
    let refused = import(&damaged, "").1.ends_with(2);
    assert!(
        refused.stderr.contains("line 6: expected data as in"),
        "{refused:?}"
    );
}

#[test]
fn pairs_of_threads_are_those_of_the_tool_in_their_command_line() {
    let pairs = "#0: ID10047, P99, CPU0, I100; #1: ID10048, P99, CPU0, Cycles 153695\n\
                 #1 -> #0, Min    1, Cur    8, Avg    5, Max   18\n";
    for (above, probe) in [
        ("# pmqtest -Sp99 -i100 -d0\n", "pmqtest"),
        ("$ sudo ./sigwaittest -t -a\n", "sigwaittest"),
        ("pmqtest and ptsematest\n", "thread-pair"),
        ("", "thread-pair"),
    ] {
        let (place, made) = import(&format!("{above}{pairs}"), "");
        made.ends_with(0);
        let expected: &[Row] = &[(probe, Some(0), 153_695, 1.0, Some(5.0), 18.0)];
        assert_series(&place, "run", above, expected);
        let is_unnamed = probe == "thread-pair";
        let said = notes(&place, "run");
        assert_eq!(said.contains("does not show which"), is_unnamed, "{said}");
    }
}

#[test]
fn what_is_left_of_a_known_tool_is_refused_with_its_name() {
    for (text, tool) in [
        (
            "policy: fifo: loadavg: 0.05 0.01 0.00 1/85 1272          Avg:  128 Max:    1177\n",
            "cyclictest",
        ),
        ("# /dev/cpu_dma_latency set to 0us\n", "output of rt-tests"),
        (
            "HSH|--param|--samples-|--average--|---stddev--\n\
             HSS|    avg|   1199957|      1.445|      2.267\n",
            "latency -s of Xenomai without its line `RTS|`",
        ),
        (
            "RTH|     lat min|     lat avg|     lat max|        lost\n\
             RTD|      13.060|      15.092|      23.864|           0\n",
            "switchbench of Xenomai",
        ),
        ("# RTLA timerlat\n", "rtla"),
        (
            "$ latency-histogram --nobase --show\nservo: stream timeout (depth 2002 < 2003)\n",
            "latency-histogram of LinuxCNC",
        ),
        (
            "Iter:      0       1       2\n   0:    20963    1447    1263\n",
            "rt-migrate-test",
        ),
        (
            "Parent pid: 4906\n Task 0 (prio 2) (pid 4907):\n   Max: 21397 us\n   Min: 748 us\n",
            "rt-migrate-test",
        ),
    ] {
        let refused = import(text, "").1.ends_with(2);
        let expected = format!("this is {tool}: ");
        assert!(refused.stderr.contains(&expected), "{refused:?}");
    }
}
