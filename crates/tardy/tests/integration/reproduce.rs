//! Tests how `tardy reproduce` tests the claims of papers on the folders of their experiments.

use serde_json::{Value, json};

use crate::support::made_run::MadeRun;
use crate::support::workplace::Workplace;
use tardy_sys::{process, signal};

fn kernel(mode: &str) -> Value {
    let preemption = if mode == "rt" {
        json!({"compiled": "real-time"})
    } else {
        json!({"compiled": "dynamic", "mode": mode})
    };
    json!({"kernel": {"release": "6.1.0", "preemption": preemption}})
}

/// Writes a run of the injector's experiment as the lab does: a folder per kernel with a folder per
/// replica.
fn write(place: &Workplace, mode: &str, replica: u32, latencies: Vec<i64>) {
    let folder = place.path(&format!(
        "out/mckenney-injector/6.1-{mode}/replica-{replica:03}"
    ));
    std::fs::create_dir_all(folder.parent().unwrap()).unwrap();
    MadeRun {
        machine: kernel(mode),
        probe: ("nanosleep", "latency"),
        ..MadeRun::new(vec![latencies])
    }
    .write(&folder);
}

fn claim(found: &Value, id: &str) -> Value {
    let papers = found["papers"].as_array().unwrap();
    let mut claims = papers
        .iter()
        .flat_map(|paper| paper["claims"].as_array().unwrap());
    claims
        .find(|claim| claim["id"] == id)
        .unwrap_or_else(|| panic!("no claim {id}"))
        .clone()
}

const REPORT: &str = "reproduce mckenney2009 --on lab --out out --report-only --quiet";

#[test]
fn a_claim_holds_where_its_rule_holds_in_every_replica() {
    let place = Workplace::new();
    write(&place, "none", 0, vec![10_000, 3_000_000, 12_000]);
    write(&place, "rt", 0, vec![10_000, 20_000, 13_000]);
    let found = place.tardy(&format!("{REPORT} --json")).ends_with(0).json();
    let in_time = claim(&found, "real-time-keeps-the-injector-in-time");
    assert_eq!(
        (
            in_time["outcome"].as_str(),
            in_time["cases"].as_u64(),
            in_time["held"].as_u64()
        ),
        (Some("holds"), Some(1), Some(1))
    );
    assert_eq!(
        in_time["values"][0],
        json!({"name": "max", "published": "20 \
                          us", "ours": [20_000.0, 20_000.0, 20_000.0], "unit": "time"})
    );
    assert_eq!(
        claim(&found, "real-fast-misses-the-injector")["outcome"],
        "holds"
    );
    // One case per kernel.
    let never_early = claim(&found, "no-sleep-is-too-short");
    assert_eq!(
        (
            never_early["outcome"].as_str(),
            never_early["cases"].as_u64()
        ),
        (Some("holds"), Some(2))
    );

    write(&place, "none", 1, vec![10_000, -5, 12_000]);
    write(&place, "rt", 1, vec![10_000, 111_000]);
    let found = place.tardy(&format!("{REPORT} --json")).ends_with(0).json();
    let in_time = claim(&found, "real-time-keeps-the-injector-in-time");
    assert_eq!(
        (
            in_time["outcome"].as_str(),
            in_time["cases"].as_u64(),
            in_time["held"].as_u64()
        ),
        (Some("does-not-hold"), Some(2), Some(1))
    );
    assert_eq!(
        in_time["values"][0]["ours"],
        json!([20_000.0, 20_000.0, 111_000.0])
    );
    let never_early = claim(&found, "no-sleep-is-too-short");
    assert_eq!(
        (never_early["cases"].as_u64(), never_early["held"].as_u64()),
        (Some(4), Some(3))
    );
}

#[test]
fn what_cannot_be_tested_says_what_is_missing() {
    let place = Workplace::new();
    write(&place, "full", 0, vec![10_000; 10]);
    let found = place.tardy(&format!("{REPORT} --json")).ends_with(0).json();
    let of = |id: &str| claim(&found, id)["why"].as_str().unwrap().to_owned();
    assert_eq!(
        of("real-time-keeps-the-injector-in-time"),
        "a kernel of the kind rt is needed; measured kernels: full"
    );
    assert_eq!(
        of("overhead-falls-on-system-time"),
        "there is no run of mckenney-overhead"
    );
    assert_eq!(
        of("a-whole-build-costs-a-sixth-more"),
        "a guest of the lab has no compiler"
    );
    // A claim about each kernel is tested on the only kernel that was measured.
    assert_eq!(claim(&found, "no-sleep-is-too-short")["outcome"], "holds");
    let counts = &found["counts"];
    assert_eq!(
        (counts["hold"].as_u64(), counts["do_not_hold"].as_u64()),
        (Some(1), Some(0))
    );
}

