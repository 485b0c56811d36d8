//! Tests `tardy report` in a real browser: the page is opened, hovered, toggled and zoomed, on a
//! desktop and on a phone, with hostile text.

use crate::support;

use std::path::PathBuf;

use rand::{RngExt, SeedableRng};
use serde_json::json;
use support::made_run::MadeRun;
use support::workplace::Workplace;
use tardy_browser::{Browser, Screen};
use tardy_core::series::ClockKind;

fn latencies(count: usize, late: &[(usize, i64)]) -> Vec<i64> {
    let mut latencies: Vec<i64> = (0..count as i64)
        .map(|index| 8_000 + index * 7_919 % 10_007 + (index % 97) * (index % 89) / 3)
        .collect();
    late.iter()
        .for_each(|&(index, latency)| latencies[index] = latency);
    latencies
}

/// A run of two CPUs and three phases; the largest latency, 240.321 us, is due at 24.321 s on CPU
/// 1.
fn three_phases() -> MadeRun {
    MadeRun {
        phases: vec![("idle", 0, 10), ("io", 10, 20), ("fork+io", 20, 30)],
        machine: json!({"host_name": "board7", "kernel": {"release": "6.1.0-rt", "clocksource": "tsc"}, "distribution": "Debian 12"}),
        ..MadeRun::new(vec![
            latencies(30_000, &[(12_000, 95_000), (25_000, 180_500)]),
            latencies(30_000, &[(24_321, 240_321)]),
        ])
    }
}

pub(crate) fn report(place: &Workplace, line: &str) -> PathBuf {
    place
        .tardy(&format!("report {line} --html report.html"))
        .ends_with(0);
    place.path("report.html")
}

fn of_three_phases() -> (Workplace, PathBuf) {
    let place = Workplace::new();
    three_phases().write(&place.path("board7"));
    let file = report(&place, "board7 --deadline 200us");
    (place, file)
}

/// Checks that the page had no error and requested only the file itself.
#[track_caller]
fn assert_quiet(browser: &mut Browser) {
    assert_eq!(browser.errors(), Vec::<serde_json::Value>::new());
    let requests = browser.requests();
    assert!(
        requests.len() == 1 && requests[0].starts_with("file://"),
        "{requests:?}"
    );
    assert_eq!(
        browser.evaluate("document.documentElement.dataset.ready"),
        "true"
    );
}

