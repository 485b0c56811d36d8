//! Tests `tardy history`, which finds the first build with worse numbers among the builds of
//! several boards.

use crate::support;

use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use support::made_run::MadeRun;
use support::workplace::Workplace;

const BOARDS: [&str; 2] = ["arm1", "arm2"];
const BUILDS: u64 = 16;
/// The first build with worse numbers, either of one board or of one load on all boards.
const WORSE: u64 = 11;

/// A run of two loads with 5000 latencies each. The level varies by up to 3 % from build to build.
fn run(board: usize, build: u64, factor: impl Fn(&str) -> f64) -> MadeRun {
    let mut random = rand_pcg::Pcg64::seed_from_u64(build * 10 + board as u64);
    let mut latencies = Vec::new();
    for load in ["idle", "memory"] {
        let level = 20_000.0 * factor(load) * random.random_range(0.97..1.03);
        latencies.extend(
            (0..5_000)
                .map(|_| (level * (1.0 - 0.2 * f64::ln(1.0 - random.random::<f64>()))) as i64),
        );
    }
    MadeRun {
        phases: vec![("idle", 0, 5), ("memory", 5, 1_000_000)],
        started: 1_700_000_000 + build as i64 * 86_400 + board as i64 * 60,
        machine: json!({"kernel": {"release": if build < WORSE { "6.12.1" } else { "6.12.2" }}}),
        labels: [
            ("board", BOARDS[board].to_owned()),
            ("build", format!("b{build:02}")),
        ]
        .map(|(name, text)| (name.to_owned(), text))
        .into_iter()
        .collect(),
        ..MadeRun::new(vec![latencies])
    }
}

/// Writes all builds of all boards. From build `WORSE` on, latencies are multiplied by `factor`,
/// which depends on the board and the load.
fn made(place: &Workplace, factor: impl Fn(usize, &str) -> f64) {
    for build in 0..BUILDS {
        for (board, name) in BOARDS.iter().enumerate() {
            let of_load = |load: &str| {
                if build < WORSE {
                    1.0
                } else {
                    factor(board, load)
                }
            };
            run(board, build, of_load).write(&place.path(&format!("nightly/{name}-{build}")));
        }
    }
}

#[test]
fn a_load_that_is_worse_on_all_boards_is_found_with_its_build_and_what_changed() {
    let place = Workplace::new();
    made(&place, |_, load| if load == "memory" { 1.3 } else { 1.0 });
    let found = place.tardy("history nightly").ends_with(1);
    insta::assert_snapshot!(found.stdout);
    let first = found.stdout.lines().next().unwrap();
    assert!(
        first.starts_with("16 builds of 2 boards, 8 numbers: WORSE: ")
            && first.contains("cyclic latency under memory"),
        "{first}"
    );
    assert!(first.contains("since b11"), "{first}");
    assert!(
        found
            .stdout
            .contains("changed in build b11: machine.kernel.release: 6.12.1 -> 6.12.2"),
        "{}",
        found.stdout
    );
    assert!(!found.stdout.contains("under idle"), "{}", found.stdout);
    let with_page = place.tardy("history nightly --html page.html").ends_with(1);
    assert_eq!(with_page.stdout, found.stdout);
    let page = std::fs::read_to_string(place.path("page.html")).unwrap();
    for said in [
        "Regressions over builds: worse",
        ">b11</th>",
        "since b11",
        "<svg",
        "changed in build b11: machine.kernel.release",
    ] {
        assert!(page.contains(said), "{said}");
    }
    assert!(!page.contains("<script") && !page.contains("NaN"));
    place.tardy("history nightly --html /dev/null").ends_with(3);
    let json = place
        .tardy("history nightly --format json")
        .ends_with(1)
        .json();
    let changes = json["changes"].as_array().unwrap();
    let of_memory =
        |place: &Value| json["series"][place.as_u64().unwrap() as usize]["key"]["load"] == "memory";
    assert!(
        changes
            .iter()
            .all(|change| change["series"].as_array().unwrap().iter().all(of_memory)),
        "{changes:?}"
    );
    assert!(
        changes
            .iter()
            .all(|change| change["from"] == 11 && change["found"].as_u64() <= Some(13)),
        "{changes:?}"
    );
    let share = changes[0]["share"].as_f64().unwrap();
    assert!((0.25..0.35).contains(&share), "{share}");
    let junit = place
        .tardy("history nightly --format junit")
        .ends_with(1)
        .stdout;
    assert!(
        junit.contains("tests=\"2\"")
            && junit.contains("failures=\"2\"")
            && junit.contains("name=\"arm1\""),
        "{junit}"
    );
    let markdown = place
        .tardy("history nightly --format markdown")
        .ends_with(1)
        .stdout;
    assert!(
        markdown.contains("| number | before b11 | since | difference |"),
        "{markdown}"
    );
}

