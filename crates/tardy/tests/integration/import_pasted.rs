//! Tests `tardy import` of files as people have them: pasted from logs and mails, truncated, from
//! several runs, or from tools whose output looks alike. An importer once read each of these files,
//! or a similar one, wrongly.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::import::sample;
use crate::support::workplace::Workplace;

fn case(name: &str) -> PathBuf {
    sample("").with_file_name("import-cases").join(name)
}

/// The numbers of a run, by probe and CPU.
fn numbers(place: &Workplace, run: &str) -> Vec<(String, Option<u64>, u64, Value, Value, Value)> {
    let summary = place.summary(run);
    let mut rows: Vec<_> = summary["series"]
        .as_array()
        .unwrap()
        .iter()
        .map(|series| {
            let numbers = &series["numbers"];
            (
                series["probe"].as_str().unwrap().to_owned(),
                series["cpu"].as_u64(),
                series["counts"]["recorded"].as_u64().unwrap(),
                numbers["min_ns"].clone(),
                numbers["mean_ns"].clone(),
                numbers["max_ns"].clone(),
            )
        })
        .collect();
    rows.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    rows
}

/// Number of samples and maximum in us of each series.
fn counts_and_maxima(place: &Workplace, run: &str) -> Vec<(u64, f64)> {
    numbers(place, run)
        .iter()
        .map(|row| (row.2, row.5.as_f64().unwrap() / 1e3))
        .collect()
}

#[test]
fn files_that_were_read_wrongly_have_their_right_values() {
    for (name, flags, format, expected) in [
        // The largest value lies beyond the rows.
        (
            "01_hist_max_beyond_rows.txt",
            "",
            "cyclictest-histogram",
            &[(995, 463.0), (997, 4.0)][..],
        ),
        // Buckets of 5 us.
        (
            "03_rtla_bucket5.txt",
            "",
            "rtla-timerlat",
            &[(60_000, 14.0), (60_001, 9.0)],
        ),
        // The lines look like those of signaltest.
        (
            "05_jitterdebugger_v.txt",
            "",
            "jitterdebugger-text",
            &[
                (593_447, 59.0),
                (593_440, 26.0),
                (593_432, 4_911.0),
                (593_425, 20.0),
            ],
        ),
        (
            "09_xenomai_quiet.txt",
            "",
            "xenomai-latency",
            &[(46_000, 47.333)],
        ),
        // The numbers are counts, not latencies.
        (
            "12_rtla_osnoise_hist.txt",
            "",
            "rtla-osnoise",
            &[(55_214, 20.0), (54_648, 20.0)],
        ),
        (
            "16_ci_log_prefix.txt",
            "",
            "cyclictest-summary",
            &[(540_000, 217.0), (360_000, 340.0)],
        ),
        (
            "17_cyclicdeadline.json",
            "",
            "cyclicdeadline-json",
            &[(60_001, 3_041.0), (40_001, 3_042.0)],
        ),
        ("25_hwlatdetect.txt", "", "hwlatdetect", &[(3, 48.0)]),
        (
            "26_rtla_hist_indented.txt",
            "",
            "rtla-timerlat",
            &[(60_000, 2.0), (60_001, 1.0)],
        ),
        (
            "31_ns_histogram_all_overflow.txt",
            "--unit ns",
            "cyclictest-histogram",
            &[(1_000, 1_565.558)],
        ),
        (
            "33_hgrm_indented_comments.txt",
            "--unit us",
            "hgrm",
            &[(1_000, 28.8)],
        ),
    ] {
        let place = Workplace::new();
        fs::copy(case(name), place.path(name)).unwrap();
        let made = place
            .tardy(&format!("import {name} --out run {flags}"))
            .ends_with(0);
        assert!(
            made.stdout.contains(&format!("({format})")),
            "{}",
            made.stdout
        );
        assert_eq!(counts_and_maxima(&place, "run"), expected, "{name}");
        // Every deadline below the largest value is missed.
        let max = expected.iter().map(|&(_, max)| max).fold(0.0, f64::max);
        let shown = place.tardy(&format!("show run --deadline {}us", max * 0.9));
        assert_ne!(shown.code(), 0, "{name}: {}", shown.stdout);
    }
}

