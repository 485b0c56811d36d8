use clap::Parser;

use super::*;
use crate::cli::suggest::in_a_line;
use crate::cli::{Cli, Command};

/// Describes a machine with the CPUs `usable`, on which the program may run on `own`.
fn processors(usable: &str, own: &str) -> Processors {
    Processors {
        usable: usable.parse().unwrap(),
        own: own.parse().unwrap(),
        ..Processors::default()
    }
}

fn args(line: &str) -> CyclictestArgs {
    let cli = Cli::try_parse_from(
        ["tardy", "cyclictest"]
            .into_iter()
            .chain(line.split_whitespace()),
    )
    .unwrap();
    let Command::Cyclictest(args) = cli.command else {
        panic!("another command")
    };
    *args
}

fn setup(line: &str) -> Result<Setup, String> {
    args(line).setup(&processors("0-3", "0-3"))
}

fn threads(line: &str) -> Vec<(u32, u32, i64)> {
    let of = |thread: &Thread| (thread.cpu.0, thread.priority, thread.interval.get() / 1000);
    setup(line).unwrap().threads.iter().map(of).collect()
}

#[test]
fn usual_lines_are_understood() {
    assert_eq!(threads("-q"), [(0, 0, 1000)]);
    assert_eq!(
        threads("-Sp90 -i200 -q"),
        [(0, 90, 200), (1, 90, 700), (2, 90, 1200), (3, 90, 1700)]
    );
    assert_eq!(
        threads("-m -S -p 95 -d 0 -l1000 -D 1h"),
        [(0, 95, 1000), (1, 95, 1000), (2, 95, 1000), (3, 95, 1000)]
    );
    assert_eq!(
        threads("-qmu -h3500 -i100 -t -a -p95"),
        [(0, 95, 100), (1, 95, 100), (2, 95, 100), (3, 95, 100)]
    );
    assert_eq!(
        threads("-t5 -a 1,3 -p 80 -d0"),
        [
            (1, 80, 1000),
            (3, 80, 1000),
            (1, 80, 1000),
            (3, 80, 1000),
            (1, 80, 1000)
        ]
    );
    assert_eq!(
        threads("-t 3 -p 80 --priospread"),
        [(0, 80, 1000), (1, 79, 1500), (2, 78, 2000)]
    );
    assert_eq!(threads("--policy=rr -a 2"), [(2, 2, 1000)]);
    assert_eq!(
        threads("-t2 -a !1-2 -p 80 -d0"),
        [(0, 80, 1000), (3, 80, 1000)]
    );
    assert_eq!(
        threads("-S -a all -d0"),
        [(0, 0, 1000), (1, 0, 1000), (2, 0, 1000), (3, 0, 1000)]
    );
}