#[test]
fn text_page_and_json_say_the_same_and_are_the_same_again() {
    let place = Workplace::new();
    write(&place, "none", 0, vec![10_000, 3_000_000]);
    write(&place, "rt", 0, vec![10_000, 20_000]);
    let read = || {
        ["reproduce.html", "reproduce.json"]
            .map(|name| std::fs::read_to_string(place.path(&format!("out/{name}"))).unwrap())
    };
    let text = place.tardy(REPORT).ends_with(0).stdout;
    let first = read();
    assert_eq!(place.tardy(REPORT).ends_with(0).stdout, text);
    assert_eq!(read(), first);
    assert!(
        text.starts_with("19 claims of 1 paper, in the lab, with quick runs: "),
        "{text}"
    );
    assert!(
        text.contains("max < 111us: max 20.0 us (paper: 20 us)"),
        "{text}"
    );
    assert!(
        first[0].contains("max 3.00 ms (paper: 3000 us)")
            && first[0].contains("<code>max &lt; 111us</code>"),
        "{}",
        first[0]
    );
    for line in [
        "tardy lab run --snapshots --replicas 1 --kernel debian:6.1 --preempt none --kernel \
         debian:6.1-rt",
        "virtual",
    ] {
        assert!(text.contains(line) && first[0].contains(line), "{line}");
    }
}

#[test]
fn a_dry_run_prints_commands_and_makes_nothing() {
    let place = Workplace::new();
    let text = place.tardy("reproduce all --dry-run").ends_with(0).stdout;
    assert!(
        text.contains(
            "\nwilliams-realfeel: tardy run --probe rtc:hz=2048 --priority 98 --load ttcp"
        ),
        "{text}"
    );
    assert!(
        text.contains("\nkoolwal-lmbench: tardy cost --metric null-call --metric null-io"),
        "{text}"
    );
    assert!(
        !text.contains("abeni-")
            || text.starts_with("abeni-timeline: tardy run --scenario abeni2002"),
        "{text}"
    );
    let left_out = "\nOnly --full includes: abeni-in-turn, abeni-shuffled\n";
    assert!(text.contains(left_out), "{text}");
    let full = place
        .tardy("reproduce abeni2002 --on lab --full --replicas 1 --dry-run")
        .ends_with(0)
        .stdout;
    assert!(
        full.contains("\nabeni-shuffled: tardy lab run") && !full.contains("Only --full"),
        "{full}"
    );
    assert_eq!(std::fs::read_dir(place.path("")).unwrap().count(), 0);
    place.tardy("reproduce nobody1999 --dry-run").ends_with(2);
    place.tardy("reproduce all --report-only").ends_with(2);
}

#[test]
fn a_long_reproduction_is_planned_in_parts_with_an_estimate_of_what_is_left() {
    let place = Workplace::new();
    let line = "reproduce koolwal2009 --on lab --full --replicas 4 --out out --dry-run";
    let planned = |further: &str| {
        let text = place
            .tardy(&format!("{line} {further}"))
            .ends_with(0)
            .stdout;
        let (commands, estimate) = text.trim_end().rsplit_once('\n').unwrap();
        let commands: Vec<String> = commands.lines().map(str::to_owned).collect();
        (commands, estimate.to_owned())
    };
    let (all, estimate) = planned("");
    let first = "koolwal-cyclictest/1-of-4: tardy lab run --shard 1/4 --snapshots --replicas 4 \
                 --time-limit 60h";
    assert!(all[0].starts_with(first), "{}", all[0]);
    assert!(
        estimate.starts_with("24 steps, 84 guests, ")
            && estimate.contains(" of virtual time, not counting 8 steps for costs. At "),
        "{estimate}"
    );
    // Together, the two shards have exactly the steps of the whole plan.
    let mut shared: Vec<String> = ["--shard 1/2", "--shard 2/2"]
        .iter()
        .flat_map(|shard| planned(shard).0)
        .collect();
    shared.sort();
    let mut sorted = all.clone();
    sorted.sort();
    assert_eq!(shared, sorted);
    place.tardy(&format!("{line} --shard 3/2")).ends_with(2);

    // A finished part is not repeated.
    let folder = place.path("out/koolwal-cyclictest/1-of-4");
    std::fs::create_dir_all(folder).unwrap();
    let (left, less) = planned("");
    assert_eq!(left, all[1..]);
    assert!(less.starts_with("23 steps, 81 guests, "), "{less}");
}