#[test]
fn it_opens_without_an_error_and_asks_for_nothing_else() {
    let (_place, file) = of_three_phases();
    let mut browser = Browser::open(&file, Screen::DESK);
    assert_quiet(&mut browser);
    let text = browser.evaluate("document.body.innerText");
    let text = text.as_str().unwrap();
    let (verdict, chart) = (
        text.find("FAILED").unwrap(),
        text.find("Latency over time").unwrap(),
    );
    assert!(verdict < chart, "the verdict comes first");
    for words in [
        "1 of 60000 due times missed",
        "Histogram",
        "Tail of the latency",
        "by percentile",
        "so far",
        "Heat map",
        "by load",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    for words in [
        "6.1.0-rt",
        "tardy run --scenario made.toml",
        "--cpus 0-1",
        "--seed 1",
    ] {
        assert!(text.contains(words), "{words}");
    }
    assert_eq!(
        browser.evaluate("document.querySelectorAll('figure').length"),
        8
    );
    // Every chart has its numbers below it.
    assert_eq!(
        browser.evaluate("document.querySelectorAll('figure details table').length"),
        8
    );
    browser.screenshot("desk-light");
}

#[test]
fn the_first_screen_has_the_verdict_and_one_chart() {
    let (_place, file) = of_three_phases();
    let mut browser = Browser::open(
        &file,
        Screen {
            width: 1200,
            ..Screen::DESK
        },
    );
    // The bars are fully visible in the first 900 px, after the verdict, and appear only once.
    let bottom = browser.evaluate(
        "document.querySelector('.lead figure.bars .frame').getBoundingClientRect().bottom",
    );
    assert!(bottom.as_f64().unwrap() <= 900.0, "{bottom}");
    let is_behind = "document.querySelector('.verdict').getBoundingClientRect().bottom <= \
                     document.querySelector('.lead').getBoundingClientRect().top";
    assert_eq!(browser.evaluate(is_behind), true);
    assert_eq!(
        browser.evaluate("document.querySelectorAll('figure.bars').length"),
        1
    );
}

#[test]
fn hovering_says_the_exact_largest_latency() {
    let (_place, file) = of_three_phases();
    let mut browser = Browser::open(&file, Screen::DESK);
    let mark = browser.point("figure.timeline .marks circle", 0.5, 0.5);
    browser.hover((mark.0, mark.1 + 40.0));
    let tip = browser.evaluate("document.querySelector('figure.timeline .tip').innerText");
    assert!(
        tip.as_str().unwrap().contains("240.321 us") && tip.as_str().unwrap().contains("CPU 1"),
        "{tip}"
    );
    let point = browser.point("figure.ccdf .plot", 0.4, 0.5);
    browser.hover(point);
    let tip = browser.evaluate("document.querySelector('figure.ccdf .tip').innerText");
    assert!(tip.as_str().unwrap().contains("95 % band"), "{tip}");
    // The tip disappears when the pointer leaves.
    browser.hover((2.0, 2.0));
    assert_eq!(
        browser.evaluate("document.querySelectorAll('.tip:not([hidden])').length"),
        0
    );
    assert_quiet(&mut browser);
}

#[test]
fn the_legend_hides_and_shows_a_series_with_its_band() {
    let (_place, file) = of_three_phases();
    let mut browser = Browser::open(&file, Screen::DESK);
    let shown = "[...document.querySelectorAll('figure.ccdf svg.wide .layer')].filter((g) => \
                 g.getAttribute('display') !== 'none').length";
    let before = browser.evaluate(shown).as_u64().unwrap();
    browser.click("figure.ccdf .legend button");
    assert_eq!(
        browser.evaluate(
            "document.querySelector('figure.ccdf .legend button').getAttribute('aria-pressed')"
        ),
        "false"
    );
    // The button hides the line of all samples and its band.
    assert_eq!(browser.evaluate(shown).as_u64().unwrap(), before - 2);
    let point = browser.point("figure.ccdf .plot", 0.4, 0.5);
    browser.hover(point);
    let tip = browser.evaluate("document.querySelector('figure.ccdf .tip').innerText");
    assert!(!tip.as_str().unwrap().contains("all samples"), "{tip}");
    browser.click("figure.ccdf .legend button");
    assert_eq!(browser.evaluate(shown).as_u64().unwrap(), before);
    assert_quiet(&mut browser);
}

#[test]
fn zooming_keeps_the_largest_latency_at_every_depth() {
    let (_place, file) = of_three_phases();
    let mut browser = Browser::open(&file, Screen::DESK);
    let ticks = "document.querySelector('figure.timeline svg.wide .axis.x').textContent";
    let whole = browser.evaluate(ticks);
    // Distance between the highest drawn pixel and the mark of the largest latency.
    let highest = "(() => { const svg = document.querySelector('figure.timeline svg.wide'), \
                   canvas = svg.querySelector('canvas'); const copy = \
                   Object.assign(document.createElement('canvas'), { width: canvas.width, height: \
                   canvas.height }); const context = copy.getContext('2d', { willReadFrequently: \
                   true }); context.drawImage(canvas, 0, 0); const { data, width, height } = \
                   context.getImageData(0, 0, canvas.width, canvas.height); const row = \
                   Math.floor(data.findIndex((value, at) => at % 4 === 3 && value > 0) / 4 / \
                   width); const [, top, , tall] = svg.dataset.area.split(' ').map(Number); \
                   return Math.abs(top + row / height * tall - Number(svg.querySelector('.marks \
                   circle').getAttribute('cy'))); })()";
    for depth in 0..8 {
        let mark = browser.point("figure.timeline .marks circle", 0.5, 0.5);
        let y = mark.1 + 60.0;
        browser.drag((mark.0 - 60.0, y), (mark.0 + 70.0, y));
        assert_eq!(
            browser.evaluate(
                "document.querySelectorAll('figure.timeline svg.wide .marks circle').length"
            ),
            1,
            "{depth}"
        );
        let off = browser.evaluate(highest);
        assert!(off.as_f64().unwrap() < 1.1, "{off} px off at depth {depth}");
    }
    let deep = browser.evaluate(ticks);
    assert!(
        deep != whole && deep.as_str().unwrap().contains("24.3"),
        "{deep}"
    );
    let mark = browser.point("figure.timeline .marks circle", 0.5, 0.5);
    browser.hover((mark.0, mark.1 + 30.0));
    let tip = browser.evaluate("document.querySelector('figure.timeline .tip').innerText");
    assert!(tip.as_str().unwrap().contains("240.321 us"), "{tip}");
    browser.screenshot("zoomed");
    browser.click("figure.timeline .tools [data-do=all]");
    // A pixel covers a different length of time at each width.
    for width in (1_000..1_280).step_by(17) {
        browser.call(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false}),
        );
        browser.settle();
        let off = browser.evaluate(highest);
        assert!(
            off.as_f64().unwrap() < 1.1,
            "{off} px off at a width of {width}"
        );
    }
    // The whole run is shown again, from its start.
    let again = browser.evaluate(ticks);
    assert!(
        again.as_str().unwrap().contains("25 s") && again.as_str().unwrap().starts_with("0 s"),
        "{again}"
    );
    assert_quiet(&mut browser);
}