/// Tests each option of the manual of rt-tests 2.8, in its order. An option is supported (`+`),
/// ignored with a note that names it (`-`), or refused.
#[test]
fn each_option_of_the_manual_is_done_or_said_to_be_passed_over_or_refused() {
    let options = [
        ("--default-system", "+"),
        ("--latency=50", "+"),
        ("--latency=-5", "+"),
        (
            "--deepest-idle-state=1",
            "--deepest-idle-state: tardy limits idle states by their exit latency",
        ),
        ("--deepest-idle-state -1", "--deepest-idle-state: "),
        ("--laptop", "+"),
        ("-c 0", "+"),
        ("--clock=1", "+"),
        (
            "--clock=aux0",
            "invalid value 'aux0' for '--clock <CLOCK>': only clocks 0",
        ),
        ("-x", "+"),
        ("--posix_timers", "+"),
        ("-s", "+"),
        ("--system", "+"),
        ("-s -x", "-x is ignored: "),
        ("-r", "+"),
        ("--relative", "+"),
        ("-R", "-R changes nothing"),
        ("--resolution", "-R changes nothing"),
        ("-d 0", "+"),
        ("--distance=500", "+"),
        ("-i 200", "+"),
        ("--interval=200", "+"),
        ("--secaligned", "+"),
        ("--secaligned 100", "+"),
        ("-A 0", "+"),
        ("--align=0", "+"),
        ("--align=7", "+"),
        (
            "--align=7 --secaligned",
            "-A aligns due times to each other",
        ),
        ("-a", "+"),
        ("-a 1-2", "+"),
        ("--affinity=!1-2", "+"),
        ("--affinity=1-x", "-a: `1-x` is not a list of CPUs"),
        ("-b 100", "+"),
        ("-b 0", "+"),
        ("--breaktrace=100", "+"),
        ("-D 0", "+"),
        ("--duration=2h", "+"),
        ("-D -5", "unexpected argument '-5'"),
        ("-F pipe", "-F: tardy writes no figures to a FIFO"),
        ("--fifo=pipe", "-F: "),
        ("-h 400", "+"),
        ("--histogram=400", "+"),
        ("-H 400", "+"),
        ("--histofall=400", "+"),
        ("--histfile=x", "+"),
        ("--json=x", "+"),
        ("-l 100", "+"),
        ("--loops=100", "+"),
        ("--mainaffinity=1", "--mainaffinity changes nothing"),
        ("-m", "+"),
        ("--mlockall", "+"),
        ("-M", "-M changes nothing"),
        ("--refresh_on_max", "-M changes nothing"),
        ("-N", "+"),
        ("--nsecs", "+"),
        ("-v -o 5", "+"),
        ("--oscope=5", "-o thins out the values that -v prints"),
        ("-p 80", "+"),
        ("--prio=80", "+"),
        ("--priority=80", "+"),
        ("--policy=other", "+"),
        ("--policy=normal", "+"),
        ("--policy=rr", "+"),
        ("--policy=fifo", "+"),
        (
            "--policy=other -p 3",
            "the policy is fifo, because a priority was given",
        ),
        ("--policy=batch", "--policy=batch: "),
        ("--policy=idle", "--policy=idle: "),
        ("--priospread", "+"),
        ("-q", "+"),
        ("--quiet", "+"),
        ("-S", "+"),
        ("--smp", "+"),
        ("--spike=100", "+"),
        ("--spike-nodes=10", "+"),
        ("--smi", "--smi: this output has no column for SMIs"),
        ("-t", "+"),
        ("-t 3", "+"),
        ("--threads=3", "+"),
        ("--tracemark", "+"),
        ("-u", "-u changes nothing"),
        ("--unbuffered", "-u changes nothing"),
        ("-v", "+"),
        ("--verbose", "+"),
        ("--dbg_cyclictest", "--dbg_cyclictest changes nothing"),
        ("word", "arguments that belong to no option are ignored"),
        ("--bogus", "unexpected argument '--bogus'"),
        (
            "-i x",
            "invalid value 'x' for '--interval <US>': `x` is not a number",
        ),
        ("-b", "a value is required for '--breaktrace <US>'"),
    ];
    for (option, wanted) in options {
        match understood(option) {
            Ok(setup) => {
                let notes = setup.notes;
                let usual = |note: &&String| {
                    note.contains("bound to CPUs in turn")
                        || note.starts_with("the real-time priority")
                };
                let notes: Vec<&String> = notes.iter().filter(|note| !usual(note)).collect();
                let is_as_wanted = if notes.is_empty() {
                    wanted == "+"
                } else {
                    notes[0].starts_with(wanted)
                };
                assert!(is_as_wanted && notes.len() < 2, "{option}: {notes:?}");
            }
            Err(line) => assert!(
                line.starts_with(wanted) && !line.contains('\n'),
                "{option}: {line}"
            ),
        }
    }
}

