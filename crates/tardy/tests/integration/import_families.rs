//! Tests `tardy import` of the layouts that one tool, or related tools, print, each with the values
//! in its file.

use std::fs;

use crate::import::{import, sample};
use crate::support::workplace::Workplace;

/// Expected series, read by hand from the file: probe, CPU, samples; smallest value, mean and
/// largest value in us.
pub(crate) type Row = (&'static str, Option<u64>, u64, f64, Option<f64>, f64);

/// Compares the series of a run, sorted by probe and CPU, with the expected ones.
pub(crate) fn assert_series(place: &Workplace, run: &str, name: &str, expected: &[Row]) {
    let summary = place.summary(run);
    let mut found: Vec<_> = summary["series"]
        .as_array()
        .unwrap()
        .iter()
        .map(|series| {
            let numbers = &series["numbers"];
            let micros = |key: &str| numbers[key].as_f64().map(|nanos| nanos / 1e3);
            (
                series["probe"].as_str().unwrap().to_owned(),
                series["cpu"].as_u64(),
                series["counts"]["recorded"].as_u64().unwrap(),
                micros("min_ns").unwrap(),
                micros("mean_ns"),
                micros("max_ns").unwrap(),
            )
        })
        .collect();
    found.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    assert_eq!(found.len(), expected.len(), "{name}: {found:?}");
    for (found, expected) in found.iter().zip(expected) {
        let (probe, cpu, samples, min, mean, max) = expected;
        assert_eq!(
            (found.0.as_str(), found.1, found.2, found.3, found.5),
            (*probe, *cpu, *samples, *min, *max),
            "{name}: {found:?}"
        );
        if let Some(mean) = mean {
            let value = found.4.unwrap_or(f64::NAN);
            assert!((value - mean).abs() < 5e-4, "{name}: {value} for {mean}");
        }
    }
}

/// The largest value in ns of the only series of a probe.
fn maximum(place: &Workplace, run: &str, probe: &str) -> Option<i64> {
    let summary = place.summary(run);
    let mut series = summary["series"].as_array().unwrap().iter();
    series.find(|series| series["probe"] == probe)?["numbers"]["max_ns"].as_i64()
}

/// The notes of the import, from the run's warnings.
pub(crate) fn notes(place: &Workplace, run: &str) -> String {
    place.summary(run)["warnings"].to_string()
}

#[test]
fn latency_of_xenomai_evl_and_rtai_is_read_by_the_names_of_its_columns() {
    for (name, flags, format, expected) in [
        (
            "latmus.txt",
            "",
            "xenomai-latency",
            ("xenomai-latency", Some(1), 8_000, 1.182, Some(1.316), 3.899),
        ),
        // The rows contain 71,598 of the samples that were taken in 72 s.
        (
            "latmus-g.txt",
            "",
            "xenomai-plot",
            (
                "xenomai-latency",
                Some(1),
                71_598,
                0.205,
                Some(3.097),
                25.51,
            ),
        ),
        // 7.6 * 10^9 samples. The counts in the rows have 32 bits and wrap, so the rows show only
        // 3.3 * 10^9 samples.
        (
            "xenomai-g.txt",
            "",
            "xenomai-plot",
            (
                "xenomai-latency",
                None,
                7_598_950_000,
                0.343,
                Some(1.078),
                23.11,
            ),
        ),
        // Six lines of one second each; the last line is printed twice.
        (
            "rtai-latency.txt",
            "",
            "rtai-latency",
            ("rtai-latency", None, 6_000, -35.4, Some(-8.807_833), 63.125),
        ),
        (
            "rtai-preempt.txt",
            "",
            "rtai-latency",
            ("rtai-latency", None, 2, -34.862, Some(-8.569_8), 51.2),
        ),
    ] {
        let place = Workplace::new();
        let said = import(&place, name, flags).ends_with(0);
        assert!(said.stdout.contains(&format!("({format})")), "{name}");
        assert_series(&place, "run", name, &[expected]);
        // A deadline below the largest value is missed.
        let shown = place.tardy(&format!("show run --deadline {}us", expected.5 * 0.9));
        assert_eq!(shown.code(), 1, "{name}: {}", shown.stdout);
    }
}

#[test]
fn plots_of_xenomai_lose_what_was_added_for_the_axis() {
    let place = Workplace::new();
    let whole = fs::read_to_string(sample("xenomai-g.txt")).unwrap();
    let head = &whole[..whole.find("# Xenomai").unwrap()];
    // A run of one second with 9,900, 80 and 20 samples. In the plot, each row has one sample more,
    // and there is an additional row at each end.
    let text = head
        .replace("211:04:55", "00:00:01")
        .replace("23.110", "2.110")
        + "0 1\n0.5 9901\n1.5 81\n2.5 21\n3 1\n";
    fs::write(place.path("plot"), &text).unwrap();
    place.tardy("import plot --out run").ends_with(0);
    assert_series(
        &place,
        "run",
        "plot",
        &[("xenomai-latency", None, 10_000, 0.343, Some(1.078), 2.11)],
    );
    let counts = crate::import::counts(&place, "run")[0]["counts"].clone();
    // The last row that has samples has 20 of them. One of these samples is the stated maximum,
    // 2.110 us; the other 19 stay at the row's value.
    let expected = serde_json::json!([[0, 9_900], [1_000, 80], [2_000, 19], [2_110, 1]]);
    assert_eq!(counts, expected);
    // The stated maximum lies beyond the last row, which also counts all longer samples.
    let beyond = text.replace("2.110", "90.500");
    fs::write(place.path("beyond"), beyond).unwrap();
    place.tardy("import beyond --out late").ends_with(0);
    let late = place
        .tardy("show late --deadline 80us --misses 0.001")
        .ends_with(4);
    assert!(late.stdout.contains("INCONCLUSIVE"), "{}", late.stdout);
    // With wide buckets (-B), a sample is counted at the end of its bucket.
    let wide = text.replace("2.110", "21.110");
    let wide = wide
        .replace("0.5 ", "5 ")
        .replace("1.5 ", "15 ")
        .replace("2.5 ", "25 ");
    fs::write(place.path("wide"), wide.replace("\n3 1", "\n30 1")).unwrap();
    place.tardy("import wide --out wide.run").ends_with(0);
    let counts = crate::import::counts(&place, "wide.run")[0]["counts"].clone();
    let expected = serde_json::json!([[9_999, 9_900], [19_999, 80], [21_110, 20]]);
    assert_eq!(counts, expected);
    // The last rows are missing.
    let refused = &text[..text.find("2.5 ").unwrap() - 1];
    fs::write(place.path("torn"), refused).unwrap();
    let refused = place.tardy("import torn --out torn.run").ends_with(2);
    assert!(
        refused.stderr.contains("that is not cut off"),
        "{}",
        refused.stderr
    );
}

#[test]
fn latmus_marks_what_is_beyond_its_histogram_and_a_gpio_is_no_timer() {
    let place = Workplace::new();
    let text = fs::read_to_string(sample("latmus-g.txt")).unwrap();
    let open = text
        .replace(
            "# max latency: 25.510\n",
            "# max latency: 150.000\n# sample count: 71598\n",
        )
        .replace("25 1\n", "25+ 1\n")
        .replace("context: user", "context: oob-gpio");
    fs::write(place.path("open"), open).unwrap();
    let said = place.tardy("import open --out run").ends_with(0);
    assert!(
        said.stdout.contains("they lie") || said.stdout.contains("it lies"),
        "{said:?}"
    );
    assert_series(
        &place,
        "run",
        "open",
        &[("xenomai-latency", Some(1), 71_598, 0.205, None, 150.0)],
    );
    let shown = place.tardy("show run").ends_with(0).stdout;
    assert!(shown.contains("round trip"), "{shown}");
}

#[test]
fn lines_whose_columns_nobody_named_are_refused() {
    let place = Workplace::new();
    let text = fs::read_to_string(sample("rtai-latency.txt")).unwrap();
    let no_names: String = text
        .lines()
        .filter(|line| !line.starts_with("RTH"))
        .fold(String::new(), |text, line| text + line + "\n");
    let other = text.replace("ovl max", "new one");
    for (text, expected) in [
        (
            no_names.as_str(),
            "expected an earlier line `RTH|...` with the names of the columns",
        ),
        (&other, "expected known columns"),
        (
            "RTH|---------cpu|ctx switches|-------total\nRTD|           0|        1302|        1302\n",
            "this is switchtest of Xenomai",
        ),
        (
            "== latmus started for core tuning, period=1000 microseconds\n",
            "this is latmus --tune",
        ),
        (
            "FOR 10 TASKS: TIME 669 (ms), SUSP/RES SWITCHES 40000, SWITCH TIME 16726 (ns)\n",
            "this is switches of RTAI",
        ),
    ] {
        fs::write(place.path("text"), text).unwrap();
        let refused = place.tardy("import text --out run").ends_with(2);
        assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    }
    // If the text lacks the lines with the settings, the import of RTAI's latency needs --period.
    let begin = text.find("RTAI Testsuite").unwrap();
    fs::write(place.path("text"), &text[begin..]).unwrap();
    let asked = place.tardy("import text --out run").ends_with(2);
    assert!(asked.stderr.contains("give --period"), "{}", asked.stderr);
    let said = place
        .tardy("import text --out run --period 1ms")
        .ends_with(0);
    assert!(
        said.stdout.contains("at one second per line"),
        "{}",
        said.stdout
    );
}

#[test]
fn linuxcnc_measures_intervals_which_are_no_latencies() {
    let place = Workplace::new();
    import(&place, "linuxcnc-latency.synth.txt", "").ends_with(0);
    assert_series(
        &place,
        "run",
        "linuxcnc",
        &[
            ("linuxcnc-base", None, 2, -14.3, Some(0.0), 13.9),
            ("linuxcnc-servo", None, 2, -7.2, Some(0.0), 9.4),
        ],
    );
    assert!(notes(&place, "run").contains("a constant latency is invisible"));
    let shown = place.tardy("show run").ends_with(0).stdout;
    assert!(shown.contains("interval error"), "{shown}");
}

#[test]
fn histograms_of_osadl_are_read_in_both_of_its_layouts() {
    let place = Workplace::new();
    let said = import(&place, "osadl-dataset.json", "").ends_with(0);
    assert!(said.stdout.contains("(osadl-dataset)"), "{}", said.stdout);
    assert_series(
        &place,
        "run",
        "osadl-dataset.json",
        &[
            // 213 samples are in no row, and the maximum lies beyond the rows.
            ("cyclictest", Some(0), 100_000_000, 2.0, None, 410.0),
            ("cyclictest", Some(1), 99_999_789, 2.0, None, 390.0),
            (
                "cyclictest",
                Some(2),
                100_000_000,
                1.0,
                Some(2.102_427),
                289.0,
            ),
        ],
    );
    let notes = notes(&place, "run");
    assert!(
        notes.contains("213 samples of CPU 0 have no bucket")
            && notes.contains("CPU 1: 211 of the 100000000 requested cycles were not measured"),
        "{notes}"
    );
    assert_eq!(
        place.record("run")["machine"]["kernel"]["release"],
        "5.15.49-rt47"
    );
    // If the maxima are left out, the missing samples may lie anywhere beyond the rows.
    let text = fs::read_to_string(sample("osadl-dataset.json")).unwrap();
    fs::write(place.path("open"), text.replace("\"maxima\"", "\"other\"")).unwrap();
    place.tardy("import open --out open.run").ends_with(0);
    let shown = place
        .tardy("show open.run --deadline 10ms")
        .ends_with(4)
        .stdout;
    assert!(shown.contains("INCONCLUSIVE"), "{shown}");
    for (from, to, expected) in [
        ("microseconds", "fortnights", "give --unit us"),
        (
            "[0, 1, 2, 3,",
            "[0, 1, 3, 2,",
            "ascending buckets in the first row",
        ),
        (
            "[0, 1, 2, 3,",
            "[0, 1, 2,",
            "equally many counts in each other row",
        ),
    ] {
        fs::write(place.path("bad"), text.replacen(from, to, 1)).unwrap();
        let refused = place.tardy("import bad --out bad.run").ends_with(2);
        assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    }
    // The summaries come before the rows.
    let place = Workplace::new();
    import(&place, "cyclictest-h-above.txt", "--period 200us").ends_with(0);
    let expected = (
        "cyclictest",
        Some(0),
        100_000_000,
        7.0,
        Some(10.659_59),
        27.0,
    );
    assert_series(&place, "run", "above", &[expected]);
    let text = fs::read_to_string(sample("cyclictest-h-above.txt")).unwrap();
    let second = text
        .replace("Latencies: 00027", "Latencies: 00028")
        .replace("000028 000000", "000028 000001");
    fs::write(place.path("two"), format!("{text}\n{second}")).unwrap();
    place.tardy("import two --out both").ends_with(2);
    for (part, max) in [("1", 27.0), ("2", 28.0)] {
        let run = format!("part{part}");
        place
            .tardy(&format!("import two --part {part} --out {run}"))
            .ends_with(0);
        let found = place.summary(&run)["series"][0]["numbers"]["max_ns"].as_f64();
        assert_eq!(found, Some(max * 1e3), "{part}");
    }
}

#[test]
fn rteval_of_every_version_is_read_and_says_what_its_maxima_are_worth() {
    let place = Workplace::new();
    import(&place, "rteval-1.synth.xml", "").ends_with(0);
    assert_series(
        &place,
        "run",
        "rteval 1",
        &[
            ("cyclictest", Some(0), 60, 3.0, Some(4.0), 5.0),
            ("cyclictest", Some(1), 60, 3.0, Some(4.1), 6.0),
        ],
    );
    let record = place.record("run");
    assert_eq!(record["machine"]["kernel"]["release"], "2.6.33.7-rt29");
    assert_eq!(record["machine"]["kernel"]["clocksource"], "tsc");
    let command = "cyclictest -i100 -qmu -h 8 -p95 --smp";
    assert_eq!(record["imported"]["command_line"], command);
    assert!(notes(&place, "run").contains("maximum-unsure"));
    assert!(
        place.tardy("show run").stdout.contains("601 s measured") || {
            let shown = place.tardy("show run").stdout;
            shown.contains("10.0 min") || shown.contains("10m") || panic!("{shown}")
        }
    );

    // rteval 2 writes the element `Measurements` and the latency at which cyclictest stopped.
    let text = fs::read_to_string(sample("rteval-1.synth.xml")).unwrap();
    let second = text
        .replace("version=\"1.33\"", "version=\"2.14\"")
        .replace(
            "<cyclictest>\n    <command_line>cyclictest -i100 -qmu -h 8 -p95 --smp</command_line>",
            "<Measurements><cyclictest command_line=\"cyclictest -i100 -qmu -h 8 -p95 --smp -b50\">\
             <abort_report reason=\"breaktrace\"><breaktrace latency_threshold=\"50\" \
             measured_latency=\"73\"/></abort_report>",
        )
        .replace("</cyclictest>", "</cyclictest></Measurements>");
    fs::write(place.path("second"), second).unwrap();
    place.tardy("import second --out broken").ends_with(0);
    assert_series(
        &place,
        "broken",
        "rteval 2",
        &[
            ("cyclictest", Some(0), 61, 3.0, None, 73.0),
            ("cyclictest", Some(1), 60, 3.0, Some(4.1), 6.0),
        ],
    );
    assert!(notes(&place, "broken").contains("stopped at a latency of 73"));
    place.tardy("show broken --deadline 60us").ends_with(1);

    let place = Workplace::new();
    import(&place, "rteval-timerlat.synth.xml", "").ends_with(0);
    assert_series(
        &place,
        "run",
        "timerlat",
        &[
            ("timerlat", Some(0), 180, 0.0, Some(2.0), 3.0),
            ("timerlat", Some(1), 180, 0.0, Some(2.066_667), 9.0),
        ],
    );
    assert!(notes(&place, "run").contains("maximum-unsure"));
    // After a stop, rteval prints the reason but no statistics.
    let text = fs::read_to_string(sample("rteval-timerlat.synth.xml")).unwrap();
    let (head, rest) = text.split_once("      <system").unwrap();
    let (_, end) = rest.split_once("    </timerlat>").unwrap();
    let report = "<stoptrace_report CPU=\"1\"><Thread_latency><latency unit=\"us\">61.2</latency>\
                  </Thread_latency></stoptrace_report>";
    fs::write(
        place.path("stopped"),
        format!("{head}{report}</timerlat>{end}"),
    )
    .unwrap();
    let refused = place.tardy("import stopped --out stopped.run").ends_with(2);
    assert!(
        refused.stderr.contains("rteval leaves them out"),
        "{}",
        refused.stderr
    );
}

#[test]
fn the_latency_at_which_rt_tests_stop_is_one_of_their_thread() {
    let stop = "# Thread Ids: 163350 163351\n# Break thread: 163351\n# Break value: 51\n";
    let place = Workplace::new();
    // In the posted output, the tool printed the thread's line before it counted the latency at
    // which it stopped.
    let deadline = "T: 0 (163350) I:1000 C:  36218 Min:      1 Act:   11 Avg:    6 Max:      33\n\
                    T: 1 (163351) I:1500 C:  24146 Min:      1 Act:    4 Avg:    3 Max:      13\n";
    let samples = "Using 2 cpus.\nThread 0 Interval: 1000\nThread 1 Interval: 1500\n       0:       \
                   0:      33\n       0:       1:       1\n       1:       0:      13\n       1:       \
                   1:       5\n";
    let summary = deadline.replace("I:", "P:80 I:");
    for (name, text, probe, counts) in [
        ("deadline", deadline, "cyclicdeadline", (36_218, 24_146)),
        ("summary", &summary, "cyclictest", (36_218, 24_146)),
        ("verbose", samples, "cyclictest", (2, 3)),
    ] {
        fs::write(place.path(name), format!("{text}{stop}")).unwrap();
        let run = format!("{name}.run");
        place
            .tardy(&format!("import {name} --out {run}"))
            .ends_with(0);
        let expected = [
            (probe, Some(0), counts.0, 1.0, None, 33.0),
            (
                probe,
                Some(1),
                counts.1,
                if name == "verbose" { 5.0 } else { 1.0 },
                None,
                51.0,
            ),
        ];
        assert_series(&place, &run, name, &expected);
    }
    for cut in [1, 2, 9, 17, 18] {
        let whole = format!("{deadline}{stop}");
        fs::write(place.path("cut"), &whole[..whole.len() - cut]).unwrap();
        let made = place.tardy("import cut --out cut.run");
        if cut > 1 {
            made.ends_with(2);
        }
    }
}

/// A histogram in the form in which the source code of `rtla timerlat hist` prints it.
fn rtla_hist(columns: &[&str], rows: &[&[u64]], summary: &[(&str, &[&str])]) -> String {
    let line = |name: &str, values: Vec<String>| {
        let values = values.iter().map(|value| format!("{value:>9} "));
        format!("{name:<6}{}\n", values.collect::<String>())
    };
    let head =
        "# RTLA timerlat histogram\n# Time unit is microseconds (us)\n# Duration:   0 00:01:00\n";
    let names: String = columns.iter().map(|name| format!("   {name}")).collect();
    let mut text = format!("{head}Index{names}\n");
    for row in rows {
        let counts = row[1..].iter().map(u64::to_string).collect();
        text += &line(&row[0].to_string(), counts);
    }
    for (name, values) in summary {
        text += &line(name, values.iter().map(|&value| value.to_owned()).collect());
    }
    text
}

#[test]
fn every_layout_of_rtlas_histogram_is_read_or_refused() {
    let place = Workplace::new();
    let import = |name: &str, text: &str| {
        fs::write(place.path(name), text).unwrap();
        place.tardy(&format!("import {name} --out {name}.run"))
    };
    let rows: &[&[u64]] = &[&[0, 50, 40, 0], &[5, 9, 18, 57], &[10, 1, 2, 3]];
    let summary: &[(&str, &[&str])] = &[
        ("over:", &["0", "0", "0"]),
        ("count:", &["60", "60", "60"]),
        ("min:", &["0", "1", "6"]),
        ("avg:", &["2", "3", "7"]),
        ("max:", &["11", "14", "12"]),
    ];
    let all = "ALL:        IRQ       Thr       Usr\ncount:       60        60        60 \n\
               min:         0         1         6 \navg:         2         3         7 \n\
               max:        11        14        12 \n";
    // Options -u -b 5, with the sums that kernels since 6.10 print.
    let user = ["IRQ-003", "Thr-003", "Usr-003"];
    let whole = rtla_hist(&user, rows, summary);
    let expected = [
        ("timerlat-irq", Some(3), 60, 0.0, Some(2.0), 11.0),
        ("timerlat-thread", Some(3), 60, 1.0, Some(3.0), 14.0),
        ("timerlat-user", Some(3), 60, 6.0, Some(7.0), 12.0),
    ];
    import("user", &format!("{whole}{all}")).ends_with(0);
    assert_series(&place, "user.run", "user", &expected);
    // Options --with-zeros and -n.
    let zeros: &[&[u64]] = &[
        &[0, 50, 40, 0],
        &[5, 9, 18, 57],
        &[10, 1, 2, 3],
        &[15, 0, 0, 0],
    ];
    import("zeros", &rtla_hist(&user, zeros, summary)).ends_with(0);
    assert_series(&place, "zeros.run", "zeros", &expected);
    let nanos = whole.replace("microseconds (us)", "nanoseconds (ns)");
    import("nanos", &nanos).ends_with(0);
    assert_eq!(maximum(&place, "nanos.run", "timerlat-thread"), Some(14));
    // Option --no-summary: the maximum is at most the end of the last row with samples. If samples
    // lie beyond the rows, the file is refused.
    let over: &[(&str, &[&str])] = &[("over:", &["0", "0", "2"])];
    let refused = import("beyond", &rtla_hist(&user, rows, over)).ends_with(2);
    assert!(
        refused.stderr.contains("a line `max:`"),
        "{}",
        refused.stderr
    );
    let none_over: &[(&str, &[&str])] = &[("over:", &["0", "0", "0"])];
    import("no-summary", &rtla_hist(&user, rows, none_over)).ends_with(0);
    let notes_of = |run: &str| notes(&place, run);
    assert!(notes_of("no-summary.run").contains("the upper end of the last row"));
    for probe in ["timerlat-irq", "timerlat-thread"] {
        assert_eq!(
            maximum(&place, "no-summary.run", probe),
            Some(14_000),
            "{probe}"
        );
    }
    // Tracing stopped, and the analysis states a longer thread latency than the table.
    let stop = "rtla timerlat hit stop tracing\n## CPU 3 hit stop tracing, analyzing it ##\n\
                IRQ handler delay:                    27.49 us (65.52 %)\n\
                IRQ latency:                           11.13 us\n\
                ------------------------------------------------------------------------\n\
                  Thread latency:                      41.96 us (100%)\n\
                12 (0.50%) events missed, results might not be accurate\n";
    for (name, sums) in [("stop", ""), ("stop-all", all)] {
        import(name, &format!("{whole}{sums}{stop}")).ends_with(0);
        let run = format!("{name}.run");
        let found = ["timerlat-irq", "timerlat-thread"].map(|probe| maximum(&place, &run, probe));
        assert_eq!(found, [Some(11_000), Some(41_960)], "{name}");
        assert!(notes_of(&run).contains("missed events of the kernel (12 (0.50%))"));
    }
    // If the names of the columns are missing, no number is read as a latency.
    let rows_alone: String = whole
        .lines()
        .skip(4)
        .fold(String::new(), |text, line| text + line + "\n");
    let no_index = whole.replace("Index", "");
    for (name, text) in [("no-header", &rows_alone), ("no-index", &no_index)] {
        let refused = import(name, text).ends_with(2);
        assert!(
            refused.stderr.contains("(of rtla without --no-header"),
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn tables_of_rtla_top_are_read_with_what_follows_them() {
    let place = Workplace::new();
    let table = |elapsed: &str, count: u64, user: &str, max: u64| {
        format!(
            "                                     Timer Latency\n  0 {elapsed}   |          IRQ Timer \
             Latency (us)        |         Thread Timer Latency (us){}\nCPU COUNT      |      cur       \
             min       avg       max |      cur       min       avg       max\n  0 #{count:<9} |        \
             0         0         1        15 |       10         3         9 {max:9}{user}\n\
             ---------------|----------------------------------------|---------------------------------------\n\
             ALL #{count:<6} e0 |                  0         1        15 |                 3         9 {max:9}\n",
            if user.is_empty() {
                ""
            } else {
                "      |    Ret user Timer Latency (us)"
            },
        )
    };
    let user = " |       11         4        10        33";
    let stop = "rtla timerlat hit stop tracing\n## CPU 0 hit stop tracing, analyzing it ##\n\
                Thread latency:   61.50 us (100%)\n\
                unknown number of events missed, results might not be accurate\n";
    let text = table("00:00:11", 900, user, 30) + &table("00:00:12", 1_000, user, 31) + stop;
    fs::write(place.path("top"), &text).unwrap();
    place.tardy("import top --out run").ends_with(0);
    assert_series(
        &place,
        "run",
        "top",
        &[
            ("timerlat-irq", Some(0), 1_000, 0.0, Some(1.0), 15.0),
            ("timerlat-thread", Some(0), 1_000, 3.0, Some(9.0), 61.5),
            ("timerlat-user", Some(0), 1_000, 4.0, Some(10.0), 33.0),
        ],
    );
    assert!(notes(&place, "run").contains("missed events of the kernel (unknown number)"));
    // The file has two runs, because the clock in the header starts again.
    let two = table("00:00:12", 1_000, "", 31) + &table("00:00:01", 90, "", 7);
    fs::write(place.path("two"), two).unwrap();
    let refused = place.tardy("import two --out both").ends_with(2);
    assert!(
        refused.stderr.contains("holds 2 measurements"),
        "{}",
        refused.stderr
    );
    place.tardy("import two --part 2 --out second").ends_with(0);
    assert_eq!(maximum(&place, "second", "timerlat-thread"), Some(7_000));
}
