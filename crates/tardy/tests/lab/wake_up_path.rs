//! The wake-up of the probe compared with that of cyclictest in the same guest. With a clock that
//! counts instructions, both lengths are exact and can be asserted.

use std::path::Path;
use std::process::Command;

use super::{REAL_TIME, STOCK, compared, lab_is_there, samples};

const KERNELS: [&str; 6] = [
    "--kernel",
    STOCK,
    "--preempt",
    "full",
    "--kernel",
    REAL_TIME,
];

/// The paths of a program and its libraries, in the form that the lab takes.
fn with_libraries(program: &str) -> Vec<String> {
    let output = Command::new("ldd")
        .arg(program)
        .output()
        .expect("ldd is part of the C library's package");
    let text = String::from_utf8(output.stdout).unwrap();
    let libraries = text
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
        .map(|path| format!("{path}:{path}"));
    libraries
        .chain([format!("{program}:/bin/cyclictest")])
        .flat_map(|add| ["--add".to_owned(), add])
        .collect()
}

/// The latencies in ns in a histogram of cyclictest with lines `NANOSECONDS COUNT`.
fn histogram(text: &str) -> Vec<i64> {
    let mut samples = Vec::new();
    for (value, count) in text.lines().filter_map(|line| line.split_once([' ', '\t'])) {
        if let (Ok(value), Ok(count)) = (value.parse::<i64>(), count.trim().parse::<usize>()) {
            samples.extend(std::iter::repeat_n(value, count));
        }
    }
    samples
}

#[test]
fn a_wake_up_takes_as_many_instructions_as_one_of_cyclictest() {
    if !lab_is_there("wake-up path against cyclictest", false) {
        return;
    }
    let cyclictest = "/usr/bin/cyclictest";
    assert!(
        Path::new(cyclictest).exists(),
        "cyclictest is missing: install the package rt-tests (cargo xtask test does)"
    );
    let folder = tempfile::tempdir().unwrap();
    let (own_folder, peer_folder) = (folder.path().join("own"), folder.path().join("peer"));
    compared(&own_folder, &[&KERNELS[..], &["--cycles", "3000"]].concat());
    let added = with_libraries(cyclictest);
    let mut arguments: Vec<&str> = KERNELS
        .iter()
        .copied()
        .chain(added.iter().map(String::as_str))
        .collect();
    arguments.extend(["--program", "/bin/cyclictest", "--"]);
    // Priority, period and CPU are those of the probe. The histogram is in ns and larger than any
    // latency of an idle guest.
    arguments.extend("-q -m -N -t 1 -a 0 -p 95 -i 1000 -l 3000 -h 200000".split(' '));
    compared(&peer_folder, &arguments);
    for variant in ["6.1-full", "6.1-rt"] {
        let mut own: Vec<i64> = samples(&own_folder.join(variant).join("replica-000"))
            .into_iter()
            .map(|(_, latency)| latency)
            .collect();
        let peer = histogram(
            &std::fs::read_to_string(peer_folder.join(variant).join("replica-000/stdout.log"))
                .unwrap(),
        );
        own.sort_unstable();
        assert!(
            own.len() >= 3000 && peer.len() == 3000,
            "{variant}: {} and {} wake-ups",
            own.len(),
            peer.len()
        );
        // The test compares the 1 % quantile instead of the minimum, because the minimum comes from
        // a single wake-up during another task. The other tasks of the two tools differ.
        for (what, part) in [("median", 2), ("quantile of 1 %", 100)] {
            let (own, peer) = (own[own.len() / part], peer[peer.len() / part]);
            let ratio = own as f64 / peer as f64;
            assert!(
                (ratio - 1.0).abs() <= 0.01,
                "{variant}: the {what} is {own} ns, cyclictest's {peer} ns"
            );
        }
    }
}