/// Returns the setup for a command line on CPUs 0 to 3, or the reason why the line is refused.
fn understood(line: &str) -> Result<Setup, String> {
    let words = ["tardy", "cyclictest"].into_iter().chain(line.split(' '));
    match Cli::try_parse_from(words) {
        Ok(Cli {
            command: Command::Cyclictest(args),
        }) => args.setup(&processors("0-3", "0-3")),
        Ok(_) => panic!("another command"),
        Err(error) => Err(in_a_line(&error)),
    }
}

/// Checks the table of docs/cyclictest.md: a row with "refused" has a command line that is refused,
/// and the first command line of any other row is done.
#[test]
fn each_row_of_the_page_is_done_or_refused_as_it_says() {
    let page = include_str!("../../../../../docs/cyclictest.md");
    let (_, table) = page.split_once("\n## Option by option\n").unwrap();
    let mut lines_of_table = 0;
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split(" | ").collect();
        let lines: Vec<&str> = cells[5].split('`').skip(1).step_by(2).collect();
        lines_of_table += lines.len();
        if cells[1..5].contains(&"refused") {
            assert!(lines.iter().any(|line| understood(line).is_err()), "{row}");
            continue;
        }
        // clap prints the texts of these options, and cyclictest accepts unknown values.
        let is_done = !["`--help`", "`--version`", "`unknown options"]
            .iter()
            .any(|name| cells[0].contains(name));
        assert_eq!(understood(lines[0]).is_ok(), is_done, "{row}");
    }
    assert_eq!(lines_of_table, 131);
}

#[test]
fn words_are_taken_as_rteval_hands_them_over() {
    let line = [
        "tardy",
        "cyclictest",
        "",
        "-qmu",
        "-h 3500",
        "-p95",
        "-t4",
        "-a0-3",
        "--default-system",
        "-t2",
        "-b100",
        "--tracemark",
    ];
    let Command::Cyclictest(args) = Cli::try_parse_from(line).unwrap().command else {
        panic!("another command")
    };
    let setup = args.setup(&processors("0-3", "0-3")).unwrap();
    assert_eq!(
        (
            setup.threads.len(),
            args.shape(2).unwrap().buckets,
            args.leaves_power()
        ),
        (2, 3500, true)
    );
    assert!(
        setup
            .threads
            .iter()
            .all(|thread| thread.priority == 95 && thread.interval == Nanos::from_micros(1000))
    );
}

#[test]
fn threads_that_are_alike_are_one_probe() {
    let probes = |line| {
        setup(line)
            .unwrap()
            .request
            .probes
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        probes("-S -p 95 -h 100"),
        ["cyclic:period=1ms:cpus=0-3:priority=95"]
    );
    assert_eq!(
        probes("-t3 -a 0,1 -p 95 -d0"),
        [
            "cyclic:period=1ms:cpus=0-1:priority=95",
            "cyclic:period=1ms:cpus=0:name=thread-2:priority=95"
        ]
    );
    assert_eq!(
        probes("-A 700 -t4 -d0"),
        [
            "cyclic:period=1ms:cpus=0:offset=0",
            "cyclic:period=1ms:cpus=1:name=thread-1:offset=700us",
            "cyclic:period=1ms:cpus=2:name=thread-2:offset=400us",
            "cyclic:period=1ms:cpus=3:name=thread-3:offset=100us",
        ]
    );
    assert_eq!(
        probes("--secaligned 100 -t2 -d0 -r -x"),
        ["posix-timer:period=1ms:cpus=0-1:offset=100us"]
    );
    assert_eq!(
        probes("-x -t2"),
        [
            "posix-timer:period=1ms:cpus=0",
            "posix-timer:period=1500us:cpus=1:name=thread-1"
        ]
    );
}