#[test]
fn what_the_numbers_depend_on_is_taken_from_the_file_or_asked_for() {
    let place = Workplace::new();
    let import = |name: &str, flags: &str| {
        fs::copy(case(name), place.path(name)).unwrap();
        place.tardy(&format!("import {name} --out {name}.run {flags}"))
    };
    // All samples lie beyond the rows, at about 6,868. This value can be in us or in ns.
    let asked = import("31_ns_histogram_all_overflow.txt", "").ends_with(2);
    assert!(
        asked.stderr.contains("give --unit us or --unit ns"),
        "{}",
        asked.stderr
    );
    import("33_hgrm_indented_comments.txt", "--unit us").ends_with(0);
    let summary = place.summary("33_hgrm_indented_comments.txt.run");
    let median = summary["series"][0]["numbers"]["percentiles"]
        .as_array()
        .unwrap()
        .iter()
        .find(|percentile| percentile["probability"] == 0.5)
        .map(|percentile| percentile["value_ns"].clone());
    assert_eq!(median, Some(11_167.into()), "{summary}");
    // The file states period and length.
    import("09_xenomai_quiet.txt", "").ends_with(0);
    import("26_rtla_hist_indented.txt", "").ends_with(0);
    import("17_cyclicdeadline.json", "").ends_with(0);
    let shown = |name: &str| place.tardy(&format!("show {name}.run")).stdout;
    assert!(shown("09_xenomai_quiet.txt").contains("every 1ms, 46.0 s measured"));
    assert!(shown("26_rtla_hist_indented.txt").contains("60.0 s measured"));
    let deadline = shown("17_cyclicdeadline.json");
    assert!(deadline.contains("60.0 s measured"), "{deadline}");
}

