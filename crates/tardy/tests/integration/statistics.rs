//! Tests `tardy show --statistics`: three layers that are kept apart, and a model only if all
//! checks pass.

use crate::support;

use rand::{RngExt, SeedableRng};
use support::made_run::MadeRun;
use support::workplace::{Outcome, Workplace};

/// Latencies in ns: 10 us plus an exponential variable with the given mean. The same seed always
/// gives the same latencies.
fn exponential(seed: u64, count: usize, mean: f64) -> Vec<i64> {
    let mut random = rand_pcg::Pcg64::seed_from_u64(seed);
    (0..count)
        .map(|_| 10_000 + (-mean * f64::ln(1.0 - random.random::<f64>())) as i64)
        .collect()
}

fn show(run: &MadeRun, flags: &str) -> Outcome {
    let place = Workplace::new();
    run.write(&place.path("run"));
    place.tardy(&format!("show run --statistics {flags}"))
}

#[test]
fn three_layers_stand_under_their_own_heads_and_a_model_is_named_one() {
    let run = MadeRun::new(vec![
        exponential(1, 100_000, 5_000.0),
        exponential(2, 100_000, 5_000.0),
    ]);
    let text = show(&run, "--horizon 10m --mhz 2000").ends_with(0).stdout;
    for expected in [
        "cyclic latency: observed",
        "five nines: 99.999 % up to",
        "cyclic latency: bounds at 95 %, for any distribution",
        "OSADL's rule of thumb: not kept. 10^5 clock cycles are 50.000 us at 2000 MHz (as given)",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let verdicts = text
        .lines()
        .filter(|line| line.contains(": MODEL, not measured") || line.contains("checks failed"));
    assert_eq!(
        verdicts.count(),
        2,
        "a model, or why there is none, for each processor: {text}"
    );
}

#[test]
fn a_model_is_given_where_all_checks_passed_and_nowhere_else() {
    for seed in 3..6 {
        let run = MadeRun::new(vec![exponential(seed, 200_000, 5_000.0)]);
        let json = show(&run, "--horizon 30m --json").ends_with(0).json();
        let group = &json["statistics"]["groups"][0];
        let tail = &group["tail"];
        let has_passed = tail["checks"]
            .as_array()
            .unwrap()
            .iter()
            .all(|check| check["has_passed"] == true);
        assert_eq!(tail["model"].is_object(), has_passed, "{tail}");
        if has_passed {
            // The true level that one in 1.8 million samples exceeds.
            let truth = 10_000.0 + 5_000.0 * f64::ln(1_800_000.0);
            let level = tail["model"]["level_ns"].as_f64().unwrap();
            assert!((level / truth).ln().abs() < 0.5, "{level} {truth}");
        }
        assert!(
            (group["observed"]["standard_deviation_ns"].as_f64().unwrap() - 5_000.0).abs() < 100.0
        );
    }
}

#[test]
fn a_level_that_drifts_closes_the_gate() {
    let mut latencies = exponential(4, 50_000, 5_000.0);
    latencies
        .iter_mut()
        .enumerate()
        .for_each(|(index, latency)| *latency += index as i64 / 2);
    let outcome = show(&MadeRun::new(vec![latencies]), "--horizon 10m").ends_with(0);
    assert!(
        outcome.stdout.contains("checks failed") && !outcome.stdout.contains("MODEL"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn a_second_cause_closes_the_gate() {
    let mut latencies = exponential(5, 100_000, 2_000.0);
    (0..40).for_each(|index| latencies[index * 2_411 + 17] = 500_000 + index as i64 * 1_000);
    let outcome = show(&MadeRun::new(vec![latencies]), "--horizon 10m").ends_with(0);
    assert!(
        outcome.stdout.contains("checks failed"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn a_histogram_alone_has_no_model_because_its_samples_have_no_order() {
    let place = Workplace::new();
    let sample =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/import/cyclictest-h.txt");
    std::fs::copy(sample, place.path("h.txt")).unwrap();
    place
        .tardy("import h.txt --out run --period 1ms")
        .ends_with(0);
    let outcome = place
        .tardy("show run --statistics --limits 50us,100us")
        .ends_with(0);
    assert!(
        outcome.stdout.contains("above 50us, at most")
            && outcome.stdout.contains("could not be checked"),
        "{}",
        outcome.stdout
    );
    assert!(!outcome.stdout.contains("MODEL"), "{}", outcome.stdout);
}

#[test]
fn questions_need_the_statistics() {
    let place = Workplace::new();
    MadeRun::new(vec![vec![1, 2, 3]]).write(&place.path("run"));
    place.tardy("show run --limits 5us").ends_with(2);
    place.tardy("show run --statistics --limits 5").ends_with(2);
    // With three samples, no statistic is 0/0.
    let outcome = place.tardy("show run --statistics").ends_with(0);
    assert!(!outcome.stdout.contains("NaN"), "{}", outcome.stdout);
}

#[test]
fn each_load_has_a_model_of_its_own_population() {
    // A run of 100 s without load and 100 s with a load under which latencies are four times as
    // long. The latencies of each phase are exponential; the latencies of the whole run are a
    // mixture.
    let mut latencies = exponential(3, 100_000, 5_000.0);
    latencies.extend(exponential(4, 100_000, 20_000.0));
    let phases = vec![("idle", 0, 100), ("memory", 100, 200)];
    let run = MadeRun {
        phases,
        ..MadeRun::new(vec![latencies])
    };
    let json = show(&run, "--horizon 10m --json").ends_with(0).json();
    let group = &json["statistics"]["groups"][0];
    assert!(
        group["tail"]["model"].is_null(),
        "a mixture has no model: {}",
        group["tail"]
    );
    let by_load = group["tail_by_load"].as_array().unwrap();
    let of = |load: &str| by_load.iter().find(|tail| tail["load"] == load).unwrap();
    for (load, mean) in [("idle", 5_000.0), ("memory", 20_000.0)] {
        assert_eq!(
            of(load)["samples"],
            100_000,
            "each sample belongs to the load of the phase it was due in"
        );
        let model = &of(load)["tail"]["model"];
        // The true level that one in 600,000 samples of the load exceeds.
        let truth = 10_000.0 + mean * f64::ln(600_000.0);
        let level = model["level_ns"]
            .as_f64()
            .unwrap_or_else(|| panic!("{load} has a model: {}", of(load)));
        assert!((level / truth).ln().abs() < 0.5, "{load}: {level} {truth}");
    }
    let text = show(&run, "--horizon 10m").ends_with(0).stdout;
    assert!(
        text.contains("CPU 0, idle (100000 samples): MODEL, not measured"),
        "{text}"
    );
    // A run with one load has one population.
    let alone = show(
        &MadeRun::new(vec![exponential(3, 20_000, 5_000.0)]),
        "--json",
    )
    .ends_with(0)
    .json();
    assert!(alone["statistics"]["groups"][0]["tail_by_load"].is_null());
}

#[test]
fn a_refused_model_is_shown_where_it_is_asked_for_and_marked() {
    let mut latencies = exponential(4, 50_000, 5_000.0);
    latencies
        .iter_mut()
        .enumerate()
        .for_each(|(index, latency)| *latency += index as i64 / 2);
    let run = MadeRun::new(vec![latencies]);
    let tail = |flags: &str| {
        show(&run, flags).ends_with(0).json()["statistics"]["groups"][0]["tail"].clone()
    };
    let (usual, asked) = (
        tail("--horizon 10m --json"),
        tail("--horizon 10m --json --show-refused"),
    );
    assert!(usual["model"].is_null() && usual["refused"].is_null());
    assert!(
        asked["model"].is_null() && asked["refused"]["level_ns"].as_f64().unwrap() > 0.0,
        "{asked}"
    );
    assert_eq!(usual["checks"], asked["checks"]);
    let text = show(&run, "--horizon 10m --show-refused")
        .ends_with(0)
        .stdout;
    assert!(
        text.contains("checks failed") && text.contains("REFUSED MODEL, shown only for its fit"),
        "{text}"
    );
    assert!(!text.contains(": MODEL, not measured"), "{text}");
    // `--show-refused` does not change a model that passes its checks.
    let open = MadeRun::new(vec![exponential(5, 200_000, 5_000.0)]);
    let (usual, asked) = (
        show(&open, "--horizon 30m").ends_with(0),
        show(&open, "--horizon 30m --show-refused").ends_with(0),
    );
    if usual.stdout.contains("MODEL, not measured") {
        assert_eq!(usual.stdout, asked.stdout);
    }
    let alone = show(&run, "").ends_with(0);
    assert!(!alone.stdout.contains("REFUSED"));
}

#[test]
fn osadls_rule_is_a_verdict_at_the_machines_own_clock_rate() {
    let run = |machine| MadeRun {
        machine,
        ..MadeRun::new(vec![vec![10_000, 12_000, 30_000], vec![11_000, 45_000]])
    };
    let processors = |rate: serde_json::Value| serde_json::json!({"processors": {"model": "AMD EPYC", "clock_rate": rate}});
    let known = run(processors(
        serde_json::json!({"khz": 2_500_000, "source": "cpuinfo"}),
    ));
    let json = show(&known, "--json").ends_with(0).json();
    let rule = &json["statistics"]["rule_of_thumb"];
    assert_eq!(
        (&rule["worst_case_ns"], &rule["source"]),
        (&40_000.0.into(), &"cpuinfo".into())
    );
    let verdict = &rule["verdicts"][0];
    assert_eq!(
        (&verdict["max_ns"], &verdict["is_kept"]),
        (&45_000.into(), &false.into()),
        "of all series: {rule}"
    );
    let text = show(&known, "").ends_with(0).stdout;
    let expected = "rule of thumb: not kept. 10^5 clock cycles are 40.000 us at 2500 MHz \
                    (/proc/cpuinfo); the maximum of 45.000 us is 1.12 times that";
    assert!(text.contains(expected), "{text}");
    // With the deadline that the text recommends, the verdict on the run agrees with the rule.
    assert!(
        text.contains("--deadline 40000ns makes this rule the run's verdict"),
        "{text}"
    );
    show(&known, "--deadline 40000ns").ends_with(1);
    // The flag overrides the machine's clock rate.
    let given = show(&known, "--mhz 2000").ends_with(0).stdout;
    assert!(
        given.contains(
            "rule of thumb: kept. 10^5 clock cycles are 50.000 us at 2000 MHz (as given)"
        ),
        "{given}"
    );
    let unknown = show(&run(serde_json::json!({})), "").ends_with(0).stdout;
    assert!(
        unknown.contains(
            "cannot be applied here, because the CPU's clock rate is unknown: give --mhz"
        ),
        "{unknown}"
    );
    let emulated = MadeRun {
        clock: tardy_core::series::ClockKind::Virtual,
        ..known
    };
    let text = show(&emulated, "").ends_with(0).stdout;
    assert!(
        text.contains("because virtual time counts instructions") && !text.contains("kept"),
        "{text}"
    );
}

#[test]
fn the_block_of_williams2002_is_a_preset_with_its_digits() {
    // 92.84442 % of 100,000 samples are below 0.1 ms, as with the paper's vanilla kernel.
    let mut latencies = vec![88_000; 92_844];
    latencies.resize(100_000, 150_000);
    let run = MadeRun::new(vec![latencies]);
    let text = show(&run, "--preset williams2002").ends_with(0).stdout;
    let row = |name: &str| {
        let line = text
            .lines()
            .find(|line| line.trim_start().starts_with(name))
            .unwrap_or_else(|| panic!("{name}: {text}"));
        line.trim_start()[name.len()..].trim().to_owned()
    };
    assert_eq!(row("buckets of 100us in use"), "2");
    assert_eq!(row("mode, middle of its 100us bucket"), "50.000");
    assert_eq!(
        (row("below 100us"), row("below 200us")),
        ("92.84400 %".to_owned(), "100.00000 %".to_owned())
    );
    assert_eq!(
        (row("median"), row("max"), row("mean")),
        (
            "88.000".to_owned(),
            "150.00".to_owned(),
            "92.437".to_owned()
        )
    );
    let typed = show(
        &run,
        "--bucket 100us --limits 100us,200us,500us,700us,1ms,5ms,10ms,50ms,100ms",
    )
    .ends_with(0)
    .stdout;
    assert_eq!(text, typed, "the preset is what is typed by hand");
    show(&run, "--preset williams2002 --bucket 1us").ends_with(2);
    let refused = show(&run, "--preset nosuch").ends_with(2).stderr;
    assert!(refused.contains("williams2002"), "{refused}");
}

#[test]
fn shares_below_a_limit_say_that_skipped_periods_are_in_none() {
    // A wake-up that is 3.5 ms late skips three periods of 1 ms, two of which miss a deadline of 1
    // ms.
    let mut latencies = vec![10_000; 1000];
    latencies[500] = 3_500_000;
    let run = MadeRun::new(vec![latencies]);
    let outcome = show(&run, "--limits 5ms --deadline 1ms").ends_with(1);
    let (text, words) = (
        &outcome.stdout,
        "skipped periods: 3; skipped periods have no sample, so the shares above leave them out",
    );
    assert!(
        text.contains("FAILED") && text.contains("100.00000 %") && text.contains(words),
        "{text}"
    );
    let none = show(&MadeRun::new(vec![vec![10_000; 100]]), "")
        .ends_with(0)
        .stdout;
    assert!(!none.contains("skipped periods"), "{none}");
}