#[test]
fn statistics_stand_in_three_layers_and_the_model_dashed_in_the_tail() {
    let place = Workplace::new();
    let mut random = rand_pcg::Pcg64::seed_from_u64(5);
    let exponential = (0..200_000)
        .map(|_| 10_000 + (-5_000.0 * f64::ln(1.0 - random.random::<f64>())) as i64)
        .collect();
    MadeRun::new(vec![exponential]).write(&place.path("run"));
    let file = report(&place, "run --horizon 30m --mhz 2000 --limits 50us");
    let mut browser = Browser::open(&file, Screen::DESK);
    let text = browser.evaluate("document.getElementById('statistics').parentElement.innerText");
    let text = text.as_str().unwrap();
    let at = |words: &str| {
        text.find(words)
            .unwrap_or_else(|| panic!("{words}: {text}"))
    };
    assert!(
        at("observed") < at("bounds at 95 %")
            && at("bounds at 95 %") < at("MODEL, not measured: exceeded once in 30m")
    );
    for words in [
        "mode, middle of its 1us bucket",
        "variance, us^2",
        "below 50us",
        "five nines",
        "above 50us, at most",
        "the maximum covers at least",
        "OSADL's rule of thumb",
    ] {
        at(words);
    }
    let dashed = "[...document.querySelectorAll('figure.ccdf svg.wide .layer \
                  path[stroke-dasharray]')].length";
    assert_eq!(browser.evaluate(dashed), 1);
    let point = browser.point("figure.ccdf .plot", 0.9, 0.5);
    browser.hover(point);
    let tip = browser.evaluate("document.querySelector('figure.ccdf .tip').innerText");
    assert!(
        tip.as_str().unwrap().contains("model, not measured")
            && tip.as_str().unwrap().contains("95 % band of the model"),
        "{tip}"
    );
    // The model's button in the legend also hides the band.
    let shown = "[...document.querySelectorAll('figure.ccdf svg.wide .layer')].filter((g) => \
                 g.getAttribute('display') !== 'none').length";
    let before = browser.evaluate(shown).as_u64().unwrap();
    browser.evaluate(
        "[...document.querySelectorAll('figure.ccdf .legend button')].find((b) => \
         b.textContent.includes('model')).click()",
    );
    assert_eq!(browser.evaluate(shown).as_u64().unwrap(), before - 2);
    assert!(
        browser
            .evaluate("document.querySelector('figure.ccdf details table').textContent")
            .as_str()
            .unwrap()
            .contains("model of all samples, not measured")
    );
    assert_quiet(&mut browser);
    browser.screenshot("model");
    // The samples fail the checks, so there is no model.
    let closed = std::fs::read_to_string(report(&place, "run")).unwrap();
    assert!(
        closed.contains("checks failed")
            && !closed.contains("stroke-dasharray=\"6 4\"")
            && !closed.contains("MODEL")
    );
}

