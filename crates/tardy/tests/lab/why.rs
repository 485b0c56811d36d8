//! Tests `tardy lab why` and `tardy compare --why`: the difference of two latencies, to the
//! function and to the instruction.

use std::path::{Path, PathBuf};

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::Value;
use tardy_lab::injection::MODULE_NAME;

use super::{REAL_TIME, STOCK, kernel, lab, lab_is_there, modules, support};

/// Number of mutants of a kernel; a mutant is a guest with a longer function. `TARDY_TEST_MUTANTS`
/// sets another number.
const MUTANTS: usize = 1;
/// Range from which the number of rounds of the loop in the longer function is drawn. A round has
/// two instructions.
const ROUNDS: std::ops::Range<u64> = 1000..4000;
/// Quantiles whose samples execute a function that is lengthened.
const QUANTILES: [&str; 4] = ["0.02", "0.25", "0.75", "0.98"];
/// The function of the module that contains the loop.
const LENGTHENED: &str = "tardy_lengthen [tardy_inject]";

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

/// Checks, for each side, that the times of all functions add up to the latency.
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
        // The run keeps the code of only the ten largest of 300 samples, so the code of the
        // smallest sample is missing.
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
    // The functions that the base (the stock kernel) executes range from the timer interrupt to the
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

/// Returns the calls and the time of a function that only the new side executed.
fn added(row: &Value) -> (i64, i64) {
    let [calls, ns] = ["calls", "ns"].map(|key| {
        assert_eq!(row[format!("base_{key}")], 0, "{row}");
        number(&row[format!("new_{key}")])
    });
    (calls, ns)
}

/// Returns the functions that the base executed once, and that a module can name.
fn called_once(path: &Value) -> Vec<&str> {
    path["functions"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| {
            number(&row["base_calls"]) == 1 && !row["callers"].as_array().unwrap().is_empty()
        })
        .map(|row| row["function"].as_str().unwrap())
        .filter(|name| !name.contains(['(', ' ']))
        .collect()
}

/// Guests of one kernel, in each of which one function may be longer.
struct Mutants<'a> {
    folder: &'a Path,
    source: &'a str,
    options: &'a str,
    variant: &'a str,
    module: PathBuf,
}

impl Mutants<'_> {
    /// Measures a guest; `None` if the module refuses the function.
    fn measured(&self, name: &str, lengthened: Option<(&str, u64)>) -> Option<PathBuf> {
        let out = self.folder.join(format!("{}-{name}", self.variant));
        let fixed = format!(
            "run --json --kernel {} {} --load none --cycles 200 --watch --watch-worst 1024",
            self.source, self.options
        );
        let mut arguments: Vec<String> = fixed.split_whitespace().map(str::to_owned).collect();
        arguments.extend(["--out".to_owned(), out.display().to_string()]);
        if let Some((function, rounds)) = lengthened {
            let module = self.module.display();
            let parameters = format!("{module}:lengthen={function}:rounds={rounds}");
            arguments.extend(["--module".to_owned(), parameters]);
        }
        let output = lab(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        output.status.success().then(|| out.join(self.variant))
    }

    /// Draws random functions on the path of almost every sample, and lengthens one function per
    /// guest. Checks that the comparison names this function first, with its length.
    fn find(&self, wanted: usize, random: &mut Pcg64) {
        let median = ["--quantiles", "0.5"];
        let plain = self.measured("plain", None).unwrap();
        let path = compared(&plain, &plain, &median);
        // If only some samples executed the longer function, the median could be another sample.
        let paths = QUANTILES.map(|quantile| compared(&plain, &plain, &["--quantiles", quantile]));
        let mut names: Vec<&str> = called_once(&path);
        for other in &paths {
            let others = called_once(other);
            names.retain(|name| others.contains(name));
        }
        names.sort_unstable();
        names.shuffle(random);
        // Time that a call of the loop's function takes, apart from the rounds of the loop.
        let mut around = None;
        let mut found = 0;
        for name in names {
            if found == wanted {
                break;
            }
            let rounds = random.random_range(ROUNDS);
            // Kprobes refuse functions that they need themselves, or that run before the kernel is
            // in a state to be interrupted.
            let Some(longer) = self.measured(name, Some((name, rounds))) else {
                eprintln!("{name} cannot be lengthened");
                continue;
            };
            let instruction = number(&path["instruction_ns"]);
            let loop_ns = |rounds: u64| 2 * rounds.cast_signed() * instruction;
            eprintln!("{}: {name}, longer by {rounds} rounds", self.variant);
            let why = compared(&plain, &longer, &median);
            adds_up(&why);
            if number(&why["difference_ns"]) < loop_ns(rounds) {
                // The loop is at the function's start, but the samples contain only its end.
                eprintln!("{name} starts before the due time");
                continue;
            }
            let around = *around.get_or_insert_with(|| {
                let short = self.measured("short", Some((name, 1))).unwrap();
                let why = compared(&plain, &short, &median);
                let rows = why["functions"].as_array().unwrap();
                let row = rows.iter().find(|row| row["function"] == LENGTHENED);
                let (calls, longer_by) = added(row.unwrap());
                longer_by / calls - loop_ns(1)
            });
            let row = &why["functions"][0];
            let (calls, longer_by) = added(row);
            assert_eq!(row["function"], LENGTHENED, "{name}: {why}");
            assert_eq!(
                longer_by,
                calls * (loop_ns(rounds) + around),
                "{name}: {row}"
            );
            let callers = row["callers"].as_array().unwrap();
            assert!(callers.iter().any(|caller| caller == name), "{name}: {row}");
            found += 1;
            let instructions = longer_by / instruction;
            eprintln!(
                "{}: {name}: {calls} x {instructions} instructions",
                self.variant
            );
        }
        assert_eq!(found, wanted, "too few functions can be lengthened");
    }
}

/// Lengthens functions of a kernel, and checks that the comparison names each of them first.
fn find_mutants(source: &str, options: &str, variant: &str) {
    if !lab_is_there("functions that became longer", true) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let release = kernel(source).unwrap().release().unwrap().to_owned();
    let mutants = Mutants {
        folder: folder.path(),
        source,
        options,
        variant,
        module: modules().join(release).join(MODULE_NAME),
    };
    let wanted = std::env::var("TARDY_TEST_MUTANTS").map_or(MUTANTS, |text| text.parse().unwrap());
    mutants.find(wanted, &mut Pcg64::seed_from_u64(20_261_129));
}

#[test]
fn a_longer_function_of_the_stock_kernel_comes_first_with_its_exact_length() {
    find_mutants(STOCK, "--preempt full", "6.1-full");
}

#[test]
fn a_longer_function_of_the_real_time_kernel_comes_first_with_its_exact_length() {
    find_mutants(REAL_TIME, "", "6.1-rt");
}
