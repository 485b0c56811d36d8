//! Tests runs of `tardy cost` in reports, figures, exports and `--over-time`.

use crate::support;

use support::made_cost::MadeCost;
use support::workplace::Workplace;
use tardy_browser::{Browser, Screen};

const METRICS: &str = "--metric null-call --metric stat --metric pipe-bandwidth";
const SHORT: &str = "--rounds 2 --trials 3 --trial-length 100us --quiet";

/// Two runs of three services, `old` and `new`.
fn two_runs() -> Workplace {
    let place = Workplace::new();
    for run in ["old", "new"] {
        place
            .tardy(&format!("cost {METRICS} {SHORT} --out {run}"))
            .ends_with(0);
    }
    place
}

#[test]
fn a_report_of_costs_has_a_bar_a_run_every_number_and_no_error() {
    let place = two_runs();
    place
        .tardy("report old new --html report.html")
        .ends_with(0);
    let mut browser = Browser::open(&place.path("report.html"), Screen::DESK);
    assert_eq!(browser.errors(), Vec::<serde_json::Value>::new());
    let requests = browser.requests();
    assert!(
        requests.len() == 1 && requests[0].starts_with("file://"),
        "{requests:?}"
    );
    let text = browser.evaluate("document.body.innerText");
    let text = text.as_str().unwrap();
    for words in [
        "Cost report: old, new",
        "System calls and processes",
        "Bandwidths",
        "tardy cost --metric null-call",
        "All facts",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let mut cell = |(name, column): (&str, usize)| {
        let row = format!(
            "[...document.querySelectorAll('figure tbody tr')].find(row => \
             row.cells[0].textContent === '{name}')"
        );
        browser
            .evaluate(&format!("{row}.cells[{column}].textContent"))
            .as_str()
            .unwrap()
            .to_owned()
    };
    let shown = [
        ("null-call", 2),
        ("null-call", 3),
        ("pipe-bandwidth", 2),
        ("stat", 9),
    ]
    .map(&mut cell);
    let costs = place.tardy("show old --json").json();
    let metric = |name: &str| {
        costs["metrics"]
            .as_array()
            .unwrap()
            .iter()
            .find(|metric| metric["name"] == name)
            .unwrap()
            .clone()
    };
    assert_eq!((&*shown[0], &*shown[2]), ("us", "MB/s"));
    let figure = metric("null-call")["cost"].as_f64().unwrap() / 1e3;
    assert!(
        (shown[1].parse::<f64>().unwrap() / figure - 1.0).abs() < 0.01,
        "{shown:?} {figure}"
    );
    assert!(shown[3].ends_with('%'), "{shown:?}");
    browser.screenshot("costs");
}

#[test]
fn costs_and_latencies_are_never_in_one_report() {
    let place = Workplace::new();
    place
        .tardy(&format!("cost --metric null-call {SHORT} --out c"))
        .ends_with(0);
    support::made_run::MadeRun::new(vec![vec![10_000; 100]]).write(&place.path("r"));
    for (line, words) in [
        ("report r c --html x.html", "make one report of each kind"),
        ("plot c --kind hist -o x.svg", "--kind bars"),
        (
            "plot c --kind bars --probe nope -o x.svg",
            "choose from processor",
        ),
        (
            "export c --format hgrm",
            "choose one of csv, json, markdown, openmetrics",
        ),
    ] {
        let refused = place.tardy(line).ends_with(2);
        assert!(
            refused.stderr.contains(words) && refused.stdout.is_empty(),
            "{line}: {refused:?}"
        );
    }
    assert!(!place.path("x.html").exists() && !place.path("x.svg").exists());
}

#[test]
fn a_picture_has_one_group_and_a_bar_a_run() {
    let place = two_runs();
    let refused = place
        .tardy("plot old new --kind bars -o x.svg")
        .ends_with(2);
    assert!(
        refused.stderr.contains("processor, bandwidth"),
        "{refused:?}"
    );
    place
        .tardy("plot old new --kind bars --probe processor -o x.svg")
        .ends_with(0);
    let picture = std::fs::read_to_string(place.path("x.svg")).unwrap();
    for words in [
        "null-call",
        "stat",
        "old (",
        "new (",
        "Cost of system calls and processes",
    ] {
        assert!(picture.contains(words), "{words}");
    }
    assert!(!picture.contains("pipe-bandwidth"));
}

#[test]
fn every_trial_is_exported() {
    let place = two_runs();
    let text = place.tardy("export old --format csv").ends_with(0).stdout;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        (lines[0], lines.len()),
        (
            "metric,group,trial,ns_per_operation,bytes_per_operation",
            1 + 3 * 6
        )
    );
    let costs = place.tardy("show old --json").json();
    let exported: Vec<f64> = lines[1..]
        .iter()
        .filter(|line| line.starts_with("stat,"))
        .map(|line| line.split(',').nth(3).unwrap().parse().unwrap())
        .collect();
    let stat = costs["metrics"]
        .as_array()
        .unwrap()
        .iter()
        .find(|metric| metric["name"] == "stat")
        .unwrap();
    assert_eq!(
        exported,
        stat["values"]
            .as_array()
            .unwrap()
            .iter()
            .map(|value| value.as_f64().unwrap())
            .collect::<Vec<_>>()
    );
    assert_eq!(
        place.tardy("export old --format json").ends_with(0).json(),
        costs
    );
    let table = place
        .tardy("export old --format markdown")
        .ends_with(0)
        .stdout;
    assert!(
        table.contains("| null-call | us |") && table.contains("| pipe-bandwidth | MB/s |"),
        "{table}"
    );
    let metrics = place
        .tardy("export old --format openmetrics")
        .ends_with(0)
        .stdout;
    assert!(
        metrics.contains("tardy_cost_seconds{metric=\"null-call\"} ")
            && metrics.ends_with("# EOF\n"),
        "{metrics}"
    );
}