/// A name, and a function that changes a text.
type Decoration = (&'static str, fn(&str) -> Vec<u8>);

/// Changes that logs, mails and editors make to a text.
fn decorations() -> Vec<Decoration> {
    fn each_line(text: &str, before: &str, after: &str) -> Vec<u8> {
        text.lines()
            .map(|line| format!("{before}{line}{after}\n"))
            .collect::<String>()
            .into_bytes()
    }
    fn utf_16(text: &str, of: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(of).collect()
    }
    vec![
        ("indented", |text| each_line(text, "    ", "")),
        ("CRLF", |text| each_line(text, "", "\r")),
        ("byte order mark", |text| {
            [b"\xef\xbb\xbf", text.as_bytes()].concat()
        }),
        ("UTF-16", |text| {
            [&b"\xff\xfe"[..], &utf_16(text, u16::to_le_bytes)].concat()
        }),
        ("UTF-16, big-endian", |text| {
            [&b"\xfe\xff"[..], &utf_16(text, u16::to_be_bytes)].concat()
        }),
        ("quoted mail", |text| each_line(text, "> > ", "")),
        ("kubectl", |text| {
            each_line(text, "2026-07-15T22:56:02.100000Z ", "")
        }),
        ("container", |text| {
            each_line(text, "2026-07-15T22:56:02.1+02:00 stdout F ", "")
        }),
        ("journald", |text| {
            each_line(text, "Jul 15 22:56:02 board7 cyclictest[437]: ", "")
        }),
        ("journald, ISO", |text| {
            each_line(text, "2026-07-15T22:56:02+0200 board7 sh[437]: ", "")
        }),
        ("Jenkins", |text| {
            each_line(text, "[2026-07-15T22:56:02.100Z] ", "")
        }),
        ("dmesg", |text| each_line(text, "[  123.456789] ", "")),
        ("GitLab", |text| {
            each_line(text, "2026-07-15T22:56:02.100000Z 00O ", "")
        }),
        ("Compose", |text| each_line(text, "rt-test-1  | ", "")),
        ("escapes", |text| {
            each_line(text, "\x1b[2K\x1b[0m", "\x1b[K")
        }),
        ("LAVA", |text| {
            text.lines()
                .map(|line| {
                    let message = Value::from(line);
                    format!(
                        "- {{\"dt\": \"2026-07-15T22:56:02.1\", \"lvl\": \"target\", \"msg\": \
                         {message}}}\n"
                    )
                })
                .collect::<String>()
                .into_bytes()
        }),
    ]
}

/// Files that people may paste into a log or a mail, and the options to import them.
const PASTED: &[(&str, &str)] = &[
    ("cyclictest-h.txt", ""),
    ("cyclictest-H.txt", ""),
    ("cyclictest-q.txt", ""),
    ("cyclictest-v.txt", ""),
    ("cyclictest.json", ""),
    ("cyclictest-h.json", ""),
    ("jitterdebugger-results.json", ""),
    ("oslat.txt", ""),
    ("oslat.json", ""),
    ("pmqtest.txt", ""),
    ("ptsematest.json", ""),
    ("signaltest.txt", ""),
    ("rteval-summary.synth.xml", ""),
    ("rtla-timerlat-hist.docsample.txt", ""),
    ("xenomai-latency-h.synth.txt", ""),
    ("latmus.txt", ""),
    ("latmus-g.txt", ""),
    ("xenomai-g.txt", ""),
    ("rtai-latency.txt", ""),
    ("rtai-preempt.txt", ""),
    ("linuxcnc-latency.synth.txt", ""),
    ("osadl-dataset.json", ""),
    ("cyclictest-h-above.txt", ""),
    ("rteval-1.synth.xml", ""),
    ("rteval-timerlat.synth.xml", ""),
    ("zyclictest.synth.txt", ""),
    ("hdr.hgrm", "--unit us"),
    ("values.txt", "--unit us"),
];

#[test]
fn a_pasted_text_gives_the_numbers_of_the_file() {
    for (name, flags) in PASTED {
        let place = Workplace::new();
        let plain = fs::read_to_string(sample(name)).unwrap();
        fs::write(place.path("plain"), &plain).unwrap();
        place
            .tardy(&format!("import plain --out run {flags}"))
            .ends_with(0);
        let expected = numbers(&place, "run");
        for (what, decorated) in decorations() {
            fs::write(place.path("pasted"), decorated(&plain)).unwrap();
            let made = place.tardy(&format!("import pasted --out pasted.run {flags}"));
            assert_eq!(made.code(), 0, "{name}, {what}: {}", made.stderr);
            assert_eq!(numbers(&place, "pasted.run"), expected, "{name}, {what}");
            fs::remove_dir_all(place.path("pasted.run")).unwrap();
        }
    }
}

#[test]
fn two_runs_in_one_file_are_told_apart() {
    let read = |name: &str| fs::read_to_string(sample(name)).unwrap();
    let cases = |name: &str| fs::read_to_string(case(name)).unwrap();
    let more = cases("16_ci_log_prefix.txt")
        .replace("( 437)", "( 991)")
        .replace("  437", "  991");
    for (first, second, flags) in [
        (
            read("cyclictest-h.txt"),
            read("cyclictest-h-overflow.txt"),
            "",
        ),
        (read("cyclictest-q.txt"), more, ""),
        (cases("17_cyclicdeadline.json"), read("cyclictest.json"), ""),
        (
            cases("03_rtla_bucket5.txt"),
            read("rtla-timerlat-hist.docsample.txt"),
            "",
        ),
        (cases("25_hwlatdetect.txt"), cases("25_hwlatdetect.txt"), ""),
        (read("latmus.txt"), read("latmus.txt"), ""),
        (read("latmus-g.txt"), read("xenomai-g.txt"), ""),
        (read("rtai-latency.txt"), read("rtai-preempt.txt"), ""),
        (
            read("linuxcnc-latency.synth.txt"),
            read("linuxcnc-latency.synth.txt"),
            "",
        ),
        (
            read("hdr.hgrm"),
            cases("33_hgrm_indented_comments.txt"),
            "--unit us",
        ),
    ] {
        let place = Workplace::new();
        fs::write(place.path("second"), &second).unwrap();
        fs::write(place.path("both"), format!("{first}\n{second}")).unwrap();
        let refused = place
            .tardy(&format!("import both --out run {flags}"))
            .ends_with(2);
        assert!(
            refused.stderr.contains("holds 2 measurements, at lines ")
                && refused.stderr.contains("--part 1"),
            "{}",
            refused.stderr
        );
        assert!(!place.path("run").exists());
        place
            .tardy(&format!("import second --out alone {flags}"))
            .ends_with(0);
        let part = place.tardy(&format!("import both --part 2 --out run {flags}"));
        // If the file begins with a JSON document, the whole file is read as JSON.
        if !first.starts_with('{') {
            part.ends_with(0);
            assert_eq!(numbers(&place, "run"), numbers(&place, "alone"));
        }
        place
            .tardy(&format!("import both --part 3 --out third {flags}"))
            .ends_with(2);
    }
    let place = Workplace::new();
    fs::copy(sample("oslat.txt"), place.path("one")).unwrap();
    place.tardy("import one --part 1 --out run").ends_with(0);
    place.tardy("import one --part 2 --out r2").ends_with(2);
}

#[test]
fn output_of_other_tools_is_refused_by_name() {
    let place = Workplace::new();
    for (text, tool) in [
        (&b"PERFILE2\x68\0\0\0"[..], "a perf.data file"),
        (b"# tracer: nop\n#\n", "text of ftrace"),
        (b"Operating System Noise\n", "rtla osnoise top"),
        (
            b"Running in process mode with 10 groups using 40 file descriptors each\nTime: 0.5\n",
            "hackbench",
        ),
        (
            b"stress-ng: info:  [1] cyclic:   50.00%:      29916 ns\n",
            "stress-ng",
        ),
    ] {
        // The text is also tested with a log's time stamp before it.
        let logged = [b"2026-07-15T22:56:02Z ", text].concat();
        let files = [Some(text.to_vec()), text.is_ascii().then_some(logged)];
        for bytes in files
            .into_iter()
            .flatten()
            .filter(|bytes| !bytes.starts_with(b"2026-07-15T22:56:02Z PERF"))
        {
            fs::write(place.path("file"), bytes).unwrap();
            let refused = place.tardy("import file --out run").ends_with(2);
            assert!(
                refused.stderr.contains(&format!("this is {tool}: ")),
                "{}",
                refused.stderr
            );
        }
    }
    // A log with the output of two tools.
    let both = [sample("oslat.txt"), sample("cyclictest-h.txt")]
        .map(|path| fs::read_to_string(path).unwrap())
        .concat();
    fs::write(place.path("both"), both).unwrap();
    let refused = place.tardy("import both --out run").ends_with(2);
    assert!(
        refused
            .stderr
            .contains("holds output of cyclictest-histogram and of oslat"),
        "{}",
        refused.stderr
    );
    place.tardy("import both --as oslat --out run").ends_with(0);
}

#[test]
fn a_table_of_counts_is_no_table_of_latencies() {
    let place = Workplace::new();
    fs::write(
        place.path("histogram.csv"),
        "us,cpu0,cpu1\n0,42982,46287\n10,12224,8356\n20,8,5\n30,0,1\n",
    )
    .unwrap();
    let refused = place
        .tardy("import histogram.csv --unit us --column cpu0 --out run")
        .ends_with(2);
    assert!(
        refused.stderr.contains("look like counts"),
        "{}",
        refused.stderr
    );
    // With --as, the user chooses the format.
    place
        .tardy("import histogram.csv --as values --unit us --column cpu0 --out run")
        .ends_with(0);
}

#[test]
fn a_text_that_was_cut_off_looks_no_better() {
    let place = Workplace::new();
    let import = |name: &str, text: &str| {
        fs::write(place.path(name), text).unwrap();
        place.tardy(&format!("import {name} --out {name}.run"))
    };
    let whole = fs::read_to_string(sample("cyclictest-h.txt")).unwrap();
    // If the end of the file is missing, the largest latency is unknown.
    let before_maxima = &whole[..whole.find("# Max Latencies").unwrap()];
    let refused = import("no-end", before_maxima).ends_with(2);
    assert!(
        refused.stderr.contains("`# Max Latencies: ...`"),
        "{}",
        refused.stderr
    );
    // The maximum is also unknown if the file ends inside the last number.
    let maxima = whole.find("# Max Latencies").unwrap();
    let line = whole[maxima..].lines().next().unwrap();
    for cut in 1..5 {
        let torn = &whole[..maxima + line.len() - cut];
        import("torn", torn).ends_with(2);
    }
    // If the first rows are missing, their samples are counted at the maximum.
    let head = whole.find("# Total").map_or(0, |total| {
        let rows: Vec<usize> = whole[..total]
            .match_indices('\n')
            .map(|(at, _)| at + 1)
            .collect();
        rows[rows.len() / 2]
    });
    import("no-head", &whole[head..]).ends_with(0);
    fs::write(place.path("whole"), &whole).unwrap();
    place.tardy("import whole --out whole.run").ends_with(0);
    let (cut, all) = (numbers(&place, "no-head.run"), numbers(&place, "whole.run"));
    for (cut, all) in cut.iter().zip(&all) {
        assert_eq!((cut.2, &cut.5), (all.2, &all.5));
    }
    let line = "T: 0 (  437) P:48 I:1000 C: 540000 Min:      4 Act:    5 Avg:   18 Max:     217";
    import("summary", line).ends_with(0);
    import("summary-torn", &line[..line.len() - 1]).ends_with(2);
}

#[test]
fn wherever_the_end_is_cut_off_the_largest_value_stays_or_the_file_is_refused() {
    let place = Workplace::new();
    let largest = |text: &[u8], flags: &str| {
        let _ = fs::remove_dir_all(place.path("run"));
        fs::write(place.path("text"), text).unwrap();
        let made = place.tardy(&format!("import text --out run {flags}"));
        if made.code() != 0 {
            made.ends_with(2);
            return None;
        }
        // An unknown maximum counts as infinite, because a run without a maximum does not look
        // better than it was.
        let rows = numbers(&place, "run").into_iter();
        let maxima = rows.map(|row| row.5.as_f64().map_or(f64::INFINITY, |nanos| nanos / 1e3));
        maxima.reduce(f64::max)
    };
    let cases = [
        "03_rtla_bucket5.txt",
        "05_jitterdebugger_v.txt",
        "09_xenomai_quiet.txt",
        "16_ci_log_prefix.txt",
        "25_hwlatdetect.txt",
    ];
    let cases = cases.map(|name| (case(name), "")).into_iter();
    let samples = PASTED.iter().map(|&(name, flags)| (sample(name), flags));
    for (path, flags) in cases.chain(samples) {
        let text = fs::read(&path).unwrap();
        let whole = largest(&text, flags).unwrap();
        for cut in [1, 2, 3, 4, 6, 9, 12, 20, 26, 30] {
            let left = largest(&text[..text.len() - cut], flags);
            assert!(
                left.is_none_or(|left| left >= whole),
                "{}: {left:?} us instead of {whole} us without {cut} bytes",
                path.display()
            );
        }
    }
    // Tools that print their lines repeatedly: the last complete line counts.
    for (name, head, width) in [
        ("jitterdebugger", "A: 0 C: 693432 Min: 1 Avg: 2.07 Max:", 10),
        (
            "cyclicdeadline",
            "I:1000 C: 600 Min: 1 Act: 2 Avg: 3 Max:",
            8,
        ),
        ("signaltest", "P:80 C: 600 Min: 1 Act: 2 Avg: 3 Max:", 8),
    ] {
        let line = format!("T: 0 ( 1603) {head}{:>width$}", 4_911);
        let text = format!("{line}\n{}", &line[..line.len() - 2]);
        assert_eq!(largest(text.as_bytes(), ""), Some(4_911.0), "{name}");
    }
}

#[test]
fn a_file_without_a_sample_is_an_error() {
    let place = Workplace::new();
    for text in [
        "# Histogram\n000000 000000\n# Min Latencies: 00000\n# Avg Latencies: 00000\n\
         # Max Latencies: 00000\n",
        "Index   Thr-000\n0 0\nover: 0\ncount: 0\nmin: -\navg: -\nmax: -\n",
        "hwlatdetect:  test duration 60 seconds\nLatency threshold: 10us\n\
         Max Latency: Below threshold\nSamples recorded: 0\n",
        "T: 0 ( 1) P:80 I:1000 C:      0 Min:1000000 Act:    0 Avg:    0 Max:       0\n",
    ] {
        fs::write(place.path("file"), text).unwrap();
        let refused = place.tardy("import file --unit us --out run").ends_with(2);
        assert!(
            refused.stderr.contains("expected at least one sample"),
            "{text}: {}",
            refused.stderr
        );
        assert!(!Path::new(&place.path("run")).exists());
    }
}