#[test]
fn a_change_that_is_accepted_is_the_new_normal() {
    let place = Workplace::new();
    made(&place, |board, _| if board == 1 { 1.3 } else { 1.0 });
    let found = place.tardy("history nightly").ends_with(1);
    assert!(
        found.stdout.contains("arm2") && !found.stdout.contains("arm1"),
        "{}",
        found.stdout
    );
    assert!(
        found
            .stdout
            .ends_with("next: tardy history ... --accept b11 if this is the new normal\n"),
        "{}",
        found.stdout
    );
    let junit = place
        .tardy("history nightly --format junit")
        .ends_with(1)
        .stdout;
    assert!(junit.contains("failures=\"1\""), "{junit}");
    let unknown = place.tardy("history nightly --accept b99").ends_with(2);
    assert!(
        unknown.stderr.contains("b99: the runs have no such build")
            && !place.path("nightly/accepted.json").exists(),
        "{}",
        unknown.stderr
    );
    place.tardy("history nightly --accept b11").ends_with(0);
    let later = place.tardy("history nightly").ends_with(0);
    assert!(
        later
            .stdout
            .contains("EQUIVALENT: every change is accepted")
            && later.stdout.contains(", accepted"),
        "{}",
        later.stdout
    );
    std::fs::write(place.path("nightly/accepted.json"), "[").unwrap();
    let broken = place.tardy("history nightly").ends_with(2);
    assert!(
        broken
            .stderr
            .contains("accepted.json is not a list of accepted builds"),
        "{}",
        broken.stderr
    );
}

#[test]
fn nothing_changes_in_noise_one_odd_build_is_none_and_few_builds_say_nothing() {
    let place = Workplace::new();
    made(&place, |_, _| 1.0);
    assert!(
        place
            .tardy("history nightly")
            .ends_with(0)
            .stdout
            .contains("EQUIVALENT: 16 builds show no change")
    );
    std::fs::remove_dir_all(place.path("nightly/arm1-12")).unwrap();
    run(0, 12, |_| 5.0).write(&place.path("nightly/arm1-12"));
    assert!(
        place
            .tardy("history nightly")
            .ends_with(0)
            .stdout
            .contains("no change")
    );
    run(0, 1, |_| 1.0).write(&place.path("few/one"));
    let few = place.tardy("history few").ends_with(4);
    assert!(
        few.stdout
            .contains("1 build of 1 board, 4 numbers: INCONCLUSIVE: 1 build is too few"),
        "{}",
        few.stdout
    );
    let missing = place.tardy("history nothing").ends_with(2);
    assert!(missing.stderr.contains("nothing"), "{}", missing.stderr);
}

#[test]
fn without_labels_a_build_is_a_day_and_a_board_is_its_host() {
    let place = Workplace::new();
    for day in 0..3 {
        let machine = json!({"host_name": "rack7"});
        MadeRun {
            labels: std::collections::BTreeMap::new(),
            machine,
            ..run(0, day, |_| 1.0)
        }
        .write(&place.path(&format!("all/{day}")));
    }
    let json = place.tardy("history all --format json").ends_with(4).json();
    assert_eq!(json["boards"], json!(["rack7"]));
    let names: Vec<&str> = json["builds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|build| build["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["2023-11-14", "2023-11-15", "2023-11-16"]);
}

