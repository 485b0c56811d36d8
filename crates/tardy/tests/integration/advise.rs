//! Tests `tardy advise` as a user starts it, with published numbers and with runs with known
//! samples for each branch of the decision.

use crate::support;

use serde_json::{Value, json};
use support::machine;
use support::made_cost::MadeCost;
use support::made_run::MadeRun;
use support::workplace::{Outcome, Workplace};
use tardy_core::warning::Warning;

/// The work that most tests ask about.
pub(crate) const WORK: &str =
    "--work 100us --deadline 250us --period 1ms --utilisation 40% --memory 1MiB";

pub(crate) fn real_time() -> Value {
    board("6.1.0-rt", "real-time")
}

pub(crate) fn fast() -> Value {
    board("6.1.0", "voluntary-or-none")
}

/// Describes a machine without a hypervisor, with 1 GiB free.
pub(crate) fn board(release: &str, preemption: &str) -> Value {
    json!({
        "host_name": "board7",
        "boot_id": "of another machine",
        "kernel": {"release": release, "preemption": {"compiled": preemption}},
        "virtualization": {"processor_flag": false},
        "memory": {"total_bytes": 2_u64 << 30, "available_bytes": 1_u64 << 30},
    })
}

/// Returns `count` latencies of 10 us, with other values at the indices in `others`.
pub(crate) fn latencies(count: usize, others: &[(usize, i64)]) -> Vec<i64> {
    let mut latencies = vec![10_000; count];
    others
        .iter()
        .for_each(|&(index, latency)| latencies[index] = latency);
    latencies
}

/// A run whose samples are start latencies.
pub(crate) fn starts(machine: Value, samples: Vec<i64>) -> MadeRun {
    MadeRun {
        machine,
        phases: vec![("io", 0, 1_000_000)],
        ..MadeRun::new(vec![samples])
    }
}

/// A run whose samples are completions of work of 100 us.
pub(crate) fn completions(machine: Value, samples: Vec<i64>) -> MadeRun {
    MadeRun {
        probe: COMPLETION_PROBE,
        ..starts(machine, samples)
    }
}

pub(crate) const COMPLETION_PROBE: (&str, &str) = ("work.done", "completion");

pub(crate) fn advise(run: &MadeRun, flags: &str) -> Outcome {
    let place = Workplace::new();
    run.write(&place.path("run"));
    place.tardy(&format!("advise run {flags}"))
}