#[test]
fn everything_is_reached_by_the_keyboard() {
    let (_place, file) = of_three_phases();
    let mut browser = Browser::open(&file, Screen::DESK);
    let unreachable = "[...document.querySelectorAll('a, button, summary, .plot, \
                       .scroll')].filter((e) => e.tabIndex < 0).length";
    assert_eq!(browser.evaluate(unreachable), 0);
    browser.evaluate("document.querySelector('figure.timeline .plot').focus()");
    browser.key("End");
    browser.key("ArrowLeft");
    let tip = "(() => { const t = document.querySelector('figure.timeline .tip'); return t.hidden \
               ? '' : t.innerText; })()";
    assert!(
        browser.evaluate(tip).as_str().unwrap().contains("29.7"),
        "{}",
        browser.evaluate(tip)
    );
    let ticks = "document.querySelector('figure.timeline svg.wide .axis.x').textContent";
    let whole = browser.evaluate(ticks);
    browser.key("+");
    assert_ne!(browser.evaluate(ticks), whole);
    browser.key("Escape");
    assert_eq!(browser.evaluate(tip), "");
    assert_quiet(&mut browser);
}

#[test]
fn hostile_text_from_runs_is_inert() {
    let place = Workplace::new();
    let hostile =
        "</script><script>window.owned=1</script><img src=x onerror=window.owned=2>\"'<!--{{";
    // A folder name cannot contain a slash.
    let folder = "<img src=x onerror=window.owned=3>\"'&<b>";
    let mut run = three_phases();
    run.phases = vec![(hostile, 0, 10), ("\u{202e}io", 10, 30)];
    run.machine = json!({
        "host_name": hostile, "distribution": hostile, "model": hostile, "boot_id": hostile,
        "kernel": {"release": hostile, "version": hostile, "command_line": hostile, "clocksource": hostile},
    });
    run.write(&place.path(folder));
    place
        .tardy_with(&["report", folder, "--html", "report.html"])
        .ends_with(0);
    let mut browser = Browser::open(&place.path("report.html"), Screen::DESK);
    let point = browser.point("figure.timeline .plot", 0.3, 0.5);
    browser.hover(point);
    browser.click("figure.timeline .tools [data-do=in]");
    for number in 0..8 {
        browser.evaluate(&format!(
            "document.querySelectorAll('figure .plot')[{number}].focus()"
        ));
        browser.key("ArrowRight");
    }
    assert_eq!(browser.evaluate("typeof window.owned"), "undefined");
    assert_eq!(
        browser.evaluate(
            "document.querySelectorAll('img, iframe, object, b:not(.verdict b):not(.tip \
             b)').length"
        ),
        0
    );
    assert_eq!(
        browser.evaluate("document.querySelectorAll('script').length"),
        2
    );
    let title = browser.evaluate("document.querySelector('h1').textContent");
    assert!(title.as_str().unwrap().contains(folder), "{title}");
    let page = browser.evaluate("document.body.textContent");
    assert!(page.as_str().unwrap().contains(hostile));
    assert_quiet(&mut browser);
}

#[test]
fn it_fits_a_phone_and_is_dark_there() {
    let (_place, file) = of_three_phases();
    let mut browser = Browser::open(&file, Screen::PHONE);
    assert_quiet(&mut browser);
    let width = browser
        .evaluate("document.documentElement.scrollWidth")
        .as_u64()
        .unwrap();
    assert!(
        width <= u64::from(Screen::PHONE.width),
        "the page is {width} px wide"
    );
    assert_eq!(
        browser.evaluate(
            "[...document.querySelectorAll('.plot svg')].filter((s) => \
             s.getBoundingClientRect().width > 0).every((s) => s.classList.contains('narrow'))"
        ),
        true
    );
    let color = browser.evaluate("getComputedStyle(document.body).backgroundColor");
    assert_eq!(color, "rgb(19, 23, 28)");
    browser.screenshot("phone-dark");
}

