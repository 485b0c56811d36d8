//! Compares the texts that the analyses print with stored snapshots, for runs with known samples.
//! Snapshots of exports, summaries and old run folders are in `export.rs`, `summaries.rs` and
//! `goldens.rs`.

use crate::support;

use std::fs::File;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use support::made_cost::MadeCost;
use support::made_run::MadeRun;
use support::workplace::{Outcome, Workplace};

/// The command's output and exit code.
fn said(outcome: &Outcome) -> String {
    let errors = if outcome.stderr.is_empty() {
        String::new()
    } else {
        format!("--- stderr\n{}", outcome.stderr)
    };
    format!("{}{errors}(exit code {})\n", outcome.stdout, outcome.code())
}

/// The JSON document with fractions rounded to nine digits, because the machine's logarithm
/// determines further digits.
fn rounded(outcome: &Outcome) -> String {
    fn round(value: &mut Value) {
        match value {
            Value::Number(number) if number.is_f64() => {
                *value = format!("{:.8e}", number.as_f64().unwrap())
                    .parse::<f64>()
                    .map(Value::from)
                    .unwrap();
            }
            Value::Array(values) => values.iter_mut().for_each(round),
            Value::Object(members) => members.values_mut().for_each(round),
            _ => {}
        }
    }
    let mut json = outcome.json();
    round(&mut json);
    format!(
        "{}\n(exit code {})\n",
        serde_json::to_string_pretty(&json).unwrap(),
        outcome.code()
    )
}

/// Latencies in ns: 10 us plus an exponential variable with the given mean. The same seed always
/// gives the same latencies.
fn latencies(seed: u64, count: usize, mean: f64) -> Vec<i64> {
    let mut random = rand_pcg::Pcg64::seed_from_u64(seed);
    (0..count)
        .map(|_| 10_000 + (-mean * f64::ln(1.0 - random.random::<f64>())) as i64)
        .collect()
}

fn machine(release: &str, preemption: &str) -> Value {
    json!({
        "host_name": "board7",
        "boot_id": release,
        "kernel": {"release": release, "preemption": {"compiled": preemption}},
        "virtualization": {"processor_flag": false},
        "memory": {"total_bytes": 2_u64 << 30, "available_bytes": 1_u64 << 30},
    })
}

/// A run of two CPUs on the kernel `release`.
fn run(seed: u64, release: &str, mean: f64) -> MadeRun {
    MadeRun {
        machine: machine(release, "real-time"),
        ..MadeRun::new(vec![
            latencies(seed, 20_000, mean),
            latencies(seed + 100, 20_000, mean),
        ])
    }
}

#[test]
fn import_and_what_is_shown_of_it() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/import");
    let unit_of = |name: &str| match name {
        "hdr.hlog" => "--unit ns",
        "hdr.hgrm" | "values.txt" | "values-f8.npy" | "values-i4.npy" => "--unit us",
        "values.csv" => "--unit us --column latency_us",
        "values-records.npy" => "--unit ns --column latency_ns",
        _ => "",
    };
    for name in support::workplace::names(&samples)
        .iter()
        .filter(|name| *name != "README.md")
    {
        let place = Workplace::new();
        std::fs::copy(samples.join(name), place.path(name)).unwrap();
        // If the file does not state a time, the import takes the file's modification time.
        let file = File::options().write(true).open(place.path(name)).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1_700_000_000))
            .unwrap();
        let imported = place
            .tardy(&format!("import {name} --out run {}", unit_of(name)))
            .ends_with(0);
        let shown = place.tardy("show run");
        insta::assert_snapshot!(
            format!("import-{name}"),
            format!("{}--- tardy show\n{}", said(&imported), said(&shown))
        );
    }
    let place = Workplace::new();
    std::fs::write(place.path("hello.txt"), "hello\n").unwrap();
    insta::assert_snapshot!(
        "import-unknown",
        said(&place.tardy("import hello.txt --out run"))
    );
}

