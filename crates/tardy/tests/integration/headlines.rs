//! Checks the first lines of `show` and `compare` against the tables below them, by the rules of
//! `headline_rules`, which were written from printed texts alone. Also checks that `show` gives the
//! answers that were worked out by hand for given samples (`tests/answers`). `TARDY_TEST_HEADLINES`
//! sets the number of results.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use serde::Deserialize;
use serde_json::{Value, json};
use tardy_core::series::ClockKind;
use tardy_core::units::Nanos;
use tardy_core::verdict::Window;
use tardy_run::record::State;

use crate::headline_rules::contradictions;
use crate::support::made_run::MadeRun;
use crate::support::random_cases::{found_in, wanted};
use crate::support::workplace::{Workplace, finish};

/// Number of results of `show` that every change checks; `compare` has half as many.
const GENERATED: usize = 60;
const SEED: u64 = 40;
const WIDTHS: [&str; 4] = ["60", "80", "120", "160"];
const LOADS: [&str; 5] = ["io", "fork", "hackbench", "memory", "reclaim"];
const PREEMPTIONS: [&str; 4] = ["voluntary-or-none", "lazy", "full", "real-time"];

fn machine(release: &str, preemption: &str, is_virtual: bool) -> Value {
    json!({
        "host_name": "board7",
        "kernel": {"release": release, "preemption": {"compiled": preemption}},
        "virtualization": {"processor_flag": is_virtual},
    })
}

/// Generates random latencies in ns: a usual value with noise, and sometimes a late one or a burst
/// of late ones.
fn latencies(random: &mut Pcg64Mcg, count: usize) -> Vec<i64> {
    let usual = random.random_range(2_000..60_000_i64);
    let noise = random.random_range(1..usual);
    let late_in = random.random_range(20..4_000);
    let late = 10_f64.powf(random.random_range(4.5..7.2)) as i64;
    let mut found = Vec::with_capacity(count);
    while found.len() < count {
        let is_late = random.random_range(0..late_in) == 0;
        let burst = if is_late {
            random.random_range(1..6)
        } else {
            1
        };
        for _ in 0..burst {
            let base = if is_late { late } else { usual };
            found.push(base + random.random_range(0..noise));
        }
    }
    found.truncate(count);
    found
}

fn generated(random: &mut Pcg64Mcg) -> MadeRun {
    let seconds = random.random_range(1..4_i64);
    let cpus = random.random_range(1..4);
    let mut phases = vec![("idle", 0, seconds)];
    for load in LOADS {
        if random.random_range(0..2) == 0 {
            let begin = phases.last().map_or(0, |phase| phase.2);
            phases.push((load, begin, begin + seconds));
        }
    }
    let end = phases.last().map_or(1, |phase| phase.2);
    // Stalls skip periods, so there are fewer wake-ups in the same time.
    let count = usize::try_from(end * 1_000).unwrap() / random.random_range(1..3);
    let preemption = PREEMPTIONS[random.random_range(0..PREEMPTIONS.len())];
    let mut run = MadeRun {
        phases,
        machine: machine("6.12.0", preemption, random.random_range(0..2) == 0),
        ..MadeRun::new((0..cpus).map(|_| latencies(random, count)).collect())
    };
    complicate(&mut run, random);
    run
}

/// Adds rare properties: lost samples, simulated time, an early end, a limit on skipped periods, a
/// second probe.
fn complicate(run: &mut MadeRun, random: &mut Pcg64Mcg) {
    let count = run.latencies[0].len();
    let mut one_in = |cases: u32| random.random_range(0..cases) == 0;
    if one_in(4) {
        run.gaps = vec![(count / 3, 1), (count / 2, 40)];
    }
    if one_in(4) {
        run.clock = ClockKind::Virtual;
    }
    if one_in(6) {
        run.state = State::Interrupted;
    }
    if one_in(4) {
        run.skipped_allowed = Some(3);
    }
    if one_in(4) {
        run.beside = vec![("itimer", "interval error", latencies(random, count))];
    }
}