#[test]
fn a_shard_runs_its_step_once_and_removes_the_reason_of_an_earlier_refusal() {
    let place = Workplace::new();
    std::fs::create_dir(place.path("out")).unwrap();
    let why = place.path("out/mckenney-sweep-1.why");
    std::fs::write(&why, "an earlier try was refused").unwrap();
    let line = "reproduce mckenney2009 --shard 6/19 --out out";
    let first = place.tardy(line).ends_with(0);
    assert!(
        first.stderr.starts_with("1 step, about "),
        "{}",
        first.stderr
    );
    let mut names: Vec<String> = std::fs::read_dir(place.path("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["mckenney-sweep-1", "reproduce.html", "reproduce.json"]
    );
    let run = std::fs::read(place.path("out/mckenney-sweep-1/run.json")).unwrap();
    let again = place.tardy(line).ends_with(0);
    assert!(again.stderr.starts_with("0 steps, "), "{}", again.stderr);
    assert_eq!(
        std::fs::read(place.path("out/mckenney-sweep-1/run.json")).unwrap(),
        run
    );
}

#[test]
fn unknown_reasons_are_traced_by_watched_guests_with_the_kernels_of_the_claim() {
    let place = Workplace::new();
    let of = |mode: &str, worst: i64| {
        let run = MadeRun {
            machine: kernel(mode),
            probe: ("nanosleep", "latency"),
            phases: vec![("load", 0, 1_000_000)],
            ..MadeRun::new(vec![vec![10_000, 12_000, worst]])
        };
        write_run(&place, "mckenney-busy", mode, &run);
    };
    of("none", 60_000);
    of("rt", 50_000);
    let line = "reproduce mckenney2009 --on lab --out out --dry-run";
    let text = place.tardy(&format!("{line} --trace")).ends_with(0).stdout;
    let command = "\nmckenney-busy-traced: tardy lab run --snapshots --replicas 1 --kernel \
                   debian:6.1 --preempt none --kernel debian:6.1-rt --watch -- --probe \
                   nanosleep:period=1ms";
    assert!(text.contains(command), "{text}");
    let untraced = place.tardy(line).ends_with(0).stdout;
    assert!(!untraced.contains("--watch"), "{untraced}");
    let local = "reproduce mckenney2009 --out out --dry-run --trace";
    let refused = place.tardy(local).ends_with(2).stderr;
    assert!(refused.contains("--trace needs --on lab"), "{refused}");
}

/// A run of an experiment on a kernel, as the lab writes it.
fn write_run(place: &Workplace, experiment: &str, mode: &str, run: &MadeRun) {
    let folder = place.path(&format!("out/{experiment}/6.1-{mode}/replica-000"));
    std::fs::create_dir_all(folder.parent().unwrap()).unwrap();
    run.write(&folder);
}

#[test]
fn the_papers_figures_are_drawn_from_the_runs_that_there_are() {
    let place = Workplace::new();
    write(&place, "none", 0, vec![10_000, 3_000_000, 12_000]);
    write(&place, "rt", 0, vec![10_000, 20_000, 13_000]);
    for (threads, worst) in [(1, 20_000), (4, 30_000), (12, 70_000)] {
        let run = MadeRun {
            machine: kernel("rt"),
            probe: ("parallel", "latency"),
            ..MadeRun::new(vec![vec![10_000, worst]])
        };
        write_run(&place, &format!("mckenney-sweep-{threads}"), "rt", &run);
    }
    place.tardy(REPORT).ends_with(0);
    let page = std::fs::read_to_string(place.path("out/reproduce.html")).unwrap();
    let figure = |name: &str| {
        page.split("<h3>")
            .find(|part| part.starts_with(name))
            .unwrap_or_else(|| panic!("no {name}: {page}"))
    };
    let sweep = figure("Figure 4</h3>");
    // The table has one row per measured number of threads, with the mean, the 99.999th percentile
    // and the maximum.
    for cells in [
        "<td>1</td><td>15.000</td><td>20.000</td><td>20.000</td>",
        "<td>12</td><td>40.000</td><td>70.000</td><td>70.000</td>",
    ] {
        assert!(sweep.contains(cells), "{cells}: {sweep}");
    }
    assert!(
        sweep.contains("<svg") && !sweep.contains("<td>2</td><td>"),
        "{sweep}"
    );
    // One chart for each slowdown.
    let delays = figure("Figures 1 to 3</h3>");
    assert_eq!(delays.matches("<svg").count(), 3, "{delays}");
    let histogram = figure("Figure 6</h3>");
    for kernel in ["none", "rt"] {
        assert!(
            histogram.contains("<svg")
                && histogram.contains(&format!("</i> {kernel}</span>").replace("</i> ", "</i>")),
            "{histogram}"
        );
    }
    assert!(
        !page.contains("http://") || !page.contains("src="),
        "it loads nothing"
    );
    // A figure whose experiments were not run is marked as such.
    place
        .tardy("reproduce abeni2002 --on lab --out out --report-only --quiet")
        .ends_with(0);
    let page = std::fs::read_to_string(place.path("out/reproduce.html")).unwrap();
    assert!(
        page.split("<h3>")
            .any(|part| part.starts_with("Figure 3</h3>") && part.contains("no run")),
        "{page}"
    );
}

#[test]
fn a_figure_is_one_chart_of_all_kernels_or_one_of_each() {
    let place = Workplace::new();
    for (mode, worst) in [("none", 9_000_000), ("full", 300_000), ("rt", 50_000)] {
        let run = MadeRun {
            machine: kernel(mode),
            probe: ("rtc", "latency"),
            ..MadeRun::new(vec![vec![10_000, 12_000, worst]])
        };
        write_run(&place, "williams-realfeel", mode, &run);
        let run = MadeRun {
            machine: kernel(mode),
            phases: vec![("no-load", 0, 1), ("paper-script", 1, 2)],
            ..MadeRun::new(vec![[vec![10_000; 1000], vec![11_000, worst]].concat()])
        };
        write_run(&place, "koolwal-cyclictest", mode, &run);
    }
    let figure = |paper: &str, name: &str| {
        place
            .tardy(&format!(
                "reproduce {paper} --on lab --out out --report-only --quiet"
            ))
            .ends_with(0);
        let page = std::fs::read_to_string(place.path("out/reproduce.html")).unwrap();
        page.split("<h3>")
            .find(|part| part.starts_with(&format!("{name}</h3>")))
            .unwrap_or_else(|| panic!("no {name}: {page}"))
            .to_owned()
    };
    let charts = |paper, name| figure(paper, name).matches("<svg").count();
    assert_eq!(
        (
            charts("williams2002", "Results, each kernel"),
            charts("williams2002", "Results, vanilla and preempt"),
            charts("koolwal2009", "Appendix III b, bars"),
            charts("koolwal2009", "Appendix III b, scatter plots"),
        ),
        (3, 1, 1, 2)
    );
    // The histogram of a phase contains no samples of the other phase.
    let loaded = figure("koolwal2009", "Appendix III b, histograms, load");
    assert!(
        loaded.contains("2 samples in bins") && !loaded.contains("no-load"),
        "{loaded}"
    );
}

#[test]
fn a_claim_that_does_not_hold_has_a_reason_or_says_that_it_is_unknown() {
    let place = Workplace::new();
    for (mode, worst) in [("none", 400_000), ("voluntary", 400_000), ("rt", 5_000_000)] {
        let run = MadeRun {
            machine: kernel(mode),
            probe: ("rtc", "latency"),
            phases: vec![("load", 0, 1_000_000)],
            ..MadeRun::new(vec![vec![10_000, 12_000, worst]])
        };
        write_run(&place, "williams-realfeel", mode, &run);
    }
    let line = "reproduce williams2002 --on lab --out out --report-only --quiet";
    let found = place.tardy(&format!("{line} --json")).ends_with(0).json();
    let near = claim(&found, "the-combination-stays-near-a-millisecond");
    let traced = near["reason"]["traced"].as_str().unwrap();
    let tail = claim(&found, "the-combination-has-five-nines-below-a-millisecond");
    let early = claim(&found, "low-latency-has-five-nines-below-700us");
    assert_eq!(
        (&near["outcome"], &tail["outcome"], &early["outcome"]),
        (
            &json!("does-not-hold"),
            &json!("does-not-hold"),
            &json!("holds")
        )
    );
    assert_eq!(
        (&tail["reason"], &early["reason"]),
        (&json!("unknown"), &Value::Null)
    );
    let text = place.tardy(line).ends_with(0).stdout;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains(&format!("reason (traced): {traced}")) && text.contains("reason: unknown"),
        "{text}"
    );
}

