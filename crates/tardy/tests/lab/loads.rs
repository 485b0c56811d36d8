//! Tests the tool's loads while a user's own program runs.

use std::process::Command;

use tardy_run::folder;

use super::{REAL_TIME, STOCK, compared, lab, lab_is_there, samples};

/// The guest gets the server's modules from the kernel's package, and the compiler from this
/// machine. The load works only on its NFS mount, so counted work is files compiled over NFS.
#[test]
fn stress_kernel_runs_with_all_of_its_loads_in_guests_of_two_kernels() {
    if !lab_is_there("stress-kernel in a guest", false) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let kernels = ["--kernel", STOCK, "--kernel", REAL_TIME];
    let survives = [
        "--cmdline",
        "sysctl.kernel.panic_on_oops=0",
        "--memory",
        "1536",
    ];
    let measured = ["--load", "stress-kernel", "--for", "45s"];
    let variants = compared(&out, &[&survives[..], &kernels, &measured].concat());
    assert_eq!(variants.len(), 2);
    for variant in variants.keys() {
        let run = out.join(variant).join("replica-000");
        let record = folder::open(&run).unwrap();
        for load in ["nfs-compile", "ttcp", "fifos-mmap", "fpu", "fs", "crashme"] {
            let of_load = record.load_work.iter().filter(|work| work.load == load);
            let (done, failed) = of_load.fold((0, 0), |(done, failed), work| {
                (done + work.operations, failed + work.errors)
            });
            assert!(done > 0 && failed == 0, "{variant}: {load} {done} {failed}");
        }
    }
}

#[test]
fn loads_run_beside_a_program_of_the_users_own_and_one_that_is_unknown_is_refused_before_a_boot() {
    if !lab_is_there("loads beside a program", false) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = [
        "--program",
        "/init",
        "--",
        "run",
        "--out",
        "/run/out/run",
        "--cycles",
        "500",
        "--seed",
        "1",
    ];
    let longest = |name: &str, loads: &[&str]| {
        let out = folder.path().join(name);
        compared(&out, &[&["--kernel", REAL_TIME], loads, &program].concat());
        samples(&out.join("6.1-rt/replica-000/run"))
            .into_iter()
            .map(|(_, latency)| latency)
            .max()
            .unwrap()
    };
    // The load has a higher priority than the probe. In each busy interval of 2 ms, a due time lies
    // in the first millisecond.
    let with_load = longest(
        "loaded",
        &["--load", "busy:length=2ms:period=10ms:priority=97"],
    );
    assert!(
        (1_000_000..2_200_000).contains(&with_load),
        "{with_load} ns"
    );
    let without = longest("alone", &[]);
    assert!(without < 60_000, "{without} ns");

    let out = folder.path().join("refused");
    let arguments = [
        &[
            "run",
            "--out",
            out.to_str().unwrap(),
            "--kernel",
            REAL_TIME,
            "--load",
            "nothing",
        ],
        &program[..],
    ]
    .concat();
    let output = lab(&arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("there is no load `nothing`") && !out.exists(),
        "{stderr}"
    );
}

#[test]
fn what_belongs_to_a_measurement_is_refused_beside_a_program() {
    for option in [["--cycles", "100"], ["--for", "1s"], ["--scenario", "lab"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tardy"));
        command
            .args([
                "lab",
                "run",
                "--kernel",
                "x",
                "--out",
                "x",
                "--program",
                "/bin/x",
            ])
            .args(option);
        assert_eq!(
            command.output().unwrap().status.code(),
            Some(2),
            "{option:?}"
        );
    }
}
