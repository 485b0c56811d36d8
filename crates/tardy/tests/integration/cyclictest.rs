//! `tardy cyclictest` prints to scripts what cyclictest prints, compared with the packaged
//! cyclictest on the same arguments.

use crate::support;

use support::machine;
use support::workplace::{Outcome, Workplace, finish};
use tardy_sys::signal;

/// The text with each number replaced by `0`, and without the blanks before numbers. So words,
/// lines and columns are compared, but values and their widths are not.
fn shape(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let mut shape = String::new();
        let mut letters = line.chars().peekable();
        while let Some(letter) = letters.next() {
            if !letter.is_ascii_digit() {
                shape.push(letter);
                continue;
            }
            while letters.next_if(char::is_ascii_digit).is_some() {}
            shape.truncate(shape.trim_end_matches(' ').len());
            shape.push('0');
        }
        shape
    };
    text.lines().map(line).collect()
}

fn of_peer(place: &Workplace, line: &str) -> Outcome {
    finish(place.prepared(
        machine::program("cyclictest", "rt-tests"),
        line.split_whitespace(),
    ))
}

fn of_tardy(place: &Workplace, line: &str) -> Outcome {
    place.tardy(&format!("cyclictest {line}")).ends_with(0)
}

#[test]
fn lines_and_columns_are_those_of_cyclictest() {
    let place = Workplace::new();
    for line in [
        "-q -l 20",
        "-q -l 20 -t2 -a -p 80 -N",
        "-q -l 20 -S -p 90 -i 2000 -d 0 -m",
        "-q -D 1 -t2 -p 80 --priospread --policy=rr",
        "-q -l 20 --latency=50 -u",
        "-q -l 20 --laptop",
        "-q -b 1 -l 50 -p 80 -a 0",
    ] {
        let (ours, peers) = (of_tardy(&place, line), of_peer(&place, line));
        assert_eq!(shape(&ours.stdout), shape(&peers.stdout), "{line}");
    }
}