#[test]
fn statistics() {
    let place = Workplace::new();
    // With seed 5, the samples pass every check.
    MadeRun::new(vec![latencies(5, 200_000, 5_000.0)]).write(&place.path("modelled"));
    run(1, "6.1.0-rt", 5_000.0).write(&place.path("closed"));
    MadeRun {
        is_unbound: true,
        ..MadeRun::new(vec![latencies(1, 500, 5_000.0), latencies(2, 500, 5_000.0)])
    }
    .write(&place.path("copies"));
    let modelled = place
        .tardy("show modelled --statistics --horizon 30m --mhz 2000")
        .ends_with(0);
    assert!(
        modelled.stdout.contains("MODEL, not measured"),
        "{}",
        modelled.stdout
    );
    insta::assert_snapshot!("statistics-with-a-model", said(&modelled));
    insta::assert_snapshot!(
        "statistics-with-a-closed-gate",
        said(&place.tardy("show closed --statistics --limits 20us,50us"))
    );
    insta::assert_snapshot!(
        "statistics-of-copies",
        said(&place.tardy("show copies --statistics"))
    );
    insta::assert_snapshot!(
        "statistics-json",
        rounded(&place.tardy("show closed --statistics --json"))
    );
}

#[test]
fn comparisons() {
    let place = Workplace::new();
    run(1, "6.1.0-rt", 5_000.0).write(&place.path("base"));
    run(2, "6.12.0-rt", 10_000.0).write(&place.path("slower"));
    run(3, "6.1.0-rt", 5_050.0).write(&place.path("alike"));
    for (format, name) in [
        ("text", "compare-text"),
        ("text --full", "compare-full"),
        ("markdown", "compare-markdown"),
        ("junit", "compare-junit"),
    ] {
        insta::assert_snapshot!(
            name,
            said(&place.tardy(&format!(
                "compare base slower alike --deadline 60us --format {format}"
            )))
        );
    }
    insta::assert_snapshot!(
        "compare-json",
        rounded(&place.tardy("compare base slower --format json"))
    );
}

#[test]
fn runs_over_time() {
    let place = Workplace::new();
    for index in 0..12_u64 {
        let (mean, release) = if index < 7 {
            (5_000.0, "6.1.0")
        } else {
            (6_500.0, "6.12.0")
        };
        let made = MadeRun {
            started: 1_700_000_000 + index as i64 * 86_400,
            machine: json!({"kernel": {"release": release}}),
            ..MadeRun::new(vec![latencies(index, 3_000, mean)])
        };
        made.write(&place.path(&format!("run-{index:02}")));
    }
    for (format, name) in [
        ("text", "over-time-text"),
        ("markdown", "over-time-markdown"),
        ("junit", "over-time-junit"),
    ] {
        insta::assert_snapshot!(
            name,
            said(&place.tardy(&format!("compare --over-time . --format {format}")))
        );
    }
    insta::assert_snapshot!(
        "over-time-json",
        rounded(&place.tardy("compare --over-time . --format json"))
    );
}

#[test]
fn costs() {
    let place = Workplace::new();
    MadeCost {
        machine: machine("6.1.0", "voluntary-or-none"),
        sys: [314.7, 317.3, 317.9],
    }
    .write(&place.path("fast"));
    MadeCost {
        machine: machine("6.1.0-rt", "real-time"),
        sys: [644.3, 660.9, 665.9],
    }
    .write(&place.path("rt"));
    insta::assert_snapshot!("cost-text", said(&place.tardy("show rt")));
    insta::assert_snapshot!(
        "cost-with-published-numbers",
        said(&place.tardy("show rt --paper mckenney2009"))
    );
    for (format, name) in [
        ("text", "cost-compare-text"),
        ("markdown", "cost-compare-markdown"),
        ("junit", "cost-compare-junit"),
    ] {
        insta::assert_snapshot!(
            name,
            said(&place.tardy(&format!("compare fast rt --format {format}")))
        );
    }
    insta::assert_snapshot!(
        "cost-compare-json",
        rounded(&place.tardy("compare fast rt --format json"))
    );
}