#[test]
fn a_cost_that_grew_is_found_where_it_did() {
    let place = Workplace::new();
    std::fs::create_dir(place.path("runs")).unwrap();
    for run in 0_u8..16 {
        // The order of start times differs from the order of names. From the tenth run on, the cost
        // is a quarter higher.
        let folder = place.path(&format!("runs/{}", (b'p' - run) as char));
        let seconds = if run < 9 { 100.0 } else { 125.0 } + f64::from(run * 7 % 5) / 10.0;
        MadeCost {
            machine: serde_json::json!({"kernel": {"release": "6.1.0"}}),
            sys: [seconds; 3],
        }
        .write(&folder);
        let file = folder.join("run.json");
        let mut record: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        record["started"]["realtime_ns"] =
            (1_700_000_000_000_000_000_i64 + i64::from(run) * 1_000_000_000).into();
        std::fs::write(file, serde_json::to_vec(&record).unwrap()).unwrap();
    }
    let found = place
        .tardy("compare --over-time runs --format json")
        .ends_with(1)
        .json();
    assert_eq!(
        (&found["verdict"], found["runs"].as_array().unwrap().len()),
        (&"worse".into(), 16)
    );
    let track = &found["tracks"][0];
    assert_eq!(
        (
            track["steps"].as_array().unwrap().len(),
            &track["steps"][0]["run"]
        ),
        (1, &9.into()),
        "{track}"
    );
    let text = place.tardy("compare --over-time runs").ends_with(1).stdout;
    assert!(
        text.contains("16 runs: WORSE: sys: 100.189 s -> 125.186 s since run 10"),
        "{text}"
    );
    let junit = place
        .tardy("compare --over-time runs --format junit")
        .ends_with(1)
        .stdout;
    assert!(
        junit.contains("<failure") && junit.contains("costs over time"),
        "{junit}"
    );
    let table = place
        .tardy("compare --over-time runs --format markdown")
        .ends_with(1)
        .stdout;
    assert!(table.contains("| sys | s | 100.0"), "{table}");
    let few = place
        .tardy("compare --over-time runs/p runs/o")
        .ends_with(4)
        .stdout;
    assert!(few.contains("too few to show a change"), "{few}");
}
