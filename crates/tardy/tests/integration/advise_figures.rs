//! Tests `tardy advise` for simulated runs, and its figures.

use serde_json::{Value, json};
use tardy_core::series::ClockKind;

use crate::advise::{WORK, advise, completions, fast, real_time, starts};
use crate::support::made_run::MadeRun;
use crate::support::workplace::Workplace;

#[test]
fn virtual_time_never_yields_a_verdict_about_hardware() {
    for worst in [120_000, 900_000] {
        let run = MadeRun {
            clock: ClockKind::Virtual,
            ..completions(real_time(), vec![120_000, worst])
        };
        let outcome = advise(&run, WORK).ends_with(4);
        assert!(
            outcome.stdout.contains("no verdict: virtual time"),
            "{}",
            outcome.stdout
        );
        assert!(
            !outcome.stdout.contains("PASSED")
                && !outcome.stdout.contains("FAILED")
                && !outcome.stdout.contains("a year")
                && !outcome.stdout.contains("most useful changes"),
            "{}",
            outcome.stdout
        );
    }
    let place = Workplace::new();
    MadeRun {
        clock: ClockKind::Virtual,
        ..completions(fast(), vec![900_000; 2])
    }
    .write(&place.path("lab"));
    completions(real_time(), vec![120_000; 1000]).write(&place.path("board"));
    let both = place
        .tardy(&format!("advise lab board {WORK} --json"))
        .ends_with(0)
        .json();
    assert_eq!(
        (&both["kernels"][1]["verdict"], &both["kernel"]),
        (&Value::Null, &"Linux 6.1.0-rt PREEMPT_RT".into())
    );
    assert_eq!(both["comparisons"], json!([]));
}

#[test]
fn replicas_of_the_lab_are_runs_of_one_kernel() {
    let place = Workplace::new();
    for (name, pad) in [("a", ""), ("b", " tardy.pad=1-"), ("c", " tardy.pad=2--")] {
        let mut guest = fast();
        guest["kernel"]["command_line"] = json!(format!("quiet tardy.lab=1 preempt=none{pad}"));
        MadeRun {
            clock: ClockKind::Virtual,
            ..starts(guest, vec![900_000; 200])
        }
        .write(&place.path(name));
    }
    let json = place
        .tardy(&format!("advise a b c {WORK} --json"))
        .ends_with(4)
        .json();
    let kernels = json["kernels"].as_array().unwrap();
    assert_eq!(
        (kernels.len(), &kernels[0]["conditions"]["runs"]),
        (1, &json!(["a", "b", "c"]))
    );
}

#[test]
fn runs_of_the_lab_have_curves_of_their_own_and_decide_nothing() {
    let place = Workplace::new();
    let emulated = |run: MadeRun| MadeRun {
        clock: ClockKind::Virtual,
        ..run
    };
    emulated(starts(fast(), vec![900_000; 20_000])).write(&place.path("fast"));
    emulated(starts(real_time(), vec![20_000; 20_000])).write(&place.path("rt"));
    let json = place
        .tardy(&format!("advise fast rt {WORK} --json"))
        .ends_with(4)
        .json();
    let comparison = &json["comparisons"][0];
    assert_eq!(
        (&comparison["clock"], &comparison["fast"]),
        (&"virtual".into(), &"Linux 6.1.0 no PREEMPT".into())
    );
    assert_eq!(comparison["curves"]["latency_fast_ns"]["value"], 900_000.0);
    assert!(
        comparison["curves"]["title"]
            .as_str()
            .unwrap()
            .ends_with("(virtual time: lengths of code paths)"),
        "{comparison}"
    );
    assert_eq!(
        (&json["kernel"], &json["kernels"][1]["verdict"]),
        (&Value::Null, &Value::Null)
    );
    let text = place
        .tardy(&format!("advise fast rt {WORK} --plot own.svg"))
        .ends_with(4)
        .stdout;
    assert!(
        text.contains("model of total delay in VIRTUAL TIME") && !text.contains("PASSED"),
        "{text}"
    );
    assert!(
        std::fs::read_to_string(place.path("own.svg"))
            .unwrap()
            .contains("virtual time")
    );
    // The two runs have different clocks, so they cannot be drawn as a pair.
    starts(real_time(), vec![20_000; 20_000]).write(&place.path("board"));
    let refused = place
        .tardy(&format!("advise fast board {WORK} --plot mixed.svg"))
        .stderr;
    assert!(
        refused.contains("both measured on a machine or both in the lab"),
        "{refused}"
    );
}

#[test]
fn the_papers_figures_are_drawn_with_their_crossovers_on_the_same_axes() {
    let place = Workplace::new();
    place
        .tardy("advise --paper mckenney2009 --plot figures.svg")
        .ends_with(0);
    let svg = std::fs::read_to_string(place.path("figures.svg")).unwrap();
    let document = roxmltree::Document::parse(&svg).unwrap();
    let texts: Vec<&str> = document
        .descendants()
        .filter(|node| node.is_text())
        .filter_map(|node| node.text())
        .map(str::trim)
        .collect();
    let count = |what: &str| texts.iter().filter(|text| text.contains(what)).count();
    assert_eq!(
        (count("17.8 ms of work"), count("2.77 ms of work")),
        (1, 1),
        "{texts:?}"
    );
    assert_eq!(
        (
            count("figure 1: no slowdown") > 0,
            count("model") >= 3,
            count("real fast") >= 3
        ),
        (true, true, true),
        "{texts:?}"
    );
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
    place
        .tardy("advise --paper mckenney2009 --plot figures.png")
        .ends_with(0);
    assert!(
        std::fs::read(place.path("figures.png"))
            .unwrap()
            .starts_with(b"\x89PNG")
    );
    let refused = place
        .tardy("advise --paper mckenney2009 --plot figures.gif")
        .ends_with(2);
    assert!(
        refused.stdout.is_empty() && refused.stderr.contains(".svg"),
        "{refused:?}"
    );
    let nothing = place
        .tardy("advise --work 100us --plot nothing.svg")
        .ends_with(2);
    assert!(
        !nothing.stdout.is_empty(),
        "the advice is there all the same"
    );
    assert!(
        nothing.stderr.contains("no curves") && !place.path("nothing.svg").exists(),
        "{nothing:?}"
    );
}
