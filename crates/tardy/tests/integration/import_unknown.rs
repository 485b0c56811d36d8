//! Tests `tardy import` of files that do not state a value that other runs have.

use crate::import::{import, sample};
use crate::support::workplace::Workplace;

#[test]
fn what_is_not_in_a_file_is_asked_for() {
    let place = Workplace::new();
    for (name, text, expected) in [
        (
            "a.hgrm",
            "Value Percentile TotalCount 1/(1-Percentile)\n1.0 1.0 5\n",
            "does not state the unit of its values: give --unit",
        ),
        (
            "v.txt",
            "0:0:5\n",
            "does not state the interval of its threads: give --period",
        ),
        (
            "r.txt",
            "Index IRQ-000\n0 5\nover: 0\n",
            "does not state the unit of its values: give --unit us",
        ),
        ("j.json", "{\"version\": 3, \"cpu\": {}}", "give --unit us"),
    ] {
        std::fs::write(place.path(name), text).unwrap();
        let refused = place
            .tardy(&format!("import {name} --out run"))
            .ends_with(2);
        assert!(
            refused.stderr.contains(expected),
            "{name}: {}",
            refused.stderr
        );
        assert!(!place.path("run").exists());
    }
}

#[test]
fn what_a_file_does_not_say_is_exported_as_no_number() {
    let place = Workplace::new();
    import(&place, "cyclictest-q.txt", "").ends_with(0);
    let lava = place.tardy("export run --format lava").ends_with(0).stdout;
    assert!(
        lava.contains("-lost ") && !lava.contains("-skipped "),
        "{lava}"
    );
    let metrics = place
        .tardy("export run --format openmetrics")
        .ends_with(0)
        .stdout;
    assert!(
        metrics.contains("tardy_latency_max_seconds{")
            && !metrics.contains("tardy_latency_seconds_count"),
        "{metrics}"
    );
}

#[test]
fn skipped_periods_that_nobody_counted_are_unknown_and_not_none() {
    let place = Workplace::new();
    import(&place, "cyclictest-H.txt", "--period 1ms").ends_with(0);
    // A deadline that is at most the period also limits the number of skipped periods, as --skipped
    // does.
    for flags in [
        "--deadline 1ms",
        "--deadline 1ms --skipped 0",
        "--skipped 5",
    ] {
        let shown = place
            .tardy(&format!("show run {flags}"))
            .ends_with(4)
            .stdout;
        let verdict = shown
            .lines()
            .find(|line| line.starts_with("INCONCLUSIVE"))
            .unwrap_or_else(|| panic!("{flags}: {shown}"));
        assert!(
            verdict.contains("the tool that measured the run may not count every skipped period"),
            "{flags}: {verdict}"
        );
        assert!(!verdict.contains("0 periods"), "{flags}: {verdict}");
    }
    place.tardy("show run --deadline 2ms").ends_with(0);
    let markdown = place
        .tardy("export run --format markdown")
        .ends_with(0)
        .stdout;
    let skipped = |line: &str| line.split('|').nth(3).map(|cell| cell.trim().to_owned());
    let rows: Vec<_> = markdown
        .lines()
        .filter(|line| line.starts_with("| cpu ") || line.starts_with("| all"))
        .map(skipped)
        .collect();
    assert!(
        !rows.is_empty() && rows.iter().all(|cell| cell.as_deref() == Some("-")),
        "{markdown}"
    );
    let metrics = place
        .tardy("export run --format openmetrics")
        .ends_with(0)
        .stdout;
    assert!(
        !metrics.contains("tardy_skipped_due_times")
            && metrics.contains("tardy_lost_samples_total"),
        "{metrics}"
    );
    // If a file has counts of skipped periods, the import keeps these counts.
    std::fs::copy(sample("xenomai-latency.synth.txt"), place.path("x.txt")).unwrap();
    place.tardy("import x.txt --out counted").ends_with(0);
    let metrics = place
        .tardy("export counted --format openmetrics")
        .ends_with(0)
        .stdout;
    assert!(
        metrics
            .lines()
            .any(|line| line.starts_with("tardy_skipped_due_times_total{") && line.ends_with(" 2")),
        "{metrics}"
    );
    assert!(
        place
            .tardy("export counted --format markdown")
            .ends_with(0)
            .stdout
            .contains("| 2 |")
    );
}

#[test]
fn a_period_that_is_not_known_is_no_period_of_zero() {
    let place = Workplace::new();
    std::fs::write(place.path("values.csv"), "1\n2\n3\n").unwrap();
    place
        .tardy("import values.csv --unit us --out base")
        .ends_with(0);
    place
        .tardy("run --cycles 20 --quiet --out run")
        .ends_with(0);
    let compared = place.tardy("compare base run --full").stdout;
    assert!(
        compared.contains("values with an unknown period against"),
        "{compared}"
    );
    assert!(!compared.contains("every 0"), "{compared}");
}

#[test]
fn a_report_of_an_import_claims_nothing_that_the_file_does_not_say() {
    let place = Workplace::new();
    import(&place, "cyclictest-h.txt", "").ends_with(0);
    place.tardy("report run --html run.html").ends_with(0);
    let html = std::fs::read_to_string(place.path("run.html")).unwrap();
    for claim in ["0.0 s", "Sampling gap", "due times skipped", "up to 0"] {
        assert!(!html.contains(claim), "{claim}");
    }
    assert!(html.contains("length not known"));
    let shown = place.tardy("show run").ends_with(0).stdout;
    let row = shown
        .lines()
        .find(|line| line.starts_with("CPU 0"))
        .unwrap();
    assert_eq!(
        row.split_whitespace().nth(3),
        Some("-"),
        "skipped periods are not counted by cyclictest -h: {shown}"
    );
    assert!(!shown.contains("sampling gap"), "{shown}");
    // If a file has counts of skipped periods, the import keeps these counts.
    std::fs::copy(sample("xenomai-latency.synth.txt"), place.path("x.txt")).unwrap();
    place.tardy("import x.txt --out xenomai").ends_with(0);
    assert_eq!(
        place.summary("xenomai")["probes"][0]["counts"]["skipped"],
        2
    );
    place.tardy("report xenomai --html x.html").ends_with(0);
    assert!(
        std::fs::read_to_string(place.path("x.html"))
            .unwrap()
            .contains("due times skipped")
    );
}

#[test]
fn threads_of_cyclictest_without_a_cpu_are_numbered_and_impossible_cpus_are_refused() {
    let place = Workplace::new();
    let write = |cpu: &str| {
        let thread = |name: &str, latency: u32| {
            format!(
                "\"{name}\":{{\"histogram\":{{\"{latency}\":3}},\"cycles\":3,\"min\":{latency},\
                 \"max\":{latency},\"avg\":{latency}.0,\"cpu\":{cpu},\"node\":0}}"
            )
        };
        let text = format!(
            "{{\"file_version\":1,\"cmdline\":\"cyclictest\",\"rt_test_version\":\"2.5\",\
             \"num_threads\":2,\"resolution_in_ns\":0,\"thread\":{{{},{}}}}}",
            thread("0", 5),
            thread("1", 9)
        );
        std::fs::write(place.path("c.json"), text).unwrap();
    };
    write("4294967296");
    let refused = place.tardy("import c.json --out run").ends_with(2);
    assert!(
        refused.stderr.contains("the number of a CPU") && refused.stderr.contains("4294967296"),
        "{}",
        refused.stderr
    );
    write("-1");
    let imported = place.tardy("import c.json --out run").ends_with(0);
    let note = "the series are numbered in their order";
    assert!(imported.stdout.contains(note), "{}", imported.stdout);
}
