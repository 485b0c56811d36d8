//! Compares the wake-ups of the probe with those of other loops in the same guest. With a clock
//! that counts instructions, all lengths are exact and can be asserted.

use std::path::Path;
use std::process::Command;

use tardy_core::summary::accumulator::PhaseSpan;
use tardy_core::units::Nanos;
use tardy_samples::backlog;
use tardy_samples::read_series::SeriesFile;

use super::{REAL_TIME, STOCK, compared, lab_is_there, samples};

const KERNELS: [&str; 6] = [
    "--kernel",
    STOCK,
    "--preempt",
    "full",
    "--kernel",
    REAL_TIME,
];

/// The paths of a program and its libraries, in the form in which the lab accepts them.
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
    // Priority, period and CPU are those of the probe. The histogram has a row for each ns, up to
    // more than any latency of an idle guest.
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
        // The test compares the 1 % quantile instead of the minimum. The minimum comes from a
        // single wake-up, which happened while another task ran, and the two tools run different
        // tasks beside the measuring one.
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

/// A loop that sleeps until every due time, 1 ms apart, and prints how late it wakes up.
const LOOP: &str = r#"
#include <sched.h>
#include <stdio.h>
#include <time.h>
static long late[500];
int main(void) {
    struct sched_param parameters = {.sched_priority = 95};
    struct timespec due, now;
    sched_setscheduler(0, SCHED_FIFO, &parameters);
    clock_gettime(CLOCK_MONOTONIC, &due);
    for (int i = 0; i < 500; i++) {
        due.tv_nsec += 1000000;
        if (due.tv_nsec >= 1000000000) {
            due.tv_nsec -= 1000000000;
            due.tv_sec++;
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, 0);
        clock_gettime(CLOCK_MONOTONIC, &now);
        late[i] = (now.tv_sec - due.tv_sec) * 1000000000L + now.tv_nsec - due.tv_nsec;
    }
    for (int i = 0; i < 500; i++)
        printf("%ld\n", late[i]);
}
"#;

/// The maxima of 45 s in koolwal2009 come from such a loop.
#[test]
fn on_ticks_a_loop_that_skips_no_period_falls_behind_as_the_backlog_of_a_run_shows() {
    if !lab_is_there("the backlog on ticks", false) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("loop.c"), LOOP).unwrap();
    let mut command = Command::new("cc");
    command.args(["-O2", "-static", "-o", "loop", "loop.c"]);
    let built = command.current_dir(folder.path()).output().unwrap();
    assert!(built.status.success(), "{built:?}");
    let kernel = ["--kernel", STOCK, "--cmdline", "highres=off nohz=off"];
    let measured = ["--load", "none", "--for", "2100ms"];
    let own = compared(&path("own"), &[&kernel[..], &measured].concat());
    let add = format!("{}:/bin/loop", path("loop").display());
    let program = ["--add", &add, "--program", "/bin/loop"];
    compared(&path("peer"), &[&kernel[..], &program].concat());
    let variant = own.keys().next().unwrap();
    let of = |place: &str| path(place).join(variant).join("replica-000");
    let printed = std::fs::read_to_string(of("peer").join("stdout.log")).unwrap();
    let peer: Vec<i64> = printed.lines().map(|line| line.parse().unwrap()).collect();
    let file = SeriesFile::open(&of("own").join("samples/cyclic.cpu0.series")).unwrap();
    let whole = PhaseSpan {
        begin: Nanos::ZERO,
        end: Nanos::MAX,
    };
    let mut own = Vec::new();
    let found = backlog::read(&file, whole).unwrap();
    found
        .latency
        .for_each(|late, count| own.extend(std::iter::repeat_n(late, count as usize)));
    assert!(peer.len() == 500 && own.len() >= 500, "{}", own.len());
    // The loops start at different times between two ticks.
    for (place, (own_late, peer_late)) in own.iter().zip(&peer).enumerate() {
        let (own_behind, peer_behind) = (own_late - own[0], peer_late - peer[0]);
        let expected = 3_000_000 * place as i64;
        assert!(
            (own_behind - expected).abs() < 100_000 && (peer_behind - expected).abs() < 100_000,
            "wake-up {place}: {own_behind} and {peer_behind} ns later than the first"
        );
    }
}