#[test]
fn a_table_stands_for_its_runs_also_when_they_are_gone_and_no_run_counts_twice() {
    let place = Workplace::new();
    made(&place, |_, load| if load == "memory" { 1.3 } else { 1.0 });
    let of_folders = place
        .tardy("history nightly --table runs.csv.gz")
        .ends_with(1)
        .stdout;
    for both in [
        "history runs.csv.gz",
        "history runs.csv.gz nightly",
        "history nightly runs.csv.gz --table again.csv.gz",
    ] {
        assert_eq!(place.tardy(both).ends_with(1).stdout, of_folders, "{both}");
    }
    assert_eq!(
        std::fs::read(place.path("again.csv.gz")).unwrap(),
        std::fs::read(place.path("runs.csv.gz")).unwrap()
    );
    let json = |line: &str| place.tardy(line).ends_with(1).json();
    assert_eq!(
        json("history runs.csv.gz --format json"),
        json("history nightly --format json")
    );
    std::fs::rename(place.path("nightly"), place.path("elsewhere")).unwrap();
    let of_table = place.tardy("history runs.csv.gz").ends_with(1).stdout;
    assert!(
        of_table.contains("changed in build b11: machine.kernel.release: 6.12.1 -> 6.12.2"),
        "{of_table}"
    );
    place.tardy("history runs.csv.gz --accept b11").ends_with(0);
    assert!(place.path("accepted.json").exists(), "beside the table");
}

#[test]
fn what_is_no_table_of_runs_is_named() {
    let place = Workplace::new();
    made(&place, |_, _| 1.0);
    place
        .tardy("history nightly --table runs.csv.gz")
        .ends_with(0);
    let whole = std::fs::read(place.path("runs.csv.gz")).unwrap();
    std::fs::write(place.path("text.csv"), "board,build\n").unwrap();
    std::fs::write(place.path("text.csv.gz"), "board,build\n").unwrap();
    std::fs::write(place.path("cut.csv.gz"), &whole[..whole.len() / 2]).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 3..whole.len() / 2].fill(0xa5);
    std::fs::write(place.path("damaged.csv.gz"), damaged).unwrap();
    for name in [
        "text.csv",
        "text.csv.gz",
        "cut.csv.gz",
        "damaged.csv.gz",
        "missing.csv",
    ] {
        let refused = place
            .tardy(&format!("history {name} --table out.csv"))
            .ends_with(2);
        assert!(
            refused.stderr.starts_with(&format!("tardy: {name}: "))
                && refused.stderr.lines().count() == 1,
            "{}",
            refused.stderr
        );
        assert!(!place.path("out.csv").exists(), "{name}");
    }
    let refused = place.tardy("history nightly --table runs.txt").ends_with(2);
    assert!(
        refused.stderr.contains("must end with .csv or .csv.gz"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_run_that_a_power_failure_emptied_hides_no_other() {
    let place = Workplace::new();
    for name in ["b1", "b2", "b3"] {
        let run = place.path(&format!("h/{name}"));
        std::fs::create_dir_all(run.parent().unwrap()).unwrap();
        MadeRun::new(vec![vec![20_000; 1_000]]).write(&run);
    }
    std::fs::write(place.path("h/b2/run.json"), "").unwrap();
    // A link to a run or to the folder itself does not add a second run.
    std::os::unix::fs::symlink("b3", place.path("h/latest")).unwrap();
    std::os::unix::fs::symlink(".", place.path("h/self")).unwrap();
    for line in ["history h", "report h --html h.html", "show h"] {
        let done = place.tardy(line);
        let is_whole = line.starts_with("show") || done.code() != 2;
        assert!(is_whole, "{line}: {}", done.stderr);
        assert_eq!(
            done.stderr.matches("h/b2/run.json: ").count(),
            1,
            "{line}: {}",
            done.stderr
        );
    }
    let rows = place.tardy("show h").stdout;
    assert_eq!(
        rows.lines().filter(|line| line.starts_with('b')).count(),
        2,
        "{rows}"
    );
    // If the user names a run that cannot be read, the command fails.
    place.tardy("report h/b2 --html b2.html").ends_with(2);
    place.tardy("history h/b2").ends_with(2);
}
