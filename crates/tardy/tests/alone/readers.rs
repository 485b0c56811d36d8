//! Tests how many instructions per sample the commands that read run folders execute. Times differ
//! from machine to machine; instruction counts do not.

use crate::hot_loop::released_binary;
use crate::support;

use std::path::Path;

use support::machine;
use support::made_run::MadeRun;
use support::workplace::{Workplace, finish};

/// Maximum number of instructions per sample, by command. If a command asked a histogram for its
/// count at every sample, it would execute tens of thousands of instructions per sample. For one
/// day of samples at 1 kHz, this would take a quarter of an hour.
const MOST: [(&str, f64); 2] = [("show", 1_500.0), ("report", 5_000.0)];

/// Counts the instructions of one command on a run with `samples` samples per CPU.
fn instructions(place: &Workplace, tardy: &Path, command: &str, samples: usize) -> u64 {
    let run = format!("run-{samples}");
    if !place.path(&run).exists() {
        // The run has two loads, and the readers count the samples of each load separately. The
        // latencies have a long tail of values that occur only once.
        let latency = |index: usize| {
            5_000
                + (index * 7_919 % 20_011) as i64
                + if index.is_multiple_of(50) {
                    (index * 104_729 % 900_000) as i64
                } else {
                    0
                }
        };
        let latencies: Vec<i64> = (0..samples).map(latency).collect();
        let half = samples as i64 / 2_000;
        let phases = vec![("io", 0, half), ("fork", half, samples as i64 / 1_000)];
        MadeRun {
            phases,
            ..MadeRun::new(vec![latencies.clone(), latencies])
        }
        .write(&place.path(&run));
    }
    let counts = format!("{command}-{samples}");
    let mut valgrind = place.prepared(
        machine::program("valgrind", "valgrind"),
        ["--tool=callgrind"],
    );
    valgrind
        .arg(format!("--callgrind-out-file={counts}"))
        .arg(tardy)
        .args([command, &run]);
    if command == "report" {
        valgrind.args(["--html", &format!("{counts}.html")]);
    }
    let finished = finish(valgrind);
    let text = std::fs::read_to_string(place.path(&counts))
        .unwrap_or_else(|error| panic!("{error}: {}", finished.stderr));
    text.lines()
        .find_map(|line| line.strip_prefix("totals: ")?.parse().ok())
        .expect("callgrind sums up")
}

#[test]
fn a_reader_takes_few_instructions_a_sample() {
    let _turn = crate::turn();
    let place = Workplace::new();
    let tardy = released_binary();
    for (command, most) in MOST {
        let (few, many) = (100_000, 200_000);
        let [short, long] =
            [few, many].map(|samples| instructions(&place, &tardy, command, samples));
        // The factor 2 in the divisor is the number of series in the run.
        let a_sample = long.saturating_sub(short) as f64 / (2 * (many - few)) as f64;
        println!("tardy {command}: {a_sample:.0} instructions per sample (at most {most})");
        assert!(a_sample > 5.0, "{a_sample:.1} instructions cannot be all");
        assert!(
            a_sample <= most,
            "tardy {command}: {a_sample:.0} instructions per sample"
        );
    }
}