#[test]
fn a_reason_that_was_traced_in_the_lab_on_amd64_is_given_only_there() {
    let reason = |architecture: &str, place: &str| {
        let workplace = Workplace::new();
        for (mode, worst) in [("none", 400_000), ("rt", 5_000_000)] {
            let mut machine = kernel(mode);
            machine["kernel"]["architecture"] = json!(architecture);
            let run = MadeRun {
                machine,
                probe: ("rtc", "latency"),
                phases: vec![("load", 0, 1_000_000)],
                ..MadeRun::new(vec![vec![10_000, 12_000, worst]])
            };
            write_run(&workplace, "williams-realfeel", mode, &run);
        }
        let line = format!("reproduce williams2002 --on {place} --out out --report-only --json");
        let found = workplace.tardy(&line).ends_with(0).json();
        claim(&found, "the-combination-stays-near-a-millisecond")["reason"].clone()
    };
    assert!(reason("x86_64", "lab")["traced"].is_string());
    assert_eq!(reason("aarch64", "lab"), json!("unknown"));
    assert_eq!(reason("x86_64", "local"), json!("unknown"));
}

#[test]
fn every_published_table_stands_in_the_report_and_says_why_nothing_of_ours_does() {
    let place = Workplace::new();
    std::fs::create_dir(place.path("out")).unwrap();
    let text = place
        .tardy("reproduce all --on lab --out out --report-only --quiet")
        .ends_with(0)
        .stdout;
    for words in [
        "mckenney2009, Tables 5 and 6",
        "mckenney2009, Table 7",
        "koolwal2009, Appendix III d and e",
        "williams2002, long runs",
        "prints 17.8 and 2.77 ms, and explains the difference",
        "the experiment needs a second machine, and a parallel port",
        "Not measured: there is no run of abeni-timeline",
        "the tables show our numbers beside 0 of 335 published numbers",
    ] {
        assert!(
            text.replace(['\n', ' '], "")
                .contains(&words.replace(' ', "")),
            "{words}: {text}"
        );
    }
    assert!(
        text.contains("127.16 us") && text.contains("1350.4 s"),
        "{text}"
    );
}