pub(crate) fn steps(outcome: &Outcome) -> Vec<(String, bool, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let step = |step: &Value| {
        (
            text(&step["rule"]),
            step["is_yes"].as_bool().unwrap(),
            text(&step["basis"]),
        )
    };
    outcome.json()["path"]["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(step)
        .collect()
}

#[test]
fn the_papers_numbers_give_the_papers_conclusions() {
    let place = Workplace::new();
    let text = place
        .tardy("advise --paper mckenney2009")
        .ends_with(0)
        .stdout;
    insta::assert_snapshot!(text);
    let json = place
        .tardy("advise --paper mckenney2009 --json")
        .ends_with(0)
        .json();
    let work_ms = |figure: usize| {
        json["figures"][figure]["crossing"]["work_ns"]
            .as_f64()
            .unwrap()
            / 1e6
    };
    assert_eq!(
        (format!("{:.1}", work_ms(1)), format!("{:.1}", work_ms(2))),
        ("17.8".to_owned(), "2.8".to_owned())
    );
    assert_eq!(
        json["figures"][0]["crossing"]["crossover"],
        "real-time-always"
    );
    assert_eq!(
        (
            json["figures"][1]["is_model"].as_bool(),
            json["rounded"].as_array().unwrap().len()
        ),
        (Some(true), 4)
    );
}

#[test]
fn completions_before_the_deadline_pass_with_margin_conditions_and_a_bound_for_the_year() {
    let run = completions(
        real_time(),
        vec![120_000; 20_000].into_iter().chain([200_000]).collect(),
    );
    let outcome = advise(&run, WORK).ends_with(0);
    let text = &outcome.stdout;
    assert!(
        text.starts_with(
            "PASSED: Linux 6.1.0-rt PREEMPT_RT met the deadline of 250us\nDo you need PREEMPT_RT? \
             Not known: Linux 6.1.0-rt PREEMPT_RT (largest 200 us) met the deadline of 250us, and \
             no kernel without PREEMPT_RT was measured.\n"
        ),
        "{text}"
    );
    assert!(
        text.contains("PASSED: 0 misses in 20001 due times: fewer than "),
        "{text}"
    );
    assert!(
        text.contains("judged: completions of work, as measured by work.done"),
        "{text}"
    );
    assert!(
        text.contains(
            "done 200 us after its due time, 50.0 us before the deadline of 250us (20 % of the \
             deadline)"
        ),
        "{text}"
    );
    assert!(
        text.contains("if the conditions stay the same all year") && text.contains("under io"),
        "{text}"
    );
    assert!(
        text.contains("hardware clock") && !text.contains("meets"),
        "{text}"
    );
    let json = advise(&run, &format!("{WORK} --json")).ends_with(0).json();
    // The bound on misses per year is at least (1 - 0.05^(1/20001)) times the 31,557,600,000 due
    // times of a year of 365.25 days. The generated run is too short to show how its samples
    // cluster.
    let a_year = json["kernels"][0]["misses_a_year_at_most"]
        .as_f64()
        .unwrap();
    assert!(a_year >= 4.725e6, "{a_year}");
    let verdict = &json["kernels"][0]["verdict"];
    assert_eq!(
        (a_year / verdict["share_upper"].as_f64().unwrap()).round(),
        31_557_600_000.0
    );
}

#[test]
fn one_completion_after_the_deadline_fails_and_the_margin_is_behind_it() {
    let run = completions(real_time(), vec![120_000, 120_000, 300_000, 120_000]);
    let outcome = advise(&run, WORK).ends_with(1);
    assert!(
        outcome
            .stdout
            .contains("FAILED: 1 of 4 due times missed the deadline of 250us"),
        "{}",
        outcome.stdout
    );
    assert!(
        outcome
            .stdout
            .contains("50.0 us after the deadline of 250us\n"),
        "{}",
        outcome.stdout
    );
    advise(&run, "--work 100us --deadline 300us").ends_with(0);
}

#[test]
fn late_starts_alone_are_judged_by_a_model_that_says_so() {
    // A deadline of 250 us minus 100 us of work leaves 150 us for the start.
    let run = |worst| starts(real_time(), latencies(2000, &[(1000, worst)]));
    let outcome = advise(&run(150_000), WORK).ends_with(0);
    assert!(
        outcome
            .stdout
            .contains("judged: a model: the start latency measured by cyclic, plus 100 us of work"),
        "{}",
        outcome.stdout
    );
    assert!(
        outcome.stdout.contains("of work that was not measured"),
        "{}",
        outcome.stdout
    );
    let late = advise(&run(150_001), WORK).ends_with(1);
    assert!(
        late.stdout.contains("1 of 2000 due times missed"),
        "{}",
        late.stdout
    );
    let no_work = advise(&run(240_000), "--deadline 250us").ends_with(0);
    assert!(
        no_work.stdout.contains("the start latency alone") && no_work.stdout.contains("--work"),
        "{}",
        no_work.stdout
    );
}

#[test]
fn completions_are_judged_where_a_run_has_them_and_late_starts_are_not() {
    let place = Workplace::new();
    starts(real_time(), latencies(1000, &[(500, 900_000)])).write(&place.path("starts"));
    completions(real_time(), vec![120_000; 1000]).write(&place.path("completions"));
    place.tardy(&format!("advise starts {WORK}")).ends_with(1);
    let both = place
        .tardy(&format!("advise starts completions {WORK} --json"))
        .ends_with(0)
        .json();
    assert_eq!(both["kernels"][0]["judged"]["basis"], "completion");
    assert_eq!(
        both["kernels"][0]["conditions"]["runs"],
        json!(["completions"])
    );
}

#[test]
fn runs_of_one_kernel_add_up() {
    let place = Workplace::new();
    completions(real_time(), vec![120_000; 1000]).write(&place.path("all/a"));
    completions(real_time(), vec![120_000, 300_000]).write(&place.path("all/b"));
    let outcome = place.tardy(&format!("advise all {WORK}")).ends_with(1);
    assert!(
        outcome.stdout.contains("1 of 1002 due times"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn too_few_samples_cannot_say_and_tell_how_much_longer_to_run() {
    let run = completions(real_time(), vec![120_000; 10_000]);
    let outcome = advise(&run, &format!("{WORK} --misses 1e-6")).ends_with(4);
    assert!(
        outcome
            .stdout
            .starts_with("INCONCLUSIVE: the samples of Linux 6.1.0-rt PREEMPT_RT do not decide"),
        "{}",
        outcome.stdout
    );
    assert!(
        outcome.stdout.contains("cannot say: run for ") && outcome.stdout.contains(" hours more"),
        "{}",
        outcome.stdout
    );
    let json = advise(&run, &format!("{WORK} --misses 1e-6 --json"))
        .ends_with(4)
        .json();
    let evidence = &json["kernels"][0]["verdict"]["evidence"];
    let index = evidence["extremal_index"].as_f64().unwrap_or(1.0);
    // By the rule of three, 2,995,731 independent samples are needed. Samples cluster, so the run
    // needs this number divided by the extremal index. It has 10,000 samples, and takes one more
    // per millisecond.
    let expected = (2_995_731.0 / index - 10_000.0) / 1e3;
    let longer = json["kernels"][0]["measure_longer_ns"].as_f64().unwrap() / 1e9;
    assert!(
        (longer / expected - 1.0).abs() < 0.01,
        "{longer} s, not {expected} s"
    );
    advise(&run, &format!("{WORK} --misses 1e-2")).ends_with(0);
    advise(&run, &format!("{WORK} --misses 0")).ends_with(0);
}

#[test]
fn a_degraded_run_is_not_repaired_by_a_longer_one() {
    let warnings = vec![Warning::NoRealTimePolicy {
        policy: "SCHED_FIFO 95".into(),
        error: "not permitted".into(),
    }];
    let run = MadeRun {
        warnings,
        ..completions(real_time(), vec![120_000; 1000])
    };
    let outcome = advise(&run, WORK).ends_with(4);
    assert!(
        outcome.stdout.contains("a longer run would not decide")
            && outcome.stdout.contains("run as root"),
        "{}",
        outcome.stdout
    );
    assert!(
        !outcome.stdout.contains("misses a year"),
        "{}",
        outcome.stdout
    );
    let lost = MadeRun {
        gaps: vec![(500, 3)],
        ..completions(real_time(), vec![120_000; 1000])
    };
    advise(&lost, WORK).ends_with(4);
}

#[test]
fn each_branch_of_the_flow_ends_where_the_paper_ends_it() {
    let run = completions(real_time(), vec![120_000; 100]);
    let of = |machine: Value, flags: &str| {
        let outcome = advise(
            &MadeRun {
                machine,
                ..completions(Value::Null, run.latencies[0].clone())
            },
            &format!("{flags} --json"),
        );
        let choice = outcome.json()["path"]["choice"]
            .as_str()
            .unwrap()
            .to_owned();
        (steps(&outcome).last().unwrap().clone(), choice)
    };
    let step = |rule: &str, is_yes: bool, basis: &str| (rule.to_owned(), is_yes, basis.to_owned());
    let (fast_choice, real_time_choice) = ("real-fast".to_owned(), "real-time".to_owned());
    assert_eq!(
        of(real_time(), &format!("{WORK} --throughput-only")),
        (step("throughput-only", true, "stated"), fast_choice.clone())
    );
    assert_eq!(
        of(real_time(), "--work 100us --utilisation 95%"),
        (step("barriers", false, "assumed"), fast_choice.clone())
    );
    assert_eq!(
        of(real_time(), "--work 100us --utilisation 95% --barriers=no"),
        (step("barriers", false, "stated"), fast_choice.clone())
    );
    let parallel = of(real_time(), "--work 100us --utilisation 95% --barriers");
    assert_eq!(
        parallel,
        (step("long-work", false, "stated"), real_time_choice.clone())
    );
    assert_eq!(
        of(real_time(), "--work 100us --memory 2GiB"),
        (step("memory", true, "measured"), fast_choice.clone())
    );
    let mut guest = real_time();
    guest["virtualization"] = json!({"hypervisor": "kvm"});
    assert_eq!(
        of(guest.clone(), WORK),
        (step("virtual", true, "measured"), fast_choice.clone())
    );
    // The advice is about a machine other than the one that runs `tardy advise`.
    assert_eq!(
        of(guest, &format!("{WORK} --virtual no")),
        (step("long-work", false, "stated"), real_time_choice.clone())
    );
    assert_eq!(
        of(real_time(), &format!("{WORK} --virtual yes")),
        (step("virtual", true, "stated"), fast_choice.clone())
    );
    // For work in the kernel's services, the paper's curves of the two kernels cross at work of one
    // millisecond, so work of 2 ms counts as long.
    let service = "--work 2ms --utilisation 40%";
    assert_eq!(
        of(real_time(), &format!("{service} --kind syscalls")),
        (step("long-work", true, "stated"), fast_choice.clone())
    );
    assert_eq!(
        of(real_time(), &format!("{service} --kind compute")),
        (step("long-work", false, "stated"), real_time_choice.clone())
    );
    assert_eq!(
        of(real_time(), "--work 200ms --deadline 1s"),
        (step("long-work", true, "stated"), fast_choice)
    );
    assert_eq!(
        of(real_time(), WORK),
        (step("long-work", false, "stated"), real_time_choice)
    );
    let whole = advise(&run, &format!("{WORK} --json"));
    let rules: Vec<String> = steps(&whole).into_iter().map(|(rule, _, _)| rule).collect();
    assert_eq!(
        rules,
        [
            "throughput-only",
            "utilisation",
            "memory",
            "virtual",
            "kernel-services",
            "long-work"
        ]
    );
}

#[test]
fn two_kernels_and_their_costs_give_the_crossover_and_stretch_the_work() {
    let place = Workplace::new();
    // All latencies are 900 us on one kernel and 20 us on the other. The system times are those of
    // the builds of 2008, as in mckenney2009.
    let late = |each: i64| vec![each; 20_000];
    starts(fast(), late(900_000)).write(&place.path("fast"));
    starts(real_time(), late(20_000)).write(&place.path("rt"));
    MadeCost {
        machine: fast(),
        sys: [314.7, 317.3, 317.9],
    }
    .write(&place.path("fast-build"));
    MadeCost {
        machine: real_time(),
        sys: [644.3, 660.9, 665.9],
    }
    .write(&place.path("rt-build"));
    let all = "advise fast rt fast-build rt-build --kind syscalls --work 100us --deadline 250us \
               --period 1ms --utilisation 40% --memory 1MiB";
    let json = place.tardy(&format!("{all} --json")).ends_with(0).json();
    let comparison = &json["comparisons"][0];
    let share = comparison["slowdown"]["estimate"]["value"]
        .as_f64()
        .unwrap();
    assert!((share - 1.0751).abs() < 1e-3, "{share}");
    let crossing = &comparison["curves"]["crossing"];
    // The expected value is (900 us - 20 us) / 1.0751.
    assert!(
        (crossing["work_ns"].as_f64().unwrap() / 818_500.0 - 1.0).abs() < 1e-3,
        "{crossing}"
    );
    let (lower, upper) = (
        crossing["interval_ns"]["lower"].as_f64().unwrap(),
        crossing["interval_ns"]["upper"].as_f64().unwrap(),
    );
    assert!(
        lower < 818_500.0 && 818_500.0 < upper && upper < 1e6,
        "{crossing}"
    );
    assert_eq!(
        json["kernels"][0]["judged"]["work_ns"].as_i64().unwrap() / 1000,
        207
    );
    assert_eq!(
        (&json["kernel"], &json["outcome"]),
        (&"Linux 6.1.0-rt PREEMPT_RT".into(), &"passed".into())
    );
    let text = place.tardy(all).ends_with(0).stdout;
    assert!(
        text.contains(
            "slowdown measured from the `sys` time of `make -j8`: 3 trials on the ordinary kernel, \
             3 on the real-time kernel"
        ) && text.contains("107.5"),
        "{text}"
    );
    assert!(text.contains("slowed down by 107.5 %"), "{text}");
    // The stock kernel completes work sooner if the work is longer than the crossing of the two
    // kernels' curves, including the crossing's whole confidence interval.
    let long = all.replace(
        "--work 100us --deadline 250us --period 1ms",
        "--work 2ms --deadline 5ms --period 10ms",
    );
    let json = place.tardy(&format!("{long} --json")).ends_with(0).json();
    assert_eq!(
        (&json["path"]["choice"], &json["path"]["steps"][5]["basis"]),
        (&"real-fast".into(), &"measured".into())
    );
    assert_eq!(json["kernel"], "Linux 6.1.0 no PREEMPT");
}

#[test]
fn without_runs_or_without_a_deadline_there_is_advice_and_no_verdict() {
    let place = Workplace::new();
    let rules = place.tardy("advise --work 100us").ends_with(0);
    assert!(
        rules
            .stdout
            .starts_with("ADVICE: a measurement is missing\nDo you need PREEMPT_RT? ")
            && rules.stdout.contains("`tardy run --deadline TIME`"),
        "{}",
        rules.stdout
    );
    place.tardy(&format!("advise {WORK}")).ends_with(4);
    let run = completions(real_time(), vec![120_000; 10]);
    let open = advise(&run, "--work 100us").ends_with(0);
    assert!(open.stdout.contains("give a deadline"), "{}", open.stdout);
    let cost_only = Workplace::new();
    MadeCost {
        machine: fast(),
        sys: [1.0, 1.0, 1.1],
    }
    .write(&cost_only.path("c"));
    let outcome = cost_only.tardy(&format!("advise c {WORK}")).ends_with(4);
    assert!(
        outcome
            .stdout
            .contains("the runs of this kernel have no latencies or completions"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn bad_input_is_refused_with_the_flag_to_change() {
    let place = Workplace::new();
    completions(real_time(), vec![120_000; 10]).write(&place.path("run"));
    for (line, flag) in [
        ("run --work 300us --deadline 250us", "--deadline"),
        ("run --work 2ms --period 1ms", "--period"),
        ("run --utilisation 40", "0.1%"),
        ("run --memory 5", "512MiB"),
        ("run --deadline 200", "unit"),
        ("run --misses 2", "share"),
        ("run --kind sleep", "compute"),
        ("nothing", "not a run folder"),
        ("run --paper mckenney2009", "--paper"),
    ] {
        let refused = place.tardy(&format!("advise {line}")).ends_with(2);
        assert!(
            refused.stdout.is_empty() && refused.stderr.contains(flag),
            "{line}: {refused:?}"
        );
    }
}

#[test]
fn what_would_help_comes_from_the_facts_of_the_run_and_what_the_run_shows_comes_first() {
    let mut machine = fast();
    machine["virtualization"] = json!({"processor_flag": true});
    machine["processors"] = json!({"online": "0-1", "isolated": "", "smt_active": true, "governors": {"powersave": "0-1"}});
    machine["kernel"]["command_line"] = json!("quiet");
    let warnings = vec![Warning::CgroupThrottled { periods: 3 }];
    machine["cgroup"] = json!({"cpu_quota": {"quota": 50_000_000, "period": 100_000_000}});
    let run = MadeRun {
        warnings,
        ..completions(machine, vec![120_000; 100])
    };
    // The run has shown that PREEMPT_RT is not needed.
    let json = advise(&run, &format!("{WORK} --json")).ends_with(0).json();
    let names: Vec<&str> = json["helps"]["improvable"]
        .as_array()
        .unwrap()
        .iter()
        .map(|help| help["check"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "cpu-quota",
            "virtual-machine",
            "governor",
            "preemption-mode",
            "threaded-interrupts",
            "isolation",
            "smt",
            "rcu-callbacks"
        ]
    );
    assert!(
        json["helps"]["improvable"][0]["seen_in_run"]
            .as_str()
            .unwrap()
            .contains("in 3 quota periods")
    );
    // Files of the machine that runs the tests give no information about the machine of the run.
    let unknown: Vec<&str> = json["helps"]["unknown"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pair| pair[0].as_str().unwrap())
        .collect();
    assert!(
        unknown.contains(&"irqbalance") && unknown.contains(&"tracing"),
        "{unknown:?}"
    );
    let text = advise(&run, WORK).ends_with(0).stdout;
    assert!(
        text.contains("  cpu-quota: 50.0 ms of each 100 ms; should be no quota")
            && text.contains("cpu.max"),
        "{text}"
    );
    assert!(
        text.contains("also: threaded-interrupts, isolation, smt, rcu-callbacks"),
        "{text}"
    );
}

#[test]
fn a_person_on_a_terminal_is_asked_what_the_command_line_does_not_say() {
    let place = Workplace::new();
    completions(real_time(), vec![120_000; 1000]).write(&place.path("run"));
    let line = format!("{} advise run", env!("CARGO_BIN_EXE_tardy"));
    let mut script = place.prepared(
        machine::program("script", "bsdutils"),
        ["-qec", &line, "/dev/null"],
    );
    let mut child = script.stdin(std::process::Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(
        &mut child.stdin.take().unwrap(),
        b"no\n100us\n110us\n1ms\n0\n\n40%\n1MiB\n",
    )
    .unwrap();
    let outcome = Outcome::from(child.wait_with_output().unwrap()).ends_with(1);
    assert!(
        outcome.stdout.contains("How long does a unit of work take")
            && outcome.stdout.contains("deadline of 110us"),
        "{outcome:?}"
    );
    // The command asks no questions, because it has no terminal.
    place.tardy("advise run").ends_with(0);
}

#[test]
fn the_probe_to_judge_by_can_be_named() {
    let run = completions(real_time(), vec![120_000; 1000]);
    advise(&run, &format!("{WORK} --probe work.done")).ends_with(0);
    let other = advise(&run, &format!("{WORK} --probe cyclic")).ends_with(4);
    assert!(
        other.stdout.contains("by the probe cyclic"),
        "{}",
        other.stdout
    );
}

#[test]
fn completions_of_other_work_are_put_right_by_the_model_and_of_another_kind_are_not_taken() {
    let place = Workplace::new();
    let of = |length_us: i64, kind: &str, done: i64| MadeRun {
        parameters: json!({"length": {"duration": length_us * 1000}, "kind": {"text": kind}}),
        ..completions(real_time(), vec![done; 1000])
    };
    of(100, "compute", 120_000).write(&place.path("same"));
    of(60, "compute", 220_000).write(&place.path("shorter"));
    of(200, "compute", 340_000).write(&place.path("longer"));
    of(100, "memory", 400_000).write(&place.path("memory"));
    starts(real_time(), vec![20_000; 1000]).write(&place.path("starts"));
    let advise = |runs: &str| place.tardy(&format!("advise {runs} {WORK} --kind compute"));
    let same = advise("same").ends_with(0).stdout;
    assert!(
        same.contains("judged: completions of work of 100us, as measured by work.done\n"),
        "{same}"
    );
    // The user's work takes 100 us. Work of 60 us was done after 220 us; with 40 us more, the
    // user's work exceeds the deadline of 250 us. Work of 200 us was done after 340 us; with 100 us
    // less, the user's work meets the deadline.
    let shorter = advise("shorter").ends_with(1).stdout;
    assert!(
        shorter.contains("of work of 60us")
            && shorter.contains("a model added 40.0 us")
            && shorter.contains("done 260 us after its due time"),
        "{shorter}"
    );
    let longer = advise("longer").ends_with(0).stdout;
    assert!(
        longer.contains("a model subtracted 100 us")
            && longer.contains("done 240 us after its due time"),
        "{longer}"
    );
    // Of several runs, the one whose work is nearest in length to the user's work is judged,
    // whatever the order of the runs.
    let nearest = place
        .tardy(&format!(
            "advise shorter longer same {WORK} --kind compute --json"
        ))
        .ends_with(0)
        .json();
    assert_eq!(nearest["kernels"][0]["conditions"]["runs"], json!(["same"]));
    let other_kind = advise("memory").ends_with(4).stdout;
    assert!(
        other_kind.contains("the runs of this kernel have no latencies or completions"),
        "{other_kind}"
    );
    let with_starts = advise("memory starts").ends_with(0).stdout;
    assert!(
        with_starts.contains("judged: a model: the start latency measured by cyclic"),
        "{with_starts}"
    );
    place.tardy(&format!("advise memory {WORK}")).ends_with(1);
}

#[test]
fn a_real_run_of_work_is_judged_by_its_completions() {
    let place = Workplace::new();
    let run = format!(
        "run --probe work:length=50us --for 1s --load none --cpus {} --out w --quiet",
        machine::last_cpu()
    );
    // The exit code depends on the machine.
    place.tardy(&run);
    let outcome = place.tardy("advise w --work 50us --deadline 10s --kind compute --json");
    let json = outcome.json();
    let judgement = &json["kernels"][0];
    let expected =
        json!({"basis": "completion", "probe": "work.done", "length_ns": 50_000, "added_ns": 0});
    assert_eq!(judgement["judged"], expected, "{outcome:?}");
    let evidence = &judgement["verdict"]["evidence"];
    assert_eq!(
        evidence["misses"]
            .as_u64()
            .map(|misses| misses < evidence["due_times"].as_u64().unwrap()),
        Some(true),
        "{evidence}"
    );
    // The deadline of 2 ns is shorter than any latency, so the run's own numbers show misses.
    let late = place
        .tardy("advise w --work 1ns --deadline 2ns --json")
        .json();
    let evidence = &late["kernels"][0]["verdict"]["evidence"];
    assert_eq!(late["kernels"][0]["judged"]["added_ns"], -49_999);
    assert!(evidence["misses"].as_u64() > Some(0), "{late}");
}
