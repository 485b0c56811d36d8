//! Tests loops of other programs, in C and in Rust, that are measured like the tool's own probes.

use crate::support;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use support::machine;
use support::series;
use support::summary::{assert_exact, count, series_of};
use support::workplace::{Outcome, Workplace, finish};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// Compiles one of the header's C examples with all warnings on.
fn compile(place: &Workplace, example: &str, flags: &[&str]) -> Outcome {
    let source = repository()
        .join("include/examples")
        .join(format!("{example}.c"));
    let mut cc = place.prepared(
        machine::program("cc", "build-essential"),
        ["-O2", "-Wall", "-Wextra", "-Werror"],
    );
    cc.arg("-o").arg(example).arg(source).args(flags);
    finish(cc)
}

fn loop_in_c() -> Workplace {
    let place = Workplace::new();
    compile(&place, "loop", &["-std=gnu99", "-pedantic"]).ends_with(0);
    place
}

#[test]
fn the_loop_of_the_documentation_compiles_as_pasted_and_is_measured() {
    let place = Workplace::new();
    let page = std::fs::read_to_string(repository().join("docs/probes.md")).unwrap();
    let (_, code) = page.split_once("```c\n").unwrap();
    let (code, _) = code.split_once("```").unwrap();
    std::fs::write(place.path("my_loop.c"), code).unwrap();
    let mut cc = place.prepared(
        machine::program("cc", "build-essential"),
        [
            "-O2",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-o",
            "my_loop",
            "my_loop.c",
            "-I",
        ],
    );
    cc.arg(repository().join("include"));
    finish(cc).ends_with(0);
    let summary = place
        .tardy("run --load none --for 1s --json --out run -- ./my_loop")
        .ends_with(0)
        .json();
    let done = series_of(&summary, "app");
    assert_exact(done);
    assert!(count(done, "expected") >= 500, "{done}");
}

#[test]
fn a_loop_in_c_is_measured_beside_a_probe_and_its_due_times_are_accounted_for() {
    let place = loop_in_c();
    let summary = place
        .tardy("run --load none --for 1s --probe cyclic --json --out run -- ./loop 2000 20")
        .ends_with(0)
        .json();
    let (done, start) = (series_of(&summary, "app"), series_of(&summary, "app.start"));
    for series in [done, start] {
        assert_exact(series);
        assert_eq!(
            (
                &series["schedule"]["kind"],
                &series["schedule"]["period_ns"]
            ),
            (&Value::from("grid"), &Value::from(2_000_000))
        );
    }
    assert_exact(series_of(&summary, "cyclic"));
    assert!(
        count(done, "expected") >= 500,
        "a second of due times every 2 ms: {done}"
    );
    let stored = series::all(&place.path("run"));
    let of = |name: &str| {
        stored
            .iter()
            .find(|series| series.descriptor.probe == name)
            .unwrap()
    };
    // On any machine, the work of 20 us lies between start and end of each cycle.
    for (start, done) in of("app.start")
        .samples
        .iter()
        .zip(&of("app").samples)
        .filter(|(start, done)| start.due == done.due)
    {
        assert!(
            done.latency.get() >= start.latency.get() + 20_000,
            "{start:?} {done:?}"
        );
    }
    assert!(
        !of("app").descriptor.is_outside_verdict && of("app.start").descriptor.is_outside_verdict
    );
    let text = place.tardy("show run").ends_with(0).stdout;
    assert!(text.contains("the loop `control`, every 2ms"), "{text}");
    assert!(
        !text.contains("was killed"),
        "the loop ends when it is asked to: {text}"
    );
}

#[test]
fn a_programs_words_arrive_as_they_were_given_and_the_report_repeats_them() {
    let place = loop_in_c();
    // A shell would split `a b` and expand `$HOME`.
    let words = ["./loop", "2000", "20", "60000", "0", "a b", "$HOME"];
    let flags = [
        "run", "--load", "none", "--for", "500ms", "--quiet", "--out", "run", "--",
    ];
    place
        .tardy_with(&[&flags[..], &words].concat())
        .ends_with(0);
    let probe = &place.record("run")["plan"]["probes"][0];
    assert_eq!(
        probe["parameters"]["command"]["words"],
        serde_json::json!(words),
        "{probe}"
    );
    place.tardy("report run --html run.html").ends_with(0);
    let page = std::fs::read_to_string(place.path("run.html")).unwrap();
    assert!(
        page.contains(" -- ./loop 2000 20 60000 0 'a b' '$HOME'"),
        "the command line to repeat it"
    );
}