#[test]
fn runs_stand_in_columns_with_the_same_axes() {
    let place = Workplace::new();
    three_phases().write(&place.path("board7"));
    let mut other = MadeRun::new(vec![latencies(9_000, &[(4_000, 1_500_000)])]);
    other.machine = json!({"host_name": "board8", "kernel": {"release": "6.12.0"}});
    other.write(&place.path("board8"));
    let file = report(&place, "board7 board8 --deadline 200us");
    let mut browser = Browser::open(
        &file,
        Screen {
            width: 1440,
            ..Screen::DESK
        },
    );
    assert_quiet(&mut browser);
    // There are seven charts for each run, and six charts of both runs: bars, tails, distributions,
    // histograms, percentiles and the running maximum.
    assert_eq!(
        browser.evaluate("document.querySelectorAll('figure').length"),
        20
    );
    for (kind, together) in [
        ("ccdf", 1),
        ("cdf", 1),
        ("hist", 1),
        ("percentiles", 1),
        ("running-max", 1),
        ("heatmap", 0),
        ("timeline", 0),
    ] {
        let of_both = "filter((f) => { const names = f.querySelector('.legend')?.textContent ?? \
                       ''; return names.includes('board7') && names.includes('board8'); })";
        let count = browser.evaluate(&format!(
            "[...document.querySelectorAll('figure.{kind}')].{of_both}.length"
        ));
        assert_eq!(count, together, "{kind}");
    }
    assert_eq!(
        browser.evaluate("document.querySelector('figure').className"),
        "ccdf"
    );

    for kind in [
        "timeline",
        "hist",
        "percentiles",
        "running-max",
        "heatmap",
        "cdf",
    ] {
        let axes = format!(
            "[...document.querySelectorAll('figure.{kind} svg.middle')].map((s) => \
             s.querySelector('.axis.y').textContent + '|' + \
             s.querySelector('.axis.x').textContent)"
        );
        let axes = browser.evaluate(&axes);
        let axes = axes.as_array().unwrap();
        assert!(
            axes.len() >= 2 && axes.iter().all(|other| *other == axes[0]),
            "{kind}: {axes:?}"
        );
    }
    let tops = browser.evaluate(
        "[...document.querySelectorAll('figure.timeline')].map((f) => \
         [f.getBoundingClientRect().top, f.getBoundingClientRect().left])",
    );
    assert_eq!(tops[0][0], tops[1][0]);
    assert!(tops[0][1].as_f64() < tops[1][1].as_f64());
    assert_eq!(
        browser.evaluate("document.querySelectorAll('table.facts tr.differs').length > 0"),
        true
    );
    browser.screenshot("two-runs");
}

#[test]
fn runs_of_the_lab_are_taken_as_they_are_compared_and_shown_without_cutting() {
    let place = Workplace::new();
    for (place_of_level, variant) in ["full", "none", "rt", "voluntary"].into_iter().enumerate() {
        std::fs::create_dir_all(place.path(&format!("lab/{variant}"))).unwrap();
        let level = [4, 8, 1, 6][place_of_level];
        let latencies = latencies(20_000, &[(12_000, 95_000)])
            .into_iter()
            .map(|latency| latency * level)
            .collect();
        let made = MadeRun {
            phases: vec![("idle", 0, 10), ("memory", 10, 20)],
            clock: ClockKind::Virtual,
            ..MadeRun::new(vec![latencies])
        };
        made.write(&place.path(&format!("lab/{variant}/pad-000")));
    }
    let file = report(&place, "lab/none lab/full lab/rt lab/voluntary");
    let mut browser = Browser::open(
        &file,
        Screen {
            width: 1280,
            ..Screen::DESK
        },
    );
    assert_quiet(&mut browser);
    assert_eq!(
        browser.evaluate("document.querySelector('h1').textContent"),
        "Latency report: none, full, rt, voluntary"
    );
    let page = browser.evaluate("document.body.innerText");
    let page = page.as_str().unwrap();
    assert!(
        page.contains("rt against none: BETTER") && !page.contains("pad-000 ("),
        "{page}"
    );
    // Visible tables need no scrolling, and each load has a row for each run.
    let cut = "[...document.querySelectorAll('.scroll')].filter((s) => s.clientWidth > 0 && \
               s.scrollWidth > s.clientWidth + 1).length";
    assert_eq!(browser.evaluate(cut), 0);
    let rows = "[...document.querySelectorAll('#numbers')][0].parentElement.querySelectorAll(':\
                scope > .scroll')[1].innerText";
    let rows = browser.evaluate(rows);
    let rows: Vec<&str> = rows.as_str().unwrap().lines().collect();
    assert!(
        rows.len() == 9 && rows.iter().filter(|row| row.contains("rt")).count() == 2,
        "{rows:?}"
    );
    assert!(
        rows.iter().all(|row| row.split('\t').count() == 11),
        "{rows:?}"
    );
    browser.screenshot("lab-runs");
}