#[test]
fn advice() {
    let place = Workplace::new();
    let made = |machine: Value, samples: Vec<i64>| MadeRun {
        machine,
        phases: vec![("io", 0, 1_000_000)],
        ..MadeRun::new(vec![samples])
    };
    let done = |run: MadeRun| MadeRun {
        probe: ("work.done", "completion"),
        ..run
    };
    let (fast, real_time) = (
        machine("6.1.0", "voluntary-or-none"),
        machine("6.1.0-rt", "real-time"),
    );
    done(made(
        real_time.clone(),
        vec![120_000; 20_000].into_iter().chain([200_000]).collect(),
    ))
    .write(&place.path("done"));
    done(made(fast.clone(), vec![120_000, 120_000, 300_000, 120_000])).write(&place.path("late"));
    made(fast.clone(), vec![900_000; 20_000]).write(&place.path("fast"));
    made(real_time.clone(), vec![20_000; 20_000]).write(&place.path("rt"));
    MadeCost {
        machine: fast,
        sys: [314.7, 317.3, 317.9],
    }
    .write(&place.path("fast-build"));
    MadeCost {
        machine: real_time,
        sys: [644.3, 660.9, 665.9],
    }
    .write(&place.path("rt-build"));
    let work = "--work 100us --deadline 250us --period 1ms --utilisation 40% --memory 1MiB";
    for (name, line) in [
        ("advise-passed", format!("advise done {work}")),
        ("advise-failed", format!("advise late {work}")),
        (
            "advise-two-kernels",
            format!("advise fast rt fast-build rt-build --kind syscalls {work}"),
        ),
    ] {
        insta::assert_snapshot!(name, said(&place.tardy(&line)));
    }
}

/// Writes runs, and returns command lines that print what `explain`, `breakdown`, `advise`, `cost`
/// and statistics find.
fn analyses(place: &Workplace) -> [String; 7] {
    let made = |machine: Value, samples: Vec<i64>| MadeRun {
        machine,
        phases: vec![("io", 0, 1_000_000)],
        ..MadeRun::new(vec![samples])
    };
    made(machine("6.1.0", "voluntary-or-none"), vec![900_000; 20_000]).write(&place.path("fast"));
    made(machine("6.1.0-rt", "real-time"), vec![20_000; 20_000]).write(&place.path("rt"));
    let cost = MadeCost {
        machine: machine("6.1.0", "voluntary-or-none"),
        sys: [314.7, 317.3, 317.9],
    };
    cost.write(&place.path("fast-build"));
    let phases = vec![("idle, high-resolution timers", 0, 10), ("forks", 10, 20)];
    MadeRun {
        phases,
        ..MadeRun::new(vec![latencies(1, 20_000, 5_000.0)])
    }
    .write(&place.path("split"));
    MadeRun {
        is_unbound: true,
        ..MadeRun::new(vec![latencies(1, 500, 5_000.0), latencies(2, 500, 5_000.0)])
    }
    .write(&place.path("copies"));
    let trace =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../tardy-trace/tests/data/application.dat");
    std::fs::copy(trace, place.path("trace.dat")).unwrap();
    let work = "--work 100us --deadline 250us --period 1ms --utilisation 40% --memory 1MiB";
    [
        "explain trace.dat --task my_loop".to_owned(),
        "breakdown split".to_owned(),
        "show split --statistics".to_owned(),
        "show copies --statistics --mhz 2000".to_owned(),
        format!("advise fast rt fast-build --kind syscalls {work}"),
        "show fast-build --paper mckenney2009".to_owned(),
        "cost --metric null-call --metric bcopy-libc --rounds 1 --trials 2 --trial-length 20us \
         --quiet --out"
            .to_owned(),
    ]
}

/// Text output fits a narrow terminal. Only a word that is longer than a line, such as a path, may
/// exceed it.
#[test]
fn texts_fit_narrow_terminals() {
    let place = Workplace::new();
    let commands = [
        "list",
        "list probes",
        "list probes cyclic",
        "list loads io",
        "list checks",
        "schema",
        "scenarios",
        "run --dry-run",
        "tune --plan --cpus 0",
    ];
    let commands = commands.map(|line| (line.to_owned(), &[0][..]));
    let analyses = analyses(&place).map(|line| (line, &[0, 1, 4][..]));
    for columns in [60, 80, 120] {
        for (line, ends) in commands.iter().chain(&analyses) {
            let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            if line.ends_with("--out") {
                words.push(format!("cost-{columns}"));
            }
            let mut command = place.command(words);
            command
                .env("COLUMNS", columns.to_string())
                .env_remove("LINES");
            let outcome = crate::support::workplace::finish(command);
            assert!(ends.contains(&outcome.code()), "tardy {line}: {outcome:?}");
            let text = outcome.stdout;
            let is_word = |line: &str| line.split_whitespace().count() == 1;
            let wide: Vec<&str> = text
                .lines()
                .filter(|line| line.chars().count() > columns && !is_word(line))
                .collect();
            assert!(
                !text.is_empty() && wide.is_empty(),
                "tardy {line} at {columns}: {wide:#?}"
            );
        }
    }
}