#[test]
fn the_run_is_as_long_as_cyclictests() {
    let length = |line| {
        (
            setup(line).unwrap().request.length,
            setup(line).unwrap().request.cycles,
        )
    };
    assert_eq!(length("-l 500 -S -h 10"), (None, Some(500)));
    assert_eq!(length("-l 500 -S"), (Some(Nanos::from_millis(500)), None));
    assert_eq!(length("-D 2m"), (Some(Nanos::from_secs(120)), None));
    assert_eq!(length("-D 1 -l 100"), (Some(Nanos::from_millis(100)), None));
    assert_eq!(
        (length(""), length("-D 0")),
        ((Some(LENGTH_MAX), None), (Some(LENGTH_MAX), None))
    );
    assert_eq!(length("-D 0 -l 100"), (None, Some(100)));
}

#[test]
fn a_trace_mark_switches_the_trace_off_where_a_latency_breaks_the_run() {
    let is_off = |line| setup(line).unwrap().request.tracing_off;
    assert_eq!(
        (
            is_off("-b 100 --tracemark"),
            is_off("-b 100"),
            is_off("--tracemark")
        ),
        (true, false, false)
    );
}

#[test]
fn what_is_kept_is_what_is_printed() {
    let keep = |line| setup(line).unwrap().request.keep;
    assert_eq!(
        (
            keep("-D 1h"),
            keep("-D 10d -v"),
            keep("-D 10d --tardy-out x")
        ),
        (KeptSamples::All, KeptSamples::All, KeptSamples::All)
    );
    assert_eq!(
        (keep("-b 300"), keep("-D 10d --spike=300")),
        (
            KeptSamples::Histogram,
            KeptSamples::Tail(Nanos::from_micros(300))
        )
    );
}

#[test]
fn what_cannot_be_had_is_refused_in_a_line() {
    for (line, begin) in [
        ("-a 9", "-a: CPUs 9"),
        ("-a !0-3", "-a: the list names no usable CPU"),
    ] {
        let error = setup(line).unwrap_err();
        assert!(
            error.starts_with(begin) && !error.contains('\n'),
            "{line}: {error}"
        );
    }
    assert_eq!(
        (duration("90"), duration("2h"), duration("1x").is_err()),
        (Ok(Nanos::from_secs(90)), Ok(Nanos::from_secs(7200)), true)
    );
}

/// Compares with cyclictest of rt-tests 2.4, started by `taskset -c 1,3`.
#[test]
fn threads_stay_on_the_cpus_that_the_caller_allows() {
    for (line, expected) in [
        ("-t1 -p 80", "1"),
        ("-p 80", "1"),
        ("-S -p 80", "1 3"),
        ("--smp -p 80", "1 3"),
        ("-t -p 80", "1 3"),
        ("-a -t -p 80", "1 3"),
        ("-t 2 -p 80", "1 3"),
        ("-t 3 -p 80", "1 3 1"),
        ("-a 0 -t1 -p 80", "0"),
        ("-a 0-2 -t2 -p 80", "0 1"),
        ("-S -a 2 -p 80", "1 3"),
        ("-S -t1 -p 80", "1 3"),
        ("-t 0 -p 80", "1 3"),
    ] {
        let setup = args(line).setup(&processors("0-3", "1,3")).unwrap();
        let cpus: Vec<String> = setup
            .threads
            .iter()
            .map(|thread| thread.cpu.to_string())
            .collect();
        assert_eq!(cpus.join(" "), expected, "{line}");
    }
}

#[test]
fn the_highest_priority_is_left_to_the_watchdog() {
    for line in ["-S -p 99", "-t -p99", "-a -t --priority=99"] {
        let setup = args(line).setup(&processors("0-3", "0-3")).unwrap();
        assert!(setup.threads.iter().all(|thread| thread.priority == 98));
        assert!(
            setup
                .notes
                .iter()
                .any(|note| note.starts_with("the priority is 98 instead of 99")),
            "{:?}",
            setup.notes
        );
    }
}

#[test]
fn one_thread_has_no_sum() {
    assert!(!args("-H 60").shape(1).unwrap().has_sum);
    assert!(args("-H 60").shape(2).unwrap().has_sum);
}
