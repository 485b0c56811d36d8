//! Tests `tardy plot` as a user calls it, with figures of generated runs with known samples.

use crate::support;

use rand::{RngExt, SeedableRng};
use tardy_chart::model::Kind;

use support::made_run::MadeRun;
use support::workplace::Workplace;

fn latencies(count: usize, late: &[(usize, i64)]) -> Vec<i64> {
    let mut latencies: Vec<i64> = (0..count as i64)
        .map(|index| 8_000 + index * 7_919 % 10_007)
        .collect();
    late.iter()
        .for_each(|&(index, latency)| latencies[index] = latency);
    latencies
}

fn three_phases() -> MadeRun {
    MadeRun {
        phases: vec![("idle", 0, 10), ("io", 10, 20), ("fork+io", 20, 30)],
        ..MadeRun::new(vec![
            latencies(30_000, &[(12_000, 95_000), (25_000, 180_500)]),
            latencies(30_000, &[(24_321, 240_000)]),
        ])
    }
}

#[test]
fn every_kind_is_drawn_as_svg_and_png_and_names_the_largest_latency() {
    let place = Workplace::new();
    three_phases().write(&place.path("a"));
    MadeRun::new(vec![latencies(2_000, &[(500, 90_000)])]).write(&place.path("b"));
    for kind in Kind::OF_RUNS {
        let name = kind.name();
        place
            .tardy(&format!(
                "plot a b --kind {name} --deadline 200us -o {name}.svg"
            ))
            .ends_with(0);
        let svg = std::fs::read_to_string(place.path(&format!("{name}.svg"))).unwrap();
        let document = roxmltree::Document::parse(&svg).unwrap();
        let texts: Vec<&str> = document
            .descendants()
            .filter_map(|node| node.text())
            .map(str::trim)
            .collect();
        let says = |what: &str| texts.iter().any(|text| text.contains(what));
        // In a figure without its report, the texts must state the deadline and the largest
        // latency.
        assert!(
            says("200 us"),
            "{name}: the deadline is not named: {texts:?}"
        );
        if !matches!(kind, Kind::Cdf | Kind::Percentiles | Kind::RunningMax) {
            assert!(
                says("240 us"),
                "{name}: the largest latency is not named: {texts:?}"
            );
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}");
        place
            .tardy(&format!(
                "plot a --kind {name} -o {name}.png --size 400x300 --scale 1"
            ))
            .ends_with(0);
        let png = std::fs::read(place.path(&format!("{name}.png"))).unwrap();
        // In a PNG file, width and height follow the signature and the length and name of the first
        // chunk.
        assert_eq!(
            (&png[..8], &png[16..24]),
            (&b"\x89PNG\r\n\x1a\n"[..], &[0, 0, 1, 144, 0, 0, 1, 44][..]),
            "{name}"
        );
    }
}

/// The texts in a figure.
fn texts(place: &Workplace, name: &str) -> Vec<String> {
    let svg = std::fs::read_to_string(place.path(name)).unwrap();
    let document = roxmltree::Document::parse(&svg).unwrap();
    document
        .descendants()
        .filter_map(|node| node.text())
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
        .collect()
}

#[test]
fn a_line_that_is_not_drawn_can_be_chosen() {
    let place = Workplace::new();
    three_phases().write(&place.path("a"));
    place.tardy("plot a --kind ccdf -o some.svg").ends_with(0);
    let some = texts(&place, "some.svg");
    assert!(
        some.iter().any(|text| text.ends_with(" more: --line NAME")),
        "{some:?}"
    );
    assert!(!some.contains(&"CPU 1".to_owned()), "{some:?}");
    place
        .tardy_with(&[
            "plot",
            "a",
            "--kind",
            "ccdf",
            "--line",
            "CPU 1",
            "--line",
            "CPU 0",
            "-o",
            "chosen.svg",
        ])
        .ends_with(0);
    let chosen = texts(&place, "chosen.svg");
    assert!(
        chosen.contains(&"CPU 1".to_owned()) && chosen.contains(&"CPU 0".to_owned()),
        "{chosen:?}"
    );
    let refused = place
        .tardy("plot a --kind ccdf --line CPU -o none.svg")
        .ends_with(2);
    assert!(
        refused
            .stderr
            .contains("this chart has no line `CPU`: choose from ")
            && refused.stderr.contains("CPU 1"),
        "{}",
        refused.stderr
    );
    assert!(!place.path("none.svg").exists());
}