#[test]
fn histograms_have_the_rows_of_cyclictest() {
    let place = Workplace::new();
    // The number of samples beyond the last row varies between runs. So in each histogram here,
    // either all samples lie beyond the last row, or none.
    for line in [
        "-q -l 3 -h 1 -a 0 -p 80",
        "-q -l 3 -H 1 -t2 -a -p 80",
        "-q -l 40 -h 400000 -a 0 -p 80 -i 2000",
    ] {
        // If the machine stalls, different samples lie beyond the rows. One program may then list
        // overflows of the thread, or the number of others, where the other program lists none. The
        // test ignores these differences.
        let rows = |outcome: &Outcome| {
            shape(&outcome.stdout)
                .iter()
                .map(|row| row.replace(" #0 others", ""))
                .map(|row| row.replace("# Thread0:0", "# Thread0:"))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            rows(&of_tardy(&place, line)),
            rows(&of_peer(&place, line)),
            "{line}"
        );
    }
    let (ours, peers) = (
        of_tardy(&place, "-q -l 40 -h 400 -p 80 -a 0 --histfile=ours"),
        of_peer(&place, "-q -l 40 -h 400 -p 80 -a 0 --histfile=peers"),
    );
    assert_eq!(shape(&ours.stdout), shape(&peers.stdout));
    let rows = |name: &str| {
        std::fs::read_to_string(place.path(name))
            .unwrap()
            .lines()
            .take(401)
            .map(|line| line[..7].to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(rows("ours")[1..], rows("peers")[1..]);
}

#[test]
fn values_and_spikes_are_listed_as_cyclictest_lists_them() {
    let place = Workplace::new();
    for line in [
        "-v -l 10 -t1 -p 80 -a 0",
        "-v -l 10 -p 80 -a",
        "-q -l 10 --spike=1 -p 80 -a 0",
    ] {
        // A stall of the machine skips due times in one program and delays others, so consecutive
        // lines of the same shape count as one.
        let kinds = |outcome: &Outcome| {
            let mut lines = shape(&outcome.stdout);
            lines.dedup();
            lines
        };
        assert_eq!(
            kinds(&of_tardy(&place, line)),
            kinds(&of_peer(&place, line)),
            "{line}"
        );
    }
}

#[test]
fn the_json_has_the_keys_of_cyclictest() {
    let place = Workplace::new();
    let line = |name: &str| format!("-q -l 20 -t2 -a -d0 -p 80 -h 100 --json={name}");
    of_tardy(&place, &line("ours"));
    of_peer(&place, &line("peers"));
    let read = |name: &str| {
        serde_json::from_slice::<serde_json::Value>(&std::fs::read(place.path(name)).unwrap())
            .unwrap()
    };
    let (ours, peers) = (read("ours"), read("peers"));
    let keys = |value: &serde_json::Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(keys(&ours), keys(&peers));
    assert_eq!(keys(&ours["sysinfo"]), keys(&peers["sysinfo"]));
    let second = &ours["thread"]["1"];
    let due = second["cycles"].as_u64().unwrap() + second["missed"].as_u64().unwrap();
    assert_eq!((&ours["num_threads"], due), (&2.into(), 20));
    for key in keys(&peers["thread"]["0"]) {
        assert!(ours["thread"]["0"].get(&key).is_some(), "{key}: {ours}");
    }
}

#[test]
fn the_run_is_kept_where_that_is_asked() {
    let place = Workplace::new();
    let outcome = of_tardy(&place, "-q -l 50 -t2 -a 0 -p 80 --tardy-out run");
    assert_eq!(
        outcome
            .stdout
            .lines()
            .filter(|line| line.starts_with("T: "))
            .count(),
        2
    );
    // Two threads of one CPU have their own intervals, and each cycle is in its thread's series.
    let summary = place.summary("run");
    let mut series: Vec<(&str, u64)> = summary["series"]
        .as_array()
        .unwrap()
        .iter()
        .map(|series| {
            (
                series["probe"].as_str().unwrap(),
                series["counts"]["expected"].as_u64().unwrap(),
            )
        })
        .collect();
    series.sort_unstable();
    assert!(
        series.len() == 2 && series[0] == ("cyclic", 50) && series[1].0 == "thread-1",
        "{series:?}"
    );
    let refused = place
        .tardy("cyclictest -q -l 5 --tardy-out run")
        .ends_with(2);
    assert!(refused.stderr.contains("exists"), "{}", refused.stderr);
    // Without --tardy-out, no file is left.
    of_tardy(&place, "-q -l 5");
    assert_eq!(place.names(), ["run"]);
}

#[test]
fn a_link_of_that_name_is_the_command() {
    let place = Workplace::new();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tardy"), place.path("cyclictest")).unwrap();
    let outcome = finish(place.prepared(
        std::process::Command::new(place.path("cyclictest")),
        ["-q", "-l5"],
    ))
    .ends_with(0);
    assert!(
        outcome
            .stdout
            .starts_with("# /dev/cpu_dma_latency set to 0us\nT: 0 ("),
        "{}",
        outcome.stdout
    );
}

#[test]
fn what_cannot_be_had_is_refused_in_a_line_that_says_why() {
    let place = Workplace::new();
    for (line, begin) in [
        ("--smi -l5", "tardy: --smi: "),
        ("-F pipe -l5", "tardy: -F: "),
        ("-a 4000 -l5", "tardy: -a: "),
        ("-a 1-x -l5", "tardy: -a: "),
        (
            "--deepest-idle-state=1 -l5",
            "tardy: --deepest-idle-state: ",
        ),
        ("--bogus", "tardy: unexpected argument '--bogus'"),
        ("-i x", "tardy: invalid value 'x' for '--interval <US>'"),
        (
            "-l5 -b",
            "tardy: a value is required for '--breaktrace <US>'",
        ),
    ] {
        let outcome = place.tardy(&format!("cyclictest {line}")).ends_with(2);
        assert!(
            outcome.stderr.starts_with(begin) && outcome.stderr.lines().count() == 1,
            "{line}: {}",
            outcome.stderr
        );
    }
}

/// The number of sleeps of the thread that slept most often.
fn sleeps(threads: &str) -> Option<u64> {
    let of_thread = |thread: std::fs::DirEntry| -> Option<u64> {
        let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
        let mut lines = status.lines();
        lines.find_map(|line| {
            line.strip_prefix("voluntary_ctxt_switches:")?
                .trim()
                .parse()
                .ok()
        })
    };
    let threads = std::fs::read_dir(threads).ok()?;
    threads.filter_map(|thread| of_thread(thread.ok()?)).max()
}

/// rteval (rteval/modules/measurement/cyclictest.py) starts cyclictest without an end and ends it
/// with SIGINT. rteval reads rows of whole numbers, with the bucket first, and lines that begin
/// with `# Max Latencies: ` and `# Break value: `.
#[test]
fn rteval_ends_it_by_a_signal_and_reads_its_rows() {
    let place = Workplace::new();
    let cpus = machine::cpus();
    let mut running = place.start(&format!(
        "cyclictest -i1000 -qmu -h3500 -p95 -t{} -a{cpus}",
        cpus.len()
    ));
    // On a busy machine the start takes seconds.
    let threads = format!("/proc/{}/task", running.pid());
    running.until("a thread has slept 200 times", || {
        sleeps(&threads).filter(|&most| most > 200)
    });
    running.signal(tardy_sys::signal::INTERRUPT);
    let outcome = running.wait().ends_with(0);
    let mut rows = 0;
    let mut samples = 0;
    for line in outcome
        .stdout
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
    {
        let values: Vec<u64> = line
            .split_whitespace()
            .map(|value| value.parse().unwrap())
            .collect();
        assert_eq!((values[0], values.len()), (rows, 1 + cpus.len()), "{line}");
        rows += 1;
        samples += values[1..].iter().sum::<u64>();
    }
    assert!(
        rows == 3500 && samples > 100,
        "{rows} rows, {samples} samples"
    );
    let most = outcome
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("# Max Latencies: "))
        .unwrap();
    assert_eq!(
        most.split_whitespace()
            .filter(|value| value.parse::<u64>().is_ok())
            .count(),
        cpus.len()
    );
}

/// Linaro's test-definitions (automated/lib/parse_rt_tests_results.py) read all output of
/// cyclictest, or, without -q, the output after the last escape sequence. The parser splits lines
/// that begin with `T:` at blanks and colons and takes the words after t, min, avg and max.
#[test]
fn linaros_parser_finds_thread_minimum_average_and_maximum() {
    let place = Workplace::new();
    let outcome = of_tardy(&place, "-p 98 -i 1000 -t 1 -a 0 -D 1 -m");
    let shown = outcome.stdout.rsplit('\u{1b}').next().unwrap();
    let lines: Vec<&str> = shown
        .lines()
        .filter(|line| line.starts_with("T:"))
        .collect();
    assert_eq!(lines.len(), 1, "{shown}");
    let words: Vec<String> = lines[0]
        .split([' ', ':'])
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let behind = |name: &str| {
        words[words.iter().position(|word| word == name).unwrap() + 1]
            .parse::<u64>()
            .unwrap()
    };
    assert!(
        behind("t") == 0 && behind("min") <= behind("avg") && behind("avg") <= behind("max"),
        "{words:?}"
    );
}

/// KernelCI's job (kernelci-core, config/runtime/tests/rt-tests.jinja2) has Linaro's newer script
/// call cyclictest with these arguments while hackbench runs. In the JSON, the parser reads
/// num_threads, the thread's min, avg and max, and return_code.
#[test]
fn kernelcis_job_finds_its_keys_in_the_json() {
    let place = Workplace::new();
    for histogram in ["", " -h 100"] {
        let line = format!(
            "cyclictest -q -p 98 -i 1000 -t 2 -a 0-1 -D 1s{histogram} -m --json=cyclictest.json"
        );
        place.tardy(&line).ends_with(0);
        let found: serde_json::Value =
            serde_json::from_slice(&std::fs::read(place.path("cyclictest.json")).unwrap()).unwrap();
        assert_eq!(
            (&found["num_threads"], &found["return_code"]),
            (&2.into(), &0.into()),
            "{found}"
        );
        for thread in ["0", "1"] {
            let of_thread = |key: &str| {
                found["thread"][thread][key]
                    .as_f64()
                    .unwrap_or_else(|| panic!("{key} of {thread}: {found}"))
            };
            assert!(
                of_thread("min") <= of_thread("avg")
                    && of_thread("avg") <= of_thread("max")
                    && of_thread("max") > 0.0,
                "{found}"
            );
        }
    }
}

/// OpenShift's runner (cnf-features-deploy, cnf-tests/pod-utils/cyclictest-runner) logs standard
/// output and standard error together. Its test (cluster-node-tuning-operator, functests/4_latency)
/// takes the words after the first `# Max Latencies:`; each word must be a number.
#[test]
fn openshifts_runner_finds_a_number_of_each_thread_behind_max_latencies() {
    let place = Workplace::new();
    let cpus = machine::cpus();
    let words = [
        "-D",
        "1",
        "-p",
        "1",
        "-t",
        &cpus.len().to_string(),
        "-a",
        &cpus.to_string(),
        "-h",
        "30",
        "-i",
        "1000",
        "--quiet",
    ];
    let outcome = place
        .tardy_with(&[&["cyclictest"][..], &words].concat())
        .ends_with(0);
    let log = outcome.stdout + &outcome.stderr;
    let behind = log
        .split_once("# Max Latencies:")
        .unwrap()
        .1
        .lines()
        .next()
        .unwrap();
    let values: Vec<u64> = behind
        .trim()
        .split(' ')
        .filter(|word| !word.is_empty())
        .map(|word| word.parse().unwrap())
        .collect();
    assert!(
        values.len() == cpus.len() && values.iter().all(|&value| value > 0),
        "{log}"
    );
}

/// cyclictest marks the trace and then switches tracing off. An instance of tracefs stands in for
/// the kernel's main trace.
#[test]
fn a_trace_is_marked_and_then_switched_off() {
    const TEST: &str = "a_trace_is_marked_and_then_switched_off";
    let place = Workplace::new();
    let name = format!("tardy-test-{}", std::process::id());
    let script = format!(
        "mkdir at && mount -t tracefs none at || exit 77; mkdir at/instances/{name} || exit 77; \
         mount --bind at/instances/{name} /sys/kernel/tracing || exit 77; echo 1 > \
         /sys/kernel/tracing/tracing_on; \"$0\" cyclictest -q -b 1 -p 80 -a 0 --tracemark; cat \
         /sys/kernel/tracing/trace > trace; cat /sys/kernel/tracing/tracing_on > on; umount \
         /sys/kernel/tracing; rmdir at/instances/{name}"
    );
    let command = std::process::Command::new("unshare");
    let outcome = finish(place.prepared(
        command,
        ["--mount", "sh", "-c", &script, env!("CARGO_BIN_EXE_tardy")],
    ));
    if !place.path("on").exists() {
        return machine::left_out(
            TEST,
            &format!("tracefs cannot be mounted here: {}", outcome.stderr),
        );
    }
    let read = |name: &str| std::fs::read_to_string(place.path(name)).unwrap();
    assert!(
        read("trace").contains("tardy: latency "),
        "{}\n{outcome:?}",
        read("trace")
    );
    assert_eq!(read("on").trim(), "0");
}

#[test]
fn threads_stay_on_the_cpu_that_the_caller_allows() {
    const TEST: &str = "cyclictest on the CPUs that the caller allows";
    if machine::cpus().len() < 2 {
        return machine::left_out(TEST, "there is one CPU");
    }
    let place = Workplace::new();
    let cpu = machine::last_cpu();
    for line in ["-t1", "-S", "-t", "-a -t", "-t 2", "-p 85 -t2"] {
        let mut words = vec!["-c".to_owned(), cpu.to_string()];
        words.push(env!("CARGO_BIN_EXE_tardy").to_owned());
        let rest = format!("cyclictest {line} -q -l 20 --json=out.json");
        words.extend(rest.split(' ').map(str::to_owned));
        let command = std::process::Command::new("taskset");
        place.start_command(command, words).wait();
        let json: serde_json::Value =
            serde_json::from_slice(&std::fs::read(place.path("out.json")).unwrap()).unwrap();
        let threads = json["thread"].as_object().unwrap();
        assert!(
            !threads.is_empty() && threads.values().all(|thread| thread["cpu"] == cpu),
            "{line}: {json}"
        );
    }
}

#[test]
fn a_signal_asks_for_the_status_and_ends_nothing() {
    let place = Workplace::new();
    let mut running = place.start("cyclictest -t1 -q -D 2");
    let threads = format!("/proc/{}/task", running.pid());
    running.until("its threads work", || {
        (std::fs::read_dir(&threads).ok()?.count() > 3).then_some(())
    });
    for signal in [signal::USER_1, signal::USER_2] {
        running.signal(signal);
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let ended = running.wait();
    assert!([0, 4].contains(&ended.code()), "{ended:?}");
    assert!(
        ended.stderr.contains(", status; worst "),
        "{}",
        ended.stderr
    );
    assert!(ended.stdout.contains("T: 0 ("), "{}", ended.stdout);
}

#[test]
fn results_go_where_scripts_send_them_or_nothing_is_measured() {
    let place = Workplace::new();
    let shown = place.tardy("cyclictest -t1 -q -l 10 --json=/dev/stdout");
    let begin = shown.stdout.find('{').unwrap();
    let json: serde_json::Value = serde_json::from_str(&shown.stdout[begin..]).unwrap();
    assert!(json["thread"]["0"]["cycles"].is_u64(), "{json}");
    for option in ["--json", "--histfile"] {
        let refused = place
            .tardy(&format!(
                "cyclictest -t1 -q -D 1h -h 20 {option}=absent/file"
            ))
            .ends_with(3);
        assert!(
            refused
                .stderr
                .contains(&format!("{option}: cannot write absent/file: ")),
            "{}",
            refused.stderr
        );
        assert!(!refused.stdout.contains("T:"), "{}", refused.stdout);
    }
    // With -q and -v, the values are followed by the summary, as in cyclictest.
    let both = place.tardy("cyclictest -t1 -v -q -l 5");
    assert!(
        both.stdout.lines().last().unwrap().starts_with("T: 0 ("),
        "{}",
        both.stdout
    );
    // With one thread, -H prints no column for all threads.
    let histogram = place.tardy("cyclictest -t1 -q -l 5 -H 20").stdout;
    let row = histogram.lines().find(|line| line.starts_with("000000 "));
    assert_eq!(row.unwrap().split_whitespace().count(), 2, "{histogram}");
}