/// Runs a command at a random width and returns the contradictions in its output.
fn check(place: &Workplace, random: &mut Pcg64Mcg, line: &str) -> Vec<String> {
    let mut command = place.command(line.split_whitespace());
    command.env("COLUMNS", WIDTHS[random.random_range(0..WIDTHS.len())]);
    let outcome = finish(command);
    let found = contradictions(&outcome.stdout, outcome.code());
    found
        .into_iter()
        .map(|what| format!("{line}: {what}\n{}", outcome.stdout))
        .collect()
}

fn of_a_run(random: &mut Pcg64Mcg) -> Vec<String> {
    let place = Workplace::new();
    generated(random).write(&place.path("run"));
    let deadline = match random.random_range(0..3) {
        0 => String::new(),
        _ => format!(
            " --deadline {}us",
            10_f64.powf(random.random_range(0.5..4.3)) as i64
        ),
    };
    let misses = if !deadline.is_empty() && random.random_range(0..2) == 0 {
        format!(" --misses 1e-{}", random.random_range(1..6))
    } else {
        String::new()
    };
    check(&place, random, &format!("show run{deadline}{misses}"))
}

/// Compares two runs of the same phases, so that their rows can be compared. Sometimes both have
/// the same samples.
fn of_a_comparison(random: &mut Pcg64Mcg) -> Vec<String> {
    let place = Workplace::new();
    let base = generated(random);
    let is_equal = random.random_range(0..5) == 0;
    let mut drawn = |samples: &Vec<i64>| {
        if is_equal {
            samples.clone()
        } else {
            latencies(random, samples.len())
        }
    };
    let new = MadeRun {
        phases: base.phases.clone(),
        ..MadeRun::new(base.latencies.iter().map(&mut drawn).collect())
    };
    base.write(&place.path("base"));
    new.write(&place.path("new"));
    check(&place, random, "compare base new")
}

/// Compares one to six runs per side. The runs differ in their levels and late samples. The sides
/// differ by a factor or only by chance.
fn of_replicas(random: &mut Pcg64Mcg) -> Vec<String> {
    let place = Workplace::new();
    let plan = generated(random);
    let spread = random.random_range(0.0..0.6);
    let times = [1.0, 1.0, 0.6, 1.4, 3.0][random.random_range(0..5)];
    let late_times = [1.0, 1.0, 0.1, 10.0][random.random_range(0..4)];
    for (side, times, late_times) in [("base", 1.0, 1.0), ("new", times, late_times)] {
        for index in 0..random.random_range(1..7) {
            let level = times * (1.0 + spread * random.random_range(-1.0..1.0));
            let late_level = late_times * 10_f64.powf(spread * random.random_range(-1.0..1.0));
            // Some runs are shorter than the others of their side.
            let share = [1.0, 1.0, 0.5][random.random_range(0..3)];
            let mut again = |samples: &Vec<i64>| -> Vec<i64> {
                let noise = random.random_range(0..2_000_i64);
                let one = |&latency: &i64| {
                    let is_late = latency > 120_000 && random.random_range(0..20) > 0;
                    let times = if is_late { late_level } else { level };
                    (latency as f64 * times) as i64 + random.random_range(0..=noise)
                };
                let count = (samples.len() as f64 * share) as usize;
                samples.iter().take(count).map(one).collect()
            };
            let latencies = plan.latencies.iter().map(&mut again).collect();
            let beside = plan
                .beside
                .iter()
                .map(|(probe, quantity, samples)| (*probe, *quantity, again(samples)));
            let run = MadeRun {
                phases: plan.phases.clone(),
                machine: plan.machine.clone(),
                clock: plan.clock,
                beside: beside.collect(),
                started: 1_700_000_000 + index,
                ..MadeRun::new(latencies)
            };
            run.write(&place.path(&format!("{side}/{index}")));
        }
    }
    let mut line = "compare base new".to_owned();
    if random.random_range(0..4) == 0 {
        let deadline = 10_f64.powf(random.random_range(1.0..3.5)) as i64;
        line += &format!(" --deadline {deadline}us");
    }
    if random.random_range(0..6) == 0 {
        line += [
            " --quantiles 50%",
            " --quantiles 99.9%",
            " --quantiles 50%,90%,99.9%",
        ][random.random_range(0..3)];
    }
    if random.random_range(0..6) == 0 {
        line += [" --margin 2us", " --margin 20%"][random.random_range(0..2)];
    }
    check(&place, random, &line)
}

