//! Tests the metrics of a current run, read directly and by a real Prometheus with the rules and
//! the dashboard that are shipped.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::Value;

use crate::support;

use support::machine;
use support::workplace::{PATIENCE, Workplace};

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// Reads `target` with its HTTP header. Returns `None` if no server answers.
pub(crate) fn get(port: u16, target: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    )
    .ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}

/// Waits until `look` returns a value.
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "{what} did not come");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// The sum of the values on lines that start with `begin`.
pub(crate) fn sum(text: &str, begin: &str) -> f64 {
    text.lines()
        .filter(|line| line.starts_with(begin))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

#[test]
fn a_run_under_way_answers_with_its_numbers_and_its_folder_has_no_fewer() {
    let place = Workplace::new();
    let port = free_port();
    let run = place.start(&format!(
        "run --for 6s --load io --deadline 1s --quiet --metrics {port} --out run"
    ));
    // On a busy machine the samples can appear before the status of the run.
    let first = until("the first samples and the run's status", || {
        get(port, "/metrics").filter(|text| {
            sum(text, "tardy_latency_seconds_count") > 100.0 && text.contains("tardy_run_info{")
        })
    });
    assert!(
        first.contains("application/openmetrics-text") && first.ends_with("# EOF\n"),
        "{first}"
    );
    for line in [
        "tardy_run_info{",
        "tardy_deadline_seconds 1.000000000\n",
        "tardy_deadline_misses_total{probe=\"cyclic\",cpu=\"",
        "tardy_lost_samples_total{",
    ] {
        assert!(first.contains(line), "no `{line}` in\n{first}");
    }
    let under_load = until("the load", || {
        get(port, "/metrics").filter(|text| {
            sum(
                text,
                "tardy_load_operations_total{phase=\"io\",load=\"io\"}",
            ) > 0.0
        })
    });
    assert!(
        under_load.contains("tardy_run_phase{phase=\"io\"} 1\n"),
        "{under_load}"
    );
    let (early, late) = (
        sum(&first, "tardy_latency_seconds_count"),
        sum(&under_load, "tardy_latency_seconds_count"),
    );
    assert!(early < late, "{early} {late}");
    assert!(get(port, "/run.json").unwrap().starts_with("HTTP/1.1 404"));
    let outcome = run.wait();
    assert!(
        matches!(outcome.status.code(), Some(0 | 4)),
        "{}",
        outcome.stderr
    );
    assert!(
        get(port, "/metrics").is_none(),
        "the port is closed after the run"
    );
    let exported = place
        .tardy("export run --format openmetrics")
        .ends_with(0)
        .stdout;
    assert!(sum(&exported, "tardy_latency_seconds_count") >= late);
}

#[test]
fn a_port_that_cannot_be_had_is_refused_before_anything_is_measured() {
    let place = Workplace::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let refused = place
        .tardy(&format!(
            "run --for 1s --load none --metrics {port} --out run"
        ))
        .ends_with(2);
    assert!(
        refused.stderr.contains("--metrics") && refused.stderr.contains("another port"),
        "{}",
        refused.stderr
    );
    let refused = place
        .tardy("run --for 1s --load none --metrics here --out run")
        .ends_with(2);
    assert!(
        refused.stderr.contains("127.0.0.1:9877"),
        "{}",
        refused.stderr
    );
    assert!(!place.path("run").exists());
}

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy/prometheus")
        .join(name)
}

/// Returns the answer of Prometheus to a query.
fn asked(port: u16, question: &str) -> Value {
    let encoded: String = question
        .bytes()
        .map(|byte| format!("%{byte:02X}"))
        .collect();
    // Until it has started, Prometheus answers that it is not ready.
    let text = until("an answer", || {
        get(port, &format!("/api/v1/query?query={encoded}"))
            .filter(|text| text.contains("\"status\""))
    });
    let body = text.split_once("\r\n\r\n").unwrap().1;
    // Prometheus may answer in chunks.
    let json = &body[body.find('{').unwrap()..=body.rfind('}').unwrap()];
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn prometheus_reads_a_run_and_the_shipped_rules_and_dashboard_are_about_what_it_reads() {
    let place = Workplace::new();
    let (port, own) = (free_port(), free_port());
    let settings = std::fs::read_to_string(shipped("prometheus.yml")).unwrap();
    let settings = settings
        .replace("127.0.0.1:9877", &format!("127.0.0.1:{port}"))
        .replace("15s", "1s");
    std::fs::write(place.path("prometheus.yml"), settings).unwrap();
    for name in ["tardy.rules.yml", "tardy.rules.test.yml"] {
        std::fs::copy(shipped(name), place.path(name)).unwrap();
    }
    let tested = place
        .prepared(
            machine::program("promtool", "prometheus"),
            ["test", "rules", "tardy.rules.test.yml"],
        )
        .output()
        .unwrap();
    assert!(
        tested.status.success(),
        "{}{}",
        String::from_utf8_lossy(&tested.stdout),
        String::from_utf8_lossy(&tested.stderr)
    );
    // Every wake-up misses the deadline, so the alert must fire.
    let _run = place.start(&format!(
        "run --for 120s --load none --deadline 1ns --quiet --metrics {port} --out run"
    ));
    let arguments = [
        "--config.file=prometheus.yml",
        "--storage.tsdb.path=data",
        &format!("--web.listen-address=127.0.0.1:{own}"),
    ];
    let _prometheus = place.start_command(machine::program("prometheus", "prometheus"), arguments);
    let value = |question: &str| {
        asked(own, question)["data"]["result"][0]["value"][1]
            .as_str()
            .map(|text| text.parse::<f64>().unwrap())
    };
    until("samples in Prometheus", || {
        value("sum(tardy_latency_seconds_count)").filter(|&count| count > 1000.0)
    });
    until("the recorded percentile", || {
        value("max(tardy:latency_seconds:p999_5m)").filter(|&high| high > 0.0)
    });
    until("the alert", || {
        value("count(ALERTS{alertname=\"TardyDeadlineMissed\"})")
    });
    let dashboard: Value =
        serde_json::from_str(&std::fs::read_to_string(shipped("grafana-dashboard.json")).unwrap())
            .unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(!panels.is_empty());
    for target in panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap())
    {
        let question = target["expr"].as_str().unwrap().replace("$instance", ".*");
        let answer = asked(own, &question);
        assert_eq!(answer["status"], "success", "{question}: {answer}");
        // A run without loads has no metrics about loads.
        let is_of_loads = question.contains("tardy_load_");
        assert!(
            is_of_loads
                || answer["data"]["result"]
                    .as_array()
                    .is_some_and(|rows| !rows.is_empty()),
            "{question}: {answer}"
        );
    }
}