/// A run of three probes, each with three phases.
fn three_probes() -> MadeRun {
    let others = |late| latencies(30_000, &[(25_000, late)]);
    MadeRun {
        beside: vec![
            ("itimer", "latency", others(150_000)),
            ("futex", "wake-up", others(70_000)),
        ],
        ..three_phases()
    }
}

#[test]
fn three_probes_are_read_without_scrolling_for_long_and_print_whole() {
    let place = Workplace::new();
    three_probes().write(&place.path("three"));
    let file = report(&place, "three --deadline 200us");
    let mut browser = Browser::open(
        &file,
        Screen {
            width: 1280,
            ..Screen::DESK
        },
    );
    assert_quiet(&mut browser);
    let height = browser
        .evaluate("document.documentElement.scrollHeight")
        .as_f64()
        .unwrap();
    assert!(height <= 10_000.0, "{height} px");
    // For each probe, the time line, the bars and the tail are visible; the other charts are in the
    // page.
    let seen = "[...document.querySelectorAll('section figure')].filter((f) => \
                f.closest('details.more') === null).map((f) => f.className)";
    let seen = browser.evaluate(seen);
    let seen: Vec<&str> = seen
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    let count = |kind: &str| {
        seen.iter()
            .filter(|name| name.split(' ').any(|word| word == kind))
            .count()
    };
    assert_eq!(
        (
            count("timeline"),
            count("bars"),
            count("ccdf"),
            count("hist"),
            count("heatmap")
        ),
        (3, 4, 3, 0, 0),
        "{seen:?}"
    );
    assert_eq!(
        browser.evaluate("document.querySelectorAll('details.more figure.heatmap').length"),
        3
    );
    browser.evaluate("dispatchEvent(new Event('beforeprint'))");
    assert_eq!(
        browser.evaluate(
            "[...document.querySelectorAll('figure svg.middle')].filter((s) => \
             s.closest('details:not([open])')).length"
        ),
        0
    );
    browser.screenshot("three-probes");
}

/// Width of A4 without its margins of 12 mm, in CSS px.
const PAPER_WIDTH: u32 = 703;