#[test]
fn no_headline_of_replicas_contradicts_its_table() {
    let found = found_in(
        wanted("TARDY_TEST_HEADLINES", GENERATED) / 2,
        SEED << 40,
        of_replicas,
    );
    assert!(found.is_empty(), "{}:\n{}", found.len(), found.join("\n"));
}

#[test]
fn no_headline_of_a_run_contradicts_its_table() {
    let found = found_in(wanted("TARDY_TEST_HEADLINES", GENERATED), SEED, of_a_run);
    assert!(found.is_empty(), "{}:\n{}", found.len(), found.join("\n"));
}

#[test]
fn no_headline_of_a_comparison_contradicts_its_table() {
    let found = found_in(
        wanted("TARDY_TEST_HEADLINES", GENERATED) / 2,
        SEED << 32,
        of_a_comparison,
    );
    assert!(found.is_empty(), "{}:\n{}", found.len(), found.join("\n"));
}

#[derive(Deserialize)]
struct Questions {
    question: Vec<Question>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    name: String,
    kernel: String,
    virtual_machine: bool,
    load: String,
    /// Each list begins with a repeat count, followed by latencies in us.
    samples: Vec<Vec<f64>>,
    deadline_us: Option<f64>,
    misses_allowed: Option<f64>,
    why: String,
    answer: Answer,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    exit_code: i32,
    outcome: Option<String>,
    misses: Option<u64>,
    largest_us: f64,
    needs_preempt_rt: String,
}

impl Question {
    fn run(&self) -> MadeRun {
        let preemption = match self.kernel.as_str() {
            "ordinary" => "voluntary-or-none",
            other => other,
        };
        let samples = self.samples.iter().flat_map(|series| {
            let latencies: Vec<i64> = series[1..].iter().copied().map(nanoseconds).collect();
            latencies.repeat(series[0] as usize)
        });
        let load: &'static str = self.load.clone().leak();
        MadeRun {
            phases: vec![(load, 0, 1_000_000)],
            machine: machine("6.12.0", preemption, self.virtual_machine),
            window: self
                .deadline_us
                .map(|us| Window::deadline(Nanos(nanoseconds(us)))),
            misses_allowed: self.misses_allowed,
            ..MadeRun::new(vec![samples.collect()])
        }
    }

    /// Returns how `tardy show` deviates from the answer or contradicts itself, if it does.
    fn wrong_answer(&self) -> Option<String> {
        let place = Workplace::new();
        self.run().write(&place.path("run"));
        let text = place.tardy("show run");
        let summary = place.tardy("show run --json").json();
        let verdict = &summary["verdict"];
        let found = Answer {
            exit_code: text.code(),
            outcome: verdict["outcome"].as_str().map(str::to_owned),
            misses: verdict["evidence"]["misses"].as_u64(),
            largest_us: summary["probes"][0]["numbers"]["max_ns"].as_f64().unwrap() / 1e3,
            needs_preempt_rt: summary["decision"]["answer"].as_str().unwrap().to_owned(),
        };
        let contradicted = contradictions(&text.stdout, text.code());
        (found != self.answer || !contradicted.is_empty()).then(|| {
            format!(
                "{}: {}\n{found:?} instead of {:?}\n{contradicted:?}\n{}",
                self.name, self.why, self.answer, text.stdout
            )
        })
    }
}

fn nanoseconds(us: f64) -> i64 {
    (us * 1e3).round() as i64
}

#[test]
fn questions_with_answers_by_hand_are_answered_so() {
    let text = include_str!("../answers/questions.toml");
    let questions: Questions = toml::from_str(text).unwrap();
    assert!(questions.question.len() >= 60);
    let wrong: Vec<String> = questions
        .question
        .iter()
        .filter_map(Question::wrong_answer)
        .collect();
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}