#[test]
fn the_stack_of_the_thread_that_reads_the_loop_is_no_fault_of_the_run() {
    let test = "the_stack_of_the_thread_that_reads_the_loop_is_no_fault_of_the_run";
    if !machine::is_root() {
        return machine::left_out(test, "memory can be locked by root only");
    }
    let place = loop_in_c();
    place.tardy("run --load none --for 500ms --quiet --json --out run -- ./loop 2000 20");
    let record = place.record("run");
    let threads = record["overhead"]["threads"].as_array().unwrap();
    let reading = threads
        .iter()
        .find(|thread| thread["probe"] == "app")
        .unwrap();
    assert_eq!(reading["faults"], 0, "{reading}");
}

#[test]
fn due_times_that_the_loop_skips_fail_the_deadline() {
    let place = loop_in_c();
    // Every fiftieth cycle takes three periods, so two due times are skipped, or three if the
    // wake-up is late.
    let outcome = place
        .tardy(
            "run --load none --for 1s --deadline 500ms --json --out run -- ./loop 2000 20 60000 50",
        )
        .ends_with(1);
    let summary = outcome.json();
    let start = series_of(&summary, "app.start");
    assert_exact(start);
    let samples = series::all(&place.path("run"))
        .into_iter()
        .find(|series| series.descriptor.probe == "app.start")
        .unwrap()
        .samples;
    let skipping = samples.iter().filter(|sample| sample.skipped >= 2).count();
    assert!(
        skipping >= samples.len() / 50 - 1,
        "{skipping} of {}",
        samples.len()
    );
    assert!(
        summary["verdict"]["evidence"]["misses"].as_u64().unwrap() >= 2 * (skipping as u64 - 1),
        "{}",
        summary["verdict"]
    );
}

#[test]
fn a_program_that_ends_ends_the_run_and_one_that_is_killed_leaves_a_whole_series() {
    let place = loop_in_c();
    let summary = place
        .tardy("run --load none --for 60s --probe cyclic --json --out run -- ./loop 1000 20 3000")
        .ends_with(0)
        .json();
    assert_exact(series_of(&summary, "app"));
    assert!(
        summary["warnings"]
            .to_string()
            .contains("the program ended by itself (exit status: 0)"),
        "{}",
        summary["warnings"]
    );
    let killed = "(sleep 3; kill -9 $$) & exec ./loop 1000 20";
    let arguments = [
        "run", "--load", "none", "--for", "60s", "--json", "--out", "killed", "--", "sh", "-c",
        killed,
    ];
    let summary = place.tardy_with(&arguments).ends_with(0).json();
    assert_exact(series_of(&summary, "app"));
    assert_exact(series_of(&summary, "app.start"));
    assert!(
        summary["warnings"].to_string().contains("signal: 9"),
        "{}",
        summary["warnings"]
    );
    place.assert_no_process_is_left();
}

#[test]
fn a_loop_that_ends_before_the_measurement_starts_is_reported() {
    let place = loop_in_c();
    let summary = place
        .tardy("run --load none --for 60s --json --out run -- ./loop 1000 20 2")
        .ends_with(0)
        .json();
    assert_eq!(count(series_of(&summary, "app"), "recorded"), 0);
    assert!(
        summary["warnings"]
            .to_string()
            .contains("the loop `control` started no cycle during the measurement"),
        "{}",
        summary["warnings"]
    );
}