#[test]
fn every_kind_has_its_numbers_as_csv() {
    let place = Workplace::new();
    three_phases().write(&place.path("a"));
    MadeRun::new(vec![latencies(2_000, &[(500, 90_000)])]).write(&place.path("b"));
    let csv = |kind: &str, runs: &str| {
        place
            .tardy(&format!(
                "plot {runs} --kind {kind} --deadline 200us -o {kind}.csv"
            ))
            .ends_with(0);
        std::fs::read_to_string(place.path(&format!("{kind}.csv"))).unwrap()
    };
    for kind in Kind::OF_RUNS {
        let text = csv(kind.name(), "a b");
        let columns = text.lines().next().unwrap().split(',').count();
        assert!(
            columns == 9 && text.starts_with("chart,series,shape,x_"),
            "{text}"
        );
        let has = |what: &str| text.lines().any(|line| line.contains(what));
        assert!(
            has("200000")
                && text
                    .lines()
                    .skip(1)
                    .all(|line| line.split(',').count() >= 9),
            "{}: {text}",
            kind.name()
        );
        // The other kinds draw both runs in one chart.
        if matches!(
            kind,
            Kind::Timeline | Kind::Heatmap | Kind::CpuMap | Kind::Scatter
        ) {
            assert!(
                text.contains("\na,") && text.contains("\nb,"),
                "{}: both runs: {text}",
                kind.name()
            );
        }
    }
    let field = |line: &str, index: usize| {
        line.split(',')
            .nth(index)
            .unwrap()
            .parse::<f64>()
            .unwrap_or(0.0)
    };
    let of_shape = |text: &str, shape: &str| {
        text.lines()
            .filter(|line| line.contains(&format!(",{shape},")))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let hist = csv("hist", "a");
    let counted: f64 = of_shape(&hist, "bin")
        .iter()
        .filter(|line| line.starts_with("a,CPU 0,"))
        .map(|line| field(line, 5))
        .sum();
    assert_eq!(
        counted, 30_000.0,
        "every sample of CPU 0 is in a bin: {hist}"
    );
    let stretches = of_shape(&csv("timeline", "a"), "stretch");
    assert_eq!(
        stretches
            .iter()
            .map(|line| field(line, 7))
            .fold(0.0, f64::max),
        240_000.0
    );
    let cells = of_shape(&csv("heatmap", "a"), "cell");
    assert_eq!(
        cells.iter().map(|line| field(line, 8)).sum::<f64>(),
        60_000.0
    );
    let bars = csv("bars", "a");
    assert!(
        bars.contains(",bar,fork+io,,") && bars.contains(",240000,"),
        "{bars}"
    );
    // Each bar shows its average and its 99.9th percentile. A run with one load has no bar for the
    // whole run, because that bar would be equal to the load's.
    assert!(
        bars.contains(",average,fork+io,,") && bars.contains(",99.9%,whole run,,"),
        "{bars}"
    );
    assert!(!csv("bars", "b").contains("whole run"));
    place.tardy("plot a --kind hist -o x.jpg").ends_with(2);
}

#[test]
fn pictures_name_their_runs_have_a_scale_for_colours_and_one_chart_for_several_distributions() {
    let place = Workplace::new();
    std::fs::create_dir_all(place.path("lab/none")).unwrap();
    std::fs::create_dir_all(place.path("lab/rt")).unwrap();
    three_phases().write(&place.path("lab/none/pad-000"));
    MadeRun::new(vec![latencies(2_000, &[(500, 90_000)])]).write(&place.path("lab/rt/pad-000"));
    let texts = |flags: &str| {
        place
            .tardy(&format!("plot lab {flags} -o x.svg"))
            .ends_with(0);
        let svg = std::fs::read_to_string(place.path("x.svg")).unwrap();
        let document = roxmltree::Document::parse(&svg).unwrap();
        document
            .descendants()
            .filter_map(|node| node.text())
            .map(|text| text.trim().to_owned())
            .collect::<Vec<_>>()
    };
    for kind in ["ccdf", "cdf", "hist", "percentiles", "running-max"] {
        let both = texts(&format!("--kind {kind}"));
        assert!(
            both.iter().any(|text| text
                == "none, unknown kernel, 60000 samples, 2023-11-14; rt, unknown kernel, 2000 \
                    samples, 2023-11-14"),
            "{both:?}"
        );
        assert!(
            both.iter().any(|text| text.ends_with(", all runs")),
            "{both:?}"
        );
        let panels = texts(&format!("--kind {kind} --panels"));
        assert!(
            panels.iter().any(|text| text.starts_with("none: "))
                && panels.iter().any(|text| text.starts_with("rt: ")),
            "{panels:?}"
        );
    }
    for (kind, most) in [
        ("heatmap", " samples (logarithmic)"),
        ("cpu-map", "240 us (logarithmic)"),
    ] {
        let drawn = texts(&format!("--kind {kind}"));
        assert!(
            drawn.iter().any(|text| text.ends_with(most)),
            "{kind}: {drawn:?}"
        );
    }
}

/// Latencies in ns: 10 us plus an exponential variable. The same seed always gives the same
/// latencies.
fn exponential(seed: u64, count: usize) -> Vec<i64> {
    let mut random = rand_pcg::Pcg64::seed_from_u64(seed);
    (0..count)
        .map(|_| 10_000 + (-5_000.0 * f64::ln(1.0 - random.random::<f64>())) as i64)
        .collect()
}

#[test]
fn a_model_of_the_tail_is_dashed_and_named_one_and_stays_behind_its_gate() {
    let place = Workplace::new();
    MadeRun::new(vec![exponential(5, 200_000)]).write(&place.path("a"));
    let drawn = |flags: &str| {
        place
            .tardy(&format!("plot a -o a.svg {flags}"))
            .ends_with(0);
        std::fs::read_to_string(place.path("a.svg")).unwrap()
    };
    for kind in ["cdf", "ccdf"] {
        let open = drawn(&format!("--kind {kind} --horizon 30m"));
        assert!(
            open.contains("stroke-dasharray") && open.contains("model, not measured"),
            "{kind}: {open}"
        );
        // A day is more than ten times the measured time, so no model is drawn.
        let closed = drawn(&format!("--kind {kind} --horizon 24h"));
        assert!(
            !closed.contains("stroke-dasharray") && !closed.contains("model"),
            "{kind}: {closed}"
        );
    }
    // The axis of the complementary distribution extends to the end of the model, 1 in 1.8 million.
    assert!(
        drawn("--kind ccdf --horizon 30m").contains("0.0001 %")
            && !drawn("--kind ccdf").contains("0.0001 %")
    );
    // Samples of two CPUs are a mixture, so each CPU has its own model, and the worst one is shown.
    MadeRun::new(vec![exponential(5, 200_000), exponential(5, 200_000)]).write(&place.path("b"));
    place
        .tardy("plot b -o b.svg --kind ccdf --horizon 30m")
        .ends_with(0);
    let both = std::fs::read_to_string(place.path("b.svg")).unwrap();
    assert!(
        both.contains("model of CPU 0, not measured") && both.contains("1 more: --line NAME"),
        "{both}"
    );
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let place = Workplace::new();
    three_phases().write(&place.path("a"));
    let draw = |file: &str| {
        place
            .tardy(&format!("plot a --kind timeline -o {file}"))
            .ends_with(0);
        std::fs::read(place.path(file)).unwrap()
    };
    assert_eq!(draw("1.svg"), draw("2.svg"));
}

#[test]
fn wrong_use_is_said_with_its_remedy() {
    let place = Workplace::new();
    three_phases().write(&place.path("a"));
    let refused = |line: &str, words: &str| {
        let outcome = place.tardy(line).ends_with(2);
        assert!(outcome.stderr.contains(words), "{outcome:?}");
    };
    refused(
        "plot a --kind hist -o a.gif",
        "must end in .svg, .png or .csv",
    );
    refused(
        "plot a --kind hist -o a.svg --probe nanosleep",
        "choose from cyclic",
    );
    refused("plot a --kind hist -o a.svg --size 10x10", "760x440");
    refused("plot nowhere --kind hist -o a.svg", "not a run folder");
    place
        .tardy("plot a --kind hist -o no/such/folder/a.svg")
        .ends_with(3);
    assert_eq!(place.names(), ["a"]);
}

#[test]
fn hostile_names_stay_text_in_a_picture() {
    let place = Workplace::new();
    let hostile = "</text><script>alert(1)</script>";
    MadeRun {
        phases: vec![(hostile, 0, 2), ("io", 2, 4)],
        ..MadeRun::new(vec![latencies(4_000, &[])])
    }
    .write(&place.path("a"));
    for kind in ["timeline", "bars", "hist"] {
        place
            .tardy(&format!("plot a --kind {kind} -o a.svg"))
            .ends_with(0);
        let svg = std::fs::read_to_string(place.path("a.svg")).unwrap();
        let document = roxmltree::Document::parse(&svg).unwrap();
        assert!(
            !document
                .descendants()
                .any(|node| node.has_tag_name("script")),
            "{kind}"
        );
    }
}

#[test]
fn all_probes_of_a_run_are_in_one_chart_without_and_with_load() {
    let place = Workplace::new();
    let beside: Vec<i64> = (0..30_000)
        .map(|index| {
            if index < 10_000 {
                1_000
            } else {
                2_000 + i64::from(index == 29_999) * 7_000
            }
        })
        .collect();
    MadeRun {
        beside: vec![("itimer", "interval error", beside)],
        ..three_phases()
    }
    .write(&place.path("a"));
    MadeRun::new(vec![latencies(2_000, &[(500, 90_000)])]).write(&place.path("b"));
    place.tardy("plot a --kind bars -o all.csv").ends_with(0);
    let csv = std::fs::read_to_string(place.path("all.csv")).unwrap();
    for row in [
        "a,without load,bar,cyclic,,13004,8000,18006,",
        "a,with load,bar,cyclic,,13003,8000,240000,",
        "a,without load,bar,itimer,,1000,1000,1000,",
        "a,with load,bar,itimer,,2000,2000,9000,",
    ] {
        assert!(csv.lines().any(|line| line == row), "{row}: {csv}");
    }
    // Two probes whose series alternate, as those of `gtod` on two CPUs do.
    MadeRun {
        beside: vec![
            ("itimer", "interval error", latencies(30_000, &[])),
            ("cyclic", "latency", latencies(30_000, &[])),
        ],
        ..three_phases()
    }
    .write(&place.path("turns"));
    place
        .tardy("plot turns --kind bars -o turns.csv")
        .ends_with(0);
    let csv = std::fs::read_to_string(place.path("turns.csv")).unwrap();
    let bars = csv
        .lines()
        .filter(|line| line.starts_with("turns,without load,bar,cyclic,,"));
    assert_eq!(bars.count(), 1, "{csv}");
    // If the user selects a single probe, its bars are drawn by load. A run with one probe has no
    // chart of all probes.
    place
        .tardy("plot a --kind bars --probe itimer -o one.csv")
        .ends_with(0);
    assert!(
        std::fs::read_to_string(place.path("one.csv"))
            .unwrap()
            .contains(",bar,fork+io,,")
    );
    let both = place.tardy("plot a b --kind bars -o both.csv").ends_with(0);
    assert_eq!(
        both.stderr,
        "tardy: b is left out: it has only one probe; select that probe with --probe\n"
    );
    // The report begins with the chart of all probes, and then has both probes' tables.
    place.tardy("report a --html a.html").ends_with(0);
    let page = std::fs::read_to_string(place.path("a.html")).unwrap();
    let lead = page.find("All probes, without and with load").unwrap();
    assert!(lead < page.find("id=\"probe-cyclic\"").unwrap());
    assert!(page.contains("standard deviation, us"));
}
