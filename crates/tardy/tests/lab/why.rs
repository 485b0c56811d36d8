//! `tardy lab why` and `tardy compare --why`: the difference of two latencies, to the function and
//! to the instruction.

use std::path::Path;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;
use serde_json::Value;
use tardy_lab::injection::MODULE_NAME;

use super::{REAL_TIME, STOCK, kernel, lab, lab_is_there, modules, support};

/// Number of functions that are lengthened, one after the other; `TARDY_TEST_MUTANTS` sets another
/// number.
const MUTANTS: usize = 2;
/// Rounds of the loop in the longer function; its loop has two instructions a round.
const ROUNDS: u64 = 2001;

fn document(output: &std::process::Output) -> Value {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    support::document::read(&String::from_utf8_lossy(&output.stdout))
}

fn compared(base: &Path, new: &Path, arguments: &[&str]) -> Value {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_tardy"))
        .args(["compare", "--why", "--format", "json"])
        .args([base, new])
        .args(arguments)
        .output()
        .unwrap();
    document(&output)
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap()
}

/// The sums over all functions are the latencies themselves.
fn adds_up(why: &Value) {
    let functions = why["functions"].as_array().unwrap();
    for side in ["base", "new"] {
        let key = format!("{side}_ns");
        let sum: i64 = functions.iter().map(|row| number(&row[&key])).sum();
        assert_eq!(sum, number(&why[side]["latency_ns"]), "{side}");
    }
    let [base, new] = ["base", "new"].map(|side| number(&why[side]["latency_ns"]));
    assert_eq!(number(&why["difference_ns"]), new - base);
}

#[test]
fn a_longer_latency_is_explained_to_the_instruction() {
    if !lab_is_there("the functions that make a kernel slower", false) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("why");
    let arguments = [
        "why",
        "--json",
        "--kernel",
        STOCK,
        "--preempt",
        "full",
        "--kernel",
        REAL_TIME,
        "--load",
        "none",
        "--cycles",
        "300",
        "--out",
    ];
    let why = document(&lab(&[&arguments[..], &[out.to_str().unwrap()]].concat()));
    adds_up(&why);
    let (stock, real_time) = (out.join("6.1-full"), out.join("6.1-rt"));
    for quantile in ["0.999", "1e-9"] {
        // The ten largest of 300 are kept: the smallest is not among them.
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_tardy"))
            .args(["compare", "--why", "--quantiles", quantile])
            .args([&stock, &real_time])
            .output()
            .unwrap();
        let is_kept = quantile == "0.999";
        assert_eq!(output.status.code(), Some(if is_kept { 0 } else { 2 }));
        let refusal = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            refusal.contains("measure again with --watch-worst"),
            !is_kept,
            "{refusal}"
        );
    }
    let page = folder.path().join("report.html");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_tardy"))
        .arg("report")
        .args([&stock, &real_time])
        .arg("--html")
        .arg(&page)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let page = std::fs::read_to_string(page).unwrap();
    for part in [
        "Why the largest latencies differ",
        "<title>hrtimer_interrupt: ",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(
        compared(&stock, &real_time, &[])["functions"],
        why["functions"]
    );
    let other_way = compared(&real_time, &stock, &[]);
    adds_up(&other_way);
    assert_eq!(
        number(&other_way["difference_ns"]),
        -number(&why["difference_ns"])
    );
    // The base, which is the stock kernel, executes functions from the timer interrupt to the
    // wake-up of the thread.
    let functions = why["functions"].as_array().unwrap();
    let executed = |name: &str| {
        functions
            .iter()
            .any(|row| row["function"] == name && number(&row["base_ns"]) > 0)
    };
    assert!(executed("hrtimer_interrupt") && executed("try_to_wake_up"));
    let same = compared(&stock, &stock, &[]);
    assert_eq!(number(&same["difference_ns"]), 0);
    for row in same["functions"].as_array().unwrap() {
        assert_eq!(row["base_ns"], row["new_ns"], "{row}");
    }
}

#[test]
fn a_function_that_became_longer_comes_first_with_its_exact_length() {
    if !lab_is_there("functions that became longer", true) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let release = kernel(STOCK).unwrap().release().unwrap().to_owned();
    let module = modules().join(release).join(MODULE_NAME);
    let measured = |name: &str, module: Option<String>| {
        let out = folder.path().join(name);
        let mut arguments = vec![
            "run".to_owned(),
            "--json".to_owned(),
            "--out".to_owned(),
            out.display().to_string(),
        ];
        let fixed = "--kernel debian:6.1 --preempt full --load none --cycles 200 --watch \
                     --watch-worst 1024";
        arguments.extend(fixed.split(' ').map(str::to_owned));
        arguments.extend(
            module
                .into_iter()
                .flat_map(|module| ["--module".to_owned(), module]),
        );
        let output = lab(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        output.status.success().then(|| out.join("6.1-full"))
    };
    let median = ["--quantiles", "0.5"];
    let plain = measured("plain", None).unwrap();
    let path = compared(&plain, &plain, &median);
    let mut names: Vec<&str> = path["functions"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| {
            number(&row["base_calls"]) == 1 && !row["callers"].as_array().unwrap().is_empty()
        })
        .map(|row| row["function"].as_str().unwrap())
        .filter(|name| !name.contains(['(', ' ']))
        .collect();
    names.sort_unstable();
    names.shuffle(&mut Pcg64::seed_from_u64(20_261_129));
    let wanted = std::env::var("TARDY_TEST_MUTANTS").map_or(MUTANTS, |text| text.parse().unwrap());
    let mut found = 0;
    for name in names {
        let with = |rounds: u64| {
            let parameters = format!("{}:lengthen={name}:rounds={rounds}", module.display());
            measured(&format!("{name}-{rounds}"), Some(parameters))
        };
        // Kprobes refuse functions that they need themselves, or that run before the kernel is in
        // a state to be interrupted.
        let Some(short) = with(1) else { continue };
        let long = with(ROUNDS).unwrap();
        let why = compared(&short, &long, &median);
        adds_up(&why);
        let first = &why["functions"][0];
        assert_eq!(
            first["function"], "tardy_lengthen [tardy_inject]",
            "{name}: {why}"
        );
        let calls = number(&first["base_calls"]);
        assert!(
            calls > 0 && first["base_calls"] == first["new_calls"],
            "{name}: {first}"
        );
        let loop_ns = 2 * (ROUNDS as i64 - 1) * number(&why["instruction_ns"]);
        assert_eq!(
            number(&first["new_ns"]) - number(&first["base_ns"]),
            calls * loop_ns,
            "{name}: {first}"
        );
        let callers = first["callers"].as_array().unwrap();
        assert!(
            callers.iter().any(|caller| caller == name),
            "{name}: {first}"
        );
        found += 1;
        eprintln!("{name}: {calls} x {loop_ns} ns");
        if found == wanted {
            return;
        }
    }
    panic!("{found} of {wanted} functions could be lengthened");
}
