//! Tests files with defaults for `tardy run`, and labels.

use crate::support;

use support::machine;
use support::workplace::{Outcome, Workplace, finish};

fn with_file(place: &Workplace, text: &str, line: &str) -> Outcome {
    std::fs::write(place.path("tardy.toml"), text).unwrap();
    let mut command = place.command(line.split_whitespace());
    finish({
        command.env("TARDY_CONFIG", place.path("tardy.toml"));
        command
    })
}

#[test]
fn defaults_of_a_file_are_used_and_told_and_flags_go_before_them() {
    let (place, cpu) = (Workplace::new(), machine::last_cpu());
    let text = format!(
        "cpus = \"{cpu}\"\ndeadline = \"7ms\"\nskipped = 3\n[labels]\nboard = \"imx8-07\"\n"
    );
    let line = "run --for 500ms --load none --skipped 1000 --label site=lab --quiet --out run";
    with_file(&place, &text, line);
    let record = place.record("run");
    assert_eq!(record["plan"]["measured_cpus"], cpu.to_string());
    assert_eq!(
        (
            &record["plan"]["window"]["latest_ns"],
            &record["plan"]["skipped_allowed"]
        ),
        (&7_000_000.into(), &1000.into()),
        "{record}"
    );
    assert_eq!(
        record["plan"]["labels"],
        serde_json::json!({"board": "imx8-07", "site": "lab"})
    );
    let sentence = format!(
        "from {}: --cpus {cpu} --deadline 7ms",
        place.path("tardy.toml").display()
    );
    for shown in [
        place.tardy("show run").stdout,
        with_file(&place, &text, "run --dry-run --skipped 1").stdout,
    ] {
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains(&sentence), "{shown}");
    }
    assert!(
        place
            .tardy("show run")
            .stdout
            .contains("labels: board=imx8-07, site=lab")
    );
    place.tardy("report run --html run.html").ends_with(0);
    let report = std::fs::read_to_string(place.path("run.html")).unwrap();
    assert!(report.contains("labels: board=imx8-07, site=lab") && report.contains(&sentence));
}

#[test]
fn wrong_files_are_refused_by_run_alone_and_the_users_file_is_found() {
    let place = Workplace::new();
    let refused = with_file(&place, "cpu = \"1\"\n", "run --dry-run").ends_with(2);
    assert!(
        refused
            .stderr
            .contains("tardy.toml: `cpu` is not a key (did you mean `cpus`?)"),
        "{}",
        refused.stderr
    );
    let refused = with_file(
        &place,
        "deadline = \"200\"\n",
        "run --dry-run --deadline 1ms",
    )
    .ends_with(2);
    assert!(
        refused
            .stderr
            .contains("tardy.toml: deadline: invalid value '200'"),
        "{}",
        refused.stderr
    );
    with_file(&place, "cpu = \"1\"\n", "list probes").ends_with(0);
    std::fs::create_dir(place.path("config")).unwrap();
    std::fs::write(place.path("config/tardy.toml"), "deadline = \"9ms\"\n").unwrap();
    let mut command = place.command(["run", "--dry-run"]);
    command
        .env_remove("TARDY_CONFIG")
        .env("XDG_CONFIG_HOME", place.path("config"));
    let read = finish(command).ends_with(0);
    assert!(
        read.stdout.contains("config/tardy.toml: --deadline 9ms"),
        "{}",
        read.stdout
    );
}