/// Runs end with the command that started them, however the command ends.
#[test]
fn no_run_outlives_the_command_that_started_it() {
    for signal in [process::KILL, signal::TERMINATE, signal::HANG_UP] {
        let place = Workplace::new();
        let mut running = place.start("reproduce abeni2002 --quick --out out");
        let own = running.pid();
        running.until("it measures", || {
            place
                .processes()
                .into_iter()
                .any(|pid| pid != own)
                .then_some(())
        });
        running.signal(signal);
        let _ = running.wait();
        place.assert_no_process_is_left();
    }
}

#[test]
fn the_work_of_each_load_is_that_of_the_run_that_did_least() {
    let place = Workplace::new();
    let work = |load: &str, operations: u64| json!({"phase": 0, "load": load, "cpu": null, "operations": operations, "bytes": 0, "errors": 0, "cpu_time_ns": 1});
    for (mode, load_work) in [
        (
            "voluntary",
            json!([
                work("nfs-compile", 2),
                work("nfs-compile", 3),
                work("fpu", 7)
            ]),
        ),
        ("rt", json!([work("nfs-compile", 6)])),
    ] {
        let run = MadeRun {
            machine: kernel(mode),
            phases: vec![("stress-kernel", 0, 1)],
            load_work,
            ..MadeRun::new(vec![vec![10_000; 1000]])
        };
        write_run(&place, "williams-stress-kernel", mode, &run);
    }
    let words = "reproduce williams2002 --on lab --quick --out out --report-only --quiet";
    let text = place.tardy(words).ends_with(0).stdout;
    let page = std::fs::read_to_string(place.path("out/reproduce.html")).unwrap();
    let line = "operations of each load, in the run with the fewest: fpu 0, nfs-compile 5";
    assert!(text.contains(line), "{text}");
    assert!(page.contains(line), "{page}");
}