#[test]
fn a_report_of_two_runs_is_printed_without_cutting() {
    let place = Workplace::new();
    three_phases().write(&place.path("board7"));
    let machine = json!({"host_name": "board8", "kernel": {"release": "6.12.0"}});
    MadeRun {
        machine,
        ..three_phases()
    }
    .write(&place.path("board8"));
    let file = report(&place, "board7 board8 --deadline 200us");
    let mut browser = Browser::open(
        &file,
        Screen {
            width: PAPER_WIDTH,
            ..Screen::DESK
        },
    );
    browser.call("Emulation.setEmulatedMedia", json!({"media": "print"}));
    browser.evaluate("dispatchEvent(new Event('beforeprint'))");
    // All elements fit on the paper, and no visible table is wider than its parent.
    let beyond = "[...document.querySelectorAll('main *')].filter((e) => \
                  e.getClientRects().length && e.closest('svg') === null && \
                  e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.tagName + '.' + \
                  e.className + ' ' + e.textContent.slice(0, 40))";
    assert_eq!(browser.evaluate(beyond), json!([]));
    let cut = "[...document.querySelectorAll('table')].filter((t) => t.getClientRects().length && \
               t.offsetWidth > t.parentElement.clientWidth + 1).length";
    assert_eq!(browser.evaluate(cut), 0);
    // Charts are as wide as the paper, with letters of 7 points.
    let narrow = "[...document.querySelectorAll('.plot svg')].filter((s) => \
                  s.getClientRects().length && (s.getBoundingClientRect().width < .95 * innerWidth \
                  || [...s.querySelectorAll('text')].some((t) => \
                  parseFloat(getComputedStyle(t).fontSize) * s.getBoundingClientRect().width / \
                  s.viewBox.baseVal.width < 9.3))).map((s) => s.closest('figure').textContent.slice(0, 60))";
    assert_eq!(browser.evaluate(narrow), json!([]));
    let pdf = browser.call(
        "Page.printToPDF",
        json!({"preferCSSPageSize": true, "printBackground": false}),
    )["data"]
        .clone();
    let pdf = pdf.as_str().unwrap();
    assert!(pdf.starts_with("JVBERi0"), "a PDF, as base64");
    if let Some(folder) = std::env::var_os("TARDY_TEST_SCREENSHOTS") {
        std::fs::write(
            std::path::Path::new(&folder).join("two-runs.pdf.base64"),
            pdf,
        )
        .unwrap();
    }
}

#[test]
fn runs_are_named_by_what_tells_them_apart() {
    let place = Workplace::new();
    for (name, kernel) in [("a", "old"), ("b", "new")] {
        let labels = [
            ("board".to_owned(), "7".to_owned()),
            ("kernel".to_owned(), kernel.to_owned()),
        ]
        .into();
        MadeRun {
            labels,
            ..MadeRun::new(vec![latencies(2_000, &[])])
        }
        .write(&place.path(name));
    }
    let page = std::fs::read_to_string(report(&place, "a b")).unwrap();
    assert!(
        page.contains("Latency report: a (kernel=old), b (kernel=new)"),
        "{}",
        &page[..2_000]
    );
    place.tardy("plot a b --kind ccdf -o both.csv").ends_with(0);
    assert!(
        std::fs::read_to_string(place.path("both.csv"))
            .unwrap()
            .contains(",b (kernel=new),")
    );
}

#[test]
fn it_prints_with_its_tables_open() {
    let (_place, file) = of_three_phases();
    let mut browser = Browser::open(
        &file,
        Screen {
            is_dark: true,
            ..Screen::DESK
        },
    );
    browser.call(
        "Emulation.setEmulatedMedia",
        json!({"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]}),
    );
    let color = browser.evaluate("getComputedStyle(document.body).backgroundColor");
    assert_eq!(color, "rgb(255, 255, 255)", "paper is white");
    browser.evaluate("dispatchEvent(new Event('beforeprint'))");
    assert_eq!(
        browser.evaluate("document.querySelectorAll('details:not([open])').length"),
        0
    );
    browser.evaluate("dispatchEvent(new Event('afterprint'))");
    assert_eq!(
        browser.evaluate("document.querySelectorAll('details[open]').length"),
        0
    );
    assert_quiet(&mut browser);
}

#[test]
fn charts_are_there_without_script_and_what_cannot_be_read_is_said() {
    let (place, file) = of_three_phases();
    let page = std::fs::read_to_string(&file).unwrap();
    assert!(page.matches("<svg ").count() == 24 && page.contains("max 240 us"));
    assert!(
        place
            .tardy("report nowhere --html x.html")
            .ends_with(2)
            .stderr
            .contains("not a run folder")
    );
    assert!(
        place
            .tardy("report board7 --html no/such/folder.html")
            .ends_with(3)
            .stderr
            .contains("--html")
    );
    let mut kept_none = three_phases();
    kept_none.latencies = vec![Vec::new()];
    kept_none.write(&place.path("empty"));
    place.tardy("report empty --html empty.html").ends_with(0);
    assert!(
        std::fs::read_to_string(place.path("empty.html"))
            .unwrap()
            .contains("This probe has no samples")
    );
}