#[test]
fn a_program_without_a_loop_or_none_at_all_is_an_error_that_says_so() {
    let place = Workplace::new();
    let error = place
        .tardy("run --load none --for 1s --out run -- true")
        .ends_with(3)
        .stderr;
    assert!(error.contains("opened no loop"), "{error}");
    let error = place
        .tardy("run --load none --for 1s --out none -- ./no-such-program")
        .ends_with(2)
        .stderr;
    assert_eq!(
        error.lines().last(),
        Some(
            "tardy: cannot start ./no-such-program: No such file or directory: give a program \
             that can be run"
        )
    );
    let error = place
        .tardy("run --load none --for 1s --probe app --out needs")
        .ends_with(2)
        .stderr;
    assert!(error.contains("needs `command`"), "{error}");
}

#[test]
fn a_loop_in_rust_is_measured_and_without_tardy_it_runs_as_ever() {
    let place = Workplace::new();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(repository()).args([
        "build",
        "--package",
        "tardy-app",
        "--example",
        "loop",
        "--message-format",
        "json-render-diagnostics",
    ]);
    let built = finish(place_output(cargo)).ends_with(0);
    let executable = |line: &str| {
        serde_json::from_str::<Value>(line).ok()?["executable"]
            .as_str()
            .map(str::to_owned)
    };
    let program = built
        .stdout
        .lines()
        .filter_map(executable)
        .next_back()
        .expect("cargo names the example that it built");
    let arguments = [
        "run", "--load", "none", "--for", "500ms", "--json", "--out", "run", "--", &program, "1000",
    ];
    let summary = place.tardy_with(&arguments).ends_with(0).json();
    assert_exact(series_of(&summary, "app"));
    assert_exact(series_of(&summary, "app.start"));
    let alone = place.prepared(Command::new(&program), ["1000", "20"]);
    let alone = finish(alone).ends_with(0);
    assert_eq!(alone.stderr, "");
}

fn place_output(mut command: Command) -> Command {
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    command
}

#[test]
fn the_header_is_taken_by_c99_c11_and_a_compiler_for_the_other_language() {
    let place = Workplace::new();
    for standard in ["-std=gnu99", "-std=gnu11"] {
        compile(&place, "loop", &[standard, "-pedantic"]).ends_with(0);
    }
    std::fs::write(
        place.path("loop.cpp"),
        "#include \"tardy.h\"\nint main() { tardy_loop l; tardy_open(&l, \"a\", 0); tardy_due(&l, \
         1); tardy_done(&l); tardy_close(&l); }\n",
    )
    .unwrap();
    let mut compiler = place.prepared(
        machine::program("c++", "build-essential"),
        [
            "-std=c++11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-o",
            "cpp",
            "loop.cpp",
        ],
    );
    compiler.arg("-I").arg(repository().join("include"));
    finish(compiler).ends_with(0);
    assert_eq!(
        finish(place.prepared(Command::new(place.path("cpp")), [""; 0])).code(),
        0
    );
}

#[test]
fn the_sound_example_is_built_where_the_headers_of_alsa_are() {
    let place = Workplace::new();
    if !Path::new("/usr/include/alsa/asoundlib.h").exists() {
        return machine::left_out(
            "the_sound_example_is_built",
            "the headers of ALSA are missing: install libasound2-dev",
        );
    }
    compile(&place, "alsa_period", &["-std=gnu99", "-lasound"]).ends_with(0);
    let outcome =
        finish(place.prepared(Command::new(place.path("alsa_period")), ["no-such-device"]));
    assert!(
        outcome
            .ends_with(3)
            .stderr
            .contains("alsa_period: no-such-device")
    );
    if !Path::new("/dev/snd").exists() {
        return machine::left_out(
            "the_sound_example_is_measured",
            "this machine has no sound card (/dev/snd)",
        );
    }
    let outcome = place.tardy("run --load none --for 1s --json --out run -- ./alsa_period default");
    let summary = outcome.ends_with(0).json();
    let audio = series_of(&summary, "app");
    assert_exact(audio);
    assert_eq!(
        audio["schedule"]["kind"], "event",
        "the card's clock makes no grid"
    );
}

/// The C header and the Rust crate both describe the shared memory. The tool reads it by the
/// crate's description.
#[test]
fn the_header_for_c_and_the_crate_for_rust_agree_on_every_word() {
    use tardy_app::layout as rust;
    let words = [
        ("TARDY_WORD_REGIONS", rust::REGIONS),
        ("TARDY_WORD_SLOTS", rust::SLOTS),
        ("TARDY_WORD_REGION_WORDS", rust::REGION_WORDS),
        ("TARDY_WORD_REFUSED", rust::REFUSED),
        ("TARDY_HEAD_WORDS", rust::HEAD_WORDS),
        ("TARDY_REGION_STATE", rust::STATE),
        ("TARDY_REGION_PERIOD", rust::PERIOD),
        ("TARDY_REGION_THREAD", rust::THREAD),
        ("TARDY_REGION_NAME", rust::NAME),
        ("TARDY_REGION_NAME_WORDS", rust::NAME_WORDS),
        ("TARDY_REGION_HEAD", rust::HEAD),
        ("TARDY_REGION_BEGUN", rust::BEGUN),
        ("TARDY_REGION_DUE", rust::DUE),
        ("TARDY_REGION_TAIL", rust::TAIL),
        ("TARDY_REGION_SLOTS", rust::RING),
        ("TARDY_SLOT_WORDS", rust::SLOT_WORDS),
    ];
    let states = [
        ("FREE", rust::FREE),
        ("CLAIMED", rust::CLAIMED),
        ("OPEN", rust::OPEN),
        ("CLOSED", rust::CLOSED),
    ];
    let mut expected: Vec<(String, i64)> = words
        .iter()
        .map(|&(name, value)| (name.to_owned(), value as i64))
        .collect();
    expected.extend(
        states
            .iter()
            .map(|(name, value)| (format!("TARDY_STATE_{name}"), *value as i64)),
    );
    expected.extend([
        ("TARDY_WORD_MAGIC".to_owned(), 0),
        ("TARDY_MAGIC".to_owned(), rust::MAGIC as i64),
        ("TARDY_NEVER".to_owned(), rust::NEVER),
    ]);
    // Checks that the comparison omits no name of the header.
    let header = std::fs::read_to_string(repository().join("include/tardy.h")).unwrap();
    let named = |line: &str| {
        [
            "TARDY_WORD_",
            "TARDY_REGION_",
            "TARDY_STATE_",
            "TARDY_SLOT_",
            "TARDY_HEAD_",
        ]
        .iter()
        .any(|begin| line.trim().starts_with(begin))
    };
    let in_header: Vec<&str> = header
        .lines()
        .filter(|line| named(line))
        .filter_map(|line| line.trim().split_once(" = "))
        .map(|(name, _)| name)
        .collect();
    for name in &in_header {
        assert!(expected.iter().any(|(known, _)| known == name), "{name}");
    }
    assert_eq!(in_header.len() + 2, expected.len(), "{in_header:?}");

    let place = Workplace::new();
    let prints: String = expected
        .iter()
        .map(|(name, _)| format!("    printf(\"%lld\\n\", (long long){name});\n"))
        .collect();
    let text = format!(
        "#include <stdio.h>\n#include \"tardy.h\"\nint main(void)\n{{\n{prints}    return 0;\n}}\n"
    );
    std::fs::write(place.path("layout.c"), text).unwrap();
    let mut cc = place.prepared(
        machine::program("cc", "build-essential"),
        ["-o", "layout", "layout.c", "-I"],
    );
    cc.arg(repository().join("include"));
    finish(cc).ends_with(0);
    let printed = finish(place.prepared(Command::new(place.path("layout")), [""; 0]))
        .ends_with(0)
        .stdout;
    let values: Vec<i64> = printed.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(
        values,
        expected.iter().map(|(_, value)| *value).collect::<Vec<_>>(),
        "{expected:?}"
    );
}

#[test]
fn an_example_that_is_called_wrongly_says_how_and_does_not_run() {
    let place = loop_in_c();
    for words in [
        &["--help"][..],
        &["1000", "fast"],
        &["0"],
        &["1000", "50", "-1"],
    ] {
        let mut command = Command::new("timeout");
        command.arg("10").arg(place.path("loop"));
        let outcome = finish(place.prepared(command, words.iter().copied())).ends_with(2);
        assert!(
            outcome.stderr.starts_with("usage: loop [PERIOD_US "),
            "{words:?}: {}",
            outcome.stderr
        );
    }
}
